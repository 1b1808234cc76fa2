"""A typed command with new values: what stands in no file is not spliced, it is typed again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import reduce

from autotune.catalogue.launchers import SHELLS
from autotune.errors import UsageError
from autotune.invocation import typed
from autotune.invocation.shape import assigned, name, of_shell
from autotune.model.patch import Edit

_OPERATORS = re.compile(r"[;&|<>`$~*?\[{(#\n]")
"""What the shell acts on in a line: typing it again would quote it."""


def with_values(words: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    """The words with the new values: behind their flags or in their overrides, or at the end.

    Of a shell that is given a line, that is where they stand. Raises UsageError where a person has to put them.
    """
    at = line_at(words)
    if at is None:
        return reduce(_with, edits, tuple(words))
    return (*words[:at], _in_line(words[at], edits), *words[at + 1 :])


def launch(words: Sequence[str], edits: Sequence[Edit]) -> str:
    """The user's own launch with the new values, as a shell takes it."""
    variables, started = assigned(with_values(words, edits))
    is_bare = bool(started) and (started[0].endswith(".py") or started[0] in ("-m", "--module"))
    front = (f"{variable}={value}" for variable, value in variables.items())
    return typed((*front, *(["python"] if is_bare else []), *started))


def line_at(words: Sequence[str]) -> int | None:
    """The index of the line that a shell is given to run."""
    shells = (at for at, word in enumerate(words) if name(word) in SHELLS)
    at = next(shells, None)
    found = of_shell(words, at) if at is not None else None
    return found[0] if found is not None and found[1] else None


def is_too_complex(line: str) -> bool:
    """Whether a line has more in it than the words of one command."""
    return _OPERATORS.search(line) is not None


def _in_line(line: str, edits: Sequence[Edit]) -> str:
    """A line of a shell: one command is typed again, and in a longer one values are replaced that stand there."""
    if not is_too_complex(line):
        return typed(with_values(shlex.split(line), edits))
    for edit in edits:
        typed_now = rf"(?<![^\s'\"])({re.escape(edit.key)}(?:\s+|=)){{}}(?=[\s'\";&|]|$)"
        if edit.new and re.search(typed_now.format(re.escape(edit.new)), line):
            continue
        value = typed_now.format(re.escape(edit.old))
        line, count = re.subn(value, lambda found, new=edit.new: f"{found[1]}{shlex.quote(new)}", line)  # type: ignore[misc]
        if not (count and edit.old and edit.new):
            what = f"{edit.key} {edit.new}" if edit.new else f"the line without {edit.key}"
            raise UsageError(f"the shell command is too complex to rewrite: {what} has to be put there by hand")
    return line


def _with(line: tuple[str, ...], edit: Edit) -> tuple[str, ...]:
    """The last word that gives the edit's key is the one that counts; +key=value stays an addition of Hydra's.

    The new value "" takes a flag away that stands alone.
    """
    flag = edit.key if edit.key.startswith("-") else f"{edit.key}="
    places = [at for at, word in enumerate(line) if f"{word}=".lstrip("+").startswith(f"{edit.key}=")]
    if not edit.new:
        return tuple(word for at, word in enumerate(line) if at not in places)
    if not places:
        return (*line, f"{flag}{edit.new}") if flag.endswith("=") else (*line, flag, edit.new)
    place = places[-1]
    name, is_joined, _ = line[place].partition("=")
    if is_joined:
        return (*line[:place], f"{name}={edit.new}", *line[place + 1 :])
    is_alone = edit.old == "True" and not {word.lower() for word in line[place + 1 : place + 2]} & {"true", "false"}
    return (*line[: place + 1], edit.new, *line[place + 1 if is_alone else place + 2 :])
