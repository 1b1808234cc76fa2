"""Real optimizer steps: several optimizers, nested classes, closures, GradScaler skips, accelerate's skipped ones."""

from __future__ import annotations

import functools
import os
import sys
import types
import weakref

from .. import call_sites, clock
from ..recorder import timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import CallSite, Function

BY_GROUPS = os.path.join("deepspeed", "runtime")
"""DeepSpeed's ZeRO steps the optimizer once for each group of parameters (stage_1_and_2.py: `_optimizer_step`;
stage3.py: once for each sub-group), and once when it makes its states: together they are one update, or none."""

MOST_BETWEEN = 4
"""Frames between such a caller and the step: the wrapper of a learning-rate scheduler, a GradScaler."""

STOPPED = 10
"""Steps of others after which an optimizer has stopped: of those that take turns each comes within a few."""

FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


def install(session: ProbeSession) -> None:
    """Wrap `Optimizer.profile_hook_step`, with which torch wraps the step of every optimizer class, and the scaler."""
    import torch

    optimizer = torch.optim.Optimizer
    session.patches.set(optimizer, "__init__", _noted_init(session, optimizer.__init__))
    steps = _Steps(session)
    session.patches.set(optimizer, "profile_hook_step", staticmethod(steps.wrapping(optimizer.profile_hook_step)))
    session.patches.on_restore(lambda: _unwrap_steps(optimizer))
    scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)  # torch 2.2 has that of CUDA alone
    session.patches.set(scaler, "step", _noted_scaler_step(session, scaler.step))
    session.patches.set(scaler, "scale", _noted_scaling(session, scaler.scale, True))
    session.patches.set(scaler, "unscale_", _noted_scaling(session, scaler.unscale_, False))


def _unwrap_steps(optimizer: Any) -> None:
    for kind in optimizer.__subclasses__():
        native = getattr(vars(kind).get("step"), "_autotune_native", None)
        if native is not None:
            kind.step = native
        _unwrap_steps(kind)


def _noted_init(session: ProbeSession, init: Function) -> Function:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if session.recorder.on:
            row = {"id": len(session.optimizers), "site": _site(), "object": weakref.ref(self)}
            session.optimizers.append(row)

    return __init__


def _site() -> CallSite:
    return call_sites.caller(skip=("torch/optim", "torch/_"))


class _Steps:
    """Times the outermost step: a subclass whose step calls super().step() passes here twice."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._first: weakref.ref[Any] | None = None
        self._others = 0
        """Steps of others since the last one of the first optimizer."""
        self._backwards = 0

    def wrapping(self, profile_hook_step: Function) -> Function:
        """torch's wrapper around an optimizer's step, with ours around it."""

        @functools.wraps(profile_hook_step)
        def wrap(function: Function) -> Any:
            native = profile_hook_step(function)
            wrapper: Any = self._timed(native)
            native.hooked = True
            wrapper._autotune_native = native
            return wrapper

        return wrap

    def _timed(self, step: Function) -> Function:
        from torch.compiler import is_compiling

        recorder = self._session.recorder

        @functools.wraps(step)
        def outermost(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or "optimizer" in recorder.stack or not recorder.is_mine():
                return step(optimizer, *args, **kwargs)
            since = clock.now()
            args = tuple(self._own(value) for value in args)
            kwargs = {name: self._own(value) for name, value in kwargs.items()}
            ref = self._ref(optimizer)
            start = recorder.enter("optimizer", since)
            try:
                return step(optimizer, *args, **kwargs)
            except BaseException as error:
                recorder.failed("optimizer", error)
                raise
            finally:
                recorder.leave("optimizer", start, ref)
                since = clock.now()
                if self._is_first(optimizer) and not self._is_counted():
                    self._session.on_first_optimizer_step()
                recorder.own_since(since)

        return outermost

    def _own(self, value: Any) -> Any:
        """`value`, given to a step; what a function of the script's does there is no update: an event of its own."""
        return timed(self._session.recorder, "closure", value) if isinstance(value, FUNCTIONS) else value

    def _ref(self, optimizer: Any) -> int:
        rows = self._session.optimizers
        return next((row["id"] for row in rows if row["object"]() is optimizer), -1)

    def _is_counted(self) -> bool:
        """Whether this is one more group of an update that was counted: of a caller that steps group by group, and
        without a backward since the last count."""
        before, self._backwards = self._backwards, self._session.recorder.num_backwards
        return before == self._backwards and is_by_groups(sys._getframe(2))

    def _is_first(self, optimizer: Any) -> bool:
        """The first optimizer that steps is the one whose steps are counted; another one takes over when it died, or,
        among the steps that are to be let pass, when it has stopped."""
        first = self._first() if self._first is not None else None
        self._others = 0 if first is optimizer else self._others + 1
        if first is None or (self._others >= STOPPED and self._session.window.lets_pass()):
            self._first, self._others = weakref.ref(optimizer), 0
            return True
        return first is optimizer


def is_by_groups(frame: FrameType | None) -> bool:
    """Whether the caller of an optimizer's step, `frame` or one just above it, steps it once for each group."""
    for _ in range(MOST_BETWEEN):
        if frame is None:
            return False
        if BY_GROUPS in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _noted_scaler_step(session: ProbeSession, step: Function) -> Function:
    """A step that the scaler skipped fires no optimizer hook: without this it would look like accumulation."""

    @functools.wraps(step)
    def noted(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = session.recorder
        if not recorder.is_mine() or not self.is_enabled():
            return step(self, optimizer, *args, **kwargs)
        session.torch_state["grad_scaler"] = True
        before = len(recorder.events)
        try:
            return step(self, optimizer, *args, **kwargs)
        finally:
            session.scaled = False
            if not any(event[0] == "optimizer" for event in recorder.events[before:]):
                recorder.instant("scaler_skip")

    return noted


def _noted_scaling(session: ProbeSession, function: Function, scaled: bool) -> Function:
    @functools.wraps(function)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if session.recorder.on and self.is_enabled():
            session.scaled = scaled
        return function(self, *args, **kwargs)

    return noted
