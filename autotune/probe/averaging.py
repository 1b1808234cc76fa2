"""DDP's averaging of gradients: what DDP says of the part that backward does not hide, and steps without it."""

from __future__ import annotations

from . import describe
from .ending import ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import ProbeSession
    from .shapes import Undo

MOST_ROWS = 256
"""So many backwards of the window are asked about, at 20 microseconds each."""

DEFAULT_RATE = 100
"""DDP times one iteration of so many (and the first ten)."""


class Averaging:
    """Makes DDP time each iteration of the window, and keeps what it says; on CPUs alone.

    There DDP's timers are readings of the clock. On CUDA they would make the host wait for the device, and NCCL's
    kernels are profiled after the window.
    """

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self.clear()

    def clear(self) -> None:
        """Forget everything: at the start and in a forked child."""
        self._ends: list[int] = []
        self._models: list[Any] = []
        self.rows: list[tuple[int, int, int]] = []

    @ours
    def start(self) -> None:
        """The window begins."""
        self.clear()
        for row in self._session.models:
            module = row["object"]()
            if _averages_on_cpu(module):
                module._set_ddp_runtime_logging_sample_rate(1)
                self._models.append(module)

    @ours
    def stop(self) -> None:
        """The window is over: DDP times as seldom as it did."""
        for module in self._models:
            module._set_ddp_runtime_logging_sample_rate(DEFAULT_RATE)
        self._models = []

    @ours
    def on_backward(self, end: int) -> None:
        """A backward ended after which DDP has averaged. What DDP knows now is of the one before it."""
        if len(self._models) != 1 or len(self.rows) >= MOST_ROWS:
            return
        before, self._ends = self._ends, [end]
        if before:
            said = self._models[0].logger._get_ddp_logging_data().ints_map
            starts, ends = said.get("backward_compute_time_start", 0), said.get("backward_compute_time_end", 0)
            exposed = said.get("backward_comm_time_end", 0) - ends
            if starts and ends >= starts and exposed >= 0:
                self.rows.append((before[0], exposed, ends - starts))


def can_be_left_out(session: ProbeSession) -> bool:
    """Whether the script trains one DistributedDataParallel, as it is, on CPUs.

    The order of a static graph and code that was compiled with the averaging in it do not bear to be without it; a
    `join` of uneven inputs counts the backwards that average.
    """
    modules = [row["object"]() for row in session.models]
    averaging = [module for module in modules if _averages_on_cpu(module)]
    if len(averaging) != 1 or describe.has_compiled_code():
        return False
    joins = getattr(averaging[0], "_join_config", None)
    return not getattr(averaging[0], "static_graph", True) and not (joins is not None and joins.enable)


def leave_out(session: ProbeSession) -> Undo:
    """Each backward keeps its own gradients from now on, as within no_sync(); what takes it back.

    The switch is set around each forward, which reads it: scripts set it themselves between two of them.
    """
    before: list[bool] = []

    def off(module: Any, _: object) -> None:
        before[:] = [module.require_backward_grad_sync]
        module.require_backward_grad_sync = False

    def as_was(module: Any, _: object, __: object) -> None:
        module.require_backward_grad_sync = before[0]

    hooks: list[Any] = []
    for module in (row["object"]() for row in session.models):
        if _averages_on_cpu(module):
            hooks += [module.register_forward_pre_hook(off), module.register_forward_hook(as_was, always_call=True)]

    def undo() -> None:
        for hook in hooks:
            hook.remove()

    return undo


def _averages_on_cpu(module: Any) -> bool:
    """Whether it is torch's DistributedDataParallel, in a version that can be asked, with its parameters on a CPU."""
    is_ddp = hasattr(module, "_set_ddp_runtime_logging_sample_rate") and hasattr(module, "logger")
    return is_ddp and all(parameter.device.type == "cpu" for parameter in module.parameters())
