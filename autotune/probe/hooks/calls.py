"""Calls that cost time in the step path: saves, logging, empty_cache, gc.collect, host reads of device tensors."""

from __future__ import annotations

import functools
import gc
import io

from .. import call_sites, clock
from ..recorder import counted, timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..recorder import Recorder
    from ..session import ProbeSession
    from ..shapes import Function

READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__")
"""Methods with which the host waits for a device tensor."""


def install(session: ProbeSession) -> None:
    """Patch the calls. Nothing here looks at tensors of a CPU run."""
    import torch

    recorder, patches = session.recorder, session.patches
    patches.set(torch, "save", timed_save(recorder, torch.save))
    patches.set(torch.cuda, "empty_cache", counted(recorder, "empty_cache", torch.cuda.empty_cache, call_sites.caller))
    patches.set(gc, "collect", counted(recorder, "gc", gc.collect, call_sites.caller))
    _note_legacy_amp(session)
    # Asking whether a device is there would initialise the driver, and a script that forks later could not use it.
    if torch.version.cuda is not None or torch.version.hip is not None:
        _install_cuda(session)


def timed_save(recorder: Recorder, save: Function) -> Function:
    """torch.save as a checkpoint, unless it writes to memory (which is a copy, not a save)."""
    checkpoint = timed(recorder, "checkpoint", save)

    @functools.wraps(save)
    def wrapper(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        return (save if isinstance(f, io.BytesIO) else checkpoint)(obj, f, *args, **kwargs)

    return wrapper


def _note_legacy_amp(session: ProbeSession) -> None:
    """torch.cuda.amp's classes are deprecated: note when the user's code makes one."""
    from torch.cuda import amp

    for name in ("autocast", "GradScaler"):
        kind = getattr(amp, name, None)
        if kind is not None:
            session.patches.set(kind, "__init__", _noted_init(session, kind.__init__))


def _noted_init(session: ProbeSession, init: Function) -> Function:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if session.recorder.on and call_sites.caller(skip=("torch/",))["is_user"]:
            session.torch_state["legacy_amp"] = True
        init(self, *args, **kwargs)

    return __init__


def _install_cuda(session: ProbeSession) -> None:
    for name in READS:
        _hook(session, name, timed_read)
    for name in ("to", "cuda"):
        _hook(session, name, timed_copy)


def _hook(session: ProbeSession, name: str, timed: Callable[[Recorder, Function], Function]) -> None:
    """Replace a method of Tensor. Dynamo traces calls of the native ones that it finds among the class's attributes."""
    import torch

    native = getattr(torch.Tensor, name)
    session.patches.set(torch.Tensor, "_autotune_" + name, native)
    session.patches.set(torch.Tensor, name, timed(session.recorder, native))


def timed_read(recorder: Recorder, read: Function) -> Function:
    """A read of a device tensor, but an optimizer's own ones: those are its cost, and a closure's are the script's.

    `is_compiling` comes first, as in model.timed_call: dynamo must see no state of ours.
    """
    from torch.compiler import is_compiling

    waiting = counted(recorder, "sync", read, call_sites.caller)

    @functools.wraps(read)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or not self.is_cuda or recorder.is_updating():
            return read(self, *args, **kwargs)
        return waiting(self, *args, **kwargs)

    return wrapper


def timed_copy(recorder: Recorder, copy: Function) -> Function:
    """A copy to the device outside the forward; `is_compiling` comes first, as in timed_read."""
    from torch.compiler import is_compiling

    @functools.wraps(copy)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or self.is_cuda or recorder.in_forward or not recorder.is_mine():
            return copy(self, *args, **kwargs)
        start = clock.now()
        result = copy(self, *args, **kwargs)
        if result.is_cuda:
            recorder.push("h2d", start, recorder.mark())
        return result

    return wrapper
