"""Evaluation spans: where the script evaluates, from the outside.

A span never holds a backward, so each is looked for between two of them. What counts:
- a library's own evaluation loop (an "evaluation" event);
- eval() .. train() of a root model that is also trained, with a forward without gradients between them;
- forwards without gradients on batches of a loader of their own (its batches do not feed a backward), for
  scripts that never call eval().
With gradients enabled it is an evaluation only on batches of a loader of its own. A teacher, a reference
model or a generator under no_grad inside a training step is none of these, whichever loader its batches come
from, nor is a model that trains in eval mode, nor what nearly every step does with its own batch, or every fifth one
without any loader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from autotune.derive.loaders import FEWEST_STEPS, GRAD, USUAL, LoaderSubject
from autotune.derive.timeline import EventNode
from autotune.model.recording import Event

UNKNOWN = -1
OF_ROLLOUTS = 0.2
"""Of the steps of a script without loaders: what comes so often mostly makes what the next few steps train on, as a
rollout does. The report then shows its lines among those of the step."""

MARKS = ("iter", "fetch", "forward", "mode")


class EvaluationSpan(Struct, frozen=True):
    """One evaluation. `complete` is False when the recording ended inside it."""

    start_ns: int
    end_ns: int
    with_grad: bool
    complete: bool = True


class _Gap(Struct, frozen=True):
    """The marks between two backwards; `is_last` when none follows, `end_ns` is where it ends."""

    marks: tuple[Event, ...]
    end_ns: int
    is_last: bool


class _Refs(Struct, frozen=True):
    """Ids of loaders whose batches train, of loaders whose batches do not, and of models that are trained."""

    train: frozenset[int]
    other: frozenset[int]
    models: frozenset[int]

    @property
    def has_loaders(self) -> bool:
        return bool(self.train or self.other)


def find(nodes: Sequence[EventNode], loaders: Sequence[LoaderSubject], end_ns: int) -> tuple[EvaluationSpan, ...]:
    """All spans, disjoint and in order; `end_ns` is the end of what was recorded."""
    refs = _refs(nodes, loaders)
    found = [
        EvaluationSpan(node.start_ns, node.end_ns, _mostly_grad(_forwards(nodes, node)))
        for node in nodes
        if node.event.kind == "evaluation" and node.outermost
    ]
    gaps = list(_gaps(nodes, end_ns))
    between = [(gap, span) for gap in gaps for span in (*_bracketed(gap, refs), *_own_loader(gap, refs))]
    inside = {gap.end_ns for gap, span in between if _in_step(gap, span, refs)}
    # Steps on no loader's batch, as of a pre-training by hand before this one, do not count against a habit.
    steps = sum(not gap.is_last and (not refs.has_loaders or _batch(gap, refs) is not None) for gap in gaps)
    # A step may have many backwards, as of an attack on its samples; with a loader only those on a batch count.
    updates = sum(node.event.kind == "optimizer" and node.outermost for node in nodes)
    steps = min(steps, updates) if updates and not refs.has_loaders else steps
    usual = USUAL if refs.has_loaders else OF_ROLLOUTS
    is_habit = len(inside) >= max(FEWEST_STEPS, usual * steps)
    found += [span for gap, span in between if not (is_habit and _in_step(gap, span, refs))]
    return _merge(found)


def _in_step(gap: _Gap, span: EvaluationSpan, refs: _Refs) -> bool:
    """Whether it lies between a training batch and the backward on it: then nothing else was fetched for it.

    Without any loader every span between two backwards may be a part of the step, as a rollout is.
    """
    if not refs.has_loaders:
        return not gap.is_last
    batch = _batch(gap, refs)
    return batch is not None and batch.end_ns <= span.start_ns


def _batch(gap: _Gap, refs: _Refs) -> Event | None:
    """The last fetch of a batch in the gap, if that is one to train on."""
    came = [mark for mark in gap.marks if mark.kind == "fetch" and mark.flag]
    return came[-1] if came and came[-1].ref in refs.train else None


def _refs(nodes: Sequence[EventNode], loaders: Sequence[LoaderSubject]) -> _Refs:
    train = {i for row in loaders if row.feeds_training for i in row.ids}
    other = {i for loader in loaders for i in loader.ids} - train
    models = {node.event.ref for node in nodes if node.event.flag & GRAD and node.event.kind in ("mode", "forward")} - {
        UNKNOWN
    }
    return _Refs(frozenset(train), frozenset(other), frozenset(models))


def _forwards(nodes: Sequence[EventNode], inside: EventNode) -> list[Event]:
    return [
        node.event
        for node in nodes
        if node.event.kind == "forward" and inside.start_ns <= node.start_ns < inside.end_ns
    ]


def _mostly_grad(forwards: Sequence[Event]) -> bool:
    return sum(event.flag & GRAD for event in forwards) * 2 > len(forwards)


def _gaps(nodes: Sequence[EventNode], end_ns: int) -> Iterator[_Gap]:
    marks: list[Event] = []
    for node in nodes:
        if node.event.kind == "backward" and node.outermost:
            yield _Gap(tuple(marks), node.start_ns, is_last=False)
            marks = []
        elif node.event.kind in MARKS and node.outermost and not node.inside("backward"):
            marks.append(node.event)
    yield _Gap(tuple(marks), end_ns, is_last=True)


def _bracketed(gap: _Gap, refs: _Refs) -> Iterator[EvaluationSpan]:
    opened: dict[int, Event] = {}
    for place, mark in enumerate(gap.marks):
        ref = _model(gap, place)
        if mark.kind != "mode" or ref not in refs.models:
            continue
        if not mark.flag & GRAD:
            opened.setdefault(ref, mark)
        elif ref in opened:
            yield from _between(gap, opened.pop(ref), mark, refs)
    for first in opened.values():
        yield from _unclosed(gap, first, refs)


def _model(gap: _Gap, place: int) -> int:
    """The model of a mark. Before its first call a model has no id yet: it is the one that is called next."""
    if gap.marks[place].ref != UNKNOWN:
        return gap.marks[place].ref
    return next((mark.ref for mark in gap.marks[place:] if mark.kind == "forward"), UNKNOWN)


def _between(gap: _Gap, first: Event, last: Event, refs: _Refs) -> Iterator[EvaluationSpan]:
    """eval() .. train(). It ends before the next training batch is fetched: libraries call train() after that."""
    inside = [mark for mark in gap.marks if first.start_ns <= mark.start_ns <= last.start_ns]
    forwards = [mark for mark in inside if mark.kind == "forward"]
    own = any(mark.kind == "fetch" and mark.ref in refs.other for mark in inside)
    if not forwards or (_mostly_grad(forwards) and not own):
        return
    after = forwards[-1].end_ns
    fetched = [m.start_ns for m in inside if m.kind in ("iter", "fetch") and m.ref in refs.train]
    end = min((start for start in fetched if start >= after), default=last.start_ns)
    yield EvaluationSpan(first.start_ns, end, _mostly_grad(forwards))


def _unclosed(gap: _Gap, first: Event, refs: _Refs) -> Iterator[EvaluationSpan]:
    """eval() without train() before the next backward: forgotten, or the recording ended first."""
    forwards: list[Event] = []
    for mark in (mark for mark in gap.marks if mark.start_ns >= first.start_ns):
        if forwards and mark.kind in ("iter", "fetch") and mark.ref in refs.train:
            yield EvaluationSpan(first.start_ns, forwards[-1].end_ns, with_grad=False)
            return
        if mark.kind == "forward" and not mark.flag & GRAD:
            forwards.append(mark)
    if forwards:
        end = gap.end_ns if gap.is_last else forwards[-1].end_ns
        yield EvaluationSpan(first.start_ns, end, with_grad=False, complete=not gap.is_last)


def _own_loader(gap: _Gap, refs: _Refs) -> Iterator[EvaluationSpan]:
    hits = _hits(gap, refs.other)
    plain = [place for place in hits if not gap.marks[place].flag & GRAD]
    # With gradients the last forward of a gap is the training step's own, and a single one may be half of a
    # loss.
    built = [place for place in hits if place not in plain and _fetch_follows(gap, place)]
    places = plain or (built if len(built) > 1 else [])
    if places:
        start = _first_of_loader(gap.marks[: places[0]], refs)
        yield EvaluationSpan(start, _last_of_loader(gap.marks[places[-1] :], refs), with_grad=not plain)


def _hits(gap: _Gap, loaders: frozenset[int]) -> list[int]:
    """Places of the forwards whose latest batch came from one of `loaders`."""
    places = []
    latest = -1
    for place, mark in enumerate(gap.marks):
        if mark.kind == "fetch" and mark.flag:
            latest = mark.ref
        elif mark.kind == "forward" and latest in loaders:
            places.append(place)
    return places


def _fetch_follows(gap: _Gap, place: int) -> bool:
    return any(mark.kind == "fetch" for mark in gap.marks[place + 1 :])


def _first_of_loader(before: Sequence[Event], refs: _Refs) -> int:
    """Start of the evaluation's first iter or fetch in `before`, back to the last mark of the train loader."""
    start = before[-1].start_ns
    for mark in reversed(before):
        if mark.kind in ("iter", "fetch"):
            if mark.ref in refs.train:
                break
            start = mark.start_ns
    return start


def _last_of_loader(after: Sequence[Event], refs: _Refs) -> int:
    """End of the last forward, or of the fetch that found the loader exhausted."""
    end = after[0].end_ns
    for mark in after[1:]:
        if mark.kind != "fetch" or mark.ref in refs.train:
            break
        end = mark.end_ns
    return end


def _merge(found: Sequence[EvaluationSpan]) -> tuple[EvaluationSpan, ...]:
    merged: list[EvaluationSpan] = []
    for span in sorted(found, key=lambda s: (s.start_ns, s.end_ns)):
        if merged and span.start_ns < merged[-1].end_ns:
            last = merged.pop()
            end = max(last.end_ns, span.end_ns)
            whole = span.complete if span.end_ns > last.end_ns else last.complete
            span = EvaluationSpan(last.start_ns, end, last.with_grad or span.with_grad, whole)
        merged.append(span)
    return tuple(merged)
