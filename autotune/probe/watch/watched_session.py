"""The probe's session in a run that is watched: attached for a window, taken off again, attached for the next one.

It measures as that of a diagnosis does, by the same hooks, but for those of the optimizer: when a window begins, a
scheduler has kept the optimizer's step as it was. Torch's own step hooks (`step_clock.py`) see it all the same.
"""

from __future__ import annotations

import json
import os
import sys
from _thread import get_ident

from .. import device_clock, hooked_modules
from ..hooks import AFTER_IMPORT, calls, collectives, data, model
from ..patches import Patches
from ..session import ProbeSession
from ..window import StepWindow
from . import phases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..shapes import RequestDocument, Row

HOOKS = (data, model, calls, collectives)
"""Those of a training process that measure."""

LIMIT_S = 600.0
"""A window ends after so long in any case, or after three times as long as its steps should take."""

LEAST_SAMPLES, LEAST_SHARE = 3, 0.3
"""A line has to be seen so often in a phase, and in so large a part of its samples, to be named."""

REQUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "request.json")
"""What a diagnosis tells the probe of the frameworks, made by tests/schemas.py."""


def request(folder: str) -> RequestDocument:
    """A Request of one window after the other, in a run folder."""
    with open(REQUEST, encoding="utf-8") as file:
        made: RequestDocument = json.load(file)
    return {**made, "run_dir": folder}


class WatchedSession(ProbeSession):
    """`attach` and, at the end of the window, `let_go`, as often as there are windows; `on_over` is called then."""

    def __init__(self, folder: str, on_over: Callable[[], object]) -> None:
        super().__init__(request(folder))
        self.recorder.on = False
        self._on_over = on_over
        self._is_hooked = False
        self._of_modules: set[str] = set()

    @property
    def is_attached(self) -> bool:
        """Whether a window is being measured."""
        return self.recorder.on

    @property
    def num_measured(self) -> int:
        """Steps of the window so far."""
        warmup = self.window.warmup
        return 0 if warmup is None else len(self.window.step_ends) - warmup

    def attach(self, steps: int, step_s: float) -> None:
        """Measure `steps` steps, of about `step_s` seconds each, after one that passes."""
        self._forget()
        limit_s = max(LIMIT_S, 3 * steps * step_s)
        window: Any = {**self.request["window"], "warmup": 1, "steps": steps, "time_limit_s": limit_s}
        self.window = StepWindow(window, self)
        self.recorder.thread = get_ident()
        if self._is_hooked:
            self.patches.resume()
        else:
            self._is_hooked = True
            for hook in HOOKS:
                hook.install(self)
        self._hook_frameworks()
        self.recorder.on = True
        self.sampler.start()

    def _forget(self) -> None:
        self.recorder.clear()
        self.losses.clear()
        self.samples = None
        self.device_marks = []
        self.num_sniffed = 0

    def _hook_frameworks(self) -> None:
        """The modules of frameworks that were imported since the last window."""
        for name in hooked_modules(self.request):
            module = sys.modules.get(name)
            if module is not None and name not in self._of_modules:
                self._of_modules.add(name)
                for hook in AFTER_IMPORT:
                    hook.on_import(self, module)

    def on_window_start(self) -> None:
        """Nothing of the run's own is reset: its script may print the peaks that torch counts."""
        if self.window.start is not None and self.trains_on_cuda():
            device_clock.start(self.recorder, self.window.start)
        self.sampler.reset()

    def on_window_end(self) -> None:
        """The steps are complete."""
        self.samples = self.sampler.rows()
        self.device_marks = device_clock.stop(self.recorder)

    def time_is_up(self) -> None:
        """The sampler's thread saw no step for too long: the training thread ends the window at its next one."""
        return

    def let_go(self) -> None:
        """The window is over: torch is as it was until the next one."""
        self.detach()
        self._on_over()

    def detach(self) -> None:
        """Take every hook off again, for as long as no window is measured."""
        self.recorder.on = False
        self.sampler.stop()
        self.patches.suspend()
        self._remove_status()

    def _remove_status(self) -> None:
        try:
            os.unlink(os.path.join(self.request["run_dir"], f"status-{os.getpid()}"))
        except OSError:
            return

    def abandon(self) -> None:
        """A forked child, or the end of the watch: what is attached is taken off, and no thread is waited for."""
        self.recorder.on = False
        self.patches.suspend()
        self.patches = Patches()

    def result(self) -> Row | None:
        """The window: "steps", "step_ms", "phases_ms", "places" and "queued_ms"; None where no step was measured."""
        window = self.window
        if window.start is None or window.warmup is None or len(window.step_ends) <= window.warmup:
            return None
        at = device_clock.moved(self.device_marks)
        edges = [at(moment) for moment in (window.start, *window.step_ends[window.warmup :])]
        events = [(kind, at(start), at(end), ref, flag) for kind, start, end, ref, flag in self.recorder.events]
        mean_ms = phases.mean_ms(phases.by_step(events, edges))
        return {
            "steps": len(edges) - 1,
            "step_ms": sum(mean_ms.values()),
            "phases_ms": mean_ms,
            "places": self._places(),
            "queued_ms": self._queued_ms(len(edges) - 1),
        }

    def _queued_ms(self, steps: int) -> float | None:
        """Milliseconds per step for which the training thread was ready and had no CPU; None where nothing tells."""
        queued = (self.window.summary(0) or {}).get("queued_ns")
        return None if queued is None else queued / steps / 1e6

    def _places(self) -> dict[str, str]:
        """The user's line that was seen most, of each phase in which one was seen often."""
        counts: dict[str, dict[str, int]] = {}
        for row in self.samples or []:
            phase = phases.PHASE_OF.get(row["phase"], "other")
            file = os.path.basename(row["user_file"])
            place = f"{file}:{row['user_line']}" if file else ""
            of_phase = counts.setdefault(phase, {})
            of_phase[place] = of_phase.get(place, 0) + row["count"]
        found = {}
        for phase, places in counts.items():
            place = max(places, key=lambda each: places[each])
            if place and places[place] >= max(LEAST_SAMPLES, LEAST_SHARE * sum(places.values())):
                found[phase] = place
        return found
