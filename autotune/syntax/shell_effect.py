"""What an edit of a shell script does to its commands: a variable may be read by several flags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autotune.errors import UsageError
from autotune.model.source import ShellCommand, ShellWord, Splice
from autotune.syntax import shell
from autotune.syntax.edit_effect import spliced

Place = tuple[str, str, int]
"""What a command runs, a flag of it, and which of the words behind that."""

_MOST = 3
"""Flags that an error names."""


def confirm(data: bytes, splice: Splice, edited: ShellWord) -> None:
    """Raises UsageError when an edit of a word changes more than one flag. Commands that run the same may share it."""
    before, after = (_values(each) for each in (data, spliced(data, splice)))
    changed = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
    if len(changed) > 1:
        names = sorted({flag or program for program, flag, _ in changed})
        raise UsageError(
            f"{edited.text} is read by more than one of the commands' flags: {', '.join(names[:_MOST])}",
            where=f"line {edited.line}",
            to_do="Edit it by hand.",
        )


def flags(command: ShellCommand) -> Iterator[tuple[str, int, str]]:
    """Each flag or override of a command with the number and text of the words behind it, and each unknown word."""
    flag, behind = "", 0
    for word in command.words:
        text = word.text if word.value is None else word.value
        if word.value is None or text.startswith("-") or "=" in text:
            flag, behind = text.partition("=")[0], 0
        yield flag, behind, text
        behind += 1


def _values(data: bytes) -> dict[Place, list[str]]:
    """What commands get at each place. A variable that gets its value from another one is a place too."""
    found: dict[Place, list[str]] = {}
    for command in shell.read(data, "").commands:
        name = program(command)
        for flag, behind, text in flags(command):
            found.setdefault((name, flag, behind), []).append(text)
        for variable, word in command.variables:
            if not re.search(rf"""\b{variable}=["']?(\$\{{\w+:?-)?["']?$""".encode(), data[: word.span.start]):
                found.setdefault((name, variable, 0), []).append(word.text if word.value is None else word.value)
    return found


def program(command: ShellCommand) -> str:
    """The script that a command runs, or else its first word."""
    texts = [word.value or word.text for word in command.words]
    return next((text for text in texts if text.endswith(".py")), texts[0] if texts else "")
