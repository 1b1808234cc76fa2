"""Collectives that the script, or a library that it calls, issues: torch.distributed's functions and their waits.

Not those of torch's own parallel wrappers, nor of engines that average gradients themselves: what these cost is told by
`averaging.py` and by the kernels of the device.
"""

from __future__ import annotations

import functools
import os
import sys

from .. import call_sites, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from ..recorder import Recorder
    from ..session import ProbeSession
    from ..shapes import CallSite, Function

NAMES = (
    "all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "barrier", "monitored_barrier",
    "all_gather", "all_gather_into_tensor", "all_gather_coalesced", "gather", "scatter",
    "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
    "all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list",
)  # fmt: skip
"""Sends to one other rank are none: in a pipeline they wait by design."""

KIND = "collective"
MOST_TENSORS = 8
"""So many tensors of an argument are weighed: a list has one for each rank, all alike, or one for each parameter."""

_THROUGH = tuple(
    os.path.join("torch", *path)
    for path in (
        ("distributed", "distributed_c10d.py"),
        ("distributed", "c10d_logger.py"),
        ("distributed", "nn", "functional.py"),
        ("autograd", "function.py"),
        ("utils", "_contextlib.py"),
    )
)
"""Files of torch that hand a caller's collective on."""

_TORCH = os.sep + "torch" + os.sep
_ENGINES = tuple(os.sep + name + os.sep for name in ("deepspeed", "megatron", "colossalai", "fairscale"))


def install(session: ProbeSession) -> None:
    """Patch the functions where scripts find them. Those inside distributed_c10d, which call one another, stay."""
    import torch

    distributed = torch.distributed
    if not distributed.is_available():
        return
    for name in NAMES:
        function = getattr(distributed, name, None)
        if function is not None:
            session.patches.set(distributed, name, timed_collective(session.recorder, function, name))
    wait = distributed.Work.wait
    session.patches.set(distributed.Work, "wait", timed_collective(session.recorder, wait, "wait"))


def timed_collective(recorder: Recorder, function: Function, name: str) -> Function:
    """`function`, recorded as an event whose `ref` is the row of its call site; the outermost one alone.

    The device's clock is marked at both ends: with NCCL the host does not wait, but the stream does.
    `is_compiling` comes first, as in model.timed_call: dynamo must see no state of ours.
    """
    from torch.compiler import is_compiling

    rows: dict[tuple[str, int], int] = {}
    direct: dict[tuple[CodeType, int], int] = {}  # of calls from the user's own lines, which come hundreds of times

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or not recorder.is_mine() or KIND in recorder.stack:
            return function(*args, **kwargs)
        since, frame = clock.now(), sys._getframe(1)
        key = (frame.f_code, frame.f_lineno)
        row = direct.get(key, -1)
        if not 0 <= row < len(recorder.calls):
            site = _site(frame)
            if site is None:
                return function(*args, **kwargs)
            row = recorder.call_row(rows, KIND, site, name)
            if call_sites.is_user(frame.f_code.co_filename):
                direct[key] = row
        call = recorder.calls[row]
        call["bytes"] = call.get("bytes", 0) + _num_bytes(args, kwargs)
        start = recorder.enter(KIND, since)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            recorder.failed(KIND, error)
            raise
        finally:
            recorder.leave(KIND, start, row)

    return wrapper


def _site(frame: FrameType | None) -> CallSite | None:
    """The line of the user's files from which a collective comes; None for one of torch's own or of an engine's."""
    while frame is not None and _hands_on(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    file = frame.f_code.co_filename
    is_foreign = not call_sites.is_user(file)
    if is_foreign and (_TORCH in file or any(engine in file for engine in _ENGINES)):
        return None
    return call_sites.user_caller() if is_foreign else call_sites.site_of_frame(frame)


def _hands_on(file: str) -> bool:
    """Whether a frame of `file` lies between the caller and the hook. Inside a call that is none of the script's there
    is the hook of that call, too.
    """
    return call_sites.is_probe(file) or file.endswith(_THROUGH)


def _num_bytes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Of the largest argument: what one rank gives or gets."""
    return max((_weight(value) for value in (*args, *kwargs.values())), default=0)


def _weight(value: Any) -> int:
    if hasattr(value, "element_size") and hasattr(value, "numel"):
        return int(value.numel() * value.element_size())
    if isinstance(value, (list, tuple)):
        return sum(_weight(each) for each in value[:MOST_TENSORS] if not isinstance(each, (list, tuple)))
    return 0
