"""A job whose ranks several autotunes measure: one on each node, or one for each rank.

Each of them leaves what it recorded as a part in one folder, which all nodes share: `.autotune/jobs/<id of the job>` at
the project root, or the folder that the user names. The autotune of rank 0 waits a short time for the others, takes
their parts into its own run folder and reports on the whole job. `report FOLDER` reads the same parts at any time.

    <folder>/part-<host>-<run>/recording-<pid>.json ...
                              /run.json            as in the run folder that it is of
                              /part.json           whose recordings these are, and when they were made
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from autotune import reading
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.recording import Recording
from autotune.model.recording_sections import WorldSize

FOLDER = "jobs"
PREFIX = "part-"
ABOUT = "part.json"
SCHEMA = 1

WAIT_S = 60.0
"""So long the autotune of rank 0 waits for the parts of the others. Ranks end their windows at the same step."""

POLL_S = 0.5
LEAST_OVERLAP = 0.5
"""Of the shorter one: parts of one start of a job were measured at the same time. An earlier start in the same
allocation ended before; clocks of nodes differ by less."""

SCHEDULERS: Mapping[str, tuple[str, ...]] = {
    "slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    "pbs": ("PBS_JOBID",),
    "lsf": ("LSB_JOBID", "LSB_JOBINDEX"),
    "flux": ("FLUX_JOB_ID",),
    "pmix": ("PMIX_NAMESPACE",),
}
"""The variables by which a scheduler numbers a job. The first one has to be there; the second one tells starts or
elements of one job apart. PMIX_NAMESPACE is that of one mpirun, without a scheduler."""

TASKS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "FLUX_TASK_RANK")
"""The variables by which a launcher numbers the tasks of one start."""

_NAME = "Name a folder that all nodes can write: --job FOLDER"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Part(Struct, frozen=True):
    """What one autotune recorded of a job. `began` and `ended` are seconds since 1970 by the clock of its host."""

    host: str
    world_size: WorldSize
    ranks: tuple[int, ...]
    began: float
    ended: float


class PlacedPart(Struct, frozen=True):
    """A part and its folder."""

    folder: Path
    part: Part


def is_first_task(environ: Mapping[str, str]) -> bool:
    """Whether no launcher started this process as another task than its first one."""
    return next((value for name in TASKS if (value := environ.get(name))), "0") == "0"


def scheduler_id(environ: Mapping[str, str]) -> str:
    """The id of the job that this process is in, "slurm-4711.0"; "" where no scheduler tells."""
    for name, variables in SCHEDULERS.items():
        values = [environ.get(variable, "") for variable in variables]
        if values[0]:
            return _UNSAFE.sub("_", f"{name}-{'.'.join(value for value in values if value)}")
    return ""


NUMBERS_OF_TASKS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""How many processes srun or mpirun started beside this one, itself included."""


def shared_by(named: Path | None, environ: Mapping[str, str]) -> str:
    """The id that the autotunes of one machine share, if a launcher started one for each rank; "" for a single one."""
    if named is not None:
        return str(named.resolve())
    is_one_of_several = any(environ.get(name, "") not in ("", "1") for name in NUMBERS_OF_TASKS)
    return scheduler_id(environ) if is_one_of_several else ""


def job_id(recordings: Sequence[Recording], environ: Mapping[str, str]) -> str:
    """The id that the autotunes of all nodes find: the scheduler's, else that of torchrun (--rdzv-id); "" for none."""
    elastic = next((str(one.process.get("elastic_id") or "") for one in recordings), "")
    return scheduler_id(environ) or (_UNSAFE.sub("_", f"torchrun-{elastic}") if elastic else "")


def folder(root: Path, named: Path | None, recordings: Sequence[Recording], environ: Mapping[str, str]) -> Path | None:
    """Where the parts of this job are; None where nothing tells which job it is.

    Raises UsageError where a link leads out of the project; a folder that the user named may be one, or lie below one.
    """
    if named is not None:
        return named.absolute()
    found = job_id(recordings, environ)
    if not found:
        return None
    place = root / artefacts.FOLDER / FOLDER / found
    if place.parent.is_symlink() or place.is_symlink():
        raise UsageError("it is a link, not a folder of this project", where=str(place), to_do=_NAME)
    return place


def leave_part(run: Path, place: Path, recordings: Sequence[Recording], wall_s: float) -> PlacedPart:
    """Put what `run` recorded in the last `wall_s` seconds into the job's folder, as a whole or not at all.

    Raises UsageError where that folder cannot be written.
    """
    processes = [one.process for one in recordings]
    ended = time.time()
    host = str(processes[0].get("host") or os.uname().nodename)
    ranks = tuple(sorted(process["rank"] for process in processes))
    part = Part(host, processes[0]["world_size"], ranks, ended - wall_s, ended)
    name = f"{PREFIX}{_UNSAFE.sub('_', host)}-{run.name}"
    unread = place / f".{name}.{secrets.token_hex(3)}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        unread.mkdir()
        for file in _kept_files(run):
            (unread / file.name).write_bytes(reading.read(file))
        artefacts.write_json(unread / ABOUT, {"schema": SCHEMA, **to_builtins(part)})
        unread.rename(place / name)
    except OSError as error:
        shutil.rmtree(unread, ignore_errors=True)
        raise UsageError(
            f"the recordings of this node cannot be left there: {error.strerror}",
            where=str(place),
            to_do=_NAME,
        ) from error
    return PlacedPart(place / name, part)


def parts(place: Path, like: Part | None = None) -> tuple[PlacedPart, ...]:
    """The parts of the newest start of the job in `place`, or of the start that `like` is of; by rank.

    Of parts with the same rank the newest is taken.
    """
    found = [PlacedPart(one, part) for one in sorted(place.glob(f"{PREFIX}*")) if (part := _about(one)) is not None]
    newest_first = sorted(found, key=lambda one: -one.part.ended)
    with_first = [one for one in newest_first if 0 in one.part.ranks] or newest_first
    like = like or (with_first[0].part if with_first else None)
    chosen: list[PlacedPart] = []
    for one in newest_first:
        known = {rank for each in chosen for rank in each.part.ranks}
        if like is not None and _is_of_same_start(one.part, like) and not known & set(one.part.ranks):
            chosen.append(one)
    return tuple(sorted(chosen, key=lambda one: one.part.ranks))


def gather(run: Path, own: PlacedPart, wait_s: float, show: Callable[[str], None]) -> tuple[PlacedPart, ...]:
    """Wait until the parts of all ranks are there, at most `wait_s`; take those of others into the folder `run`.

    `show` gets a line that says whose parts are missing. Raises UsageError where a part cannot be copied.
    """
    ends_at = time.monotonic() + wait_s
    is_told = False
    while True:
        found = parts(own.folder.parent, own.part)
        known = {rank for one in found for rank in one.part.ranks}
        if len(known) >= own.part.world_size or time.monotonic() >= ends_at:
            break
        if not is_told:
            missing = sorted(set(range(own.part.world_size)) - known)
            show(f"waiting up to {wait_s:.0f} s for the recordings of {ranks_text(missing)} in {own.folder.parent}")
            is_told = True
        time.sleep(POLL_S)
    others = [one for one in found if one.folder != own.folder]
    for one in others:
        _take(one, run)
    return (own, *others)


def recording_files(path: Path) -> list[Path]:
    """The Recordings of a run folder with the parts that it took, or of the folder of a job."""
    own = sorted(path.glob("recording-*.json"))
    folders = sorted(path.glob(f"{PREFIX}*")) if own else [one.folder for one in parts(path)]
    return [*own, *(file for folder in folders for file in sorted(folder.glob("recording-*.json")))]


def manifest_file(path: Path) -> Path:
    """The run.json of a run folder, or of the part with rank 0 of a job."""
    found = () if any(path.glob("recording-*.json")) else parts(path)
    return (found[0].folder if found else path) / artefacts.MANIFEST


def ranks_text(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0 and 2", "ranks 4 to 7 and 12"."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [text for run in runs for text in _run_texts(run)]
    joined = " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {joined}"


def _run_texts(run: Sequence[int]) -> list[str]:
    return [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(rank) for rank in run]


def _is_of_same_start(one: Part, other: Part) -> bool:
    shared = min(one.ended, other.ended) - max(one.began, other.began)
    shorter = min(one.ended - one.began, other.ended - other.began)
    return one.world_size == other.world_size and shared >= LEAST_OVERLAP * shorter


def _about(place: Path) -> Part | None:
    """None for a folder that holds no part, or one of another version."""
    try:
        row = artefacts.read_json(place / ABOUT)
        if not isinstance(row, dict) or row.pop("schema", None) != SCHEMA:
            return None
        return convert(row, Part)
    except (UsageError, ValidationError):
        return None


def _take(one: PlacedPart, run: Path) -> None:
    """Others may write in a shared folder: what they put beside the files of a part, or a link, is not taken."""
    target = run / one.folder.name
    try:
        target.mkdir(exist_ok=True)
        for file in (*_kept_files(one.folder), one.folder / ABOUT):
            (target / file.name).write_bytes(reading.read(file))
    except OSError as error:
        raise UsageError(f"a part of the job cannot be copied: {error}", where=str(one.folder)) from error


def _kept_files(folder: Path) -> list[Path]:
    """The Recordings and the manifest of a run folder or part, regular files only."""
    files = (*sorted(folder.glob("recording-*.json")), folder / artefacts.MANIFEST)
    return [file for file in files if file.is_file() and not file.is_symlink()]
