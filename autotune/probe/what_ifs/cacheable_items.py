"""Whether a script's own dataset gives the same sample whenever it is asked for it, and what a sample costs then."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping

from .. import call_sites, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..shapes import Row

LONG_NS = 1_000_000_000
ITEMS, READS = 8, 3
"""So many samples, each so many times: fewer may agree by chance where a flip of a coin changes them."""


def items(loader: Any) -> Row:
    """Samples of the next batches, read again: {"is_own", "are_same", "batch_size", "item_ns", "item_cpu_ns"}.

    The times are those of the last reads: what a dataset keeps once it was read costs nothing any more. Of a library's
    dataset, or one whose samples cannot be named one by one, nothing is read, and only `is_own` is told. Nothing at all
    of few samples, and of a dataset that knows its epoch: it may change with that.
    """
    dataset = loader.dataset
    if loader.batch_sampler is None or not _is_own(dataset):
        return {"is_own": False}
    batches = [list(keys) for keys in itertools.islice(loader.batch_sampler, ITEMS)]
    keys = [key for batch in batches for key in batch][:ITEMS]
    if len(keys) < ITEMS or any(hasattr(_root(dataset), name) for name in ("set_epoch", "epoch")):
        return {}
    first, same = [dataset[key] for key in keys], True
    wall: list[int] = []
    cpu: list[int] = []
    for _ in range(READS - 1):
        wall, cpu = [], []
        for key, before in zip(keys, first):
            began, cpu_began = clock.now(), clock.thread_cpu()
            again = dataset[key]
            cpu.append(clock.thread_cpu() - cpu_began)
            wall.append(clock.now() - began)
            same = same and _is_same(before, again)
    size = len(batches[0])
    return {"is_own": True, "are_same": same, "batch_size": size, "item_ns": wall, "item_cpu_ns": cpu}


def are_same_batches(loader: Any) -> bool | None:
    """Whether a loader gives the same batch whenever it is asked for the same samples; None where that is not known.

    Not asked is a dataset that takes long, knows its epoch, or whose samples cannot be named one by one.
    """
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    if loader is None or loader.batch_sampler is None:
        return None
    if any(hasattr(_root(loader.dataset), name) for name in ("set_epoch", "epoch")):
        return None
    fetch: Callable[[Any], Any] = _MapDatasetFetcher(loader.dataset, True, loader.collate_fn, False).fetch
    began = clock.now()
    try:
        keys: list[Any] = next(iter(loader.batch_sampler), [])[:ITEMS]
        first = fetch(keys)
        if clock.now() - began > LONG_NS:
            return None
        return all(_is_same(first, fetch(keys)) for _ in range(READS - 1))
    except Exception:  # e.g. a sampler that gives its indices once
        return None


def _root(dataset: Any) -> Any:
    """What a Subset is of."""
    while type(dataset).__module__.startswith("torch.utils.data") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return dataset


def _is_own(dataset: Any) -> bool:
    """Whether the user's own code makes the samples."""
    function = getattr(type(_root(dataset)), "__getitem__", None)
    code = getattr(function, "__code__", None)
    return code is not None and call_sites.is_user(code.co_filename)


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if isinstance(one, torch.Tensor):
        return one.shape == other.shape and bool(torch.equal(one, other))
    if numpy is not None and isinstance(one, numpy.ndarray):
        return bool(numpy.array_equal(one, other))
    if isinstance(one, Mapping):  # also transformers' BatchEncoding
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    try:
        return bool(one == other)
    except Exception:  # e.g. a table, which compares cell by cell: not known to be the same
        return False
