"""The worker of an allocation: `python -m autotune.collect.allocation_worker FOLDER` on the machine of the job.

It ends when the folder says so, when nothing was asked for some minutes (its tuner is gone), or by the scheduler.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from msgspec import convert, to_builtins

from autotune import collect, machine
from autotune.collect import artefacts, lock
from autotune.collect.allocation import ASKED, END, MACHINE, POLL_S, RESULT, WORKER, Asked, Result
from autotune.collect.command import PlannedCommand
from autotune.collect.progress import Status
from autotune.errors import AutotuneError
from autotune.machine.signals import terminate_on_signal

IDLE_S = 600.0
"""Without a request the tuner is gone, or the user's budget."""


class _EndedError(Exception):
    """The tuner wants no result any more."""


def main(folder: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Write the facts of this machine, then make the measurements that are asked for, by their numbers.

    The first one in the folder is the worker: the scheduler may start several (srun -n4, an array, a requeued job).
    """
    try:
        (folder / WORKER).open("x").close()
    except FileExistsError:
        return
    facts = [(fact.name, fact.subject, to_builtins(fact.value)) for fact in machine.facts({}, environ=environ)]
    artefacts.write_json(folder / MACHINE, {"facts": facts})
    number, ends_at = 1, time.monotonic() + IDLE_S
    while time.monotonic() < ends_at and not (folder / END).exists():
        file = folder / ASKED.format(number)
        if not file.is_file():
            time.sleep(POLL_S)
            continue
        try:
            result = _measured(convert(artefacts.read_json(file), Asked), folder, environ)
        except _EndedError:
            return
        artefacts.write_json(folder / RESULT.format(number), to_builtins(result))
        number, ends_at = number + 1, time.monotonic() + IDLE_S


def _measured(asked: Asked, folder: Path, environ: Mapping[str, str]) -> Result:
    def shown(status: Status) -> None:
        if (folder / END).exists():
            raise _EndedError

    words = PlannedCommand(asked.argv, Path(asked.script) if asked.script is not None else None)
    try:
        with (
            terminate_on_signal(),
            lock.one_measurement(asked.title) if asked.lock else nullcontext(),
            Path(os.devnull).open("w") as nowhere,
        ):
            found = collect.collect(
                asked.request,
                words,
                Path(asked.run),
                cwd=Path(asked.cwd),
                environ={**environ, **asked.environ},
                show=shown,
                stdout=nowhere.fileno(),
                stderr=Path(asked.stderr) if asked.stderr is not None else None,
                protected=Path(asked.protected) if asked.protected is not None else None,
            )
    except AutotuneError as error:
        return Result(error=(type(error).__name__, error.what, error.where, error.to_do))
    return Result(**{name: getattr(found, name) for name in Result.__struct_fields__ if name != "error"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
