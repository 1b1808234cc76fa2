"""Ranks against one another: who comes late to the collectives, why, and how long the others wait there.

DDP averages gradients inside backward: a rank that comes there early waits for the last one, and its backward looks
long. So the time before communication is compared, which is each rank's own work; "other" is compared too, as far as
the others' longer backward confirms it: a loss that is gathered makes fast ranks wait in "other" as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from statistics import median_high, median_low

from msgspec import Struct
from msgspec.structs import replace

from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.model.evidence import RUN, Fact
from autotune.model.report import RANK_WAIT

OWN = ("data_wait", "h2d", "forward", "logging", "checkpoint")
"""Phases without communication."""

LEAST_WAIT = 0.03
"""Of a step. A wait that is shorter, or for a rank that is less late, is the jitter of ranks, and stays in backward."""

LEAST_LATE = 0.1
"""Of the late rank's work before communication. Both are DD006's limits: no report shows the one without the other."""

_SAMPLED = {"other": "other", "data_wait": "fetch"}
"""Phases of which stack samples are kept, and the name that these have."""


class RankDelay(Struct, frozen=True):
    """The rank that comes last to the collectives, on average over the steps of the window.

    `late_ms` is how much longer it works before them than the median rank, of which `own_ms` is the median rank's time;
    `cause` is where most of it is: a phase, or what its stack samples show.
    """

    rank: int
    late_ms: float
    own_ms: float
    cause: str

    @property
    def share(self) -> float:
        """How much of its work the median rank does not have, from 0 to 1."""
        work_ms = self.late_ms + self.own_ms
        return self.late_ms / work_ms if work_ms > 0 else 0.0


def compare(views: Sequence[RecordingView]) -> RankDelay | None:
    """The late rank of several; None unless two were measured.

    The median is the lower one, so that of two ranks the slower is compared with the faster.
    """
    windows = {int(view.recording.process["rank"]): view.window for view in views if view.window is not None}
    if len(windows) < 2:
        return None
    own = {rank: _own_ms(rank, windows) for rank in windows}
    totals = {rank: sum(phases.values()) for rank, phases in own.items()}
    last = max(totals, key=lambda rank: totals[rank])
    middle = median_low(totals.values())
    phase = max(own[last], key=lambda phase: own[last][phase] - median_low(row[phase] for row in own.values()))
    return RankDelay(last, totals[last] - middle, middle, _place(views, last, phase) or phase)


def facts(late: RankDelay | None) -> Iterator[Fact]:
    """Facts `ranks.*`."""
    if late is None:
        return
    yield Fact("ranks.slowest", RUN, late.rank)
    yield Fact("ranks.spread_ms", RUN, late.late_ms)
    yield Fact("ranks.spread_share", RUN, late.share)
    yield Fact("ranks.slowest_cause", RUN, late.cause)


def without_wait(view: RecordingView, late: RankDelay | None, views: Sequence[RecordingView]) -> RecordingView:
    """The view with what it waits for the late rank taken out of its backward: a phase of its own, "rank_wait".

    It waits at most as long as the other one is late, and as its own backward is longer.
    """
    window = view.window
    theirs = next((each.window for each in views if late and int(each.recording.process["rank"]) == late.rank), None)
    if late is None or window is None or theirs is None:
        return view
    longer_ms = (window.phase_ms("backward") or 0.0) - (theirs.phase_ms("backward") or 0.0)
    wait_ms = min(late.late_ms, longer_ms)
    if theirs is window or late.share < LEAST_LATE or wait_ms < LEAST_WAIT * window.mean_ms:
        return view
    wait_ns = round(wait_ms * window.steps * MS)
    phase_ns = {**window.parts.phase_ns, RANK_WAIT: wait_ns}
    phase_ns["backward"] -= wait_ns
    return replace(view, window=replace(window, parts=replace(window.parts, phase_ns=phase_ns)))


def _own_ms(rank: int, windows: Mapping[int, MeasuredWindow]) -> Mapping[str, float]:
    """The time of one rank before communication, by phase, per step."""
    window = windows[rank]
    own = {phase: window.phase_ms(phase) or 0.0 for phase in OWN}
    others = [each.phase_ms("other") or 0.0 for each in windows.values()]
    backwards = [each.phase_ms("backward") or 0.0 for each in windows.values()]
    more = (window.phase_ms("other") or 0.0) - median_low(others)
    confirmed = median_high(backwards) - (window.phase_ms("backward") or 0.0)
    return {**own, "other": max(0.0, min(more, confirmed))}


def _place(views: Sequence[RecordingView], rank: int, phase: str) -> str:
    """The line of the user's files in which the late rank is sampled more often than the median one; "" for none."""
    counts = {int(view.recording.process["rank"]): _samples_per_step(view, phase) for view in views if view.window}
    more = {place: share - median_low(each[place] for each in counts.values()) for place, share in counts[rank].items()}
    place = max(more, key=lambda place: more[place], default=None)
    if place is None or more[place] <= 0:
        return ""
    file, line, function = place
    return f"{function} ({PurePath(file).name}:{line})"


def _samples_per_step(view: RecordingView, phase: str) -> Counter[tuple[str, int, str]]:
    found: Counter[tuple[str, int, str]] = Counter()
    for sample in view.recording.samples:
        if sample.phase == _SAMPLED.get(phase) and sample.user_file:
            found[sample.user_file, sample.user_line, sample.user_function] += sample.count
    return found
