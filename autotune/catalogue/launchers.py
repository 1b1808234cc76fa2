"""What starts a training from a shell, and which words in front of the script are its own.

Switches read from torch 2.13 distributed/run.py, deepspeed launcher/runner.py, composer cli/launcher.py and
`python --help`, programs from the entry points of fairseq 0.12.2 and ultralytics 8.3.63. A trainer framework has its
launcher in frameworks/<name>.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.catalogue.frameworks import Launcher

SHELLS = ("sh", "bash", "zsh", "dash", "ksh")


class Prefix(Struct, frozen=True):
    """A command that runs the command behind it.

    With `verb` that stands behind the verb and the flags, of which `values` take a value; without one the command is
    looked for among the words.
    """

    verb: str = ""
    values: frozenset[str] = frozenset()


TORCHRUN = Launcher(
    "torchrun",
    switches=frozenset({"standalone", "no_python", "m", "module", "run_path", "use_env"}),
    processes=("nproc_per_node", "nnodes"),
    one_each=True,
    modules=("torch.distributed.run", "torch.distributed.launch"),
)

DEEPSPEED = Launcher(
    "deepspeed",
    switches=frozenset(
        {
            "module",
            "no_python",
            "no_local_rank",
            "no_ssh",
            "no_ssh_check",
            "force_multi",
            "save_pid",
            "elastic_training",
            "bind_cores_to_rank",
        }
    ),
    processes=("num_gpus", "num_nodes"),
    modules=("deepspeed", "deepspeed.launcher.runner"),
)

_TASKS = ("detect", "segment", "classify", "pose", "obb")
_MODES = ("train", "mode=train")
_YOLO = (*_MODES, *(f"{prefix}{task} {mode}" for prefix in ("", "task=") for task in _TASKS for mode in _MODES))
"""`yolo train`, `yolo detect train`, `yolo task=detect mode=train`."""

_ALL = (
    Launcher("python", switches=frozenset("muOBEIPsSbdqvx")),
    TORCHRUN,
    DEEPSPEED,
    Launcher("composer", switches=frozenset({"v", "verbose", "m", "module_mode"}), processes=("n",)),
    Launcher("fairseq-train", is_program=True, dialect="fairseq", trains=("fairseq_cli.train",)),
    Launcher("fairseq-hydra-train", is_program=True, dialect="fairseq_hydra", trains=("fairseq_cli.hydra_train",)),
    Launcher("yolo", is_program=True, dialect="ultralytics", verbs=_YOLO),
)
"""Those of no trainer framework."""


@cache
def launchers() -> Mapping[str, Launcher]:
    """Every launcher by its name."""
    return {one.name: one for one in (*_ALL, *frameworks.launchers())}


@cache
def launcher_modules() -> Mapping[str, Launcher]:
    """`python -m` of these is the launcher, its verb left out."""
    return {module: one for one in launchers().values() for module in one.modules}


@cache
def training_modules() -> Mapping[str, str | None]:
    """The dialect of the flags of a module that trains."""
    return {module: one.dialect for one in launchers().values() for module in one.trains}


PREFIXES: Mapping[str, Prefix] = {
    **dict.fromkeys(("env", "srun", "numactl", "taskset", "nohup", "time", "exec", "sudo", "nsys", "nice"), Prefix()),
    **dict.fromkeys(("ionice", "stdbuf", "setsid", "timeout", "mpirun", "mpiexec"), Prefix()),
    "uv": Prefix(
        "run",
        frozenset(
            {"p", "python", "w", "with", "with_editable", "with_requirements", "extra", "group", "no_group", "package"}
            | {"only_group", "env_file", "project", "directory", "index", "default_index", "color", "config_file"}
        ),
    ),
    "poetry": Prefix("run", frozenset({"C", "directory", "P", "project"})),
    "ray": Prefix("submit", frozenset({"address", "runtime_env", "runtime_env_json", "working_dir", "submission_id"})),
    "pdm": Prefix("run", frozenset({"p", "project"})),
    "pipenv": Prefix("run"),
    "rye": Prefix("run"),
    "hatch": Prefix("run", frozenset({"e", "env"})),
    "pixi": Prefix("run", frozenset({"e", "environment", "manifest_path"})),
    "conda": Prefix("run", frozenset({"n", "name", "p", "prefix", "cwd"})),
    "mamba": Prefix("run", frozenset({"n", "name", "p", "prefix", "cwd"})),
}
"""Flags with a value as `uv run --help` and the others' print them, without dashes and with underscores."""
