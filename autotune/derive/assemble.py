"""The stage: Recordings of one run in, facts, observed settings and the step out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autotune.derive import (
    averaging,
    busy_cpus,
    calls,
    collectives,
    device,
    device_profile,
    growth,
    interruptions,
    iterator_per_batch,
    lengths,
    line_facts,
    loader,
    memory,
    mfu,
    optimizer,
    rank_batches,
    rank_waits,
    ranks,
    recording_view,
    run,
    settings,
    startup,
    step,
    traced,
    user_logging,
    what_ifs,
    window_detail,
)
from autotune.derive.recording_view import RecordingView
from autotune.model.derived import Derived
from autotune.model.evidence import Fact
from autotune.model.recording import Recording, missing_ranks
from autotune.model.report import StartUpPart


def derive(
    recordings: Sequence[Recording],
    cpus_per_rank: float | None = None,
    memory_limit_bytes: int | None = None,
    code_epochs: int | None = None,
) -> Derived:
    """What the Recordings of one run say: rank 0's window, and all ranks against one another.

    `cpus_per_rank` (CPUs that one process may use) and `memory_limit_bytes` (of the host) are the machine's;
    None leaves out what needs them. `code_epochs` are those that the script's own loop counts.
    Raises ValueError without a Recording.
    """
    if not recordings:
        raise ValueError("derive needs at least one Recording")
    views = [
        recording_view.view_of(recording, code_epochs)
        for recording in sorted(recordings, key=lambda r: r.process["rank"])
    ]
    missing = missing_ranks(recordings)
    waits = rank_waits.compare(views)
    late = ranks.compare(views, waits)
    first = ranks.without_wait(views[0], late, views, waits)
    mine = waits.get(rank_waits.rank_of(first))
    facts = (
        *_facts(first, memory_limit_bytes),
        *busy_cpus.facts(first, cpus_per_rank),
        *loader.facts(first, cpus_per_rank),
        *startup.facts([view.recording for view in views], cpus_per_rank),
        *ranks.facts(first, late, len(missing)),
        *averaging.facts(views),
        *rank_batches.facts([first, *views[1:]], waits, len(missing)),
        *collectives.facts(first, mine),
    )
    return Derived(
        facts=tuple(traced.told(facts, first.recording.trace)),
        settings=tuple(traced.told_settings(settings.settings(first), first.recording.trace)),
        step=step.step(first, interruptions.run_ms(first)),
        startup=_startup(first.recording),
        ranks=ranks.rows(views, waits, late),
        hosts=tuple(sorted({str(one.process["host"]) for one in recordings if one.process.get("host")})),
        missing_ranks=missing,
        collectives=collectives.rows(mine),
        detail=window_detail.detail(first),
        devices=tuple(one for view in _profiled(views, late) if (one := device_profile.profile(view)) is not None),
    )


MOST_PROFILED = 16
"""Ranks whose kernels are looked at one by one, which takes half of the time of a report: they do the same."""


def _profiled(views: Sequence[RecordingView], late: ranks.RankDelay | None) -> list[RecordingView]:
    """All, or of many ranks the first ones and the late one."""
    first = views[: MOST_PROFILED - 1] if len(views) > MOST_PROFILED else views
    last = [view for view in views[len(first) :] if late is not None and rank_waits.rank_of(view) == late.rank]
    return [*first, *last]


def _startup(recording: Recording) -> tuple[StartUpPart, ...]:
    if recording.startup is None:
        return ()
    return startup.parts(recording.startup, startup.first_step_ns(recording))


def subjects(recording: Recording) -> Mapping[int, str]:
    """Each DataLoader's id -> its subject: loader#train, or loader#<id of the one that it was rebuilt from>."""
    return {i: loader.subject for loader in recording_view.view_of(recording).loaders for i in loader.ids}


def _facts(first: recording_view.RecordingView, memory_limit_bytes: int | None) -> Iterator[Fact]:
    for subject in (step, line_facts, user_logging, calls, growth, run, lengths, optimizer, interruptions, device):
        yield from subject.facts(first)
    yield from mfu.facts(first)
    yield from iterator_per_batch.facts(first)
    yield from memory.facts(first, memory_limit_bytes)
    yield from what_ifs.facts(first, memory_limit_bytes)
