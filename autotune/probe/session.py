"""One probed process from the import of torch to its end: wires the hooks to the recorder and the window."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from . import clock, describe, device_clock, effects, ending, hooked_modules, kept_graphs, recreated_loaders, snapshot
from .averaging import Averaging
from .fit.planned_steps import PlannedSteps
from .hooks import AFTER_IMPORT, IN_TRAINING, IN_WORKERS
from .hooks.fetches import WORKER_OF
from .hooks.frameworks import Observed
from .hooks.losses import LossRecorder
from .isolate import sockets
from .overhead import Overhead
from .patches import Patches
from .ranks import Ranks
from .recorder import Recorder
from .sampler import StackSampler
from .what_ifs.what_if_probes import WhatIfProbes
from .window import StepWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .shapes import RequestDocument, Row
    from .startup import StartUp


class ProbeSession:
    """Everything that lives as long as the probed process. `request` is the parsed Request.

    `loaders`, `optimizers` and `models` are rows of what the script made, with weak references to the objects.
    `startup` samples until the first step (None: nothing did); the StackSampler's thread goes on with it.
    `samples` are the window's stack samples once it is over; `scaled` says that gradients carry the loss scale.
    `device_marks` and `kernels` are what CUDA told of the window and of the profiled steps after it; `lines` is what
    steps after it told of the user's lines.
    """

    def __init__(self, request: RequestDocument, startup: StartUp | None = None) -> None:
        self.request = request
        self.startup = startup
        self.recorder = Recorder(self._on_failure)
        self.losses = LossRecorder()
        self.patches = Patches()
        self.loaders: list[Row] = []
        self.optimizers: list[Row] = []
        self.models: list[Row] = []
        self.model_ids: dict[int, int] = {}
        self.observed = Observed(request["frameworks"])
        self.torch_state: Row = {}
        self.what_ifs: list[Row] = []
        self.samples: list[Row] | None = None
        self.scaled = False
        self.num_sniffed = 0
        self.io: dict[str, int] | None = None
        self.memory_row: dict[str, int | None] = {}
        self.device_marks: list[tuple[int, int]] = []
        self.kernels: Row | None = None
        self.lines: dict[str, Row] = {}
        self.kept_graphs: Row | None = None
        self.graphs_at_start: int | None = None
        self.of_torch: Row | None = None
        self.setup_ns = 0
        self.ranks = Ranks(request["run_dir"], request["inherited"])
        self.averaging = Averaging(self)
        self.window = StepWindow(request["window"], self)
        asked = request["fit"]
        self.plan: WhatIfProbes | PlannedSteps = WhatIfProbes(self) if asked is None else PlannedSteps(self, asked)
        self.sampler = StackSampler(self)
        self.overhead = Overhead(self)
        self.ended = False
        self._writing = threading.Lock()

    def install(self) -> None:
        """Patch torch."""
        start = clock.now()
        sockets.use(self.request["run_dir"])
        for hook in IN_WORKERS:
            hook.install(self)
        os.register_at_fork(after_in_child=self._after_fork)
        if os.environ.get(WORKER_OF) is None:
            self._install_all()
        self.setup_ns = clock.now() - start

    def _install_all(self) -> None:
        for hook in IN_TRAINING:
            hook.install(self)
        if isinstance(self.plan, PlannedSteps):
            self.plan.install()
        for name in hooked_modules(self.request):
            module = sys.modules.get(name)
            # One that is still being imported (it imports torch itself) comes by its own callback.
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self.on_framework(module)
        self.memory_row["rss_start_bytes"] = describe.resident_bytes("VmRSS")
        self.sampler.start()
        atexit.register(self._at_exit)

    def on_framework(self, module: Any) -> None:
        """A framework's module is there: hook what it defines, and give its calls what the Request says."""
        for hook in AFTER_IMPORT:
            hook.on_import(self, module)

    def _after_fork(self) -> None:
        """A forked child starts afresh: it is a worker, or a rank that will train and report for itself."""
        self.recorder.clear()
        self.losses.clear()
        self.window.clear()
        self.averaging.clear()
        self.ranks.clear()
        self.ended = False
        self._writing = threading.Lock()  # a thread of the parent may hold the other one

    # The window

    def on_window_start(self) -> None:
        """Warm-up is over: peaks and counters start here."""
        if self.window.start is not None and self.trains_on_cuda():
            device_clock.start(self.recorder, self.window.start)
        self.sampler.reset()
        self.averaging.start()
        self.overhead.start()
        self._io_at_start = describe.io_bytes(self._pids())
        describe.reset_resident_peak()
        if self._on_cuda():
            sys.modules["torch"].cuda.reset_peak_memory_stats()
        utils = sys.modules.get("torch._dynamo.utils")
        self.graphs_at_start = int(utils.counters["stats"]["unique_graphs"]) if utils is not None else None

    def on_window_end(self) -> None:
        """The measured steps are complete: read what later phases would disturb."""
        self.samples = self.sampler.rows()
        self.averaging.stop()
        self.overhead.stop()
        self.device_marks = device_clock.stop(self.recorder)
        self.memory_row.update(self._memory())
        before, after = getattr(self, "_io_at_start", None), describe.io_bytes(self._pids())
        if before is not None and after is not None:
            self.io = {name: after[name] - before[name] for name in after}
        self.described_models()
        self.of_torch = snapshot.of_torch(self)
        if self.recorder.is_mine() and not self.request["keep_going"]:
            self.kept_graphs = kept_graphs.look(self.window.sequence_numbers)

    def time_is_up(self) -> None:
        """Called by the sampler's thread when a limit has passed while the training thread is busy."""
        self.recorder.on = False
        if not self.window.is_over:
            self.window.close(clock.now(), "time_limit")
        if self.request["keep_going"]:
            self.let_go()
        else:
            ending.leave(self)

    def on_first_optimizer_step(self) -> None:
        """A real step: counted by the window, then by the what-if that runs. A fake one is of no window."""
        if isinstance(self.plan, PlannedSteps):
            self.plan.on_step()
            return
        if not self.window.step_ends:
            self.ranks.look()
            # Now: when a short script ends, its objects are gone before they are asked for.
            self.described_models()
            self.observed.describe()
        if self.window.is_over:
            self.plan.on_step()
        else:
            self.window.on_optimizer_step()

    def on_backward(self) -> None:
        """A backward of the training thread ended."""
        if isinstance(self.plan, PlannedSteps):
            self.plan.on_backward()
        else:
            self.window.on_backward(bool(self.optimizers))

    def on_forward(self, module: Any, flag: int) -> None:
        """A root model is called; with bit 1 of `flag` with gradients, with bit 2 in training."""
        if isinstance(self.plan, PlannedSteps):
            self.plan.on_forward(module, flag)

    def _on_failure(self, error: BaseException) -> None:
        if self.plan.is_active and isinstance(error, Exception) and not isinstance(error, StopIteration):
            self.plan.failed(error)

    # What the others ask

    def train_loader(self) -> int:
        """Id of the loader whose batches most often preceded a backward; -1 without one."""
        counts = self.recorder.loader_backwards
        return max(counts, key=lambda ref: counts[ref], default=-1)

    def is_train_loader(self, ref: int) -> bool:
        """Whether training runs on loader `ref`; -1 is one that is not known, as of a library's own iterators."""
        train = self.train_loader()
        return ref >= 0 and (ref == train or recreated_loaders.follows(self, ref, train))

    def wait_share(self) -> float:
        """Share of the window in which the training thread waited for batches."""
        begin, end = self.window.span()
        waits = [e - s for kind, s, e, _, _ in self.recorder.events if kind == "fetch" and s >= begin]
        return sum(waits) / max(1, end - begin)

    def has_saved(self) -> bool:
        return any(event[0] == "checkpoint" for event in self.recorder.events)

    def world_size(self) -> int:
        """Processes of the job."""
        return self.ranks.world_size

    def num_submodules(self, ref: int) -> int:
        """Modules inside root model `ref`; 0 when it is gone."""
        module = self.models[ref]["object"]() if ref >= 0 else None
        return sum(1 for _ in module.modules()) - 1 if module is not None else 0

    def padding_indices(self) -> list[int]:
        """Padding indices of the root models' embeddings."""
        return [index for module in self._alive_models() for index in describe.padding_indices(module)]

    def state(self) -> Row:
        """State dicts of the largest root model and of its optimizers: what a save would write."""
        module = max(self._alive_models(), key=lambda item: sum(p.numel() for p in item.parameters()))
        optimizers = [row["object"]() for row in self.optimizers]
        return {
            "model": module.state_dict(),
            "optimizer": [optimizer.state_dict() for optimizer in optimizers if optimizer is not None],
        }

    def peak_bytes(self) -> int | None:
        """Peak memory since the last reset: the CUDA allocator's, else resident memory."""
        row = self._memory()
        return row.get("peak_reserved_bytes") or row.get("rss_peak_bytes")

    def memory(self) -> dict[str, int | None]:
        return {**self._memory(), **self.memory_row}

    def device(self) -> Row | None:
        """Device of the largest root model, None before one was seen."""
        modules = self._alive_models()
        if modules:
            largest = max(modules, key=lambda item: sum(p.numel() for p in item.parameters()))
            self._device = describe.device(largest)
        return getattr(self, "_device", None)

    def trains_on_cuda(self) -> bool:
        """Whether the largest root model is on a CUDA device."""
        return (self.device() or {}).get("type") == "cuda"

    def described_models(self) -> list[Row]:
        """The models' rows; what a model is, is read once and survives the object."""
        self.device()
        for row in self.models:
            module = row["object"]()
            if "type" not in row and module is not None:
                row.update(describe.model(module))
        return [row for row in self.models if "type" in row]

    def described_optimizers(self) -> list[Row]:
        """The optimizers' rows, likewise."""
        for row in self.optimizers:
            instance = row["object"]()
            if instance is not None and getattr(instance, "param_groups", None):
                row.update(describe.optimizer(instance))
        return [row for row in self.optimizers if "type" in row]

    def fit_row(self) -> Row | None:
        """What fake steps told; None where the script trains."""
        return self.plan.row() if isinstance(self.plan, PlannedSteps) else None

    def side_effects(self) -> dict[str, list[Row]]:
        """What was blocked and not isolated; empty lists with --keep-going."""
        return effects.report()

    # The end

    def let_go(self) -> None:
        """The window of --keep-going is over: training goes on, and the parent may report."""
        self.detach()
        self.ended = True
        self.write("completed")
        ending.say_goodbye(self)

    def detach(self) -> None:
        """Take every hook off again: torch is as it was."""
        self.recorder.on = False
        self.sampler.stop()
        self.patches.restore()

    def write(self, outcome: str) -> None:
        """Write the Recording; a later call replaces an earlier one.

        The sampler's thread ends a process that is overdue, maybe while the training thread writes a result.
        """
        with self._writing:
            snapshot.write(self, outcome)

    def _at_exit(self) -> None:
        """The script ended by itself before the window did."""
        if self.ended or os.getpid() != self.recorder.pid:
            return
        self.recorder.on = False
        self.sampler.stop()
        ending.at_exit(self)

    def _alive_models(self) -> list[Any]:
        modules = [row["object"]() for row in self.models]
        return [module for module in modules if module is not None]

    def _on_cuda(self) -> bool:
        return bool(sys.modules["torch"].cuda.is_initialized())

    def _memory(self) -> dict[str, int | None]:
        row = {"rss_peak_bytes": describe.resident_bytes("VmHWM")}
        if self._on_cuda():
            row.update(describe.cuda_memory())
        return row

    def _pids(self) -> list[int]:
        multiprocessing = sys.modules.get("multiprocessing")
        children = multiprocessing.active_children() if multiprocessing is not None else []
        return [os.getpid(), *[child.pid for child in children]]


_sessions: list[ProbeSession] = []


def begin(request: RequestDocument, startup: StartUp | None) -> None:
    """Called once per process, right after torch was imported."""
    session = ProbeSession(request, startup)
    _sessions.append(session)
    session.install()


def on_framework(module: Any) -> None:
    """A framework module was imported after torch."""
    if _sessions and os.environ.get(WORKER_OF) is None:
        _sessions[0].on_framework(module)
