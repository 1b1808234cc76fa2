"""The clock of a watched run: a hook of torch's own after each optimizer's step. Between windows nothing else stays.

It sees optimizers that were made before the watch began, and steps that a scheduler or a framework has wrapped.
"""

from __future__ import annotations

import sys
import weakref
from time import monotonic_ns

from .. import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .watched_session import WatchedSession


class StepClock:
    """Counts the steps of the first optimizer that steps; a new one takes over when it died.

    `steps` were made. `ends` are the moments of the last ones (monotonic ns), which who looks may empty. `on_look` is
    called after step `look_at`, and after the first step that ends later than `look_due`. A session, while it measures
    a window, is told when the optimizer begins and ends.
    """

    def __init__(self, on_look: Callable[[int], object]) -> None:
        from torch.compiler import is_compiling

        self._is_compiling = is_compiling
        self._on_look = on_look
        self._after_handle: Any = None
        self._before_handle: Any = None
        self.clear()

    def clear(self) -> None:
        """As at the start: in a forked child."""
        self.steps = 0
        self.ends: list[int] = []
        self.look_at, self.look_due = 1, 0
        self.session: WatchedSession | None = None
        self._first: Callable[[], Any] = _nobody
        self._is_nested = False
        self._is_stepping = False
        self._began = 0

    def start(self) -> None:
        """Put the hook on."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._after_handle = register_optimizer_step_post_hook(self._after)

    def rest(self) -> None:
        """Count on, and look no more."""
        self.session = None
        self.look_at = self.look_due = sys.maxsize

    def stop(self) -> None:
        """Take the hooks off; not from inside one of them, which torch does not bear."""
        for handle in (self._after_handle, self._before_handle):
            if handle is not None:
                handle.remove()
        self._after_handle = self._before_handle = None

    def measure(self, session: WatchedSession) -> None:
        """A window begins: called after a step. Torch bears a hook of the other kind to be added then."""
        self.session = session
        self._hear_begins()

    def measured(self) -> None:
        """It is over: likewise."""
        self.session = None
        if self._before_handle is not None and not self._is_nested:
            self._before_handle.remove()
            self._before_handle = None

    def _hear_begins(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        if self._before_handle is None:
            self._before_handle = register_optimizer_step_pre_hook(self._before)
            self._is_stepping = False

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """`is_compiling` comes first, as in hooks/model.py: dynamo must see no state of ours."""
        if self._is_compiling():
            return
        if not self._is_stepping and self.session is not None and self.session.recorder.is_mine():
            self._began = self.session.recorder.enter("optimizer")
        self._is_stepping = True

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Between windows this is all that a step costs."""
        if self._is_compiling():
            return
        try:
            if self._before_handle is not None and not self._ended():
                return
            if self._first() is not optimizer and not self._takes_over(optimizer):
                return
            now = monotonic_ns()
            self.steps += 1
            self.ends.append(now)
            if self.session is not None:
                self.session.on_first_optimizer_step()
            if self.steps >= self.look_at or now >= self.look_due:
                self._on_look(now)
        except Exception as error:
            ending.judge(error)

    def _ended(self) -> bool:
        """Whether it is the first end since the step began: one that calls super().step() ends twice."""
        if not self._is_stepping:
            return False
        self._is_stepping = False
        if self.session is not None and self._began and self.session.recorder.is_mine():
            self.session.recorder.leave("optimizer", self._began)
            self._began = 0
        return True

    def _takes_over(self, optimizer: Any) -> bool:
        """Whether this optimizer's steps are counted from now on."""
        if self._first() is not None:
            return False
        self._first = weakref.ref(optimizer)
        hooked = [kind for kind in type(optimizer).__mro__ if getattr(vars(kind).get("step"), "hooked", False)]
        if len(hooked) > 1:
            self._is_nested = True
            self._hear_begins()
        return True


def _nobody() -> None:
    return None
