"""The clock of a watched run: a hook of torch's own after each optimizer's step. Between windows nothing else stays.

It sees optimizers that were made before the watch began, and steps that a scheduler or a framework has wrapped.
"""

from __future__ import annotations

import sys
import weakref
from _thread import RLock
from time import monotonic_ns

from .. import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .watched_session import WatchedSession


MOST_REST = 50
"""Steps of another optimizer without one of the first, as in a training of two phases; a GAN's critic makes fewer."""


class StepClock:
    """Counts the steps of the first optimizer that steps; another takes over when it died, or rests for long.

    `steps` were made. `ends` are the moments of the last ones (monotonic ns), which who looks may empty. `on_look` is
    called after step `look_at`, and after the first step that ends later than `look_due`. A session, while it measures
    a window, is told when the optimizer begins and ends. `edge` is held while a step's end is looked at: another thread
    that holds it finds no window half opened, or half closed.
    """

    def __init__(self, on_look: Callable[[int], object]) -> None:
        from torch.compiler import is_compiling

        self._is_compiling = is_compiling
        self._on_look = on_look
        self._after_handle: Any = None
        self._before_handle: Any = None
        self.is_off = False
        self.clear()

    def clear(self) -> None:
        """As at the start: in a forked child, where the thread that held the lock may not be."""
        self.edge = RLock()
        self.steps = 0
        self.ends: list[int] = []
        self.look_at, self.look_due = 1, 0
        self.session: WatchedSession | None = None
        self._first: Callable[[], Any] = _nobody
        self._others: dict[int, int] = {}
        self._is_by_groups = False
        self._group: Callable[[], Any] = _nobody
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

    def off(self) -> None:
        """From now on the hooks do nothing, in whatever moment torch is: to take them off, it must not be in one."""
        with self.edge:
            self.is_off = True
            self.rest()

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
        if self._is_compiling() or self.is_off:
            return
        if not self._is_stepping and self.session is not None and self.session.recorder.is_mine():
            self._began = self.session.recorder.enter("optimizer")
        self._is_stepping = True

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Between windows this is all that a step costs."""
        if self._is_compiling() or self.is_off:
            return
        try:
            with self.edge:
                if self.is_off or (self._before_handle is not None and not self._ended()):
                    return
                if self._first() is not optimizer and not self._takes_over(optimizer):
                    return
                if self._is_by_groups and not self._is_first_group(optimizer):
                    return
                if self._others:
                    self._others.clear()
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

    def _is_first_group(self, optimizer: Any) -> bool:
        """Whether an update begins. DeepSpeed's ZeRO hands the optimizer one group after the other and steps it for
        each; without the probe's hooks nothing tells of a backward in between."""
        parameter = _first_parameter(optimizer)
        if self._group() is None and parameter is not None:
            self._group = weakref.ref(parameter)
        return parameter is self._group()

    def _takes_over(self, optimizer: Any) -> bool:
        """Whether this optimizer's steps are counted from now on."""
        if self._first() is not None:
            made = self._others[id(optimizer)] = self._others.get(id(optimizer), 0) + 1
            if made < MOST_REST:
                return False
        self._first = weakref.ref(optimizer)
        from ..hooks.optimizer import is_by_groups  # all of the hooks: workers that import torch need none of them

        self._is_by_groups, self._group = is_by_groups(sys._getframe(3)), _nobody
        hooked = [kind for kind in type(optimizer).__mro__ if getattr(vars(kind).get("step"), "hooked", False)]
        if len(hooked) > 1:
            self._is_nested = True
            self._hear_begins()
        return True


def _first_parameter(optimizer: Any) -> Any:
    return next((one for group in optimizer.param_groups for one in group["params"]), None)


def _nobody() -> None:
    return None
