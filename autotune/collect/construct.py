"""Whether the script's libraries accept changed arguments: the objects are constructed in its interpreter.

Nothing of the script is imported, nothing trains. A child process of the script's interpreter imports the library's
class, checks the names of the arguments against its signature and constructs it, in a temporary folder and offline.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.model.evidence import Value
from autotune.model.scanned import ConsumerCall

PROGRAM = Path(__file__).parent.parent / "probe" / "construct.py"
_RESULTS = "results.jsonl"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "disabled", "PYTHONDONTWRITEBYTECODE": "1"}
_LAUNCHERS = ("SLURM_", "PMI_", "OMPI_", "MV2_", "TORCHELASTIC_", "ACCELERATE_", "FSDP_", "PL_")
_RANKS = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}


class Target(Struct, frozen=True):
    """An object to construct: `name` of `module` with keyword `arguments`, by dotted name where they nest.

    A class of the script's own stands for its library base: Target("transformers", "TrainingArguments", ...).
    `before` are the arguments without the change. What they do not achieve either (an argument of the script's own
    class, one whose value is not known) is not held against the change. None: there is nothing to compare with.
    """

    module: str
    name: str
    arguments: Mapping[str, Value | None]
    before: Mapping[str, Value | None] | None = None


class Constructed(Struct, frozen=True):
    """What came of a target: `refusal` is "" when the library accepts it, else its own words.

    `notes` are the library's announcements about given arguments (deprecated, will be removed) and what was left out.
    """

    refusal: str = ""
    notes: tuple[str, ...] = ()


def target(calls: Sequence[ConsumerCall], changed: Mapping[str, Value | None]) -> Target | None:
    """The object that `calls` (of one consumer; the first that gives an argument wins) make with `changed` arguments.

    None where they make nothing that can be constructed without a model or a launcher.
    """
    dialect, name = calls[0].dialect, next((call.name for call in calls if call.name), "")
    framework = frameworks.frameworks().get(dialect)
    if framework is not None and not name:
        name = framework.parsed  # a command line or a config fills it
    module = _module(dialect, name)
    if module is None:
        return None
    given = {key: one for call in reversed(calls) for key, one in call.arguments.items()}
    before = {key: one.value for key, one in given.items() if one.known}
    return Target(module, name.rpartition(".")[2], {**before, **changed}, before)


def _module(dialect: str, name: str) -> str | None:
    if dialect != "torch":
        return frameworks.construct_module(dialect, name)
    if name.startswith("torch.optim."):
        return "torch.optim"
    return "torch.utils.data" if name == "DataLoader" else None


def check(
    python: str, targets: Sequence[Target], *, cwd: Path, limit_s: float, environ: Mapping[str, str] = os.environ
) -> tuple[Constructed, ...]:
    """Construct `targets` with the interpreter `python`: one answer each, in their order.

    `cwd` and `environ` are those of the run: an argument that names a file there reaches the library as its path. Where
    the interpreter is missing, crashes or takes longer than `limit_s` seconds, what it left open is refused.
    """
    rows = [_row(target, cwd) for target in targets]
    if not rows:
        return ()
    program = str(cwd / python) if os.sep in python else python
    with tempfile.TemporaryDirectory(prefix="autotune-construct-", ignore_cleanup_errors=True) as folder:
        why = _run([program, str(PROGRAM)], json.dumps(rows), Path(folder), _environment(environ, cwd), limit_s)
        answers = list(_read(Path(folder, _RESULTS)))
    return (*answers, *[Constructed(f"it could not be constructed: {why}")] * (len(rows) - len(answers)))


def _row(target: Target, cwd: Path) -> dict[str, Any]:
    before = None if target.before is None else _plain(target.before, cwd)
    return {
        "modules": frameworks.module_names(target.module),
        "name": target.name,
        "arguments": _plain(target.arguments, cwd),
        "before": before,
    }


def _plain(arguments: Mapping[str, Value | None], cwd: Path) -> dict[str, Any]:
    """The arguments as JSON has them: {"a.b": 1} becomes {"a": {"b": 1}}."""
    plain: dict[str, Any] = {}
    for key, value in sorted(arguments.items()):
        *parents, name = key.split(".")
        place = plain
        for parent in parents:
            if not isinstance(place.get(parent), dict):
                place[parent] = {}
            place = place[parent]
        place[name] = _absolute(value, cwd)
    return plain


def _absolute(value: Value | None, cwd: Path) -> Value | None:
    """The path of a file of the user's; "adamw" stays a word although a file has that name."""
    if not isinstance(value, str) or not (Path(value).suffix or os.sep in value):
        return value
    return str(cwd / value) if os.path.isfile(cwd / value) else value  # noqa: PTH113


def _environment(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """The user's environment without a launcher's: one process, offline."""
    kept = {key: value for key, value in environ.items() if key not in _RANKS and not key.startswith(_LAUNCHERS)}
    if path := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join(str(cwd / entry) for entry in path.split(os.pathsep))
    return {**kept, **_OFFLINE}


def _run(command: Sequence[str], request: str, folder: Path, environ: Mapping[str, str], limit_s: float) -> str:
    """Run the program; why it may not have answered everything."""
    try:
        # No pipes for its output: a grandchild that holds one would keep us waiting.
        done = subprocess.run(
            command,
            input=request,
            text=True,
            cwd=folder,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {limit_s:g} s"
    except OSError as error:
        return f"{command[0]} does not run: {error.strerror}"
    if done.returncode < 0:
        return f"the interpreter was killed by {signal.Signals(-done.returncode).name}"
    return f"the interpreter ended with exit status {done.returncode}"


def _read(results: Path) -> Iterator[Constructed]:
    lines = results.read_text("utf-8").split("\n")[:-1] if results.is_file() else []
    for line in lines:
        row = json.loads(line)
        yield Constructed(row["refusal"], tuple(row["notes"]))
