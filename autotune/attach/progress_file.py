"""The training's own progress line: the end of the file that its output goes to, also through `tee`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec import Struct

from autotune.errors import UsageError
from autotune.machine import other_process
from autotune.machine.other_process import ProcessAbout
from autotune.model.outlook import ProgressLine
from autotune.predict.progress_line import progress

MOST_BYTES = 16_384
"""Of the end: a bar that is redrawn has some hundred bytes."""


class ProgressSource(Struct, frozen=True):
    """A file that it writes: how the report names it, and where we open it."""

    name: str
    path: str


class ProgressReading(Struct, frozen=True):
    """The last progress line of a source."""

    source: str
    line: ProgressLine


def find(about: ProcessAbout, root: Path = Path("/")) -> tuple[tuple[ProgressSource, ...], str]:
    """The files of its standard error and output, the former first (bars go there), and why there is none."""
    out, err = about.outputs
    if out is None and err is None:
        return (), "its outputs cannot be seen: it belongs to another user"
    found: list[ProgressSource] = []
    for number, target in ((2, err), (1, out)):
        path = f"{root}/proc/{about.pid}/fd/{number}".replace("//", "/")
        if target is not None and target.startswith("pipe:"):
            written = other_process.readers_of(target, about.pid, root)
            found += [ProgressSource(_name(os.path.realpath(one)), one) for one in written]
        elif target is not None and _is_file(path):
            found.append(ProgressSource(_name(target), path))
    names = {one.name: one for one in reversed(found)}
    return tuple(reversed(names.values())), "" if names else _why_none(out, err)


def read(sources: tuple[ProgressSource, ...]) -> ProgressReading | None:
    """The progress at the end of the first source that has one; None where none has."""
    for source in sources:
        try:
            with open(source.path, "rb") as file:  # noqa: PTH123 (a link of /proc)
                file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
                text = file.read(MOST_BYTES).decode("utf-8", "replace")
            line = progress(text)
        except (OSError, UsageError):
            continue
        if line.step is not None:
            return ProgressReading(source.name, line)
    return None


def _name(path: str) -> str:
    return Path(path).name


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False


def _why_none(out: str | None, err: str | None) -> str:
    target = err or out or ""
    if target.startswith(("/dev/pts", "/dev/tty")):
        return 'its output goes to a terminal, which cannot be read: add --at "<its progress line>"'
    if target.startswith("pipe:"):
        return 'its output goes through a pipe to a program that keeps no file: add --at "<its progress line>"'
    return 'its output goes to no file: add --at "<its progress line>"'
