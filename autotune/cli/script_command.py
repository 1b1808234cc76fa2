"""COMMAND of the verbs that start one: whose it is, and options of autotune that were typed behind the script.

Such an option goes to the script. A note appears at once if the script does not mention the option, or beside the
error of the script if it failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from autotune import reading
from autotune.errors import ScriptError, UsageError
from autotune.history import commands
from autotune.invocation import Invocation, invoked, typed
from autotune.model.source import NOTEBOOK
from autotune.outlet import print_stderr

MOST_BYTES = 1_000_000

REFUSED_ARGUMENTS = 2
"""The exit code with which argparse and click refuse arguments."""

VERBS = ("diagnose", "tune", "verify", "fit")
"""The verbs that take the command of a script."""

UNKNOWN = re.compile(r"unrecogni[sz]ed|unknown|unexpected|not used|no such option|invalid option|illegal option", re.I)
"""What parsers say of options that they do not know."""


def resolve_command(words: tuple[str, ...], verb: str, python: str | None, run: str = "last") -> commands.StoredCommand:
    """The command that was typed, else that of `run`, which is printed. Raises UsageError where that is not known."""
    if words:
        _refuse_notebook(words, verb)
        return commands.StoredCommand(run, words, Path.cwd(), python)
    stored = commands.command(run, verb, Path.cwd())
    _refuse_notebook(stored.words, verb)
    whose = "the last diagnosis" if run == "last" else f"run {stored.run}"
    print_stderr(f"autotune: the command of {whose}, {commands.age(stored.run)}: {stored}")
    if run == "last" and (newer := commands.newer_elsewhere(verb, Path.cwd())):
        print_stderr(f"autotune: {newer}")
    return replace(stored, python=python or stored.python)


def _refuse_notebook(words: Sequence[str], verb: str) -> None:
    called = invoked(words, Path.cwd())
    started = called.words[called.at] if called.file is not None else called.program
    if started.endswith(NOTEBOOK):
        raise UsageError(
            f"autotune {verb} runs scripts, and this is a notebook",
            where=started,
            to_do=f"Diagnose it and apply the changes (autotune diagnose {started}), or make a script of it:\n"
            f"    jupyter nbconvert --to script {started}",
        )


@contextmanager
def explain_misplaced_options(words: tuple[str, ...], *, quiet: bool) -> Iterator[None]:
    """Say of autotune's own options behind the script that they belong before it."""
    context = click.get_current_context()
    called = invoked(words, Path.cwd())
    is_option = called.module is None and called.program.startswith("-") if called.words else True
    misplaced = (
        [] if is_option else _misplaced_options(context.command, called)
    )  # an option of nobody in front is an error
    names = _option_names(misplaced)
    hint = _hint(context, words, called, misplaced, names) if misplaced else ""
    if hint and not quiet and not _is_mentioned(called, names):
        print_stderr(f"autotune: {hint}")
    try:
        yield
    except ScriptError as error:
        if hint and _may_come_from(error, names, _is_mentioned(called, names)):
            error.to_do += f"\n{hint}"
        elif error.status:
            error.to_do += "".join(f"\n{line}" for line in _hints_of_other_verbs(context, called, names, error))
        raise


def _misplaced_options(command: click.Command, called: Invocation) -> list[str]:
    """The options of the verb among the arguments of the script, with their values."""
    return [word for is_own, words in _split(command, called) if is_own for word in words]


def _arguments_of_script(command: click.Command, called: Invocation) -> list[str]:
    return [word for is_own, words in _split(command, called) if not is_own for word in words]


def _split(command: click.Command, called: Invocation) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """The arguments of the script, an option of the verb with its value in one piece; whether each is of the verb."""
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    words = list(called.arguments)
    while words:
        name, is_joined, _ = words[0].partition("=")
        option = options.get(name) if name.startswith("--") else None
        takes_next = option is not None and not option.is_flag and not is_joined and len(words) > 1
        size = 2 if takes_next else 1
        yield option is not None, tuple(words[:size])
        del words[:size]


def _option_names(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--")))


def _hint(
    context: click.Context, words: tuple[str, ...], called: Invocation, misplaced: list[str], names: Sequence[str]
) -> str:
    """Where the options belong, and the command with them there."""
    rest = [*called.front, *called.words[: len(called.words) - len(called.arguments)]]
    rest += _arguments_of_script(context.command, called)
    is_one = len(names) == 1
    they, them = ("it is", "it") if is_one else ("they are", "them")
    what = f"{', '.join(names)} {'is an option' if is_one else 'are options'} of autotune {context.info_name} too"
    where = f"After the script {they} passed to the script. To pass {them} to autotune, put {them} before the script:"
    options = typed([*_options_before(context, words), *misplaced])
    return f"{what}. {where}\n    autotune {context.info_name} {options} -- {typed(rest)}"


def _options_before(context: click.Context, words: tuple[str, ...]) -> tuple[str, ...]:
    """The options that were typed before the command."""
    typed_words: tuple[str, ...] = context.obj or ()
    if typed_words[-len(words) :] != words:
        return ()
    return tuple(word for word in typed_words[1 : -len(words)] if word != "--")


def _is_mentioned(called: Invocation, names: Sequence[str]) -> bool:
    """Whether the script speaks of one of these options: as a flag, or as a field that a parser fills."""
    try:
        text = b"" if called.file is None else reading.read(called.file, follow=True, most_bytes=MOST_BYTES)
    except OSError:
        return False
    flags = (re.escape(name.removeprefix("--")).replace("\\-", "[-_]").encode() for name in names)
    return any(re.search(rb"--%b(?![\w-])|^\s+%b\s*:" % (flag, flag), text, re.MULTILINE) for flag in flags)


def _may_come_from(error: ScriptError, names: Sequence[str], is_mentioned: bool) -> bool:
    """Whether the script may have failed because of these options, as far as its output is known.

    A script that mentions them has to have said that it does not know them. Any other script may have failed in any
    way, as a shell script that passes them on; but a parser that refuses something else says so.
    """
    if not error.status:
        return False
    if is_mentioned:
        return _is_unknown(error, names)
    return not error.said or error.status != REFUSED_ARGUMENTS or any(map(partial(_has_flag, error.said), names))


def _hints_of_other_verbs(
    context: click.Context, called: Invocation, own: Sequence[str], error: ScriptError
) -> Iterator[str]:
    """Of options of other verbs behind the script: whose they are, where the script's parser refused them."""
    for name in _option_names(called.arguments):
        is_refused = _is_unknown(error, [name]) or (error.status == REFUSED_ARGUMENTS and not error.said)
        if name not in own and is_refused and not _is_mentioned(called, [name]):
            verbs = [f"autotune {verb}" for verb in VERBS if _has_option(context, verb, name)]
            if verbs:
                of = " and ".join(verbs)
                yield f"{name} is an option of {of}: autotune {context.info_name} has none of that name."


def _has_option(context: click.Context, verb: str, name: str) -> bool:
    group = context.find_root().command
    command = group.get_command(context, verb) if isinstance(group, click.Group) else None
    return command is not None and any(name in one.opts for one in command.params)


def _is_unknown(error: ScriptError, names: Sequence[str]) -> bool:
    """Whether the script said that it does not know one of these options."""
    return any(map(partial(_has_flag, error.said), names)) and UNKNOWN.search(error.said) is not None


def _has_flag(text: str, flag: str) -> bool:
    return re.search(rf"{re.escape(flag)}(?![\w-])", text) is not None
