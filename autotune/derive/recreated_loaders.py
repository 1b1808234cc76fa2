"""Loaders that a script makes anew in each epoch, at the same line: they are one and the same to its user."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from autotune.derive.timeline import EventNode
from autotune.model.recording import Json


class _Chain(Struct):
    """Loaders of which each was first used after the one before was used last; `end_ns` is that of the latest."""

    first: int
    end_ns: float


def first_of(loaders: Sequence[Json], roots: Mapping[int, int], nodes: Sequence[EventNode]) -> Mapping[int, int]:
    """Each loader's id -> the id of the first that it follows; its own where it is that, or where several could be.

    `loaders` are in the order in which they were made; `roots` gives whose each iterated one is. One follows another
    that was used before it was made, and not after.
    """
    spans = _spans(roots, nodes)
    chains: dict[str, list[_Chain]] = {}
    result = {}
    for loader in loaders:
        begin, end = spans.get(loader["id"], (math.inf, -math.inf))
        alike = chains.setdefault(_kind(loader), [])
        made = min(begin, loader.get("made_ns", -math.inf))
        before = [chain for chain in alike if -math.inf < chain.end_ns <= made]
        chain = before[0] if len(before) == 1 else _Chain(loader["id"], end)
        if len(before) != 1:
            alike.append(chain)
        chain.end_ns = max(chain.end_ns, end)
        result[loader["id"]] = chain.first
    return result


def _spans(roots: Mapping[int, int], nodes: Sequence[EventNode]) -> dict[int, tuple[float, float]]:
    """From the first to the last use of each."""
    spans: dict[int, tuple[float, float]] = {}
    for node in nodes:
        if node.event.kind in ("iter", "fetch") and node.event.ref in roots:
            root = roots[node.event.ref]
            begin, end = spans.get(root, (math.inf, -math.inf))
            spans[root] = min(begin, node.start_ns), max(end, node.end_ns)
    return spans


def _kind(loader: Json) -> str:
    """What makes two of them the same: the line, the arguments, and the data as far as they are described."""
    return json.dumps([loader.get(name) for name in ("site", "arguments", "dataset", "sampler")], sort_keys=True)
