"""Forward, recomputation, backward and mode changes of the root models."""

from __future__ import annotations

import functools
import threading
import weakref
from _thread import get_ident

from .. import call_sites, clock
from ..ending import ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..recorder import Recorder
    from ..session import ProbeSession
    from ..shapes import Function

SNIFFED = 3
"""So many training forwards are searched for autocast, layer by layer."""


def install(session: ProbeSession) -> None:
    """Patch Module.__call__ (not forward hooks: those break compile), Module.train and torch.autograd."""
    import torch

    module = torch.nn.Module
    session.patches.set(module, "__call__", timed_call(session.recorder, module.__call__, _recognising(session)))
    session.patches.set(module, "train", _noted_train(session, module.train))
    session.patches.set(torch.autograd, "backward", _timed_backward(session, torch.autograd.backward, _noting(session)))
    session.patches.set(torch.autograd, "grad", _timed_backward(session, torch.autograd.grad))
    clip = torch.nn.utils.clip_grad.clip_grad_norm_
    session.patches.set(torch.nn.utils, "clip_grad_norm_", _noted_clip(session, clip))


def timed_call(recorder: Recorder, call: Function, recognise: Callable[[Any, int], int]) -> Function:
    """`call` (Module.__call__), recorded when it is the outermost; `recognise(module, flag)` gives the event's ref.

    A call inside backward is activation checkpointing's second forward, on whichever thread autograd runs it. A call
    inside a fetch is a transform of the data. `is_compiling` comes first: dynamo must see no state of ours.
    """
    from torch import is_grad_enabled
    from torch.compiler import is_compiling

    @functools.wraps(call)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return call(self, *args, **kwargs)
        if recorder.in_forward:
            sniff, modules = recorder.sniff, recorder.modules
            if sniff is not None:
                sniff(self)
            if modules is None:
                return call(self, *args, **kwargs)
            return modules.calling(self, call, args, kwargs)
        since, inside = clock.now(), recorder.in_backward
        if not recorder.on or recorder.is_loading() or not _is_training(recorder, inside):
            return call(self, *args, **kwargs)
        kind = "recompute" if inside else "forward"
        flag = (1 if is_grad_enabled() else 0) + (2 if self.training else 0)
        ref = -1 if inside else recognise(self, flag)
        recorder.note_inputs((*args, *kwargs.values()))
        recorder.in_forward, recorder.has_grad = True, bool(flag & 1)
        modules = recorder.modules
        start = recorder.enter(kind, since)
        try:
            if modules is None:
                return call(self, *args, **kwargs)
            return modules.calling(self, call, args, kwargs)
        except BaseException as error:
            # torch ends a recomputation early by an exception of its own; a true one also passes through backward.
            if not inside:
                recorder.failed(kind, error)
            raise
        finally:
            recorder.leave(kind, start, ref, flag)
            recorder.in_forward = False

    return __call__


def _is_training(recorder: Recorder, inside_backward: bool) -> bool:
    """Whether the calling thread trains: the one that does, or, inside backward, one of autograd's own."""
    ident = get_ident()
    if ident == recorder.thread:
        return True
    started_by_python = threading._active.get(ident)  # type: ignore[attr-defined]  # private
    return inside_backward and (started_by_python is None or isinstance(started_by_python, threading._DummyThread))


def _recognising(session: ProbeSession) -> Callable[[Any, int], int]:
    recorder = session.recorder

    def recognise(module: Any, flag: int) -> int:
        recorder.sniff = None
        if flag == 3 and session.num_sniffed < SNIFFED:
            session.num_sniffed += 1
            recorder.sniff = functools.partial(_note_autocast, session)
            _note_autocast(session, module)
        session.window.on_forward(module, flag)
        session.on_forward(module, flag)
        return _identify(session, module)

    return recognise


def _note_autocast(session: ProbeSession, module: Any) -> None:
    """Autocast's dtype where a layer with parameters is called: frameworks and models switch it on inside forward.

    One layer under autocast is enough; "off" is said only of layers that were looked at.
    """
    import torch

    parameter = next((each for each in module._parameters.values() if each is not None), None)
    if parameter is None:
        return
    kind = parameter.device.type
    try:
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    except (AttributeError, TypeError, RuntimeError):  # a torch before 2.4, parameters on "meta": unknown
        return
    if dtype is not None:
        session.torch_state["autocast"] = str(dtype).replace("torch.", "")
    else:
        session.torch_state.setdefault("autocast", "off")


def _identify(session: ProbeSession, module: Any) -> int:
    """The id of a root model, registered at its first call. `id` can be reused after a model died: compare objects."""
    ref = session.model_ids.get(id(module), -1)
    if ref >= 0 and session.models[ref]["object"]() is module:
        return ref
    ref = session.model_ids[id(module)] = len(session.models)
    session.models.append({"id": ref, "site": call_sites.user_caller(), "object": weakref.ref(module)})
    return ref


def _noted_train(session: ProbeSession, train: Function) -> Function:
    recorder = session.recorder
    running: list[bool] = []

    @functools.wraps(train)
    def noted(self: Any, mode: bool = True) -> Any:
        if running or not recorder.is_mine():
            return train(self, mode)
        ref = session.model_ids.get(id(self), -1)
        recorder.instant("mode", ref, int(bool(mode)))
        running.append(True)
        try:
            return train(self, mode)
        finally:
            running.clear()

    noted.__name__ = "train"
    return noted


def _noting(session: ProbeSession) -> Function:
    """Keeps what backward is called on: the loss. (torch.autograd.grad may be asked of anything.)"""

    @ours
    def note(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if not session.window.is_over and not session.plan.is_active:
            session.losses.note(len(session.window.step_ends), tensors, session.scaled)

    return note


def _timed_backward(session: ProbeSession, backward: Function, note: Function | None = None) -> Function:
    from torch import is_anomaly_enabled
    from torch.compiler import is_compiling

    recorder = session.recorder

    @functools.wraps(backward)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if not recorder.on or recorder.in_backward or is_compiling():
            return backward(*args, **kwargs)
        since = clock.now()
        if get_ident() != recorder.thread:
            if recorder.num_backwards:
                return backward(*args, **kwargs)
            recorder.thread = get_ident()
        if is_anomaly_enabled():
            session.torch_state["anomaly"] = True
        if note is not None:
            note(*args, **kwargs)
        recorder.in_backward = True
        passes = recorder.passes
        start = recorder.enter("backward", since)
        try:
            return backward(*args, **kwargs) if passes is None else passes.calling(backward, args, kwargs)
        except BaseException as error:
            recorder.failed("backward", error)
            raise
        finally:
            recorder.leave("backward", start)
            recorder.in_backward = False
            since = clock.now()
            recorder.note_backward()
            session.on_backward()
            recorder.own_since(since)

    return timed


def _noted_clip(session: ProbeSession, clip: Function) -> Function:
    """Gradients that are clipped while they still carry the loss scale are clipped by the wrong norm."""

    @functools.wraps(clip)
    def noted(*args: Any, **kwargs: Any) -> Any:
        if session.scaled and session.recorder.on:
            session.torch_state["clips_scaled"] = True
        return clip(*args, **kwargs)

    return noted
