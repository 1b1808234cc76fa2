"""The stage: Recordings of one run in, facts, observed settings and the step out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autotune.derive import (
    busy_cpus,
    calls,
    device,
    growth,
    interruptions,
    iterator_per_batch,
    lengths,
    loader,
    memory,
    optimizer,
    ranks,
    recording_view,
    run,
    settings,
    step,
    user_logging,
    what_ifs,
)
from autotune.model.derived import Derived
from autotune.model.evidence import Fact
from autotune.model.recording import Recording


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
    late = ranks.compare(views)
    first = ranks.without_wait(views[0], late, views)
    of_loaders = loader.facts(first, cpus_per_rank)
    cpus = busy_cpus.facts(first, cpus_per_rank)
    facts = (*_facts(first, memory_limit_bytes), *cpus, *of_loaders, *ranks.facts(late))
    measured = step.step(first, interruptions.run_ms(first))
    return Derived(facts=facts, settings=tuple(settings.settings(first)), step=measured)


def subjects(recording: Recording) -> Mapping[int, str]:
    """Each DataLoader's id -> its subject: loader#train, or loader#<id of the one that it was rebuilt from>."""
    return {i: loader.subject for loader in recording_view.view_of(recording).loaders for i in loader.ids}


def _facts(first: recording_view.RecordingView, memory_limit_bytes: int | None) -> Iterator[Fact]:
    for subject in (step, user_logging, calls, growth, run, lengths, optimizer, interruptions, device):
        yield from subject.facts(first)
    yield from iterator_per_batch.facts(first)
    yield from memory.facts(first, memory_limit_bytes)
    yield from what_ifs.facts(first, memory_limit_bytes)
