"""The clock of a watched run: torch's own hooks before and after each optimizer's step.

Between windows nothing else stays.
They see optimizers that were made before the watch began, and steps that a scheduler or a framework has wrapped.
"""

from __future__ import annotations

import sys
import weakref
from time import monotonic_ns

from ..ending import ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .watched_session import WatchedSession


class StepClock:
    """Counts the steps of the first optimizer that steps; a new one takes over when it died.

    `steps` were made. `ends` are the moments of the last ones (monotonic ns), which who looks may empty. `on_look` is
    called after step `look_at`, and after the first step that ends later than `look_due`. `session`, while a window is
    measured, is told when the optimizer begins and ends.
    """

    def __init__(self, on_look: Callable[[int], object]) -> None:
        from torch.compiler import is_compiling
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._is_compiling = is_compiling
        self._on_look = on_look
        self.session: WatchedSession | None = None
        self.clear()
        self._handles = (
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        )

    def clear(self) -> None:
        """As at the start: in a forked child."""
        self.steps = 0
        self.ends: list[int] = []
        self.look_at, self.look_due = 1, 0
        self._first: weakref.ref[Any] | None = None
        self._is_stepping = False
        self._began = 0

    def rest(self) -> None:
        """Count on, and look no more."""
        self.session = None
        self.look_at = self.look_due = sys.maxsize

    def stop(self) -> None:
        """Take the hooks off; not from inside one of them, which torch does not bear."""
        for handle in self._handles:
            handle.remove()

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """`is_compiling` comes first, as in hooks/model.py: dynamo must see no state of ours."""
        if not self._is_compiling():
            self._begins()

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._is_compiling():
            self._ends(optimizer)

    @ours
    def _begins(self) -> None:
        if self.session is not None and not self._is_stepping and self.session.recorder.is_mine():
            self._began = self.session.recorder.enter("optimizer")
        self._is_stepping = True

    @ours
    def _ends(self, optimizer: Any) -> None:
        if not self._is_stepping:
            return  # the second end of a step whose class calls super().step()
        self._is_stepping = False
        session = self.session
        if session is not None and self._began and session.recorder.is_mine():
            session.recorder.leave("optimizer", self._began)
            self._began = 0
        first = self._first() if self._first is not None else None
        if first is None:
            self._first = weakref.ref(optimizer)
        elif first is not optimizer:
            return
        now = monotonic_ns()
        self.steps += 1
        self.ends.append(now)
        if session is not None:
            session.on_first_optimizer_step()
        if self.steps >= self.look_at or now >= self.look_due:
            self._on_look(now)
