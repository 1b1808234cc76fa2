"""Options of autotune that stand behind the script: the script gets them, and the user is told so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from autotune import reading
from autotune.errors import ScriptError
from autotune.invocation import Invocation, invoked, typed
from autotune.outlet import print_stderr

MOST_BYTES = 1_000_000

OF_A_PARSER = 2
"""The exit code with which argparse and click refuse arguments."""

MEASURING = ("diagnose", "tune", "verify")
"""The verbs that take the command of a script."""

UNKNOWN = re.compile(r"unrecogni[sz]ed|unknown|unexpected|not used|no such option|invalid option|illegal option", re.I)
"""What parsers say of options that they do not know."""


@contextmanager
def watched(words: tuple[str, ...], *, quiet: bool) -> Iterator[None]:
    """Say of autotune's own options behind the script that they stand before it: at once where the script does not
    mention them, and beside its error where it failed."""
    context = click.get_current_context()
    called = invoked(words, Path.cwd())
    is_option = called.module is None and called.program.startswith("-") if called.words else True
    own = [] if is_option else _own(context.command, called)  # an option of nobody in front is an error by itself
    names = _names(own)
    line = _line(context, words, called, own, names) if own else ""
    if line and not quiet and not _mentions(called, names):
        print_stderr(f"autotune: {line}")
    try:
        yield
    except ScriptError as error:
        if line and _may_come_from(error, names, _mentions(called, names)):
            error.to_do += f"\n{line}"
        elif error.status:
            error.to_do += "".join(f"\n{said}" for said in _of_others(context, called, names, error))
        raise


def _names(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--")))


def _of_others(context: click.Context, called: Invocation, own: Sequence[str], error: ScriptError) -> Iterator[str]:
    """What is to be said of options of other verbs behind the script, where its parser refused them."""
    for name in _names(called.arguments):
        is_refused = _is_unknown(error, [name]) or (error.status == OF_A_PARSER and not error.said)
        if name not in own and is_refused and not _mentions(called, [name]):
            verbs = [f"autotune {verb}" for verb in MEASURING if _has_option(context, verb, name)]
            if verbs:
                of = " and ".join(verbs)
                yield f"{name} is an option of {of}: autotune {context.info_name} has none of that name."


def _has_option(context: click.Context, verb: str, name: str) -> bool:
    group = context.find_root().command
    command = group.get_command(context, verb) if isinstance(group, click.Group) else None
    return command is not None and any(name in one.opts for one in command.params)


def _line(
    context: click.Context, words: tuple[str, ...], called: Invocation, own: list[str], names: Sequence[str]
) -> str:
    """Where the options belong, and the command with them there."""
    rest = [*called.front, *called.words[: len(called.words) - len(called.arguments)]]
    rest += _others(context.command, called)
    is_one = len(names) == 1
    they, them = ("it is", "it") if is_one else ("they are", "them")
    what = f"{', '.join(names)} {'is an option' if is_one else 'are options'} of autotune {context.info_name} too"
    where = f"After the script {they} passed to the script. To pass {them} to autotune, put {them} before the script:"
    return (
        f"{what}. {where}\n    autotune {context.info_name} {typed([*_first(context, words), *own])} -- {typed(rest)}"
    )


def _first(context: click.Context, words: tuple[str, ...]) -> tuple[str, ...]:
    """The options that were typed before the command."""
    typed_words: tuple[str, ...] = context.obj or ()
    if typed_words[-len(words) :] != words:
        return ()
    return tuple(word for word in typed_words[1 : -len(words)] if word != "--")


def _may_come_from(error: ScriptError, names: Sequence[str], is_mentioned: bool) -> bool:
    """Whether the script may have failed because of these options, as far as its words are known.

    One that mentions them has to have said that it does not know them. Any other one may have failed in any way, as a
    shell script that passes them on; but a parser that refuses something else says so.
    """
    if not error.status:
        return False
    if is_mentioned:
        return _is_unknown(error, names)
    return not error.said or error.status != OF_A_PARSER or any(map(partial(_has, error.said), names))


def _is_unknown(error: ScriptError, names: Sequence[str]) -> bool:
    """Whether the script said that it does not know one of these options."""
    return any(map(partial(_has, error.said), names)) and UNKNOWN.search(error.said) is not None


def _has(text: str, flag: str) -> bool:
    return re.search(rf"{re.escape(flag)}(?![\w-])", text) is not None


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


def _mentions(called: Invocation, names: Sequence[str]) -> bool:
    """Whether the script speaks of one of these options: as a flag, or as a field that a parser fills."""
    try:
        text = b"" if called.file is None else reading.read(called.file, follow=True, most_bytes=MOST_BYTES)
    except OSError:
        return False
    flags = (re.escape(name.removeprefix("--")).replace("\\-", "[-_]").encode() for name in names)
    return any(re.search(rb"--%b(?![\w-])|^\s+%b\s*:" % (flag, flag), text, re.MULTILINE) for flag in flags)
