"""What the lines of a batch script ask a scheduler for: #SBATCH (Slurm), #PBS (OpenPBS, Torque) and #BSUB (LSF).

A scheduler reads these lines up to the first command. What it works out itself, or the site sets, is not known: None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.model.evidence import Location

DIRECTIVE = re.compile(r"#(SBATCH|PBS|BSUB)[ \t]+([^#\n]*)")

OPTION = re.compile(r"(?:^|\s)(--[A-Za-z][\w-]*|-[A-Za-z])(?:[ \t=]*(\"[^\"]*\"|'[^']*'|[^\s-]\S*))?")
"""--gres=gpu:4, -c 16, -c16, -gpu "num=4"; several stand on one line."""

GPUS = re.compile(r"^(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,9})$")
"""4, gpu:4, gpu:a100:4."""

AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)i?b?", re.IGNORECASE)

MAX_DIGITS = 9
"""Of a number of machines, tasks, CPUs, GPUs or seconds."""

LARGEST = 1 << 62
"""No number of bytes or CPUs is larger."""

UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

SHARES = re.compile(r"task|cpu|core|thread|socket")
"""What is in the names of options of Slurm that give processes or CPUs."""

KNOWN_SHARES = frozenset({
    *("--cpus-per-task", "--cpus-per-gpu", "--exclusive", "--mem-per-cpu", "--cores-per-socket", "--ntasks"),
    "--ntasks-per-node",
})  # fmt: skip

LONG = {"-c": "--cpus-per-task", "-n": "--ntasks", "-N": "--nodes", "-G": "--gpus", "-t": "--time"}
"""Slurm's short options."""


OLD_GPU = re.compile(
    r"(?<![a-z0-9])(?:tesla|nvidia)?[_-]?(?:[vp]100s?|volta\w*|turing|pascal|p40|[km]\d0|t4|titan\w*|gtx\w*"
    r"|(?:rtx[_-]?)?20[678]0[_-]?(?:ti|super)|rtx[_-]?20[678]0|(?:quadro[_-]?)?rtx[_-]?8000)(?![a-z0-9])",
    re.IGNORECASE,
)
"""Cards before Ampere, which have neither bf16 nor TF32."""

NEW_GPU = re.compile(
    r"(?<![a-z0-9])(?:nvidia|nvidia_|rtx)?[_-]?(?:gh200|l4|[abhl]\d{2,3}s?|a\d000|[345]0[6789]0|ampere|hopper|ada|blackwell)"
    r"(?![a-z0-9])",
    re.IGNORECASE,
)
"""Cards from Ampere on."""

NAMES_CARDS = frozenset({
    *("--partition", "-p", "--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task", "--constraint", "-C"),
    *("--account", "-A", "-l", "-q", "--gpu", "-R"),
})  # fmt: skip
"""Options whose values name the cards of a job; a quality of service (--qos=qos_gpu-t4) is none of them."""


class JobRequest(Struct, frozen=True):
    """What a job gets. Numbers are those of one machine, but `memory_bytes`, which all of its machines have together.

    `tasks` are the processes that the scheduler's own launcher starts. `lacks_cpus` says that it asks for several GPUs
    and one task, and for no CPUs. `has_small_shm` says that /dev/shm has the 64 MiB of a container that is not told
    otherwise. `lacks_bf16` says that it names a card before Ampere, perhaps beside others. `places` are where that is
    said, by field.
    """

    machines: int | None = None
    tasks: int | None = None
    cpus: int | None = None
    cpus_per_task: int | None = None
    gpus: int | None = None
    memory_bytes: int | None = None
    time_limit_s: int | None = None
    lacks_cpus: bool | None = None
    has_small_shm: bool | None = None
    lacks_bf16: bool | None = None
    places: Mapping[str, Location] = field(default_factory=dict)


Asked = Mapping[str, tuple[str, Location]]
"""The options of a job, each with its value and its place."""


def of_script(file: str, data: bytes) -> JobRequest | None:
    """What the lines of a batch script ask for; None for a script without any."""
    found = list(_directives(data))
    if not found:
        return None
    kind = found[0][0]
    lines = [(text, Location(file, line)) for one, text, line in found if one == kind]
    asked = {"SBATCH": _of_slurm, "PBS": _of_pbs, "BSUB": _of_lsf}[kind](lines)
    old = next((at for text, at in lines if names_old_gpu(re.sub(r"(?<!\S)-gpu\b", "--gpu", text))), None)
    return asked if old is None else replace(asked, lacks_bf16=True, places={**asked.places, "lacks_bf16": old})


def names_old_gpu(options: str) -> bool:
    """Whether options of a scheduler ask for a card before Ampere: `--partition=V100`, `--gres=gpu:t4:2`."""
    return _names(options, OLD_GPU)


def _names(options: str, cards: re.Pattern[str]) -> bool:
    found = (option for option in OPTION.finditer(options) if option[1] in NAMES_CARDS)
    return any(cards.search(option[2] or "") for option in found)


def lacks_bf16(file: str, data: bytes) -> tuple[bool, Location] | None:
    """Whether a batch script asks for cards before Ampere alone, and where it names its card; None where it names none
    that is known."""
    lines = [(text, Location(file, line)) for _, text, line in _directives(data)]
    new = [at for text, at in lines if _names(text, NEW_GPU)]
    old = [at for text, at in lines if names_old_gpu(text)]
    return (not new, (new or old)[0]) if new or old else None


def _directives(data: bytes) -> Iterator[tuple[str, str, int]]:
    """The kind, the options and the line of each directive above the first command."""
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            return
        if (found := DIRECTIVE.match(line)) is not None:
            yield found[1], found[2], number


def _options(lines: Sequence[tuple[str, Location]], long: Mapping[str, str]) -> Asked:
    return {
        long.get(option[1], option[1]): ((option[2] or "").strip("\"'"), at)
        for text, at in lines
        for option in OPTION.finditer(text)
    }


def _of_slurm(lines: Sequence[tuple[str, Location]]) -> JobRequest:
    asked = {name: one for name, one in _options(lines, LONG).items() if name != "--gres" or one[0].startswith("gpu:")}
    machines = (
        _number(asked, "--nodes") if "--nodes" in asked else 1 if _number(asked, "--ntasks") in (None, 1) else None
    )
    tasks = _slurm_tasks(asked, machines)
    gpus = _slurm_gpus(asked, machines)
    per_task, per_gpu = _number(asked, "--cpus-per-task"), _number(asked, "--cpus-per-gpu")
    cpus = None
    if "--exclusive" not in asked:
        cpus = product(per_gpu, gpus) if "--cpus-per-gpu" in asked else product(per_task, tasks)
    is_plain = not any(map(SHARES.search, asked.keys() - KNOWN_SHARES))
    counts = [asked[name][0] for name in ("--ntasks-per-node", "--ntasks") if name in asked]
    has_cpus = bool(asked.keys() & {"--cpus-per-task", "--cpus-per-gpu", "--exclusive", "--mem-per-cpu"})
    has_cpus = has_cpus or "--cores-per-socket" in asked
    one_task = all(text == "1" for text in counts)
    memory = memory_bytes(asked.get("--mem", ("", None))[0], "m")
    return JobRequest(
        machines=machines,
        tasks=tasks,
        cpus=cpus,
        cpus_per_task=per_task,
        gpus=gpus,
        memory_bytes=product(memory, machines) if memory else None,
        time_limit_s=_slurm_time(asked["--time"][0]) if "--time" in asked else None,
        lacks_cpus=one_task and not has_cpus if gpus is not None and gpus > 1 and is_plain else None,
        places=_places(
            asked,
            machines=("--nodes",),
            tasks=("--ntasks-per-node", "--ntasks"),
            cpus=("--cpus-per-gpu", "--cpus-per-task"),
            gpus=("--gres", "--gpus-per-node", "--gpus"),
            memory_bytes=("--mem",),
            time_limit_s=("--time",),
        ),
    )


def _slurm_tasks(asked: Asked, machines: int | None) -> int | None:
    """The tasks of one machine; one, where none are asked for."""
    if any("-per-" in name and name.startswith("--ntasks") and name != "--ntasks-per-node" for name in asked):
        return None
    if "--ntasks-per-node" in asked:
        return _number(asked, "--ntasks-per-node")
    if "--ntasks" not in asked:
        return 1
    total = _number(asked, "--ntasks")
    return total // machines if total and machines and total % machines == 0 else None


def _slurm_gpus(asked: Asked, machines: int | None) -> int | None:
    for name in ("--gres", "--gpus-per-node", "--gpus"):
        found = GPUS.match(asked[name][0]) if name in asked else None
        if found and (name != "--gpus" or machines == 1):
            return int(found[1])
    return None


def _slurm_time(text: str) -> int | None:
    """ "30" and "30:00" are minutes, "2:30:00" and "1-12" hours, "1-12:30:00" a day and 12.5 hours."""
    days, has_days, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(map(is_whole, parts)) or (has_days and not is_whole(days)) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if has_days or len(numbers) == 3:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds or None  # 0 is no limit


def _of_pbs(lines: Sequence[tuple[str, Location]]) -> JobRequest:
    """`-l select=2:ncpus=16:ngpus=4:mem=64gb` (OpenPBS), `-l nodes=2:ppn=16` (Torque), `-l walltime=24:00:00`.

    Several chunks of `select` may share a machine, unless `place=scatter` parts them.
    """
    asked: dict[str, tuple[str, Location]] = {}
    for text, at in lines:
        for option in OPTION.finditer(text):
            for part in (option[2] or "").split(",") if option[1] == "-l" else ():
                first, *more = part.split(":") if part.startswith(("select=", "nodes=")) else [part]
                asked |= {key: (value, at) for key, _, value in (one.partition("=") for one in (first, *more))}
    is_mixed = any(re.search(r"(?:select|nodes)=\S*\+", text) for text, _ in lines)
    chunks = "select" if "select" in asked else "nodes"
    count = None if is_mixed else _number(asked, chunks) if chunks in asked else 1
    is_parted = chunks == "nodes" or count == 1 or asked.get("place", ("", None))[0].startswith("scatter")
    machines = count if is_parted else None
    cpus = _first(asked, "ncpus", "ppn")
    gpus = _first(asked, "ngpus", "gpus")
    memory = memory_bytes(asked.get("mem", ("", None))[0], "")
    known = machines is not None
    return JobRequest(
        machines=machines,
        cpus=cpus if known else None,
        gpus=gpus if known else None,
        memory_bytes=product(memory, count if chunks == "select" else 1) if memory and count else None,
        time_limit_s=_clock(asked["walltime"][0]) if "walltime" in asked else None,
        lacks_cpus=cpus is None and not asked.keys() & {"ncpus", "ppn"} if known and gpus and gpus > 1 else None,
        places=_places(
            asked,
            machines=(chunks,),
            cpus=("ncpus", "ppn"),
            gpus=("ngpus", "gpus"),
            memory_bytes=("mem",),
            time_limit_s=("walltime",),
        ),
    )


def _of_lsf(lines: Sequence[tuple[str, Location]]) -> JobRequest:
    """`-n 16`, `-R "span[hosts=1]"`, `-gpu "num=4"`, `-W 24:00`. The unit of memory is the site's."""
    options = _options([(re.sub(r"(?<!\S)-gpu\b", "--gpu", text), at) for text, at in lines], {})
    span = next(filter(None, (re.search(r"span\[(hosts|ptile)=(\d{1,9})\]", text) for text, _ in lines)), None)
    slots = _number(options, "-n") if "-n" in options else 1
    one_host = slots == 1 or (span is not None and span[1] == "hosts" and span[2] == "1")
    cpus = slots if one_host else int(span[2]) if span is not None and span[1] == "ptile" else None
    gpu = re.search(r"num=(\d{1,9})(?![\d]|\S*/task)", options.get("--gpu", ("", None))[0])
    gpus = int(gpu[1]) if gpu is not None else None
    minutes = re.fullmatch(r"(?:(\d{1,9}):)?(\d{1,9})(?:/.*)?", options.get("-W", ("", None))[0])
    return JobRequest(
        machines=1 if one_host else None,
        cpus=cpus if "-n" in options else None,
        gpus=gpus,
        time_limit_s=(int(minutes[1] or 0) * 60 + int(minutes[2])) * 60 if minutes is not None else None,
        lacks_cpus=slots == 1 if gpus is not None and gpus > 1 else None,
        places=_places(options, machines=("-R",), cpus=("-n",), gpus=("--gpu",), time_limit_s=("-W",)),
    )


def _clock(text: str) -> int | None:
    """Seconds of "24:00:00", "30:00" and "90"."""
    parts = text.split(":")
    if not all(map(is_whole, parts)):
        return None
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return seconds


def memory_bytes(text: str, unit: str = "") -> int | None:
    """The bytes of "64G", "512 MB", "32Gi"; of a bare number in `unit`. None for 0, which is all of a machine."""
    found = AMOUNT.fullmatch(text.strip())
    if found is None:
        return None
    amount = int(float(found[1]) * 1024 ** UNITS[found[2].lower() or unit])
    return amount if 0 < amount < LARGEST else None


def _number(asked: Asked, name: str) -> int | None:
    text = asked[name][0] if name in asked else ""
    return int(text) if is_whole(text) else None


def is_whole(text: str) -> bool:
    """Whether a text is a whole number that a request can have: one of thousands of digits is none, nor for int()."""
    return text.isdecimal() and len(text) <= MAX_DIGITS


def _first(asked: Asked, *names: str) -> int | None:
    return next((_number(asked, name) for name in names if name in asked), None)


def product(one: int | None, other: int | None) -> int | None:
    """The product where both are known; None for more than any job gets."""
    found = one * other if one is not None and other is not None else None
    return found if found is not None and found < LARGEST else None


def _places(asked: Asked, **names: Sequence[str]) -> dict[str, Location]:
    found = {key: [asked[name][1] for name in each if name in asked] for key, each in names.items()}
    return {key: places[0] for key, places in found.items() if places}
