"""The command line: verbs that are imported when they are called, and what becomes of errors."""

from __future__ import annotations

import errno
import importlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import click

from autotune import __version__
from autotune.errors import AutotuneError, UsageError
from autotune.outlet import print_stderr

BUG = 4
INTERRUPTED = 130
_SYSTEM_ERRORS = (
    *(errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EISDIR, errno.ELOOP, errno.EMFILE),
    *(errno.ENAMETOOLONG, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS),
)
"""What the system refuses to do with a file is no mistake of ours."""


class Verb(NamedTuple):
    """Where a verb's click command is ("module:attribute"), its line in the help, and what it may do.

    A verb that only `measures` needs the packages for it as soon as it is imported.
    """

    target: str
    summary: str
    does: Literal["reads", "runs", "writes", "trains"]
    """It reads files alone; it starts the user's script, on scratch; it writes into the user's files; it reads files,
    or starts the user's script for real."""

    measures: bool = False


VERBS = {
    "check": Verb(
        "autotune.cli.check:command",
        "Find slow or wrong settings in scripts and configs without running them.",
        "reads",
    ),
    "diagnose": Verb(
        "autotune.cli.diagnose:command", "Profile a few steps of a script and report where the time goes.", "runs"
    ),
    "report": Verb("autotune.cli.report:command", "Report on a stored run, in any format.", "reads"),
    "runs": Verb(
        "autotune.cli.runs:command", "One line for each diagnosed job below a folder: table, CSV, Prometheus.", "reads"
    ),
    "explain": Verb(
        "autotune.cli.explain:command", "Explain a rule: its condition, its reason and its advice.", "reads"
    ),
    "apply": Verb("autotune.cli.apply:command", "Write the last diagnosis' changes into your files.", "writes"),
    "verify": Verb(
        "autotune.cli.verify:command", "Measure a script before and after a change, in interleaved runs.", "runs", True
    ),
    "tune": Verb(
        "autotune.cli.tune:command", "Search settings that make a script faster, and confirm the best.", "runs", True
    ),
    "fit": Verb("autotune.cli.fit:command", "Say which cards a training step fits into, before one is rented.", "runs"),
    "watch": Verb(
        "autotune.cli.watch:command", "Say how watched runs are doing, or start a command under watch.", "trains"
    ),
    "undo": Verb("autotune.cli.undo:command", "Undo the changes that apply wrote.", "writes"),
    "trace": Verb("autotune.cli.trace:command", "Write the window of a diagnosis as a trace for Perfetto.", "reads"),
    "rules": Verb("autotune.cli.rules:command", "List every rule.", "reads"),
    "agent-guide": Verb(
        "autotune.cli.agent_guide:command", "Print one page on autotune for a coding agent or a script.", "reads"
    ),
}


class Verbs(click.Group):
    """A group that imports a verb's module only when that verb is called: `rules` loads no profiler."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        if VERBS[cmd_name].measures:
            from autotune import requirements  # the others measure nothing

            requirements.check()
        module, attribute = VERBS[cmd_name].target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # only a mistake needs it

            guess = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {guess[0]!r}?" if guess else ""
            raise click.UsageError(f"{error.message}{hint}", error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="autotune", message="%(prog)s %(version)s")
def autotune() -> None:
    """Say where a PyTorch training run spends its time, what would fix it and how much that gains."""


def main() -> None:
    """The entry point of the command `autotune`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # one that is not UTF-8 shows what it cannot write as \xe9
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments` and return the exit code of its outcome (docs/verify.md)."""
    try:
        _warn_of_interruption(arguments)
        result = autotune.main(list(arguments), prog_name="autotune", standalone_mode=False, obj=tuple(arguments))
    except AutotuneError as error:
        print_stderr(f"autotune: {error}")
        return error.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        print_stderr(shown.getvalue().rstrip("\n"))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print_stderr("autotune: interrupted")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS and error.filename is not None:
            print_stderr(f"autotune: {error.filename}: {error.strerror}")
            return UsageError.exit_code
        print_stderr(_bug_report())
        return BUG
    return result if isinstance(result, int) else 0


def _warn_of_interruption(arguments: Sequence[str]) -> None:
    """Say that a crash of apply or undo left something half written; only these two end it."""
    if arguments and arguments[0] in ("apply", "undo"):
        return
    from autotune import state  # small: nearly no project is known there

    try:
        cwd = Path.cwd().resolve()
        if all(state.known_project(folder) is None for folder in (cwd, *cwd.parents)):
            return
        from autotune.apply.apply import is_interrupted

        if is_interrupted(cwd):
            text = "an apply or undo was interrupted here: `autotune undo` reverts it"
            print_stderr(f"autotune: {text}")
    except (AutotuneError, OSError):
        return  # the verb has nothing to do with it, and says itself what it cannot read


def _bug_report() -> str:
    import platform  # only a bug needs them
    import traceback

    versions = f"autotune {__version__}, Python {platform.python_version()}, {platform.platform()}"
    return f"{traceback.format_exc()}\nautotune: internal error. Please report the lines above with:\n{versions}"
