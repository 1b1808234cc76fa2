"""Exclusive times: events nest, and what an event does not hand to a nested one is its own.

The parts of a window sum to its wall time exactly (integer nanoseconds), because every instant belongs to the
innermost event that covers it, or to "other".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.model.recording import Event

PHASE_OF: Mapping[str, str] = {
    "iter": "data_wait",
    "fetch": "data_wait",
    "h2d": "h2d",
    "forward": "forward",
    "recompute": "recompute",
    "backward": "backward",
    "optimizer": "optimizer",
    "closure": "other",
    "collective": "communication",
    "checkpoint": "checkpoint",
    "evaluation": "evaluation",
    "logging": "logging",
}
"""The kinds that have a phase; any other kind (sync, gc ...) stays in the phase of what encloses it."""

Span = tuple[int, int]


class EventNode(Struct, frozen=True, eq=False):
    """An event in the tree. `end_ns` is cut at the parent's end; `phase` is its own or the enclosing one's."""

    event: Event
    parent: EventNode | None
    end_ns: int
    phase: str

    @property
    def start_ns(self) -> int:
        return self.event.start_ns

    def inside(self, kind: str) -> bool:
        """Whether an enclosing event is of `kind`."""
        node = self.parent
        while node is not None and node.event.kind != kind:
            node = node.parent
        return node is not None

    @property
    def outermost(self) -> bool:
        """No enclosing event is of the same kind."""
        return not self.inside(self.event.kind)


class ExclusiveTimes(Struct, frozen=True):
    """`phase_ns`: exclusive time per phase that was seen, and "other"; `own_ns`: per node, in the order of
    the nodes.
    """

    phase_ns: Mapping[str, int]
    own_ns: tuple[int, ...]


def nest(events: Sequence[Event]) -> tuple[EventNode, ...]:
    """The events as a tree, ordered by start; of two that start together the longer encloses."""
    nodes: list[EventNode] = []
    top: EventNode | None = None
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        while top is not None and top.end_ns <= event.start_ns:
            top = top.parent
        node = EventNode(event, top, *_cut(event, top))
        nodes.append(node)
        top = node if node.end_ns > node.start_ns else top
    return tuple(nodes)


def moved(nodes: Sequence[EventNode], to: Callable[[int], int]) -> tuple[EventNode, ...]:
    """The nodes at other times; `to` keeps the order of times, and so the tree."""
    return tuple(
        replace(
            node,
            event=replace(node.event, start_ns=to(node.start_ns), end_ns=to(node.event.end_ns)),
            end_ns=to(node.end_ns),
        )
        for node in nodes
    )


def _cut(event: Event, parent: EventNode | None) -> tuple[int, str]:
    """End and phase of `event` below `parent`."""
    if parent is None:
        return max(event.start_ns, event.end_ns), PHASE_OF.get(event.kind, "other")
    end = max(event.start_ns, min(event.end_ns, parent.end_ns))
    return end, PHASE_OF.get(event.kind, parent.phase)


def split(nodes: Sequence[EventNode], window: Span, spans: Sequence[Span]) -> ExclusiveTimes:
    """Who owns each instant of `window`. Inside `spans` (disjoint, ordered) all is evaluation but saves.

    A phase is in the answer when one of its events lies in the window, even with 0 ns of its own.
    """
    own = [0] * len(nodes)
    phases = {"other": 0}
    for node in nodes:
        if node.end_ns > window[0] and node.start_ns < window[1]:
            phases.setdefault(node.phase, 0)
    for start, end, index in segments(nodes, window):
        saving = index >= 0 and _saves(nodes[index])
        evaluated = 0 if saving else overlap((start, end), spans)
        phase = nodes[index].phase if index >= 0 else "other"
        if evaluated:
            phases["evaluation"] = phases.get("evaluation", 0) + evaluated
        phases[phase] += end - start - evaluated
        if index >= 0:
            own[index] += end - start
    return ExclusiveTimes(phases, tuple(own))


def by_step(nodes: Sequence[EventNode], edges: Sequence[int], spans: Sequence[Span]) -> list[dict[str, int]]:
    """As `split`, between each two of `edges` (at least two, in order): nanoseconds of each phase that was seen."""
    rows: list[dict[str, int]] = [{} for _ in edges[1:]]
    place = 0
    for start, end, index in segments(nodes, (edges[0], edges[-1])):
        phase, saving = (nodes[index].phase, _saves(nodes[index])) if index >= 0 else ("other", False)
        while start < end:
            while edges[place + 1] <= start:
                place += 1
            until = min(end, edges[place + 1])
            evaluated = 0 if saving else overlap((start, until), spans)
            for name, took in (("evaluation", evaluated), (phase, until - start - evaluated)):
                if took:
                    rows[place][name] = rows[place].get(name, 0) + took
            start = until
    return rows


def _saves(node: EventNode) -> bool:
    return node.event.kind == "checkpoint" or node.inside("checkpoint")


def segments(nodes: Sequence[EventNode], window: Span) -> Iterator[tuple[int, int, int]]:
    """(start, end, index of the innermost node or -1), gapless over `window`."""
    now, last = window
    stack: list[int] = []
    for index, node in enumerate(nodes):
        while stack and nodes[stack[-1]].end_ns <= node.start_ns:
            now, done = _advance(now, min(nodes[stack[-1]].end_ns, last))
            yield from ((*span, stack[-1]) for span in done)
            stack.pop()
        now, done = _advance(now, min(node.start_ns, last))
        yield from ((*span, stack[-1] if stack else -1) for span in done)
        stack.append(index)
    for index in reversed(stack):
        now, done = _advance(now, min(nodes[index].end_ns, last))
        yield from ((*span, index) for span in done)
    yield from ((*span, -1) for span in _advance(now, last)[1])


def _advance(now: int, to: int) -> tuple[int, tuple[Span, ...]]:
    return (to, ((now, to),)) if to > now else (now, ())


def overlap(span: Span, spans: Sequence[Span]) -> int:
    """Nanoseconds of `span` that lie in the disjoint `spans`."""
    return sum(max(0, min(span[1], end) - max(span[0], start)) for start, end in spans)
