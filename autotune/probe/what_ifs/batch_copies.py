"""Copies of batches: containers of tensors, whatever the script's collate function made of them."""

from __future__ import annotations

import copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "element_size") and hasattr(value, "clone")


def _mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """`value` with `leaf` applied to everything that is no container; containers are rebuilt."""
    if _is_tensor(value):
        return leaf(value)
    if isinstance(value, tuple):
        items = [_mapped(item, leaf) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return [_mapped(item, leaf) for item in value]
    if hasattr(value, "items") and hasattr(value, "__setitem__"):
        other = copy.copy(value)  # keeps the class, e.g. BatchEncoding
        if hasattr(other, "data") and isinstance(getattr(other, "data", None), dict):
            other.data = dict(other.data)
        for key, item in list(value.items()):
            other[key] = _mapped(item, leaf)
        return other
    return leaf(value)


def shallow(batch: Any) -> Any:
    """The same tensors in new containers: a script that pops keys from its batch leaves this one whole."""
    return _mapped(batch, lambda leaf: leaf)


def cloned(batch: Any) -> Any:
    """New containers and new tensors; what lay in pinned memory does so again, or its copy to the device would wait."""
    return _mapped(batch, lambda leaf: _cloned_tensor(leaf) if _is_tensor(leaf) else copy.copy(leaf))


def _cloned_tensor(tensor: Any) -> Any:
    return tensor.clone().pin_memory() if tensor.is_pinned() else tensor.clone()


def half(width: int) -> int:
    """The width of a batch that is cut to half of it."""
    return max(1, width // 2)


def narrowed(batch: Any, width: int) -> Any:
    """A copy without the second half of what is `width` wide in its second dimension."""

    def leaf(item: Any) -> Any:
        is_wide = _is_tensor(item) and item.dim() >= 2 and item.shape[1] == width
        return item[:, : half(width)].clone() if is_wide else item

    return _mapped(cloned(batch), leaf)


def resized(batch: Any, factor: float) -> Any:
    """A batch of `factor` times the samples: the first half (0.5), or every sample so many times (2, 4).

    Raises ValueError when the first dimension of its tensors is not the number of samples, or one is to be halved.
    """
    size = _num_samples(batch)
    if size * factor < 1:
        raise ValueError("a batch of one sample cannot be halved")
    return with_samples(batch, size, int(size * factor))


def with_samples(batch: Any, size: int, count: int) -> Any:
    """A batch of `count` samples, made of one of `size`: its samples in turns. What is not of its samples stays."""
    return _resized_item(batch, size, count)


def with_length(batch: Any, width: int, length: int) -> Any:
    """A batch whose sequences are `length` long: what is `width` wide in its second dimension, cut or repeated."""

    def leaf(item: Any) -> Any:
        if not _is_tensor(item) or item.dim() < 2 or item.shape[1] != width:
            return item
        return item.repeat(1, -(-length // width), *[1] * (item.dim() - 2))[:, :length].clone()

    return _mapped(batch, leaf)


def _num_samples(batch: Any) -> int:
    sizes = set()
    _mapped(batch, lambda leaf: sizes.add(int(leaf.shape[0])) if _is_tensor(leaf) and leaf.dim() else None)
    if len(sizes) != 1:
        raise ValueError("the tensors of a batch differ in their first dimension")
    return sizes.pop()


def _resized_item(value: Any, size: int, count: int) -> Any:
    times = -(-count // size)
    if isinstance(value, list) and len(value) == size and not any(_is_tensor(item) for item in value):
        return (value * times)[:count]

    def leaf(item: Any) -> Any:
        if not _is_tensor(item) or not item.dim() or item.shape[0] != size:
            return item
        if count < size:
            return item[:count].clone()
        repeated = item.repeat(times, *[1] * (item.dim() - 1))
        return repeated if count == times * size else repeated[:count].clone()

    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([_resized_item(item, size, count) for item in value])
    if hasattr(value, "items"):
        other = shallow(value)
        for key, item in list(other.items()):
            other[key] = _resized_item(item, size, count)
        return other
    return _mapped(value, leaf)
