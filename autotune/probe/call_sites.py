"""Call sites: who called, and whether that is the user's own code."""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock
from itertools import accumulate, repeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .shapes import CallSite

_HERE = os.path.dirname(os.path.abspath(__file__))
_STDLIB = os.path.dirname(os.__file__)
_SCRIPTS = os.path.dirname(os.path.abspath(sys.executable)) + os.sep
_LIBRARY_PARTS = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_cache: dict[str, bool] = {}
_sites: dict[tuple[str, str, int], CallSite] = {}
_looking = allocate_lock()


def is_user(filename: str) -> bool:
    """Whether `filename` is the user's own: neither standard library, installed package, probe nor generated."""
    known = _cache.get(filename)
    if known is None:
        known = _cache[filename] = _is_user(filename)
    return known


def _is_user(filename: str) -> bool:
    if not filename or filename.startswith("<"):
        return False
    path = os.path.abspath(filename)
    installed = any(part in path for part in _LIBRARY_PARTS)
    return not (installed or path.startswith((_STDLIB + os.sep, _HERE + os.sep, _SCRIPTS)))


def is_standard(filename: str) -> bool:
    """Whether `filename` is of Python's standard library."""
    return filename.startswith(_STDLIB + os.sep) and not any(part in filename for part in _LIBRARY_PARTS)


def is_probe(filename: str) -> bool:
    """Whether `filename` is one of the probe's own."""
    return filename.startswith(_HERE + os.sep)


def caller(skip: tuple[str, ...] = ()) -> CallSite:
    """The innermost frame outside the probe and outside files that contain a part of `skip`, as a CallSite."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_skipped(frame, skip):
        frame = frame.f_back
    return site_of_frame(frame) if frame is not None else {"file": "", "line": 0, "function": "", "is_user": False}


def user_caller() -> CallSite:
    """The innermost frame of the user's own files; the library frame that called when there is none."""
    frame = user_frame()
    return site_of_frame(frame) if frame is not None else caller()


def user_frame() -> FrameType | None:
    """The innermost frame of the user's own files that is being run, None without one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_user(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def outwards(frame: FrameType) -> list[FrameType]:
    """A frame of this thread and its callers, the innermost first."""
    frames: list[FrameType] = []
    around: FrameType | None = frame
    while around is not None:
        frames.append(around)
        around = around.f_back
    return frames


def stack_of(thread: int) -> list[FrameType]:
    """The frames of another thread, the innermost first; empty where the thread has ended or another sample is taken.

    One call takes them all and keeps the interpreter lock. Read the list, not `f_back`: the thread runs on meanwhile.
    Up to Python 3.11 making a frame object may start a garbage collection, whose finalizers let the thread run: the
    frame in the making is then gone, and the process dies (seen at `frame.f_back`).
    """
    frames: list[FrameType] = []
    # Of two samplers the second would switch the collection on again while the first one looks.
    if not _looking.acquire(blocking=False):
        return frames
    collects = sys.version_info < (3, 12) and gc.isenabled()
    if collects:
        gc.disable()
    try:
        frame = sys._current_frames().get(thread)
        frames.extend(accumulate(repeat("f_back"), getattr, initial=frame))
    except AttributeError:  # beyond the outermost frame, after the None that stands for it
        frames.pop()
    finally:
        if collects:
            gc.enable()
        _looking.release()
    return frames


def line_of(frame: FrameType) -> int:
    """The line that runs; the first one of its function where an instruction has none (Python 3.11 and later)."""
    line: int | None = frame.f_lineno
    return frame.f_code.co_firstlineno if line is None else line


def site_of_frame(frame: FrameType) -> CallSite:
    """The CallSite of a frame, made once for each line that calls: reads of the device come thousands of times."""
    code = frame.f_code
    line = line_of(frame)
    key = (code.co_filename, code.co_name, line)
    known = _sites.get(key)
    if known is None:
        known = _sites[key] = _site(code, line)
    return known


def _site(code: CodeType, line: int) -> CallSite:
    return {
        "file": os.path.abspath(code.co_filename) if not code.co_filename.startswith("<") else code.co_filename,
        "line": line,
        "function": code.co_name,
        "is_user": is_user(code.co_filename),
    }


def _is_skipped(frame: FrameType, skip: tuple[str, ...]) -> bool:
    filename = frame.f_code.co_filename
    return is_probe(filename) or any(part in filename for part in skip)
