"""One file, read with the exact place of every value."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.evidence import Span

NOTEBOOK = ".ipynb"

SCRIPTS = (".py", NOTEBOOK)
"""How names of files with Python end: a notebook is read and edited as the script that its cells make."""

Scalar = bool | int | float | str | None

Path = tuple[str | int, ...]
"""Where a value stands: keys, and indices of lists, from the top of the file."""


class DataValue(Struct, frozen=True):
    """One value of a data file (YAML, JSON, TOML).

    `value` is what the file's consumer reads: a scalar, or () for an empty list or mapping. `text` is the value as it
    is written (quotes included), `span` its bytes; `line` and `column` count from 1. `comment` is the comment on the
    line of the value, without its sign.
    """

    path: Path
    value: Scalar | tuple[()]
    text: str
    span: Span
    line: int
    column: int
    comment: str = ""

    @property
    def key(self) -> str:
        """The path as it is written in rules and messages: "data.init_args.num_workers", "datasets.0.path"."""
        return ".".join(map(str, self.path))


class Splice(Struct, frozen=True):
    """An edit of a file: its bytes of `span` become `text`; an empty span inserts."""

    span: Span
    text: str


class ShellWord(Struct, frozen=True):
    """A word of a shell command.

    `value` is what the command receives: None when it cannot be known. `text` and `span` are where a person edits it:
    the word itself, or the value of the variable that it is made of. `line` counts from 1. `is_typed` says that it is
    an argument of the script, which stands in no file.
    """

    value: str | None
    text: str
    span: Span
    line: int
    is_typed: bool = False


class ShellCommand(Struct, frozen=True):
    """One simple command of a shell script: its words, and the variables it gets (exported or in front of it).

    `scope` are the numbers of the subshells, functions, branches and loops around it, the outermost first: where the
    command takes the shell to (cd) holds in the innermost.
    """

    words: tuple[ShellWord, ...]
    variables: tuple[tuple[str, ShellWord], ...]
    line: int
    end_line: int
    scope: tuple[int, ...] = ()


class Comment(Struct, frozen=True):
    """A comment without its sign; `line` counts from 1. `is_own_line` says that nothing else stands on it."""

    line: int
    text: str
    is_own_line: bool


class Document(Struct, frozen=True):
    """A data file: its values in the order of the file, and its comments."""

    entries: tuple[DataValue, ...]
    comments: tuple[Comment, ...]
