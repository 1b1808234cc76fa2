"""What each rank waits for the others, step by step: in collectives of the script, and in DDP's averaging of gradients.

A collective ends on all ranks together, so the rank that comes last is in it for the shortest time. It costs that time
at most; what another rank is in it beyond that is waiting. Durations are compared, not clocks, so
ranks may be on several machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from autotune.derive.recording_view import MS, RecordingView
from autotune.model.recording_sections import HostCall

LEAST_KNOWN = 0.5
"""Of the steps: with fewer that all ranks tell alike, nothing is said."""

Site = tuple[str, int, str, str]
"""File, line and function of a call, and what it calls."""

Call = tuple[Site | None, float]
"""None is DDP's averaging; and the ms in it."""

ByStep = Mapping[int, Sequence[Call]]
"""By the number of the step since the script began."""


class SiteTimes(Struct, frozen=True):
    """Collectives of one line, per step of a rank: calls, ms in them, how much of it is waiting (None: unknown)."""

    site: Site
    calls: float
    ms: float
    wait_ms: float | None
    num_bytes: float


class RankWaits(Struct, frozen=True):
    """Means in ms per step. `collective_wait_ms` is of `collective_ms`, what the script's collectives take;
    `averaging_wait_ms` of `averaging_ms`, what DDP's averaging adds to backward. `by_step` are both waits of each step,
    where they are known. None where not all ranks tell the same calls.
    """

    collective_ms: float
    collective_wait_ms: float | None
    averaging_ms: float | None
    averaging_wait_ms: float | None
    by_step: Mapping[int, float]
    sites: tuple[SiteTimes, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all that this rank waits is known."""
        return self.collective_wait_ms is not None and self.averaging_wait_ms is not None

    @property
    def wait_ms(self) -> float:
        """What is known of it."""
        return (self.collective_wait_ms or 0.0) + (self.averaging_wait_ms or 0.0)


def compare(views: Sequence[RecordingView]) -> Mapping[int, RankWaits]:
    """The waits of each measured rank, by its number; nothing where none was looked for (an older Recording)."""
    measured = {rank_of(view): view for view in views if view.window is not None}
    if len(measured) < 2 or any(view.recording.averagings is None for view in measured.values()):
        return {}
    calls = {rank: _collectives(view) for rank, view in measured.items()}
    averagings = {rank: _averagings(view) for rank, view in measured.items()}
    costs = _costs(list(calls.values()), _steps(measured.values()))
    known = [each for each in averagings.values() if each is not None]
    averaged = _costs(known, _steps(measured.values())) if len(known) == len(measured) else {}
    return {rank: _waits(view, calls[rank], costs, averagings[rank] or {}, averaged) for rank, view in measured.items()}


def rank_of(view: RecordingView) -> int:
    return int(view.recording.process["rank"])


def _steps(views: Iterable[RecordingView]) -> list[int]:
    """The steps that all windows have."""
    ranges = [set(range(first, first + num)) for first, num in map(_span, views)]
    return sorted(set.intersection(*ranges))


def _span(view: RecordingView) -> tuple[int, int]:
    assert view.window is not None
    return view.steps_before(view.window.start_ns), view.window.steps


def _collectives(view: RecordingView) -> ByStep:
    first, num = _span(view)
    found: dict[int, list[Call]] = {step: [] for step in range(first, first + num)}
    for node, own_ns in view.in_window("collective"):
        if not view.is_evaluation(node.start_ns):
            found.setdefault(view.steps_before(node.start_ns), []).append((_site(view, node.event.ref), own_ns / MS))
    return found


def _site(view: RecordingView, ref: int) -> Site:
    call = view.recording.calls[ref]
    site = call["site"]
    return site["file"], site["line"], site["function"], call.get("name", "")


def _averagings(view: RecordingView) -> ByStep | None:
    """Steps of whose backwards DDP told all; None where gradients are averaged, and it tells nothing."""
    first, num = _span(view)
    rows = view.recording.averagings or ()
    if not rows:
        is_alone = all(model.get("parallel") is None for model in view.recording.models)
        return dict.fromkeys(range(first, first + num), ()) if is_alone else None
    # A backward ends just before its step does.
    found: dict[int, list[Call]] = {}
    for row in rows:
        found.setdefault(view.steps_before(row.end_ns), []).append((None, row.exposed_ns / MS))
    most = max(map(len, found.values()))
    return {step: calls for step, calls in found.items() if len(calls) == most}


def _costs(ranks: Sequence[ByStep], steps: Sequence[int]) -> Mapping[int, Sequence[float]]:
    """Of each step that all ranks tell alike: what its calls cost, which is the shortest time of any rank in each."""
    found = {}
    for step in steps:
        rows = [rank.get(step) for rank in ranks]
        if all(row is not None for row in rows) and len({tuple(map(_name, row or ())) for row in rows}) == 1:
            found[step] = [min(ms for _, ms in same) for same in zip(*(row or () for row in rows), strict=True)]
    return found if len(found) >= LEAST_KNOWN * len(steps) and found else {}


def _name(call: Call) -> str:
    """Ranks may call one collective from several lines."""
    return call[0][-1] if call[0] else ""


def _waits(
    view: RecordingView,
    calls: ByStep,
    costs: Mapping[int, Sequence[float]],
    averagings: ByStep,
    averaged: Mapping[int, Sequence[float]],
) -> RankWaits:
    assert view.window is not None
    of_calls = {step: _sum(calls[step]) - sum(costs[step]) for step in costs}
    of_averaging = {step: _sum(averagings[step]) - sum(averaged[step]) for step in averaged}
    return RankWaits(
        collective_ms=sum(map(_sum, calls.values())) / view.window.steps,
        collective_wait_ms=_mean(of_calls.values()),
        averaging_ms=_mean(_sum(averagings[step]) for step in averaged),
        averaging_wait_ms=_mean(of_averaging.values()),
        by_step={step: of_calls[step] + of_averaging[step] for step in costs if step in averaged},
        sites=_sites(view, calls, costs),
    )


def _sum(calls: Sequence[Call]) -> float:
    return sum(ms for _, ms in calls)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _sites(view: RecordingView, calls: ByStep, costs: Mapping[int, Sequence[float]]) -> tuple[SiteTimes, ...]:
    """The lines that call collectives, that with the most time first."""
    assert view.window is not None
    num, total, waits = Counter[Site](), Counter[Site](), Counter[Site]()
    for step, row in calls.items():
        for index, (site, ms) in enumerate(row):
            assert site is not None
            num[site] += 1
            total[site] += ms  # type: ignore[assignment]  # a Counter of ms
            if step in costs:
                waits[site] += ms - costs[step][index]  # type: ignore[assignment]
    steps = view.window.steps
    sizes = {_site(view, ref): _mean_bytes(call) for ref, call in enumerate(view.recording.calls)}
    return tuple(
        SiteTimes(site, num[site] / steps, ms / steps, waits[site] / len(costs) if costs else None, sizes[site])
        for site, ms in total.most_common()
    )


def _mean_bytes(call: HostCall) -> float:
    """Of one call."""
    return call.get("bytes", 0) / max(1, call.get("count", 0))
