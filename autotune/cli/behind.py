"""Options of autotune that stand behind the script: the script gets them, and the user is told so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from autotune import reading
from autotune.errors import ScriptError
from autotune.invocation import Invocation, invoked, typed
from autotune.outlet import tell

MOST_BYTES = 1_000_000


@contextmanager
def watched(words: tuple[str, ...], *, quiet: bool) -> Iterator[None]:
    """Say of autotune's own options behind the script that they stand before it: at once where the script does not
    mention them, and beside its error where it fails."""
    context = click.get_current_context()
    command, called = context.command, invoked(words, Path.cwd())
    own, line = _own(command, called), ""
    if own:
        named = ", ".join(dict.fromkeys(word.partition("=")[0] for word in own if word.startswith("--")))
        rest = [*called.front, *called.words[: len(called.words) - len(called.arguments)], *_others(command, called)]
        stands, it = ("stand", "them") if "," in named else ("stands", "it")
        line = f"{named} {stands} behind the script, which gets {it}. Options of autotune stand first:"
        line += f"\n    autotune {context.info_name} {typed(own)} -- {typed(rest)}"
    if line and not quiet and not _mentions(called, own):
        tell(f"autotune: {line}")
    try:
        yield
    except ScriptError as error:
        if line:
            error.to_do += f"\n{line}"
        raise


def _own(command: click.Command, called: Invocation) -> list[str]:
    """The options of the verb among the arguments of the script, with their values."""
    return [word for is_own, words in _split(command, called) if is_own for word in words]


def _others(command: click.Command, called: Invocation) -> list[str]:
    return [word for is_own, words in _split(command, called) if not is_own for word in words]


def _split(command: click.Command, called: Invocation) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """The arguments of the script, an option of the verb with its value in one piece."""
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    words = list(called.arguments)
    while words:
        name, is_joined, _ = words[0].partition("=")
        option = options.get(name) if name.startswith("--") else None
        takes_next = option is not None and not option.is_flag and not is_joined and len(words) > 1
        size = 2 if takes_next else 1
        yield option is not None, tuple(words[:size])
        del words[:size]


def _mentions(called: Invocation, own: list[str]) -> bool:
    """Whether the script speaks of one of these options: as a flag, or as a field that a parser fills."""
    try:
        text = b"" if called.file is None else reading.read(called.file, follow=True, most_bytes=MOST_BYTES)
    except OSError:
        return False
    names = {word.partition("=")[0].removeprefix("--") for word in own if word.startswith("--")}
    flags = (re.escape(name).replace("\\-", "[-_]").encode() for name in names)
    return any(re.search(rb"--%b\b|^\s+%b\s*:" % (flag, flag), text, re.MULTILINE) for flag in flags)
