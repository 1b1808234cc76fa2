"""What a job gets of its machines, and what that means for the one command of a bundle.

Facts of a job are stated where its file leaves no doubt: a value that a variable decides is unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from autotune.invocation.shape import name
from autotune.model.evidence import RUN, Fact, Location, Value
from autotune.scan import job_documents, job_requests
from autotune.scan.files import File
from autotune.scan.job_requests import JobRequest
from autotune.scan.launch import Launch
from autotune.scan.library import Library

OTHERS = re.compile(rb"vllm|sglang|server|judge|reward_model", re.IGNORECASE)
"""Words of launch scripts whose other GPUs serve something else."""

THREADS = "OMP_NUM_THREADS"

ON_ONE_MACHINE = {"torchrun": "nproc_per_node", "deepspeed": "num_gpus", "tune": "nproc_per_node"}
"""The flag by which a launcher is told how many processes one machine gets."""

STARTS_ONE = ("python", "python3")

SHARING = ("docker", "podman")
"""Containers that have a /dev/shm of their own: those of Slurm and HPC (apptainer, enroot) see the machine's."""

STEP_GPUS = re.compile(r"(?:^| )(?:-G|--gres\b|--gpus\b(?![= ]all\b))")
"""A step or a container gets GPUs of its own: srun -G 2, --gpus-per-task=1, docker run --gpus 2."""

OWN_SHM = re.compile(r"^--shm-size|^--ipc(?:=|$)|/dev/shm")

SRUN_CPUS = re.compile(r"-c\d*|--cpus-per-(?:task|gpu)(?:=.*)?|--exact|--exclusive")


def facts(launches: Sequence[Launch], library: Library) -> Iterator[Fact]:
    """Facts `job.*` of the one command of a bundle."""
    launch = launches[0] if len(launches) == 1 else None
    file = library.files.get(launch.file) if launch is not None else None  # a typed command stands in none
    if launch is None or file is None or OTHERS.search(file.data):
        return
    asked = _request(file, launch) or JobRequest(machines=1)
    yield from _gpus(asked, launch)
    if asked.lacks_bf16 or job_requests.names_old_gpu(" ".join(filter(None, launch.before))):
        yield Fact("job.lacks_bf16", RUN, True, _of(asked, "lacks_bf16"))
    yield from _stated(asked, "cpus", asked.cpus)
    yield from _stated(asked, "memory_bytes", asked.memory_bytes)
    if asked.time_limit_s is not None:
        yield from _stated(asked, "time_limit_hours", asked.time_limit_s / 3600, "time_limit_s")
    if asked.lacks_cpus is not None:
        yield from _stated(asked, "lacks_cpus", asked.lacks_cpus, "gpus")
    at = Location(launch.file, launch.line)
    processes = _local_processes(asked, launch)
    if processes is not None:
        yield Fact("job.local_processes", RUN, processes, (at,))
    threads = launch.variables.get(THREADS)
    if threads is not None and threads.known and str(threads.value).isdecimal():
        yield Fact("job.num_threads", RUN, int(str(threads.value)), (threads.location,))
    if asked.cpus_per_task is not None and "srun" in launch.before:
        yield Fact("job.cpus_per_task", RUN, asked.cpus_per_task, _of(asked, "cpus"))
        yield Fact("job.step_lacks_cpus", RUN, _step_lacks_cpus(launch), (at,))
    is_small = _has_small_shm(launch)
    if is_small is not None:
        yield Fact("job.has_small_shm", RUN, is_small, (at,))
    elif asked.has_small_shm is not None:
        yield from _stated(asked, "has_small_shm", asked.has_small_shm)


def cards_beside(script: str, library: Library) -> Iterator[Fact]:
    """Fact `job.lacks_bf16`, where all batch scripts of the nearest folder around a script that has any which name a
    card name one before Ampere: those of the people who run it."""
    folder = posixpath.dirname(script)
    while True:
        beside = [one for one in library.files.values() if one.syntax == "shell" and _is_below(one.name, folder)]
        found = [asked for one in beside if (asked := job_requests.lacks_bf16(one.name, one.data)) is not None]
        if found and all(is_old for is_old, _ in found):
            yield Fact("job.lacks_bf16", RUN, True, tuple(at for _, at in found[:1]))
        if found or not folder:
            return
        folder = posixpath.dirname(folder)


def _is_below(name: str, folder: str) -> bool:
    return not folder or name.startswith(f"{folder}/")


def is_spread(launches: Sequence[Launch], library: Library) -> bool:
    """Whether a command starts processes on several machines, or on a number of them that a variable decides."""
    return any(_machines(launch, library) != "1" for launch in launches)


def _machines(launch: Launch, library: Library) -> str:
    """How many machines a command trains on, as written; "" where that is not known."""
    told = next((launch.own[name] for name in ("nnodes", "num_machines", "num_nodes") if name in launch.own), None)
    if told is not None:
        return str(told.value) if told.known else ""
    file = library.files.get(launch.file)
    asked = _request(file, launch) if file is not None else None
    return str(asked.machines or "") if asked is not None else "" if "hostfile" in launch.own else "1"


def _request(file: File, launch: Launch) -> JobRequest | None:
    if file.syntax == "yaml":
        found = job_documents.read(file.name, file.data)
        return found.request(launch.line) if found is not None else None
    return job_requests.of_script(file.name, file.data) if file.syntax == "shell" else None


def _gpus(asked: JobRequest, launch: Launch) -> Iterator[Fact]:
    if None in launch.before or STEP_GPUS.search(" ".join(filter(None, launch.before))):
        return
    visible = launch.variables.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        if visible.known and re.fullmatch(r"\d+(,\d+)*", str(visible.value)):
            yield Fact("job.num_gpus", RUN, str(visible.value).count(",") + 1, (visible.location,))
    elif asked.gpus is not None:
        yield from _stated(asked, "num_gpus", asked.gpus, "gpus")


def _local_processes(asked: JobRequest, launch: Launch) -> int | None:
    """The processes that train on one machine, where the command says it: those of the launcher, or srun's tasks."""
    tasks = 1
    if "srun" in launch.before:
        is_told = any(word is None or re.match(r"-n|--ntasks|-N|--nodes", word) for word in launch.before)
        if is_told or asked.tasks is None:
            return None
        tasks = asked.tasks
    if launch.launcher in STARTS_ONE:
        return tasks if "srun" in launch.before else None
    flag = ON_ONE_MACHINE.get(launch.launcher)
    given = launch.own.get(flag) if flag is not None else None
    if launch.launcher == "accelerate" and _is_told_of_one_machine(asked, launch):
        given = launch.own.get("num_processes")
    is_number = given is not None and given.known and str(given.value).isdecimal()
    return int(str(given.value)) * tasks if given is not None and is_number else None


def _is_told_of_one_machine(asked: JobRequest, launch: Launch) -> bool:
    """Whether the processes of `accelerate launch`, which are those of all machines, are those of one."""
    machines = launch.own.get("num_machines")
    if machines is not None:
        return machines.known and str(machines.value) == "1"
    return "config_file" not in launch.own and asked.machines == 1


def _step_lacks_cpus(launch: Launch) -> bool:
    """Whether srun is not told the CPUs of a task again, as a flag or in its variable."""
    words = [word for word in launch.before if word is not None]
    is_told = any(map(SRUN_CPUS.fullmatch, words)) or "SRUN_CPUS_PER_TASK" in launch.variables
    return not is_told and len(words) == len(launch.before)


def _has_small_shm(launch: Launch) -> bool | None:
    """Whether a container is made without more shared memory; None outside of one, where a variable decides, and where
    the container is there before (exec) or is described in a file (compose)."""
    words = [word for word in launch.before if word is not None]
    at = next((at for at, word in enumerate(words) if name(word) in SHARING), len(words))
    verbs = [word for word in words[at + 1 : at + 3] if word != "container"]
    if len(words) < len(launch.before) or verbs[:1] not in (["run"], ["create"]):
        return None
    return not any(map(OWN_SHM.search, words))


def _stated(asked: JobRequest, fact: str, value: Value | None, place: str = "") -> Iterator[Fact]:
    if value is not None:
        yield Fact(f"job.{fact}", RUN, value, _of(asked, place or fact))


def _of(asked: JobRequest, place: str) -> tuple[Location, ...]:
    return (asked.places[place],) if place in asked.places else ()
