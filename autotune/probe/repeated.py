"""Whether a script's own dataset gives the same sample whenever it is asked for it, and what a sample costs then."""

from __future__ import annotations

import sys

from . import clock, sites

ITEMS = 8


def items(loader) -> dict:
    """Some samples of the next batch, read twice: {"batch_size", "is_own", "are_same", "item_ns", "item_cpu_ns"}.

    The times are those of the second reads: what a dataset keeps once it was read costs nothing any more. Of a
    library's dataset, or one whose samples cannot be named one by one, nothing is read, and only `is_own` is told.
    """
    dataset = loader.dataset
    if loader.batch_sampler is None or not _is_own(dataset):
        return {"is_own": False}
    keys = list(next(iter(loader.batch_sampler)))
    first = [dataset[key] for key in keys[:ITEMS]]
    again, wall, cpu = [], [], []
    for key in keys[:ITEMS]:
        began, cpu_began = clock.now(), clock.thread_cpu()
        again.append(dataset[key])
        cpu.append(clock.thread_cpu() - cpu_began)
        wall.append(clock.now() - began)
    same = all(map(_is_same, first, again))
    return {"batch_size": len(keys), "is_own": True, "are_same": same, "item_ns": wall, "item_cpu_ns": cpu}


def _is_own(dataset) -> bool:
    """Whether the user's own code makes the samples, also behind a Subset."""
    while type(dataset).__module__.startswith("torch.utils.data") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    function = getattr(type(dataset), "__getitem__", None)
    return hasattr(function, "__code__") and sites.is_user(function.__code__.co_filename)


def _is_same(one, other) -> bool:
    if type(one) is not type(other):
        return False
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if isinstance(one, torch.Tensor):
        return one.shape == other.shape and bool(torch.equal(one, other))
    if numpy is not None and isinstance(one, numpy.ndarray):
        return bool(numpy.array_equal(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
