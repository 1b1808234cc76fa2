"""What a step would allocate: a dispatch mode that notes when each storage is made and when it goes.

It also counts the work of every operator, and gives made-up values where the script reads a tensor that has none.
"""

from __future__ import annotations

import weakref
from functools import partial

from .. import call_sites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from ..recorder import Recorder
    from ..shapes import Row

FORWARD, UPDATE = "forward and backward", "optimizer"

MOST_WORK = 4096
"""Kinds of work (operations, bytes, type) that are told apart."""


class LiveStorages:
    """The storages that are live, by keys of their own, and the changes since `start_step`.

    `parameters` are the keys of the model's own, `casts` those of their copies in another type, which autocast makes.
    """

    def __init__(self, recorder: Recorder) -> None:
        from torch._subclasses import fake_tensor
        from torch.utils.flop_counter import flop_registry

        self._recorder = recorder
        self._fake = fake_tensor.FakeTensor
        self._without_data = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
        self._formulas = flop_registry
        self._keys: dict[int, int] = {}
        self._weak: dict[int, Any] = {}
        self._next = 0
        self.parameters: set[int] = set()
        self.casts: set[int] = set()
        self.sizes: dict[int, int] = {}
        self.live_at_start: dict[int, int] = {}
        self.changes: list[tuple[int, int]] = []
        self.phases: list[str] = []
        self.work: dict[tuple[int, int, str], int] = {}
        self.made_up: dict[tuple[str, str, int], str] = {}
        self.breaks: list[Row] = []

    def start_step(self) -> None:
        """What happens from here on is one step."""
        self.live_at_start = dict(self.sizes)
        self.changes.clear()
        self.phases.clear()
        self.work.clear()

    def count_as_earlier(self, keys: Collection[int]) -> None:
        """What was made in this step under `keys`, and is live, counts as live before it."""
        late = {key: self.sizes[key] for key in keys if key in self.sizes and key not in self.live_at_start}
        self.live_at_start.update(late)
        kept = [index for index, (key, _) in enumerate(self.changes) if key not in late]
        self.changes = [self.changes[index] for index in kept]
        self.phases = [self.phases[index] for index in kept]

    def note(self, tensor: Any) -> int:
        """The key of the tensor's storage, which is live from now on until it goes."""
        storage = tensor.untyped_storage()
        pointer = storage._cdata
        key = self._keys.get(pointer)
        if key is not None:
            return key
        self._next += 1
        key = self._keys[pointer] = self._next
        self._change(key, storage.nbytes())
        self._weak[key] = weakref.ref(storage, partial(self._gone, key, pointer))
        return key

    def temporary(self, num_bytes: int) -> None:
        """An operator takes this for itself while it runs."""
        self._next += 1
        self._change(self._next, num_bytes)
        self._change(self._next, 0)

    def _change(self, key: int, size: int) -> None:
        if size:
            self.sizes[key] = size
        elif self.sizes.pop(key, None) is None:
            return
        self.changes.append((key, size))
        self.phases.append(UPDATE if "optimizer" in self._recorder.stack else FORWARD)

    def _gone(self, key: int, pointer: int, _: object) -> None:
        self._keys.pop(pointer, None)
        self._weak.pop(key, None)
        self._change(key, 0)

    def mode(self) -> Any:
        """The dispatch mode that hands every operator to `dispatch`."""
        from torch.utils._python_dispatch import TorchDispatchMode

        dispatch = self.dispatch

        class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return dispatch(func, args, kwargs or {})

        return Mode()  # type: ignore[no-untyped-call]

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What `func` gives, noted."""
        tensors = _tensors((*args, *kwargs.values()))
        is_on_device = any(isinstance(each, self._fake) for each in tensors)
        if is_on_device:
            for each in tensors:
                self.note(each)  # what came from the host: batches
        try:
            made = func(*args, **kwargs)
        except self._without_data as error:
            made = self._made_up(func, args, error)
        except Exception as error:
            self.breaks.append(self._row(func, type(error).__name__))
            raise
        results = _tensors(made if isinstance(made, (list, tuple)) else (made,))
        new = [each for each in results if each.untyped_storage()._cdata not in self._keys]
        extra = _OWN_BYTES.get(func._schema.name) if is_on_device else None
        if extra is not None:
            self.temporary(extra(args))
        for each in new:
            self.note(each)
        is_cast = func._schema.name == "aten::_to_copy" and bool(new) and new[0].dtype != tensors[0].dtype
        if is_cast and self._keys.get(tensors[0].untyped_storage()._cdata) in self.parameters:
            self.casts.add(self.note(new[0]))
        if new or func._schema.is_mutable:
            self._count(func, args, kwargs, made, tensors, new)
        return made

    def _count(self, func: Any, args: Any, kwargs: Any, made: Any, tensors: list[Any], new: list[Any]) -> None:
        """The operations and the bytes that an operator reads and writes; views do no work."""
        formula = self._formulas.get(getattr(func, "_overloadpacket", None))
        operations = 0
        if formula is not None:
            try:
                operations = int(formula(*args, **kwargs, out_val=made))
            except Exception:  # a formula of torch that does not know these arguments: the bytes still count
                operations = 0
        changed = [each for each in tensors if func._schema.is_mutable]
        num_bytes = sum(each.numel() * each.element_size() for each in (*tensors, *new, *changed[:1]))
        kind = str(tensors[0].dtype).replace("torch.", "") if tensors else "float32"
        key = (operations, num_bytes, kind)
        if key in self.work or len(self.work) < MOST_WORK:
            self.work[key] = self.work.get(key, 0) + 1

    def _made_up(self, func: Any, args: Any, error: Exception) -> Any:
        """A value for what only the data can say; raises `error` where there is none.

        Masks pick every element, which takes the most memory. Numbers are 1: a size that depends on one may be larger.
        """
        import torch

        name = func._schema.name
        tensor = next((each for each in args if isinstance(each, torch.Tensor)), None)
        if tensor is None or name not in _MADE_UP:
            self.breaks.append(self._row(func, type(error).__name__))
            raise error
        site = call_sites.user_caller()
        value, words = _MADE_UP[name](tensor, args)
        self.made_up.setdefault((site["file"], name, site["line"]), words)
        return value

    def _row(self, func: Any, reason: str) -> Row:
        return {"operator": func._schema.name, "reason": reason, "site": call_sites.user_caller()}


def _tensors(values: Any) -> list[Any]:
    """The tensors among the arguments or results of an operator: also in its lists, which hold nothing deeper."""
    import torch

    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found += [each for each in value if isinstance(each, torch.Tensor)]
    return found


def _number(tensor: Any, args: Any) -> tuple[Any, str]:
    """Not the largest value: a whole number may be the size of what the script makes next (autotune/fit/fit.py)."""
    import torch

    if tensor.dtype == torch.bool:
        return False, "False"
    return (1.0, "1.0") if tensor.is_floating_point() else (1, "1")


def _places(tensor: Any, args: Any) -> tuple[Any, str]:
    import torch

    return tensor.new_empty((tensor.numel(), tensor.dim()), dtype=torch.int64), "every element"


def _elements(tensor: Any, args: Any) -> tuple[Any, str]:
    return tensor.new_empty((tensor.numel(),)), "every element"


def _picked(tensor: Any, args: Any) -> tuple[Any, str]:
    """A mask picks every element that it is about."""
    import torch

    indices: list[Any] = []
    for index in args[1]:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            indices.append(index)
        else:
            indices += [index.new_empty((index.numel(),), dtype=torch.int64) for _ in range(index.dim())]
    return torch.ops.aten.index.Tensor(tensor, indices), "every element"


def _false(tensor: Any, args: Any) -> tuple[Any, str]:
    return False, "False"


_MADE_UP = {
    "aten::_local_scalar_dense": _number,
    "aten::item": _number,  # in inference mode composite operators come whole
    "aten::is_nonzero": _false,
    "aten::equal": _false,
    "aten::nonzero": _places,
    "aten::masked_select": _elements,
    "aten::index": _picked,
}
"""By operator: what it gives, in place of what the data would say, and in words."""


def _flash_backward(args: Any) -> int:
    """Flash and memory-efficient attention sum the gradient of the queries in fp32, in memory of their own."""
    query = args[1]
    return int(query.numel()) * 4 if query.element_size() < 4 else 0


_OWN_BYTES = {"aten::_scaled_dot_product_flash_attention_for_cpu_backward": _flash_backward}
"""By operator: bytes that CUDA's takes beside its results."""
