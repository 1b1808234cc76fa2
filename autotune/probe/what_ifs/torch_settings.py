"""Settings of torch that a replay is tried under, and taken back after it."""

from __future__ import annotations

import contextlib
import threading

from .. import averaging, describe
from . import other_load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Row, Undo


def choices(session: ProbeSession) -> list[Row]:
    """The arguments of each replay to try: what can be taken back, fused updates (may fail), and the profiler last."""
    import torch

    freed = [{"deterministic": False}] if _is_deterministic(session) else []
    freed += [{"anomaly": False}] if torch.is_anomaly_enabled() else []
    freed += [{"memory_tracing": False}] if _memory_trackers() else []
    stopped = [{"profiler": False}] if _is_profiled(session) else []
    if session.trains_on_cuda():
        return [*freed, *stopped]
    counts = sorted({1, len(other_load.usable())} - {torch.get_num_threads()})
    fused = [{"fused": True}] if _unfused(session) else []
    return [*freed, *({"threads": count} for count in counts), *fused, *stopped]


def is_undone(session: ProbeSession, arguments: Row) -> bool:
    """Whether the script itself switched on again what is left off, as a context in each of its steps does."""
    import torch

    on = {"deterministic": _is_deterministic(session), "anomaly": torch.is_anomaly_enabled()}
    return any(on.get(name, False) for name in arguments)


def _is_deterministic(session: ProbeSession) -> bool:
    """What cuDNN is asked for changes nothing on a CPU."""
    import torch

    of_cudnn = session.trains_on_cuda() and torch.backends.cudnn.deterministic
    return torch.are_deterministic_algorithms_enabled() or of_cudnn


def _is_profiled(session: ProbeSession) -> bool:
    """Whether Lightning's or torch's profiler recorded in the window; a schedule may rest now. cProfile stays on."""
    import torch

    autograd: Any = torch.autograd
    records = autograd._profiler_enabled() or not describe.records_calls()
    return _lightning_profiler(session) is not None or (session.window.profiled_steps > 0 and records)


def _lightning_profiler(session: ProbeSession) -> Any:
    """What Lightning's Trainer records each action with; None for none, or where it only takes times."""
    profiler = getattr(session.observed.newest("lightning"), "profiler", None)
    return profiler if type(profiler).__name__ in ("AdvancedProfiler", "PyTorchProfiler") else None


def _memory_trackers() -> list[Any]:
    """Those of the HF Trainer that read the process's memory in a thread now (TrainerMemoryTracker)."""
    targets: list[Any] = [getattr(thread, "_target", None) for thread in threading.enumerate()]
    return [target.__self__ for target in targets if getattr(target, "__name__", "") == "peak_monitor_func"]


def _unfused(session: ProbeSession) -> list[Any]:
    """The optimizers that have a fused update and do not use it."""
    rows = [row for row in session.described_optimizers() if row.get("has_fused")]
    kept = [row["object"]() for row in rows if not row["arguments"].get("fused")]
    return [optimizer for optimizer in kept if optimizer is not None]


def apply(session: ProbeSession, arguments: Row) -> Undo | None:
    """Change what `arguments` name, which may be nothing; what takes it back."""
    if not arguments:
        return None
    if "threads" in arguments:
        return _with_threads(arguments["threads"])
    if "fused" in arguments:
        return _with_fused(_unfused(session))
    (switch,) = arguments
    return _WITHOUT[switch](session)


def _with_threads(count: int) -> Undo:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    return lambda: torch.set_num_threads(before)


def _without_determinism(_: object) -> Undo:
    import torch

    cudnn, only_warns = torch.backends.cudnn, torch.is_deterministic_algorithms_warn_only_enabled()
    asked, of_cudnn = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic
    torch.use_deterministic_algorithms(False)
    cudnn.deterministic = False

    def undo() -> None:
        torch.use_deterministic_algorithms(asked, warn_only=only_warns)
        cudnn.deterministic = of_cudnn

    return undo


def _without_anomaly(_: object) -> Undo:
    import torch

    checks_nan = torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    return lambda: torch.set_anomaly_enabled(True, checks_nan)


def _without_memory_tracing(_: object) -> Undo:
    trackers = _memory_trackers()
    for tracker in trackers:
        tracker.peak_monitoring = False

    def undo() -> None:
        for tracker in trackers:
            if tracker.cur_stage is None:  # the Trainer has ended it meanwhile
                continue
            tracker.peak_monitoring = True
            threading.Thread(target=tracker.peak_monitor_func, daemon=True).start()

    return undo


def _without_profiler(session: ProbeSession) -> Undo:
    """What was recorded is dropped, and cannot be gone on with: only what starts and stops it is taken back."""
    import torch

    profile: Any = torch.profiler.profile
    autograd: Any = torch.autograd
    step, of_lightning = profile.step, _lightning_profiler(session)
    profile.step = lambda self: None
    if autograd._profiler_enabled():
        torch._C._autograd._disable_profiler()
    if of_lightning is not None:
        of_lightning.profile = lambda action: contextlib.nullcontext()

    def undo() -> None:
        profile.step = step
        if of_lightning is not None:
            del of_lightning.profile

    return undo


def _with_fused(optimizers: list[Any]) -> Undo:
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    before = [(group, {name: group.get(name) for name in ("foreach", "fused")}) for group in groups]
    for group in groups:
        group.update(foreach=False, fused=True)

    def undo() -> None:
        for group, values in before:
            group.update(values)

    return undo


_WITHOUT = {
    "averaging": averaging.leave_out,
    "deterministic": _without_determinism,
    "anomaly": _without_anomaly,
    "memory_tracing": _without_memory_tracing,
    "profiler": _without_profiler,
}
