"""What one line of `autotune runs` says of a job."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.report import Outcome


class JobSummary(Struct, frozen=True, kw_only=True):
    """One diagnosed job on all of its ranks. None is unknown, and never 0; shares are of a step, in 0..1."""

    run: str
    """The name of its folder."""

    folder: str
    began: str | None
    """When it was measured, UTC: "2026-11-24T09:30:00Z"."""

    command: tuple[str, ...]
    """Without secrets."""

    outcome: Outcome
    hosts: tuple[str, ...]
    """Names of the machines that the recorded ranks ran on; empty where older Recordings do not tell."""

    ranks: int | None
    """Processes of the job."""

    missing_ranks: tuple[int, ...]
    device: str | None
    """Name of the GPU, else the type of the device."""

    step_ms: float | None
    planned_steps: int | None
    bound: str | None
    """What takes the largest part of a step."""

    bound_share: float | None
    wait_share: float | None
    """Training waits for data, or for a slower rank."""

    busy_share: float | None
    """The device runs kernels; None where it was not profiled."""

    lost_share: float | None
    """Of the time of the measured steps: what all proposed changes of a known gain together would save, as predicted.
    Known without the length of the run; None where changes are proposed and no gain of theirs is known."""

    hours_lost: float | None
    """The same of the whole run, in hours; None also where the length of the run is not known, before its end or, with
    --keep-going, after it."""

    first_fix: str | None
    """The rule whose change saves most."""

    first_fix_name: str | None
    """The problem in words."""

    version: str
    """Of the autotune that measured it: findings are those of its rules."""


class FoundJobs(Struct, frozen=True):
    """The jobs below some folders, the newest first. `unreadable` are folders of runs that cannot be read, with the
    reason."""

    jobs: tuple[JobSummary, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
