"""apply and undo: from a patch file to the files, and back. No rule runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from autotune import patch
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.file import NAME, loads
from autotune.patch.journal import Journal
from autotune.patch.splice import spliced

PATCHES = Path(".autotune") / "patches"
"""Where a project keeps what it needs to take patches back."""

SAFE = (Effect.EXACT, Effect.EQUIVALENT)


@dataclass(frozen=True, slots=True)
class Planned:
    """What one `apply` would do: write `files` (path, before, after), and print the rest.

    `chosen` are the changes that are made, `left` those that are not, with the reason. `command` is the new command
    line where a chosen change stands on it, else "".
    """

    root: Path
    title: str
    chosen: tuple[PatchChange, ...]
    left: tuple[tuple[PatchChange, str], ...]
    files: tuple[tuple[Path, bytes, bytes], ...]
    command: str = ""

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff of all files."""
        for path, before, after in self.files:
            name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
            yield from _diff(name, before, after)


@dataclass(frozen=True, slots=True)
class Options:
    """`name` is a patch file, a run, or "last"; `select` are ids of rules or names of settings, empty for all."""

    name: str = "last"
    select: tuple[str, ...] = ()
    allow: frozenset[Effect] = field(default_factory=frozenset)


def plan(options: Options, *, cwd: Path) -> Planned:
    """What the patch would write. Raises UsageError when a file is not the one that the patch was made for."""
    file = _file(options.name, cwd)
    made = loads(_bytes(file), str(file))
    root = Path(made.root)
    chosen, left = _chosen(made, options)
    by_file = _by_file(chosen)
    typed = by_file.pop(TYPED, [])
    return Planned(
        root=root,
        title=f"{len(chosen)} of {len(made.changes)} changes of run {made.run}",
        chosen=tuple(chosen),
        left=tuple(left),
        files=tuple(_file_of(root / name, edits) for name, edits in by_file.items()),
        command=_command(made.command, typed) if typed else "",
    )


def write(planned: Planned) -> Journal | None:
    """Write the files of `planned`, all or none; None when there is none."""
    if not planned.files:
        return None
    return patch.write(planned.root / PATCHES, planned.title, planned.files)


def undo(number: int | None, *, cwd: Path) -> Journal:
    """Give the files of the newest written patch, or of patch `number`, their bytes from before."""
    return patch.undo(artefacts.project_root(cwd) / PATCHES, number)


def recover(cwd: Path) -> tuple[Journal, ...]:
    """Take back what a crash left half written in this project."""
    folder = artefacts.project_root(cwd) / PATCHES
    return patch.recover(folder) if folder.is_dir() else ()


def _file(name: str, cwd: Path) -> Path:
    path = artefacts.resolve(name, cwd)
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        raise UsageError(
            "this run has no patch: there was nothing to change",
            where=str(path.parent),
            to_do="`autotune diagnose --load last` shows what it found.",
        )
    return path


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _chosen(made: Patch, options: Options) -> tuple[list[PatchChange], list[tuple[PatchChange, str]]]:
    """The changes that are made, and the others with the reason."""
    known = {name for change in made.changes for name in (change.setting, *change.rules)}
    wrong = [name for name in options.select if name not in known]
    if wrong:
        raise UsageError(f"no change of this patch is of {', '.join(wrong)}", to_do=f"There are: {_listed(known)}.")
    reasons = [_why_left(change, options) for change in made.changes]
    writes = {change.setting for change, reason in zip(made.changes, reasons, strict=True) if not reason}
    reasons = [reason or _what_it_lacks(change, writes) for change, reason in zip(made.changes, reasons, strict=True)]
    pairs = list(zip(made.changes, reasons, strict=True))
    return [change for change, reason in pairs if not reason], [(change, reason) for change, reason in pairs if reason]


def _why_left(change: PatchChange, options: Options) -> str:
    named = {change.setting, *change.rules} & set(options.select)
    if options.select and not named:
        return "not selected"
    if not change.edits:
        return change.by_hand or "it is so already"
    if change.effect not in SAFE and change.effect not in options.allow and not named:
        return f"it is {change.effect.value}: --allow {change.effect.value} writes it too"
    return ""


def _what_it_lacks(change: PatchChange, writes: set[str]) -> str:
    missing = [name for name in change.needs if name not in writes]
    return f"it holds only together with {', '.join(missing)}, which is not written" if missing else ""


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "no changes"


def _by_file(changes: Sequence[PatchChange]) -> dict[str, list[Edit]]:
    """The edits of each file; one that two changes ask for is made once."""
    found: dict[str, list[Edit]] = {}
    for edit in dict.fromkeys(edit for change in changes for edit in change.edits):
        found.setdefault(edit.file, []).append(edit)
    return found


def _command(words: Sequence[str], edits: Sequence[Edit]) -> str:
    """The command line with the new values: behind their flags, or at its end."""
    line = ["python", *words] if words[0].endswith(".py") else list(words)
    for edit in edits:
        line = _with(line, edit)
    return shlex.join(line)


def _with(line: Sequence[str], edit: Edit) -> list[str]:
    """The last word that gives the edit's key is the one that counts; +key=value stays an addition of Hydra's."""
    flag = edit.key if edit.key.startswith("-") else f"{edit.key}="
    places = [at for at, word in enumerate(line) if f"{word}=".lstrip("+").startswith(f"{edit.key}=")]
    if not places:
        return [*line, f"{flag}{edit.new}"] if flag.endswith("=") else [*line, flag, edit.new]
    place = places[-1]
    name, is_joined, _ = line[place].partition("=")
    if is_joined:
        return [*line[:place], f"{name}={edit.new}", *line[place + 1 :]]
    is_alone = edit.old == "True" and [word.lower() for word in line[place + 1 : place + 2]] != ["true"]
    return [*line[: place + 1], edit.new, *line[place + 1 if is_alone else place + 2 :]]


def _file_of(path: Path, edits: Sequence[Edit]) -> tuple[Path, bytes, bytes]:
    data = _bytes(path)
    return path, data, spliced(data, edits)


def _diff(name: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (data.decode(errors="replace").splitlines(keepends=True) for data in (before, after))
    for line in unified_diff(old, new, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def counted(things: Sequence[object], noun: str) -> str:
    """ "1 file", "2 files"."""
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
