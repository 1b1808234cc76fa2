"""Which DataLoader is which: a rebuilt loader belongs to the one it wraps, and one of them feeds training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.derive.timeline import Node
from autotune.model.recording import Json

TRAIN = "loader#train"


@dataclass(frozen=True, slots=True)
class Loader:
    """One subject. `own` is the user's DataLoader, `timed` the one that was iterated (own, or what wraps it).

    `ids` are all of them; `fetched` batches came, `trained` of them were the last before a backward.
    """

    subject: str
    own: Json
    timed: Json
    ids: frozenset[int]
    fetched: int
    trained: int

    @property
    def is_train(self) -> bool:
        return self.subject == TRAIN

    @property
    def num_workers(self) -> int | None:
        value = self.own["arguments"].get("num_workers")
        return None if value is None else int(value)


def group(loaders: Sequence[Json], nodes: Sequence[Node]) -> tuple[Loader, ...]:
    """One Loader per user's DataLoader, by id; the one that most often feeds a backward is train."""
    fetches = Counter(node.event.ref for node in nodes if _came(node))
    roots = root_of(loaders, fetches)
    by_id = {loader["id"]: loader for loader in loaders}
    trained = fed(nodes, roots)
    train = max(trained, key=lambda root: trained[root], default=None)
    return tuple(
        Loader(
            subject=TRAIN if root == train else f"loader#{root}",
            own=by_id[root],
            timed=by_id[max(_ids(roots, root), key=lambda i: (fetches[i], i))],
            ids=_ids(roots, root),
            fetched=max(fetches[i] for i in _ids(roots, root)),
            trained=trained[root],
        )
        for root in sorted(set(roots.values()))
    )


def root_of(loaders: Sequence[Json], fetches: Mapping[int, int]) -> Mapping[int, int]:
    """Each loader's id -> the id of the innermost loader that it wraps.

    A loader that gave batches itself is nobody's inside: two loaders over one dataset are two subjects.
    """
    wraps = {loader["id"]: loader.get("wraps") for loader in loaders}
    inner = {i: None if wrapped is None or fetches.get(wrapped) else wrapped for i, wrapped in wraps.items()}
    return {start: _root(start, inner) for start in inner}


def _root(start: int, wraps: Mapping[int, int | None]) -> int:
    seen = {start}
    inner = wraps[start]
    while inner is not None and inner in wraps and inner not in seen:
        start = inner
        seen.add(inner)
        inner = wraps[inner]
    return start


def _ids(roots: Mapping[int, int], root: int) -> frozenset[int]:
    return frozenset(loader for loader, owner in roots.items() if owner == root)


def _came(node: Node) -> bool:
    return node.event.kind == "fetch" and node.event.flag == 1 and not node.inside("fetch")


def fed(nodes: Sequence[Node], roots: Mapping[int, int]) -> Counter[int]:
    """By root loader: batches that were the last fetched before a backward."""
    counts: Counter[int] = Counter()
    latest: int | None = None
    for node in nodes:
        if _came(node):
            latest = roots.get(node.event.ref)
        elif node.event.kind == "backward" and latest is not None:
            counts[latest] += 1
            latest = None
    return counts
