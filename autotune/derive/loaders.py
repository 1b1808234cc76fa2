"""Which DataLoader is which: a rebuilt loader belongs to the one it wraps, and one or several feed training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.derive import recreated_loaders
from autotune.derive.timeline import EventNode
from autotune.model.recording import Json

TRAIN = "loader#train"
USUAL = 0.8
"""What happens in this share of the steps belongs to a step; the last of an epoch may lack it."""

FEWEST_STEPS = 3
"""Under this nothing is a habit."""

GRAD = 1
"""In the flag of a forward; in that of a mode it is training mode."""


class LoaderSubject(Struct, frozen=True):
    """One subject. `own` is the user's DataLoader, `timed` the one that was iterated (own, or what wraps it).

    One that is made anew in each epoch is one subject: `iterated` are all that were, `timed` the most of them. `ids`
    are all; `fetched` batches came, `trained` of them were the last before a backward. `joins`: it gives batches in
    each step beside the train loader, e.g. to a teacher or for a second part of the loss.
    """

    subject: str
    own: Json
    timed: Json
    iterated: frozenset[int]
    ids: frozenset[int]
    fetched: int
    trained: int
    joins: bool

    @property
    def is_train(self) -> bool:
        return self.subject == TRAIN

    @property
    def feeds_training(self) -> bool:
        """Whether its batches are trained on, as loader#train or beside it.

        More than half, not any: a library that fetches one batch ahead has fetched the train batch before the
        evaluation, and then the last batch before the next backward is the evaluation's.
        """
        return self.is_train or self.joins or self.trained * 2 > self.fetched

    @property
    def num_workers(self) -> int | None:
        value = self.own["arguments"].get("num_workers")
        return None if value is None else int(value)


def group(loaders: Sequence[Json], nodes: Sequence[EventNode]) -> tuple[LoaderSubject, ...]:
    """One Loader per user's DataLoader, by id; the one that most often feeds a backward is train."""
    fetches = Counter(node.event.ref for node in nodes if _came(node))
    inner = root_of(loaders, fetches)
    by_id = {loader["id"]: loader for loader in loaders}
    first = recreated_loaders.first_of([by_id[root] for root in sorted(set(inner.values()))], inner, nodes)
    roots = {i: first[root] for i, root in inner.items()}
    trained = feeds_training(nodes, roots)
    train = max(trained, key=lambda root: trained[root], default=None)
    joined = merged_loaders(nodes, roots)
    return tuple(
        LoaderSubject(
            subject=TRAIN if root == train else f"loader#{root}",
            own=by_id[root],
            timed=by_id[_most_fetched(_ids(roots, root), fetches)],
            iterated=frozenset(_most_fetched(_ids(inner, one), fetches) for one in first if first[one] == root),
            ids=_ids(roots, root),
            fetched=sum(max(fetches[i] for i in _ids(inner, one)) for one in first if first[one] == root),
            trained=trained[root],
            joins=root in joined,
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


def _most_fetched(ids: frozenset[int], fetches: Mapping[int, int]) -> int:
    return max(ids, key=lambda i: (fetches.get(i, 0), i))


def _came(node: EventNode) -> bool:
    return node.event.kind == "fetch" and node.event.flag == 1 and not node.inside("fetch")


def feeds_training(nodes: Sequence[EventNode], roots: Mapping[int, int]) -> Counter[int]:
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


def merged_loaders(nodes: Sequence[EventNode], roots: Mapping[int, int]) -> frozenset[int]:
    """Root loaders that give a batch in nearly every step, to something else than an evaluation.

    An evaluation runs the trained model itself in eval mode without gradients, so that a script which evaluates
    after every step does not train on what it evaluates. Other steps than those with a fetch do not count: of
    two optimizers that share a batch one has none.
    """
    steps = [used for used in _used(nodes, roots) if used]
    if len(steps) < FEWEST_STEPS:
        return frozenset()
    counts = Counter(root for used in steps for root, is_trained in used.items() if is_trained)
    return frozenset(root for root, count in counts.items() if count >= USUAL * len(steps))


def _used(nodes: Sequence[EventNode], roots: Mapping[int, int]) -> Iterator[dict[int, bool]]:
    """Of each step, the root loaders that gave a batch, and whether none of it went into an evaluation."""
    models = {node.event.ref for node in nodes if node.event.kind == "forward" and node.event.flag & GRAD}
    used: dict[int, bool] = {}
    latest: int | None = None
    for node in nodes:
        if node.event.kind == "optimizer" and node.outermost:
            yield used
            used, latest = {}, None
        elif _came(node):
            latest = roots.get(node.event.ref)
            if latest is not None:
                used.setdefault(latest, not node.inside("evaluation"))
        elif node.event.kind == "forward" and latest is not None and node.event.ref in models:
            used[latest] = used[latest] and node.event.flag != 0
