"""Ranks against one another: who comes late to the collectives, why, and how long the others wait there.

DDP averages gradients inside backward: a rank that comes there early waits for the last one, and its backward looks
long. Where `rank_waits` knows what each rank waits, the rest of its step is its own work. Elsewhere (on CUDA) the time
before communication is compared; "other" is compared too, as far as the others' longer backward confirms it: a loss
that is gathered makes fast ranks wait in "other" as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from statistics import median_high, median_low

from msgspec import Struct
from msgspec.structs import replace

from autotune.derive.rank_waits import RankWaits, rank_of
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.derive.step import train_batches
from autotune.model.evidence import RUN, Fact
from autotune.model.report import COMMUNICATION, RANK_WAIT, LateRank, Rank

BEFORE = ("data_wait", "h2d", "forward", "logging", "checkpoint")
"""Phases without communication."""

LEAST_WAIT = 0.03
"""Of a step. A wait that is shorter, or for a rank that is less late, is the jitter of ranks, and stays where it is."""

LEAST_LATE = 0.1
"""Of the late rank's work. Both are DD006's limits."""

LEAST_SAMPLES = 3
"""More than the median rank has: one or two are chance."""

_SAMPLED = {"data_wait": "fetch"}
"""The name that stack samples of a phase have, where it is another one."""


class RankDelay(Struct, frozen=True):
    """The rank that comes last to the collectives, on average over the steps of the window.

    `late_ms` is how much longer it works than the median rank, of which `own_ms` is the median rank's time; `phase` is
    where most of it is, `line` what its stack samples show there ("" for nothing). `host` is its machine where there
    are several ("" else), and `slow_host` that machine where all of its ranks work longer than every rank of others.
    """

    rank: int
    late_ms: float
    own_ms: float
    phase: str
    line: str
    host: str = ""
    slow_host: str = ""

    @property
    def is_noticeable(self) -> bool:
        return self.share >= LEAST_LATE

    @property
    def share(self) -> float:
        """How much of its work the median rank does not have, from 0 to 1."""
        work_ms = self.late_ms + self.own_ms
        return self.late_ms / work_ms if work_ms > 0 else 0.0


def compare(views: Sequence[RecordingView], waits: Mapping[int, RankWaits]) -> RankDelay | None:
    """The late rank of several; None unless two were measured.

    The median is the lower one, so that of two ranks the slower is compared with the faster.
    """
    own = _own(views, waits)
    if len(own) < 2:
        return None
    totals = {rank: sum(phases.values()) for rank, phases in own.items()}
    last = max(totals, key=lambda rank: totals[rank])
    middle = median_low(totals.values())
    names = dict.fromkeys(phase for phases in own.values() for phase in phases)
    more = {name: own[last].get(name, 0.0) - median_low(row.get(name, 0.0) for row in own.values()) for name in names}
    phase = max(names, key=lambda name: more[name])
    hosts = {rank_of(view): _host(view) for view in views if rank_of(view) in own}
    is_several = len(set(hosts.values())) > 1
    return RankDelay(
        rank=last,
        late_ms=totals[last] - middle,
        own_ms=middle,
        phase=phase,
        line=_place(views, last, phase),
        host=hosts[last] if is_several else "",
        slow_host=_slow_host(totals, hosts, last) if is_several else "",
    )


def _host(view: RecordingView) -> str:
    return str(view.recording.process.get("host", ""))


def _slow_host(totals: Mapping[int, float], hosts: Mapping[int, str], last: int) -> str:
    """The host of rank `last`, where each of its ranks, of which there are two at least, works longer than every rank
    of other hosts, by more than the jitter of ranks."""
    mine = [ms for rank, ms in totals.items() if hosts[rank] == hosts[last]]
    others = [ms for rank, ms in totals.items() if hosts[rank] != hosts[last]]
    return hosts[last] if len(mine) > 1 and min(mine) * (1 - LEAST_LATE) >= max(others) else ""


def facts(view: RecordingView, late: RankDelay | None, num_missing: int = 0) -> Iterator[Fact]:
    """Facts `ranks.*` of the late rank; shares of the step are those of `view`.

    Where no recorded rank is late, and `num_missing` ranks left no Recording, one of these may be: nothing is stated.
    """
    if late is None or view.window is None or (num_missing and not late.is_noticeable):
        return
    yield Fact("ranks.slowest", RUN, late.rank)
    yield Fact("ranks.spread_ms", RUN, late.late_ms)
    yield Fact("ranks.spread_share", RUN, late.share)
    yield Fact("ranks.late_share", RUN, min(1.0, late.late_ms / view.window.mean_ms))
    yield Fact("ranks.slowest_phase", RUN, late.phase.replace("_", " "))
    if late.line:
        yield Fact("ranks.slowest_line", RUN, late.line)
    if late.host:
        yield Fact("ranks.slowest_host", RUN, late.host)
    if late.slow_host:
        yield Fact("ranks.slow_host", RUN, late.slow_host)


def rows(views: Sequence[RecordingView], waits: Mapping[int, RankWaits], late: RankDelay | None) -> tuple[Rank, ...]:
    """A row of the report for each measured rank; nothing for one alone."""
    own = _own(views, waits)
    if late is None:
        return ()
    return tuple(_row(view, own[rank_of(view)], waits.get(rank_of(view)), late) for view in views if view.window)


def without_wait(
    view: RecordingView, late: RankDelay | None, views: Sequence[RecordingView], waits: Mapping[int, RankWaits]
) -> RecordingView:
    """The view with what it waits for other ranks taken out of backward and communication: a phase of its own,
    "rank_wait".
    """
    window, mine = view.window, waits.get(rank_of(view))
    if window is None:
        return view
    known = mine if mine is not None and mine.is_whole else None
    parts = {
        "backward": known.averaging_wait_ms or 0.0 if known else _wait_in_backward(view, late, views),
        COMMUNICATION: (mine.collective_wait_ms or 0.0) if mine else 0.0,
    }
    if sum(parts.values()) < LEAST_WAIT * window.mean_ms:
        return view
    phase_ns = {**window.parts.phase_ns, RANK_WAIT: 0}
    for phase, ms in parts.items():
        wait_ns = min(round(ms * window.steps * MS), phase_ns.get(phase, 0))
        if wait_ns:
            phase_ns[phase] -= wait_ns
            phase_ns[RANK_WAIT] += wait_ns
    return replace(view, window=replace(window, parts=replace(window.parts, phase_ns=phase_ns)))


def _wait_in_backward(view: RecordingView, late: RankDelay | None, views: Sequence[RecordingView]) -> float:
    """The ms of a step that it waits there, where nothing measured it: at most as long as the other one is late, and as
    its own backward is longer.
    """
    theirs = next((each.window for each in views if late and rank_of(each) == late.rank), None)
    if late is None or theirs is None or view.window is None or theirs is view.window or not late.is_noticeable:
        return 0.0
    longer_ms = (view.window.phase_ms("backward") or 0.0) - (theirs.phase_ms("backward") or 0.0)
    return max(0.0, min(late.late_ms, longer_ms))


def _own(views: Sequence[RecordingView], waits: Mapping[int, RankWaits]) -> Mapping[int, Mapping[str, float]]:
    """Each rank's own work, ms per step by phase: all of it where all waits are known, else that before them."""
    windows = {rank_of(view): view.window for view in views if view.window is not None}
    if windows and all(rank in waits and waits[rank].is_whole for rank in windows):
        return {rank: _whole_ms(window, waits[rank]) for rank, window in windows.items()}
    return {rank: _before_ms(rank, windows) for rank in windows}


def _whole_ms(window: MeasuredWindow, waits: RankWaits) -> Mapping[str, float]:
    own = {phase: window.phase_ms(phase) or 0.0 for phase in window.parts.phase_ns if phase != COMMUNICATION}
    return {**own, "backward": max(0.0, own.get("backward", 0.0) - (waits.averaging_ms or 0.0))}


def _before_ms(rank: int, windows: Mapping[int, MeasuredWindow]) -> Mapping[str, float]:
    """The time of one rank before communication."""
    window = windows[rank]
    own = {phase: window.phase_ms(phase) or 0.0 for phase in BEFORE}
    others = [each.phase_ms("other") or 0.0 for each in windows.values()]
    backwards = [each.phase_ms("backward") or 0.0 for each in windows.values()]
    more = (window.phase_ms("other") or 0.0) - median_low(others)
    confirmed = median_high(backwards) - (window.phase_ms("backward") or 0.0)
    return {**own, "other": max(0.0, min(more, confirmed))}


def _row(view: RecordingView, own: Mapping[str, float], waits: RankWaits | None, late: RankDelay) -> Rank:
    assert view.window is not None
    known = waits if waits is not None and waits.is_whole else None
    rank = rank_of(view)
    return Rank(
        rank=rank,
        step_ms=view.window.mean_ms,
        own_ms=sum(own.values()),
        own_is="whole" if known else "before_communication",
        phases_ms=own,
        wait_ms=known.wait_ms if known else None,
        collective_ms=known.collective_ms - (known.collective_wait_ms or 0.0) if known else None,
        averaging_ms=(known.averaging_ms or 0.0) - (known.averaging_wait_ms or 0.0) if known else None,
        batch_tokens=_mean([batch.tokens for batch in train_batches(view)]),
        batch_useful_tokens=_mean([batch.useful_tokens for batch in train_batches(view)]),
        late=LateRank(late.late_ms, late.phase, late.line) if rank == late.rank else None,
        host=_host(view),
    )


def _mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _place(views: Sequence[RecordingView], rank: int, phase: str) -> str:
    """The line of the user's files in which the late rank is sampled more often than the median one; "" for none."""
    counts = {rank_of(view): _samples(view, phase) for view in views if view.window}
    more = {place: count - median_low(each[place] for each in counts.values()) for place, count in counts[rank].items()}
    place = max(more, key=lambda place: more[place], default=None)
    if place is None or more[place] < LEAST_SAMPLES:
        return ""
    file, line, function = place
    return f"{function} ({PurePath(file).name}:{line})"


def _samples(view: RecordingView, phase: str) -> Counter[tuple[str, int, str]]:
    found: Counter[tuple[str, int, str]] = Counter()
    for sample in view.recording.samples:
        if sample.phase == _SAMPLED.get(phase, phase) and sample.user_file:
            found[sample.user_file, sample.user_line, sample.user_function] += sample.count
    return found
