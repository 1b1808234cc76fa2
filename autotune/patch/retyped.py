"""A typed command with new values: what stands in no file is not spliced, it is typed again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from autotune.model.patch import Edit


def retyped(words: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    """The words with the new values: behind their flags or in their overrides, or at the end."""
    return reduce(_with, edits, tuple(words))


def _with(line: tuple[str, ...], edit: Edit) -> tuple[str, ...]:
    """The last word that gives the edit's key is the one that counts; +key=value stays an addition of Hydra's."""
    flag = edit.key if edit.key.startswith("-") else f"{edit.key}="
    places = [at for at, word in enumerate(line) if f"{word}=".lstrip("+").startswith(f"{edit.key}=")]
    if not places:
        return (*line, f"{flag}{edit.new}") if flag.endswith("=") else (*line, flag, edit.new)
    place = places[-1]
    name, is_joined, _ = line[place].partition("=")
    if is_joined:
        return (*line[:place], f"{name}={edit.new}", *line[place + 1 :])
    is_alone = edit.old == "True" and not {word.lower() for word in line[place + 1 : place + 2]} & {"true", "false"}
    return (*line[: place + 1], edit.new, *line[place + 1 if is_alone else place + 2 :])
