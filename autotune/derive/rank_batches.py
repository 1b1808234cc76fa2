"""Batches of different size on the ranks: how much longer the largest of a step is, and what the others wait for it.

In each step the ranks wait for the one with the most to compute. Over the window every rank may have the same mean, so
batches are compared step by step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from autotune.derive.rank_waits import RankWaits, rank_of
from autotune.derive.recording_view import MS, RecordingView
from autotune.derive.step import compute_ms, train_batches
from autotune.model.evidence import RUN, Fact

LEAST_STEPS = 8
"""With fewer steps a correlation is chance."""

LEAST_UNEVEN = 0.05
"""Of the step: DD017's limit."""

LAGS = (0, 1)
"""Steps between the fetch of a batch and its use: accelerate fetches one batch ahead."""

BySteps = Mapping[int, float]


def facts(views: Sequence[RecordingView], waits: Mapping[int, RankWaits], num_missing: int = 0) -> Iterator[Fact]:
    """Facts `ranks.batch_*` and `ranks.uneven_share`; none unless sizes of the same steps are known of all ranks.

    Where the recorded ranks are even, and `num_missing` ranks left no Recording, those may differ: nothing is known.
    """
    measured = [view for view in views if view.window is not None]
    first = next((view.window for view in measured), None)
    if len(measured) < 2 or first is None:
        return
    sizes = _common([_sizes(view) for view in measured])
    if len(sizes) < LEAST_STEPS:
        return
    largest, middle = fmean(map(max, sizes.values())), fmean(map(fmean, sizes.values()))
    spread = 1 - middle / largest if largest else 0.0
    yield Fact("ranks.batch_spread_share", RUN, spread)
    works = [_work(view, waits.get(rank_of(view))) for view in measured]
    pairs = max((_deviations(sizes, works, lag) for lag in LAGS), key=lambda pairs: _correlation(pairs) or 0.0)
    correlation = _correlation(pairs)
    if correlation is None:
        return
    yield Fact("ranks.batch_correlation", RUN, correlation)
    known = [waits[rank_of(view)] for view in measured if rank_of(view) in waits]
    if len(known) == len(measured) and all(each.is_whole for each in known):
        # As the ranks of this run show it: so many ms more for so many tokens more.
        ms = max(0.0, _slope(pairs)) * (largest - middle)
        ms = min(ms, fmean(each.wait_ms for each in known))
    else:
        wait_ms = first.phase_ms("rank_wait") or 0.0
        ms = spread * ((compute_ms(first) or 0.0) + wait_ms - (first.phase_ms("optimizer") or 0.0))
    share = ms / first.mean_ms
    if not num_missing or share >= LEAST_UNEVEN:
        yield Fact("ranks.uneven_share", RUN, share)


def _sizes(view: RecordingView) -> BySteps:
    """Tokens of each step, padding included, or bytes where tokens are not known; of steps all of whose batches were
    looked at.
    """
    batches = train_batches(view)
    fetched = Counter(view.steps_before(at) for at in view.train_fetches())
    looked = Counter(view.steps_before(batch.at_ns) for batch in batches)
    has_tokens = all(batch.tokens is not None for batch in batches)
    found: Counter[int] = Counter()
    for batch in batches:
        found[view.steps_before(batch.at_ns)] += (batch.tokens or 0) if has_tokens else batch.num_bytes
    return {step: float(size) for step, size in found.items() if fetched[step] == looked[step]}


def _common(ranks: Sequence[BySteps]) -> Mapping[int, Sequence[float]]:
    """The values of each step that all ranks have."""
    steps = set.intersection(*(set(rank) for rank in ranks))
    return {step: [rank[step] for rank in ranks] for step in sorted(steps)}


def _work(view: RecordingView, waits: RankWaits | None) -> BySteps:
    """What a rank itself does in each step, in ms: all but its waits, else its forward passes."""
    assert view.window is not None
    first = view.steps_before(view.window.start_ns)
    if waits is not None and waits.is_whole:
        steps = dict(enumerate(view.window.step_ms, first))
        return {step: steps[step] - wait for step, wait in waits.by_step.items() if step in steps}
    found: Counter[int] = Counter()
    for node, own_ns in view.in_window("forward"):
        found[view.steps_before(node.start_ns)] += own_ns
    return {step: own_ns / MS for step, own_ns in found.items()}


def _deviations(
    sizes: Mapping[int, Sequence[float]], works: Sequence[BySteps], lag: int
) -> Sequence[tuple[float, float]]:
    """Of each rank in each step: how much larger its batch was than the mean one, and how much longer it worked."""
    pairs = []
    for step, work in _common(works).items():
        size = sizes.get(step - lag)
        if size is not None:
            pairs += [(one - fmean(size), ms - fmean(work)) for one, ms in zip(size, work, strict=True)]
    return pairs


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Of deviations, whose means are 0; None where the batches, or the ranks, do not differ."""
    x, y = sum(a * a for a, _ in pairs), sum(b * b for _, b in pairs)
    return sum(a * b for a, b in pairs) / (x * y) ** 0.5 if x and y else None


def _slope(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(a * b for a, b in pairs) / sum(a * a for a, _ in pairs)
