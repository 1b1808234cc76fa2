"""Measurements on other machines: the scheduler starts a job of ours, and a worker in it measures what the tuner asks.

The launch command ("sbatch --wait {script}") starts a script of ours where the scheduler wants it. The script is a
worker (allocation_worker.py): it says what its machine is, and measures one command after another, each as on this
machine, with the machine's lock. Requests and results are files in a folder that both machines see:

    <folder>/job.sh              what the launch command starts
            /worker              made by the first worker; others that the scheduler starts go at once
            /machine.json        facts of the worker's machine
            /asked-1.json        a measurement that is wanted; it may hold secrets, and is its user's alone
            /result-1.json       how it ended; its Recordings are in its run folder
            /end                 the worker may go

The times of a network file system's caches apply: a worker may see a file some seconds after it was written.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from msgspec import Struct, convert, to_builtins

from autotune.collect import artefacts, stderr_tail
from autotune.collect.command import PlannedCommand
from autotune.collect.isolation import SideEffects
from autotune.collect.load_recordings import load
from autotune.collect.progress import Status
from autotune.collect.request import Request
from autotune.collect.run import Collected, EarlyException
from autotune.errors import ScriptError, UsageError
from autotune.machine import MachineSamples
from autotune.machine.signals import check_interrupted
from autotune.model.evidence import Fact
from autotune.model.recording import StartUp

SCRIPT, WORKER, MACHINE, END = "job.sh", "worker", "machine.json", "end"
ASKED, RESULT = "asked-{}.json", "result-{}.json"
PLACE = "{script}"
"""In a launch command: where the name of the script goes."""

DIRECTIVES = ("#SBATCH", "#PBS", "#BSUB", "#$ ", "#flux:")
"""Comments of a job script that a scheduler reads."""

ARRAYS = {
    "#SBATCH": re.compile(r"(?<=\s)(?:--array(?:=|\s+)|-a\s*)\S+"),
    "#PBS": re.compile(r"(?<=\s)-[Jt]\s*\S+"),
    "#BSUB": re.compile(r"(?<=\s)-J\s*\S+\[\S+"),
    "#$ ": re.compile(r"(?<=\s)-t\s*\S+"),
}
"""What makes many jobs of one: a measurement is one job."""

HEAD_BYTES = 1 << 16
"""The directives stand in the head of a job script; any other file that the command names may have any size."""

POLL_S = 0.2
END_S = 60.0
"""So long the launch command may take to end once the worker went: a scheduler notices late."""

Show = Callable[[Status], None]


class Asked(Struct, frozen=True):
    """A measurement. `environ` are the variables that differ from those of autotune, such as NAME=VALUE before the
    command: a scheduler passes the others on (Slurm by --export=ALL, its default), and the job keeps its own."""

    request: Request
    argv: tuple[str, ...]
    script: str | None
    run: str
    cwd: str
    environ: Mapping[str, str]
    stderr: str | None
    protected: str | None
    title: str
    lock: bool


class Result(Struct, frozen=True):
    """What `Collected` has beside its Recordings; or the error (its class, what, where, what to do) in its place."""

    ended_by: str = ""
    exit_code: int | None = None
    wall_s: float = 0.0
    startup_s: float | None = None
    sampled: MachineSamples | None = None
    waiting_in: str = ""
    bugs: tuple[str, ...] = ()
    raised: EarlyException | None = None
    startup: StartUp | None = None
    said: str = ""
    effects: SideEffects = SideEffects()
    error: tuple[str, str, str, str] | None = None


def check_launch(launch: str) -> None:
    """Raises UsageError for a launch command that starts no script of ours."""
    try:
        words = shlex.split(launch)
    except ValueError as error:
        raise UsageError(f"it is not a command ({error})", where=f"--launch {launch!r}") from error
    if not any(PLACE in word for word in words):
        raise UsageError(
            f"it does not say where the script goes: {PLACE} is missing",
            where=f"--launch {launch!r}",
            to_do="Write for example: --launch 'sbatch --wait {script}'",
        )


class Allocation:
    """A job of the scheduler while it lasts: `with Allocation(...) as there: there.collect(...)`.

    When the block ends, also by an exception, the worker gets the sign to go, which ends a measurement that still runs.
    """

    def __init__(
        self, launch: str, folder: Path, words: tuple[str, ...], cwd: Path, environ: Mapping[str, str]
    ) -> None:
        """Both machines see `folder`. If `words` name a job script, our job gets its directives."""
        self._launch, self._folder, self._cwd, self._environ = launch, folder, cwd, environ
        self._directives = _directives(words, cwd)
        self._number = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def __enter__(self) -> Allocation:
        self._folder.mkdir(parents=True, exist_ok=True)
        script = self._folder / SCRIPT
        # -P: the project's secrets.py or autotune/ must not come before the modules of the same name.
        words = [sys.executable, "-P", "-m", "autotune.collect.allocation_worker", str(self._folder)]
        head = "".join(f"{line}\n" for line in self._directives)
        script.write_text(f"#!/bin/sh\n{head}cd {shlex.quote(str(self._cwd))} && exec {shlex.join(words)}\n", "utf-8")
        script.chmod(0o755)
        command = [word.replace(PLACE, str(script)) for word in shlex.split(self._launch)]
        self._said = (self._folder / "launch.err").open("wb")
        try:
            self._child = subprocess.Popen(
                command,
                cwd=self._cwd,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._said.close()
            raise UsageError(f"it cannot be started: {error.strerror}", where=f"--launch {command[0]}") from error
        return self

    def __exit__(self, *error: object) -> None:
        (self._folder / END).touch()
        assert self._child is not None and self._said is not None
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(END_S)
        if self._child.poll() is None:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(5.0)
        self._said.close()

    def machine(self, show: Show) -> tuple[Fact, ...]:
        """What the worker says of its machine; waits until it runs."""
        row = self._read(self._folder / MACHINE, show, "the queue of the scheduler")
        return tuple(Fact(str(name), str(subject), _value(value)) for name, subject, value in row["facts"])

    def collect(
        self,
        request: Request,
        words: PlannedCommand,
        run: Path,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        show: Show,
        title: str,
        stderr: Path | None = None,
        protected: Path | None = None,
        lock: bool = True,
    ) -> Collected:
        """Measure `words` there, as `collect` does here. Both machines see the run folder `run`.

        Raises what `collect` raises there, and ScriptError where the job ends without a result.
        """
        self._number += 1
        changed = {
            name: value for name, value in {**environ, **words.variables}.items() if os.environ.get(name) != value
        }
        asked = Asked(
            request=request,
            argv=words.argv,
            script=str(words.script) if words.script is not None else None,
            run=str(run),
            cwd=str(words.cwd or cwd),
            environ=changed,
            stderr=str(stderr) if stderr is not None else None,
            protected=str(protected) if protected is not None else None,
            title=title,
            lock=lock,
        )
        artefacts.write_json(self._folder / ASKED.format(self._number), to_builtins(asked), is_private=True)
        result = convert(self._read(self._folder / RESULT.format(self._number), show, "the launched job"), Result)
        if result.error is not None:
            raise _error(*result.error)
        rest = {name: getattr(result, name) for name in Result.__struct_fields__ if name != "error"}
        return Collected(folder=run, recordings=load(run), **rest)

    def _read(self, file: Path, show: Show, doing: str) -> Any:
        """The JSON that the worker writes into `file`, once it is there."""
        assert self._child is not None
        began = time.monotonic()
        while not file.is_file():
            check_interrupted()
            show(Status(time.monotonic() - began, 0, "starting", doing))
            if self._child.poll() is not None and not _comes(file):
                raise self._ended(self._child.returncode)
            time.sleep(POLL_S)
        return artefacts.read_json(file)

    def _ended(self, code: int) -> ScriptError:
        said = stderr_tail.last_lines(self._folder / "launch.err")
        return ScriptError(
            f"the launched job ended with exit code {code} and without a result{': ' if said else ''}{said}",
            where=f"--launch {self._launch}",
            to_do="The job's own output says more. The launch command has to return when the job ends (sbatch --wait), "
            "and its machine has to see this project and this Python at the same paths.",
            status=code,
        )


LAST_LOOK_S = 5.0
"""The job has ended: what it wrote last may show up a little later."""


def _comes(file: Path) -> bool:
    ends_at = time.monotonic() + LAST_LOOK_S
    while time.monotonic() < ends_at:
        if file.is_file():
            return True
        time.sleep(POLL_S)
    return file.is_file()


def _directives(words: tuple[str, ...], cwd: Path) -> list[str]:
    """The directives at the head of the first job script among `words`, which is started inside of our own job; without
    those of an array."""
    for word in words:
        file = cwd / word
        with suppress(OSError, ValueError):
            if not file.is_file() or file.suffix == ".py":
                continue
            with file.open("rb") as opened:
                lines = opened.read(HEAD_BYTES).decode("utf-8", "replace").splitlines()
            head = takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), lines)
            if found := [line for line in head if line.startswith(DIRECTIVES)]:
                return [kept for line in found if (kept := _without_array(line))]
    return []


def _without_array(line: str) -> str:
    """ "" where a directive says nothing else."""
    for prefix, array in ARRAYS.items():
        if line.startswith(prefix):
            kept = array.sub("", line).rstrip()
            return "" if kept == prefix.rstrip() else kept
    return line


def _error(kind: str, what: str, where: str, to_do: str) -> UsageError | ScriptError:
    made = ScriptError if kind == ScriptError.__name__ else UsageError
    return made(what, where=where, to_do=to_do)


def _value(value: Any) -> Any:
    """A version is a tuple of numbers, and a list in JSON."""
    return tuple(value) if isinstance(value, list) else value
