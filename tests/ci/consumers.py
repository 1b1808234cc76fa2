"""The consumers of action.yml and .pre-commit-hooks.yaml, played: what they would run, in a folder of a test."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

PROJECT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*inputs\.([\w-]+)\s*\}\}")
_BASH = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
"""How the runner starts `shell: bash` (docs.github.com, workflow syntax, "shell")."""

_PYTHON3 = """\
#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec {python} "$@"
mkdir -p "$3/bin"
cp {tools}/python {tools}/autotune "$3/bin"
"""
_PYTHON = """\
#!/bin/sh
[ "$1 $2" = "-m pip" ] || exec {python} "$@"
printf '%s\\n' "$@" > {tools}/pip
"""
_AUTOTUNE = """\
#!/bin/sh
exec {python} -m autotune "$@"
"""
"""`python3 -m venv FOLDER`, and what it puts there: pip writes down what it is asked for, no network is needed."""


def read(name: str) -> Any:
    """A YAML file of the project."""
    return YAML(typ="safe", pure=True).load((PROJECT / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Step:
    """How the job ended: exit code, what the log shows, the job summary, and what pip was asked for."""

    code: int
    log: str
    summary: str
    pip: tuple[str, ...]


def run_action(repository: Path, temp: Path, **inputs: str) -> Step:
    """Run the steps of action.yml in `repository`, until one fails; `fail_on` stands for the input `fail-on`."""
    action = read("action.yml")
    given = {name: entry["default"] for name, entry in action["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    environ = _runner(temp)
    code, log = 0, ""
    for step in action["runs"]["steps"]:
        values = {name: _EXPRESSION.sub(lambda match: given[match[1]], text) for name, text in step["env"].items()}
        script = temp / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        ended = _run([*_BASH, str(script)], repository, {**environ, **values})
        code, log = ended.returncode, log + ended.stdout + ended.stderr
        if code:
            break
    pip = (temp / "tools" / "pip").read_text(encoding="utf-8").splitlines()
    return Step(code, log, (temp / "summary").read_text(encoding="utf-8"), tuple(pip))


def _runner(temp: Path) -> Mapping[str, str]:
    """The environment of a job on a machine whose `python3` is played."""
    tools = temp / "tools"
    tools.mkdir()
    for name, text in {"python3": _PYTHON3, "python": _PYTHON, "autotune": _AUTOTUNE}.items():
        script = tools / name
        script.write_text(text.format(python=shlex.quote(sys.executable), tools=shlex.quote(str(tools))))
        script.chmod(0o755)
    (temp / "summary").touch()
    return {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(temp),
        "RUNNER_TEMP": str(temp),
        "GITHUB_ACTION_PATH": str(PROJECT),
        "GITHUB_STEP_SUMMARY": str(temp / "summary"),
    }


def run_hook(repository: Path, changed: Sequence[str], *args: str) -> subprocess.CompletedProcess[str] | None:
    """Run the hook as pre-commit does for a commit of `changed`; None when no file of it is the hook's."""
    (hook,) = read(".pre-commit-hooks.yaml")
    files = [name for name in changed if re.search(hook["files"], name)]
    if not files:
        return None
    words = [*shlex.split(hook["entry"]), *args, *(files if hook["pass_filenames"] else ())]
    return _run(words, repository, {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})


def _run(words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=dict(environ), capture_output=True, encoding="utf-8", check=False)
