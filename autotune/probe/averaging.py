"""What DDP says of its own averaging of gradients: the part of it that backward does not hide."""

from __future__ import annotations

from .ending import ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import ProbeSession

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
            if _times_on_cpu(module):
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


def _times_on_cpu(module: Any) -> bool:
    """Whether it is torch's DistributedDataParallel, in a version that can be asked, with its parameters on a CPU."""
    is_ddp = hasattr(module, "_set_ddp_runtime_logging_sample_rate") and hasattr(module, "logger")
    return is_ddp and all(parameter.device.type == "cpu" for parameter in module.parameters())
