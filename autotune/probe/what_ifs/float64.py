"""float64 in the training steps: where it arises without being asked for, and replays in which it is float32.

Asked for by name is float64 where a user's file says `float64` or `double`, where it is torch's default type, or where
most of a model's parameters have it: then the script wants it.
"""

from __future__ import annotations

import io
import os
import sys
import tokenize
import weakref

from .. import call_sites
from . import batch_copies, module_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Function, Row, Undo

NAMES = frozenset(("float64", "double", "DoubleTensor", "f8", "torch.float64", "torch.DoubleTensor"))
LEAST_ELEMENTS = 4096
"""Fewer numbers of float64 in a step cost nothing."""

MOST_FILE_BYTES = 1 << 20
KEEPS_ITS_ARGUMENTS = ("__get__", "__set__", "__delete__", "backward", "requires_grad_", "register_hook")
IN_PLACE_OPERATORS = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "__setitem__")


class Float64Watch:
    """Notes where float64 arises in one step, from `start` to `stop`."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._made: dict[int, weakref.ref[Any]] = {}
        self._sources: dict[tuple[str, int, str], int] = {}
        self._asked = False
        self.num_results = 0
        self.num_elements = 0

    def start(self) -> Undo:
        """Watch; what ends that."""

        def watched(function: Function, args: Any, kwargs: Row) -> Any:
            result = function(*args, **kwargs)
            if not self._session.recorder.is_updating():
                self._note(function, args, kwargs, result)
            return result

        return _entered(watched)

    def _note(self, function: Function, args: Any, kwargs: Row, result: Any) -> None:
        name = _name(function)
        given = list(_float64(args, kwargs.values()))
        # What is already there is no result: an attribute, or what was changed in place.
        made = [] if name in KEEPS_ITS_ARGUMENTS else [t for t in _float64([result]) if all(t is not g for g in given)]
        if not made:
            return
        self.num_results += len(made)
        self.num_elements += sum(tensor.numel() for tensor in made)
        self._made.update((id(tensor), weakref.ref(tensor)) for tensor in made)
        if _is_asked(name, args, kwargs):
            self._asked = self._asked or _is_of_the_user()
        elif not given:
            self._arose(name, made)
        else:
            self._arose("", [tensor for tensor in given if not self._is_made(tensor)])

    def _is_made(self, tensor: Any) -> bool:
        known = self._made.get(id(tensor))
        return known is not None and known() is tensor

    def _arose(self, name: str, tensors: list[Any]) -> None:
        """float64 came at this line: by function `name`, or, with none, in tensors that were there before."""
        elements = sum(tensor.numel() for tensor in tensors if tensor.numel() > 1)
        if not elements:
            return
        site = call_sites.user_caller()
        known = (
            "the batches" if _copies_a_batch() else name or module_names.variable(call_sites.user_frame(), tensors[0])
        )
        key = (site["file"], site["line"], known)
        self._sources[key] = self._sources.get(key, 0) + elements
        for tensor in tensors:
            self._made[id(tensor)] = weakref.ref(tensor)

    def row(self) -> Row | None:
        """What there is of it, for the Recording; None without any."""
        if self.num_elements < LEAST_ELEMENTS or not self._sources:
            return None
        (file, line, name), _ = max(self._sources.items(), key=lambda item: item[1])
        return {
            "file": file,
            "line": line,
            "source": name or "a tensor made before",
            "results": self.num_results,
            "elements": self.num_elements,
            "is_asked_for": self._asked or _is_wanted(self._session),
        }


def without(session: ProbeSession, is_kept: bool) -> Undo:
    """Run in float32 what comes in float64; with `is_kept` look for it, and change nothing: what looking costs.

    In-place changes of a float64 tensor stay as they are, and so does what a library asks for by name.
    """
    recorder = session.recorder
    known: dict[int, tuple[Any, int, Any]] = {}

    def float32(tensor: Any) -> Any:
        if tensor.requires_grad:
            return tensor.float()
        of, version, made = known.get(id(tensor), (None, -1, None))
        if of is None or of() is not tensor or version != tensor._version:
            made, key = tensor.float(), id(tensor)
            known[key] = (weakref.ref(tensor, lambda _: known.pop(key, None)), tensor._version, made)
        return made

    def replaced(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(replaced(item) for item in value) if _has_float64(value) else value
        return float32(value) if _is_float64(value) else value

    def changed(function: Function, args: Any, kwargs: Row) -> Any:
        name = _name(function)
        is_free = name not in KEEPS_ITS_ARGUMENTS and not recorder.is_updating() and not _is_asked(name, args, kwargs)
        if not is_free or _is_in_place(name, kwargs):
            return function(*args, **kwargs)
        if _has_float64(args, kwargs.values()) and not is_kept:
            args, kwargs = tuple(map(replaced, args)), {key: replaced(value) for key, value in kwargs.items()}
        result = function(*args, **kwargs)
        if _has_float64([result]) and not is_kept:
            return _float32_results(result)
        return result

    return _entered(changed)


def _float32_results(result: Any) -> Any:
    if _is_float64(result):
        return result.float()
    items = [item.float() if _is_float64(item) else item for item in result]
    return type(result)(items) if type(result) in (list, tuple) else result


def _entered(call: Function) -> Undo:
    """Let `call(function, args, kwargs)` stand for each function of torch that this thread calls; what ends that."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        is_on = True

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Row | None = None) -> Any:
            return call(func, args, kwargs or {}) if self.is_on else func(*args, **(kwargs or {}))

    mode: Any = Mode()
    whole: Any = torch
    from_numpy = torch.from_numpy

    def of_numpy(array: Any) -> Any:  # torch asks no mode about this one
        return call(from_numpy, (array,), {})

    mode.__enter__()
    whole.from_numpy = of_numpy

    def leave() -> None:
        whole.from_numpy = from_numpy
        mode.is_on = False
        modes = whole.overrides._get_current_function_mode_stack()
        # The script may be inside a context of its own by now: then ours stays below it and does nothing.
        if modes and modes[-1] is mode:
            mode.__exit__(None, None, None)

    return leave


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", ""))


def _is_float64(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and bool(value.dtype == torch.float64)


def _float64(*values: Any) -> Iterator[Any]:
    """The float64 tensors among the items of `values`, and in the lists and tuples among them."""
    for items in values:
        for item in items:
            if isinstance(item, (list, tuple)):
                yield from (one for one in item if _is_float64(one))
            elif _is_float64(item):
                yield item


def _has_float64(*values: Any) -> bool:
    return next(_float64(*values), None) is not None


def _is_in_place(name: str, kwargs: Row) -> bool:
    ends = name.endswith("_") and not name.endswith("__")
    return ends or name in IN_PLACE_OPERATORS or kwargs.get("out") is not None


def _is_asked(name: str, args: Any, kwargs: Row) -> bool:
    """Whether the call names float64. `dtype=float` does not: who writes it means float32 as often as not."""
    import torch

    values = (*args, *kwargs.values())
    return name == "double" or any(v is torch.float64 or (isinstance(v, str) and v in NAMES) for v in values)


def _is_of_the_user() -> bool:
    """Whether a user's line called torch, and no library in between."""
    import torch

    return bool(call_sites.caller(skip=(os.path.dirname(torch.__file__) + os.sep,))["is_user"])


def _copies_a_batch() -> bool:
    """Whether a kept batch is being copied, which is given in place of the loader's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not call_sites.is_user(frame.f_code.co_filename):
        if frame.f_code.co_filename == batch_copies.__file__:
            return True
        frame = frame.f_back
    return False


def _is_wanted(session: ProbeSession) -> bool:
    import torch

    if torch.get_default_dtype() is torch.float64 or any(map(_names_it, _user_files())):
        return True
    modules = [row["object"]() for row in session.models]
    return any(_is_mostly_float64(module) for module in modules if module is not None)


def _is_mostly_float64(module: Any) -> bool:
    sizes = [(tensor.numel(), _is_float64(tensor)) for tensor in module.parameters()]
    return bool(2 * sum(size for size, is_float64 in sizes if is_float64) > sum(size for size, _ in sizes))


def _user_files() -> list[str]:
    """Of the modules that are imported; torch has some whose file is a bare name."""
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    written = (file for file in files if file.endswith(".py") and os.path.isabs(file))
    return sorted(filter(call_sites.is_user, written))


def _names_it(file: str) -> bool:
    """Whether the code of a file says float64; its comments do not count. One that cannot be read may."""
    try:
        with tokenize.open(file) as source:
            text = source.read(MOST_FILE_BYTES)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (OSError, SyntaxError, ValueError, tokenize.TokenError):
        return True
    return any(
        (token.type == tokenize.NAME and token.string in NAMES)
        or (token.type == tokenize.STRING and token.string.strip("rRbBuU'\"") in NAMES)
        for token in tokens
    )
