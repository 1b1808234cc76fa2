"""What starts a training from a shell, and which words in front of the script are its own.

Switches read from torch 2.13 distributed/run.py, accelerate 1.15.0 commands/launch.py, deepspeed launcher/runner.py,
composer cli/launcher.py and `python --help`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

SHELLS = ("sh", "bash", "zsh", "dash", "ksh")


class Prefix(Struct, frozen=True):
    """A command that runs the command behind it.

    With `verb` that stands behind the verb and the flags, of which `values` take a value; without one the command is
    looked for among the words.
    """

    verb: str = ""
    values: frozenset[str] = frozenset()


class Launcher(Struct, frozen=True):
    """`verbs` must follow the command. `switches` are own flags without a value; every other own flag takes one.

    `is_program` says that the verb is what trains: then all the words behind it are for it. `processes` are the flags
    whose product is the number of processes, 1 each when absent if `one_each`. `dialect` is that of the flags.
    """

    name: str
    verbs: tuple[str, ...] = ()
    switches: frozenset[str] = frozenset()
    is_program: bool = False
    processes: tuple[str, ...] = ()
    one_each: bool = False
    dialect: str | None = None


TORCHRUN = Launcher(
    "torchrun",
    switches=frozenset({"standalone", "no_python", "m", "module", "run_path", "use_env"}),
    processes=("nproc_per_node", "nnodes"),
    one_each=True,
)

ACCELERATE = Launcher(
    "accelerate",
    verbs=("launch",),
    switches=frozenset(
        {
            "cpu",
            "debug",
            "dynamo_use_dynamic",
            "dynamo_use_fullgraph",
            "dynamo_use_regional_compilation",
            "enable_cpu_affinity",
            "m",
            "module",
            "multi_gpu",
            "no_python",
            "no_tpu_cluster",
            "q",
            "quiet",
            "tpu",
            "tpu_cluster",
            "tpu_use_sudo",
            "use_deepspeed",
            "use_fsdp",
            "use_megatron_lm",
            "use_parallelism_config",
            "downcast_bf16",
            "same_network",
            "fp8_use_autocast_during_eval",
        }
    ),
    processes=("num_processes",),
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
)

_ALL = (
    Launcher("python", switches=frozenset("muOBEIPsSbdqvx")),
    TORCHRUN,
    ACCELERATE,
    DEEPSPEED,
    Launcher("composer", switches=frozenset({"v", "verbose", "m", "module_mode"}), processes=("n",)),
    Launcher("tune", verbs=("run",), switches=TORCHRUN.switches, processes=("nproc_per_node",), dialect="torchtune"),
    Launcher("trl", verbs=("sft", "dpo", "grpo", "kto", "reward", "rloo"), is_program=True, dialect="trl"),
    Launcher("llamafactory-cli", verbs=("train",), is_program=True, dialect="llamafactory"),
    Launcher("swift", verbs=("sft", "pt", "rlhf"), is_program=True, dialect="swift"),
    Launcher(
        "litgpt",
        verbs=("pretrain", "finetune", "finetune_lora", "finetune_full", "finetune_adapter", "finetune_adapter_v2"),
        is_program=True,
        dialect="litgpt",
    ),
    Launcher("axolotl", verbs=("train",), is_program=True, dialect="axolotl"),
)

LAUNCHERS: Mapping[str, Launcher] = {launcher.name: launcher for launcher in _ALL}

MODULES: Mapping[str, Launcher] = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "accelerate.commands.launch": ACCELERATE,
    "deepspeed": DEEPSPEED,
    "deepspeed.launcher.runner": DEEPSPEED,
}
"""`python -m` of these is the launcher, its verb left out."""

DIALECTS: Mapping[str, str] = {
    "axolotl.cli.train": "axolotl",
    "trl.scripts.sft": "trl",
    "trl.scripts.dpo": "trl",
    "trl.scripts.grpo": "trl",
    "llamafactory.launcher": "llamafactory",
    "swift.cli.sft": "swift",
}
"""The dialect of the flags of a module that trains."""

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
    "pdm": Prefix("run", frozenset({"p", "project"})),
    "pipenv": Prefix("run"),
    "rye": Prefix("run"),
    "hatch": Prefix("run", frozenset({"e", "env"})),
    "pixi": Prefix("run", frozenset({"e", "environment", "manifest_path"})),
    "conda": Prefix("run", frozenset({"n", "name", "p", "prefix", "cwd"})),
    "mamba": Prefix("run", frozenset({"n", "name", "p", "prefix", "cwd"})),
}
"""Flags with a value as `uv run --help` and the others' print them, without dashes and with underscores."""
