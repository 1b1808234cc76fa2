"""A command under watch: the same as with AUTOTUNE_WATCH=1 in front of it, also in a Python that autotune is not
installed in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from autotune import machine
from autotune.collect import command
from autotune.errors import ScriptError


def start(
    words: Sequence[str],
    *,
    python: str | None,
    prometheus: Path | None,
    quiet: bool,
    cwd: Path,
    environ: Mapping[str, str],
) -> NoReturn:
    """Become the command: its output, its signals and its exit code are its own. Raises UsageError before that."""
    found, _ = machine.find_python(words, python, environ, cwd)
    planned = command.plan_command(words, found, cwd, environ)
    variables = {
        **environ,
        **planned.variables,
        "AUTOTUNE_WATCH": "quiet" if quiet else "1",
        **({"AUTOTUNE_WATCH_PROMETHEUS": str(prometheus.absolute())} if prometheus is not None else {}),
    }
    os.chdir(planned.cwd or cwd)
    try:
        os.execvpe(planned.argv[0], planned.argv, command.on_python_path(variables))
    except OSError as error:
        raise ScriptError(f"it cannot be started: {error.strerror}", where=planned.argv[0]) from error
