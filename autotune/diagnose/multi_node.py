"""A measurement that saw a part of a job's ranks: it joins with those of the other nodes, where they can be found."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from autotune.collect import job_parts
from autotune.collect.load_recordings import load
from autotune.errors import UsageError
from autotune.model.evidence import RUN
from autotune.model.recording import Recording, missing_ranks
from autotune.model.report import Report
from autotune.outlet import print_stderr

if TYPE_CHECKING:
    from autotune.collect.run import Collected


class JoinedJob(Struct, frozen=True):
    """The Recordings that are there of a job, and the folder of its parts ("": only this autotune recorded it).

    With `is_part` another autotune, that of rank 0, has the others. `note` says why they could not be joined.
    """

    recordings: tuple[Recording, ...]
    folder: str = ""
    is_part: bool = False
    note: str = ""


def join(
    run: Path,
    recordings: tuple[Recording, ...],
    wall_s: float,
    *,
    root: Path,
    named: Path | None,
    environ: Mapping[str, str],
    wait_s: float = job_parts.WAIT_S,
) -> JoinedJob:
    """Leave what was recorded for the others; with rank 0 among it, wait for theirs and take them into `run`.

    `named` is the folder that the user named. Nothing is left or waited for where all ranks are here and no folder was
    named.
    """
    missing = missing_ranks(recordings)
    try:
        place = job_parts.folder(root, named, recordings, environ) if missing or named is not None else None
        if place is None or not recordings:
            return JoinedJob(recordings, note=_alone(missing) if missing else "")
        own = job_parts.leave_part(run, place, recordings, wall_s)
        if 0 not in own.part.ranks:
            return JoinedJob(recordings, str(place), is_part=True)
        job_parts.gather(run, own, wait_s, lambda text: print_stderr(f"autotune: {text}"))
    except UsageError as error:
        return JoinedJob(recordings, note=f"the parts of this job could not be joined: {error}")
    return JoinedJob(load(run), str(place))


def without_parts(collected: Collected, named: Path | None) -> Collected:
    """`collected` without the parts that other autotunes left in the named folder meanwhile: no script did that."""
    if named is None:
        return collected
    place = Path(os.path.realpath(named))
    effects = collected.effects
    escaped = tuple(path for path in effects.escaped if not Path(os.path.realpath(path)).is_relative_to(place))
    return replace(collected, effects=replace(effects, escaped=escaped))


def missing_note(recordings: Sequence[Recording]) -> str:
    """What no Recording tells; "" where all ranks of the job were recorded."""
    missing = missing_ranks(recordings)
    if not missing:
        return ""
    size = max(one.process["world_size"] for one in recordings)
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{job_parts.ranks_text(missing)} of {size} {verb} missing here: no Recording was found, nothing is known of "
        "them, and the slowest may be among them"
    )


def part_text(report: Report) -> str:
    """Of a report on some ranks: where the one on all of them is."""
    size = report.evidence.lookup(RUN, "run.world_size")
    recorded = sorted(set(range(size if isinstance(size, int) else 0)) - set(report.missing_ranks))
    return (
        f"{job_parts.ranks_text(recorded)} of {size} recorded; the autotune of rank 0 reports on all. "
        f"Or later, from any node: autotune report {shlex.quote(report.run.job)}"
    )


def _alone(missing: Sequence[int]) -> str:
    """How to get one report, where nothing tells which job it is."""
    return (
        f"{job_parts.ranks_text(missing)} ran elsewhere: for one report on all of them, name one folder that all "
        "nodes can write: autotune diagnose --job FOLDER ..."
    )
