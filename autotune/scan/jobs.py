"""What a job asks of its machine: the GPUs that a command may use, and CPUs for the processes on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from autotune.model.evidence import RUN, Fact, Location
from autotune.scan.launch import Launch
from autotune.scan.library import Library

DIRECTIVE = re.compile(r"^#SBATCH[ \t]+([^#\n]*)", re.MULTILINE)

OPTION = re.compile(r"(?:^|\s)(-{1,2}[A-Za-z][\w-]*)(?:[ \t=]+([^\s-]\S*))?")
"""--gres=gpu:4, -c 16; several stand on one line."""

GPUS = re.compile(r"^(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d+)$")
"""4, gpu:4, gpu:a100:4."""

PER_NODE = ("--gres", "--gpus-per-node")
IN_ALL = ("--gpus", "-G")
NODES = ("--nodes", "-N")
CPUS = frozenset(
    {"--cpus-per-task", "-c", "--cpus-per-gpu", "--exclusive", "--mem-per-cpu", "--cores-per-socket", "-n"}
)
TASKS = ("--ntasks-per-node", "--ntasks")
SHARES = re.compile(r"task|cpu|core|thread|socket")
"""What is in the names of other options that give processes or CPUs."""

OTHERS = re.compile(rb"vllm|sglang|server|judge|reward_model", re.IGNORECASE)
"""Words of launch scripts whose other GPUs serve something else."""


def facts(launches: Sequence[Launch], library: Library) -> Iterator[Fact]:
    """Facts `job.num_gpus` and `job.lacks_cpus`, of the one command of a bundle."""
    file = library.files.get(launches[0].file) if len(launches) == 1 else None  # a typed command stands in none
    if file is None or OTHERS.search(file.data):
        return
    asked = _directives(file.name, file.data)
    visible = launches[0].variables.get("CUDA_VISIBLE_DEVICES")
    number = _gpus_per_node(asked)
    if visible is not None and visible.known and re.fullmatch(r"\d+(,\d+)*", str(visible.value)):
        yield Fact("job.num_gpus", RUN, str(visible.value).count(",") + 1, (visible.location,))
    elif number is not None:
        yield Fact("job.num_gpus", RUN, number, (_place(asked, (*PER_NODE, *IN_ALL)),))
    if number is not None and number > 1 and not any(map(SHARES.search, asked.keys() - CPUS - {*TASKS})):
        tasks = [text for name in TASKS if (text := asked.get(name, ("", None))[0])]
        is_one = all(text == "1" for text in tasks)
        yield Fact("job.lacks_cpus", RUN, is_one and not CPUS & asked.keys(), (_place(asked, (*PER_NODE, *IN_ALL)),))


def _directives(file: str, data: bytes) -> Mapping[str, tuple[str, Location]]:
    """The options of a batch job, each with its value and its place."""
    text = data.decode(errors="replace")
    return {
        option[1]: (option[2] or "", Location(file, text.count("\n", 0, line.start()) + 1))
        for line in DIRECTIVE.finditer(text)
        for option in OPTION.finditer(line[1])
    }


def _gpus_per_node(asked: Mapping[str, tuple[str, Location]]) -> int | None:
    nodes = next((asked[name][0] for name in NODES if name in asked), "1")
    for name in (*PER_NODE, *IN_ALL):
        found = GPUS.match(asked[name][0]) if name in asked else None
        if found and (name in PER_NODE or nodes == "1"):
            return int(found[1])
    return None


def _place(asked: Mapping[str, tuple[str, Location]], names: Sequence[str]) -> Location:
    return next(asked[name][1] for name in names if name in asked)
