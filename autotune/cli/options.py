"""Options that several verbs have, each declared once, and the kinds of values that are typed.

A verb lists them above its function in the order of its help. A verb's help for one of them is its argument here where
it differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autotune.model.rule import Effect
from autotune.report import formats

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(dir_okay=False, path_type=Path)
"""The name of a file that is read or written."""

BEFORE_A_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""The click settings of a verb whose COMMAND has options of its own."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def format_of(verb: str) -> Decorator:
    """--format, with the formats that report/ has for the verb."""
    names = formats(verb)
    return click.option("--format", "format_", type=click.Choice(names), default=names[0], help="Output format.")


def allow(text: str) -> Decorator:
    """--allow: effects of changes that are used although they may change what the model learns."""
    return click.option(
        "--allow", type=click.Choice([Effect.ALTERING.value]), multiple=True, callback=_effects, help=text
    )


def select_changes(verb: str) -> Decorator:
    """--select: the changes of a patch that `verb` ("Write", "Use") is restricted to."""
    text = f"{verb} only these changes; repeatable."
    return click.option("--select", multiple=True, metavar="RULE_OR_SETTING", callback=names, help=text)


def budget(text: str, **given: Any) -> Decorator:
    """--budget: a duration."""
    return click.option("--budget", callback=seconds, help=text, **given)


def resume(text: str) -> Decorator:
    """--resume: go on with what was stored."""
    return click.option("--resume", is_flag=True, help=text)


def python(text: str = "Python interpreter of the script.") -> Decorator:
    """--python."""
    return click.option("--python", help=text)


def load(text: str) -> Decorator:
    """--load: a stored run instead of a new one."""
    return click.option("--load", "load", metavar="RUN_OR_RECORDING", help=text)


def on(text: str, **given: Any) -> Decorator:
    """--on: a card, or several, by the names of the catalogue."""
    return click.option("--on", help=text, **given)


STARTUP_LIMIT = "Limit in seconds until the first step."
startup_limit = click.option("--startup-limit", type=float, default=1800.0, show_default=True, help=STARTUP_LIMIT)


def _in_a_folder(context: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    """The file, in a folder that is there: said before minutes of measuring, not after them."""
    if file is not None and not file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(file.parent)!r}", context, parameter)
    return file


output = click.option("-o", "--output", type=FILE, callback=_in_a_folder, help="Write the report to this file.")
price = click.option("--price", type=float, help="USD per hour of this machine: adds cost to times.")
no_lock = click.option("--no-lock", is_flag=True, help="Measure even while another measurement runs.")
verbose = click.option("--verbose", is_flag=True, help="Say of all that was not looked at why.")
quiet = click.option("--quiet", is_flag=True, help="Show no progress on stderr.")


def _files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For the shell's completion: it offers names of files."""
    from click.shell_completion import CompletionItem  # only a shell that completes a word needs it

    return [CompletionItem(incomplete, type="file")]


def _no_option_first(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """The words. An option in front of them is none of the verb's, and nothing is to be looked up or started."""
    name = words[0].partition("=")[0] if words else ""
    if name.startswith("-") and name not in ("-m", "--module"):
        from difflib import get_close_matches  # only an error needs it

        known = [one for option in context.command.params for one in (*option.opts, *option.secondary_opts)]
        raise click.NoSuchOption(name, possibilities=get_close_matches(name, known), ctx=context)
    return words


script_command = click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, callback=_no_option_first, shell_complete=_files
)
"""COMMAND: a script with its arguments, or a command that starts one; `cli/script_command.py` says which."""


def seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A duration as it is typed (60, 60s, 10m, 1.5h) in seconds; None where it was not given."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration; write e.g. 60s or 10m", context, parameter)
    return float(found[1]) * _SECONDS[found[2]]


def names(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names of an option that is repeated, or has several between commas."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def number(text: str) -> float | None:
    """A share or another number: "0.05" and "5%" are the same; None for anything else."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _effects(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> frozenset[Effect]:
    return frozenset(map(Effect, texts))
