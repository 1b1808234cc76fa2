"""DataLoader: what was asked for, and how long the training loop waits."""

from __future__ import annotations

import functools
import os
import sys
import weakref

from .. import call_sites, clock
from . import batches
from .fetches import WORKER_OF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..session import ProbeSession
    from ..shapes import Function, Row

ARGUMENTS = ("num_workers", "batch_size", "prefetch_factor", "pin_memory", "persistent_workers", "drop_last")


def install(session: ProbeSession) -> None:
    """Record constructions, iterations and waits in the training process."""
    from torch.utils.data import dataloader

    loader, iterator = dataloader.DataLoader, dataloader._BaseDataLoaderIter
    session.patches.set(loader, "__init__", _recorded_init(session, loader.__init__))
    session.patches.set(loader, "__iter__", _timed_iter(session, loader.__iter__))
    session.patches.set(iterator, "__next__", _timed_next(session, iterator.__next__))


def _recorded_init(session: ProbeSession, init: Function) -> Function:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if session.recorder.on and os.getpid() == session.recorder.pid:
            try:
                _register(session, self, kwargs)
            except Exception as error:  # an odd dataset or sampler: this loader stays unknown, the script goes on
                sys.stderr.write(f"autotune: a DataLoader is not measured: {type(error).__name__}: {error}\n")

    return __init__


def _register(session: ProbeSession, loader: Any, given: dict[str, Any]) -> None:
    dataset = loader.dataset
    site = call_sites.caller(skip=("torch/utils/data", *session.request["loader_files"]))
    row: Row = {
        "id": len(session.loaders),
        "made_ns": clock.now() - session.recorder.origin,
        "site": site,
        "arguments": {name: getattr(loader, name, None) for name in ARGUMENTS},
        "given": sorted(given),
        "dataset": _describe_dataset(dataset),
        "sampler": type(getattr(loader, "sampler", None)).__name__,
        "num_batches": None,
        "wraps": _wrapped(session, loader, site["is_user"]),
        "pad_id": None,
        "max_length": None,
        "path": _path(dataset),
        "has_own_collate": _is_own(loader.collate_fn),
        "object": weakref.ref(loader),
        "dataset_id": id(dataset),
    }
    context = getattr(loader, "multiprocessing_context", None)
    method = getattr(context, "get_start_method", None)
    row["arguments"]["multiprocessing_context"] = method() if method else None
    session.loaders.append(row)
    loader._autotune_id = row["id"]


def _is_own(collate: Any) -> bool:
    """Whether a collate function is the user's own; one that a library wraps (a partial, RemoveColumnsCollator) is."""
    inner = getattr(collate, "func", None) or getattr(collate, "data_collator", None)
    while inner is not None:
        collate, inner = inner, getattr(inner, "func", None) or getattr(inner, "data_collator", None)
    module = sys.modules.get(getattr(collate, "__module__", None) or "")
    return call_sites.is_user(getattr(module, "__file__", None) or "")


def _describe_dataset(dataset: Any) -> Row:
    from torch.utils.data import IterableDataset

    map_style = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
    try:
        length = len(dataset)
    except Exception:  # a dataset without a length, or whose length fails: unknown
        length = None
    kind = type(dataset)
    row = {"type": kind.__name__, "module": kind.__module__, "length": length, "map_style": map_style}
    return {**row, "gives": gives} if (gives := _gives(dataset)) else row


def _gives(dataset: Any) -> str:
    """The format in which one of `datasets` gives its samples, "python" for none; "" of any other."""
    if not type(dataset).__module__.startswith("datasets."):
        return ""
    form, features = getattr(dataset, "format", None), getattr(dataset, "features", None)
    if not isinstance(form, dict) or not isinstance(features, dict):
        return ""
    has_arrays = any(map(_has_numbers, features.values()))
    return str(form.get("type") or ("python" if has_arrays else ""))


def _has_numbers(feature: Any) -> bool:
    """Whether a feature of `datasets` is an array or a list of numbers: texts and images are none."""
    if type(feature).__name__.startswith("Array"):
        return True
    inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    while inner is not None and not hasattr(inner, "dtype"):
        inner = inner[0] if isinstance(inner, list) and inner else getattr(inner, "feature", None)
    return str(getattr(inner, "dtype", "")).startswith(("int", "uint", "float"))


def _path(dataset: Any) -> str | None:
    """A file or folder that the dataset reads: of `datasets` its cache file, of others what they call their root."""
    files = getattr(dataset, "cache_files", None)
    if isinstance(files, list) and files and isinstance(files[0], dict):
        return files[0].get("filename")
    for name in ("root", "data_dir", "path", "folder", "filename"):
        value = getattr(dataset, name, None)
        if isinstance(value, (str, os.PathLike)) and os.path.exists(value):
            return os.path.abspath(value)
    return None


def _wrapped(session: ProbeSession, loader: Any, by_user: bool) -> int | None:
    """The loader that this one was rebuilt from: an earlier one over the same dataset, as accelerate does.

    It shares its sampler, or else a library made this one: users make several over one dataset.
    """
    rows = [row for row in session.loaders if row["dataset_id"] == id(loader.dataset) and row["object"]() is not None]
    sharing = [row for row in rows if _share_sampler(row["object"](), loader)]
    found = (sharing or ([] if by_user else rows))[-1:]
    return next((row["id"] if row["wraps"] is None else row["wraps"] for row in found), None)


def _share_sampler(one: Any, other: Any) -> bool:
    """Whether two loaders draw from one object."""
    return any(
        getattr(one, name, None) is not None and getattr(one, name) is getattr(other, name, None)
        for name in ("batch_sampler", "sampler")
    )


def _timed_iter(session: ProbeSession, make: Function) -> Function:
    def starting(loader: Any) -> Any:
        recorder = session.recorder
        start = recorder.enter("iter")
        try:
            return make(loader)
        finally:
            recorder.leave("iter", start, getattr(loader, "_autotune_id", -1))

    @functools.wraps(make)
    def __iter__(self: Any) -> Any:
        recorder = session.recorder
        ref = getattr(self, "_autotune_id", -1)
        # Workers of every start method learn from the environment that they are workers, and whose; also those of the
        # probe's own loaders, beside which nothing is recorded.
        os.environ[WORKER_OF] = f"{recorder.pid}:{ref}"
        try:
            iterator = starting(self) if recorder.is_mine() else make(self)
        finally:
            os.environ.pop(WORKER_OF, None)
        if not recorder.on:
            return iterator
        iterator._autotune_id = ref
        if getattr(self, "_iterator", None) is not iterator:
            # A loader made in the head of the loop would be gone before the what-ifs; one that keeps its iterator
            # (persistent workers) would be kept from dying.
            iterator._autotune_loader = self
        _note_length(session, self, ref)
        if ref >= 0:
            session.window.on_iterator(session.loaders[ref]["site"])
        return iterator

    return __iter__


def _note_length(session: ProbeSession, loader: Any, ref: int) -> None:
    if ref < 0 or session.loaders[ref]["num_batches"] is not None:
        return
    try:
        session.loaders[ref]["num_batches"] = len(loader)
    except Exception:  # an iterable dataset has no length, a sampler of the user's may raise anything
        session.loaders[ref]["num_batches"] = None


def _timed_next(session: ProbeSession, step: Function) -> Function:
    @functools.wraps(step)
    def __next__(self: Any) -> Any:
        recorder = session.recorder
        if not recorder.is_mine():
            return step(self)
        ref = getattr(self, "_autotune_id", -1)
        if session.plan.is_active:
            return session.plan.next_batch(ref, lambda: step(self))
        return _fetch(session, ref, lambda: step(self))

    return __next__


def _fetch(session: ProbeSession, ref: int, step: Callable[[], Any]) -> Any:
    """One wait of the training loop, and a look at the batch that came."""
    since, recorder = clock.now(), session.recorder
    recorder.loader = ref
    start = recorder.enter("fetch", since)
    came = 0
    try:
        batch = step()
        came = 1
    except StopIteration:
        raise
    except BaseException as error:
        recorder.failed("fetch", error)
        raise
    finally:
        recorder.leave("fetch", start, ref, came)
    since = clock.now()
    batches.note(session, ref, batch)
    recorder.own_since(since)
    return batch
