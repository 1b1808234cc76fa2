"""Forward, recomputation, backward and mode changes of the root models."""

from __future__ import annotations

import functools
import weakref
from _thread import get_ident

from . import clock, sites

AUTOCAST_EVENTS = 200
"""Autocast is looked at only while there are fewer events than this: the first steps."""


def install(session) -> None:
    """Patch Module.__call__ (not forward hooks: those break compile), Module.train and torch.autograd."""
    import torch

    module = torch.nn.Module
    session.patches.set(module, "__call__", timed_call(session.recorder, module.__call__, _recognising(session)))
    session.patches.set(module, "train", _noted_train(session, module.train))
    session.patches.set(torch.autograd, "backward", _timed_backward(session, torch.autograd.backward))
    session.patches.set(torch.autograd, "grad", _timed_backward(session, torch.autograd.grad))
    clip = torch.nn.utils.clip_grad.clip_grad_norm_
    session.patches.set(torch.nn.utils, "clip_grad_norm_", _noted_clip(session, clip))


def timed_call(recorder, call, recognise):
    """`call` (Module.__call__), recorded when it is the outermost; `recognise(module, flag)` gives the event's ref.

    A call inside backward is activation checkpointing's second forward, on whichever thread autograd runs it.
    """
    from torch import is_grad_enabled
    from torch.compiler import is_compiling

    @functools.wraps(call)
    def __call__(self, *args, **kwargs):
        if is_compiling() or recorder.in_forward or not recorder.on:
            return call(self, *args, **kwargs)
        inside = recorder.in_backward
        if not inside and get_ident() != recorder.thread:
            return call(self, *args, **kwargs)
        kind = "recompute" if inside else "forward"
        flag = (1 if is_grad_enabled() else 0) + (2 if self.training else 0)
        ref = -1 if inside else recognise(self, flag)
        recorder.in_forward = True
        recorder.stack.append(kind)
        start = clock.now()
        try:
            return call(self, *args, **kwargs)
        except BaseException as error:
            recorder.failed(kind, error)
            raise
        finally:
            recorder.push(kind, start, clock.now(), ref, flag)
            recorder.stack.pop()
            recorder.in_forward = False

    return __call__


def _recognising(session):
    def recognise(module, flag: int) -> int:
        if flag == 3 and len(session.recorder.events) < AUTOCAST_EVENTS:
            _note_autocast(session, module)
        return _identify(session, module)

    return recognise


def _note_autocast(session, module) -> None:
    """Autocast's dtype at a training forward. accelerate switches it on inside the root's own forward: see there."""
    import torch

    parameter = next(module.parameters(), None)
    kind = parameter.device.type if parameter is not None else "cpu"
    wrapped = getattr(getattr(module, "forward", None), "__wrapped__", None)
    if torch.is_autocast_enabled(kind):
        session.torch_state["autocast"] = str(torch.get_autocast_dtype(kind)).replace("torch.", "")
    elif wrapped is None:
        session.torch_state.setdefault("autocast", "off")


def _identify(session, module) -> int:
    """The id of a root model, registered at its first call. `id` can be reused after a model died: compare objects."""
    ref = session.model_ids.get(id(module), -1)
    if ref >= 0 and session.models[ref]["object"]() is module:
        return ref
    ref = session.model_ids[id(module)] = len(session.models)
    session.models.append({"id": ref, "site": sites.user_caller(), "object": weakref.ref(module)})
    return ref


def _noted_train(session, train):
    recorder, running = session.recorder, []

    @functools.wraps(train)
    def noted(self, mode=True):
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


def _timed_backward(session, backward):
    recorder = session.recorder

    @functools.wraps(backward)
    def timed(*args, **kwargs):
        if not recorder.on or recorder.in_backward or _is_compiling():
            return backward(*args, **kwargs)
        if get_ident() != recorder.thread:
            if recorder.num_backwards:
                return backward(*args, **kwargs)
            recorder.thread = get_ident()
        recorder.in_backward = True
        recorder.stack.append("backward")
        start = clock.now()
        try:
            return backward(*args, **kwargs)
        except BaseException as error:
            recorder.failed("backward", error)
            raise
        finally:
            recorder.push("backward", start, clock.now())
            recorder.stack.pop()
            recorder.in_backward = False
            recorder.note_backward()
            session.window.on_backward(bool(session.optimizers))

    return timed


def _is_compiling() -> bool:
    from torch.compiler import is_compiling

    return is_compiling()


def _noted_clip(session, clip):
    """Gradients that are clipped while they still carry the loss scale are clipped by the wrong norm."""

    @functools.wraps(clip)
    def noted(*args, **kwargs):
        if session.scaled and session.recorder.on:
            session.torch_state["clips_scaled"] = True
        return clip(*args, **kwargs)

    return noted
