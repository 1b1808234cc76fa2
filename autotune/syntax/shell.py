"""Reads a shell script (bash): its commands, with variables filled in where their value is certain. Nothing is run.

A variable is known when the script sets it once, outside of branches, loops and functions and not after && or ||, and
before it is used; `${X:-default}` of one that the script does not set is the default, and so is `${1:-default}` of an
argument that nobody gives. `source`, `.` and `eval` may set all of them: what stood before is not known behind one, nor
is a default. Everything else is None: loop variables, $(...), globs, and $1 where the arguments are not said; such a
word may be several, or none. A word that is one variable stands where the variable's value stands, without its quotes;
a word that is made of parts ("--lr=$LR", "$DIR/data") stands where it is used, as a whole.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.model import source
from autotune.model.source import Comment, ShellCommand
from autotune.syntax.shell_lexer import Lexer
from autotune.syntax.shell_statements import Statement, Statements, When
from autotune.syntax.shell_tokens import ExpansionRun, Token
from autotune.syntax.shell_values import ARGUMENTS, Values
from autotune.syntax.text import Text, decode

_DECLARING = ("export", "declare", "typeset", "readonly", "local")
_CHANGING = ("read", "mapfile", "readarray", "getopts", "unset", "let")
_RUNNING = ("source", ".", "eval")
_SHIFTING = ("shift", "set")
_ENVIRONMENT = re.compile(r"\bactivate['\"]?$")
"""Ends the script of a virtual environment, or the command of conda: it sets no variable of the project."""
_SHELL = re.compile(r"(?:[\w/.-]*/)?(?:ba|z|da)?sh")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\\n)*\"")
"""A text in quotes in which nothing but ends of lines is escaped."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class ShellScript(Struct, frozen=True):
    """The simple commands of a shell script in the order of the file, and its comments."""

    commands: tuple[ShellCommand, ...]
    comments: tuple[Comment, ...]


def read(data: bytes, where: str, arguments: Sequence[str] | None = None) -> ShellScript:
    """The commands of a shell script that is started with `arguments`, if these are known. Raises UsageError.

    What `bash -c` is given stands in the place of `bash -c`.
    """
    text = decode(data, where)
    lexer, reader, statements = _statements(text)
    if inner := [place for statement in statements for place in _given_to_shell(statement, text)]:
        lexer, reader, statements = _statements(replace(text, text=_without(text.text, inner)))
    values = replace(_values(statements, lexer.text, reader.changed | lexer.changed), arguments=arguments)
    return ShellScript(tuple(_commands(statements, values)), tuple(lexer.comments))


def _statements(text: Text) -> tuple[Lexer, Statements, tuple[Statement, ...]]:
    lexer = Lexer(text)
    reader = Statements(lexer)
    return lexer, reader, tuple(reader.read())


def _given_to_shell(statement: Statement, text: Text) -> Iterator[tuple[int, int]]:
    """The places of `bash -c "` and of the closing quote, where the text between them has no quote of this kind."""
    words = statement.words
    for at, word in enumerate(words[:-2]):
        if not _SHELL.fullmatch(_plain(word)):
            continue
        options = list(itertools.takewhile(lambda one: _plain(one).startswith("-"), words[at + 1 :]))
        given = words[at + 1 + len(options) : at + 2 + len(options)]
        quoted = text.text[given[0].start : given[0].end] if given else ""
        if options and _plain(options[-1]).endswith("c") and _QUOTED.fullmatch(quoted):
            yield word.start, options[-1].end
            yield given[0].start, given[0].start + 1
            yield given[0].end - 1, given[0].end
        return


def _without(text: str, places: Sequence[tuple[int, int]]) -> str:
    """The text with blanks at these places: all other places stay the same."""
    parts, done = [], 0
    for start, end in places:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


def _values(statements: Sequence[Statement], text: Text, changed: set[str]) -> Values:
    """The values before the first command: none is set, but what becomes of each is known."""
    kept = [(word, statement.when) for statement in statements for word in _kept(statement)]
    times = Counter(word.name for word, _ in kept if not word.is_append)
    is_changed = any(statement.when == "later" and _runs_others(statement, text) for statement in statements)
    unknown = {word.name for word, when in kept if when != "once" or times[word.name] > 1 or is_changed}
    for statement in statements:
        if _name(statement) in _SHIFTING and not _sets_options(statement):
            unknown.add(ARGUMENTS)
        if _name(statement) in _CHANGING:
            unknown.update(*(_NAME.findall(text.text, word.start, word.end) for word in statement.words[1:]))
    appended = {word.name for word, _ in kept if word.is_append}
    return Values(text, unknown | changed, appended, {word.name for word, _ in kept}, is_open=is_changed)


def _sets_options(statement: Statement) -> bool:
    """`set -euo pipefail`: without arguments for the script."""
    words = ["", *map(_plain, statement.words[1:])]
    are_options = all(
        (word[:1] in ("-", "+") and word not in ("-", "--")) or (before[:1] in ("-", "+") and before.endswith("o"))
        for before, word in itertools.pairwise(words)
    )
    return _name(statement) == "set" and are_options


def _name(statement: Statement) -> str:
    return _plain(statement.words[0])


def _runs_others(statement: Statement, text: Text) -> bool:
    """Whether a statement runs text that is not read here, and that may set any variable."""
    first = statement.words[1] if len(statement.words) > 1 else None
    is_environment = first is not None and _ENVIRONMENT.search(text.text, first.start, first.end) is not None
    return _name(statement) in _RUNNING and not is_environment


def _plain(word: Token) -> str:
    """The text of a word without variables; "" for one with them."""
    runs = [piece for piece in word.pieces if isinstance(piece, ExpansionRun)]
    return "".join(run.text or "" for run in runs) if len(runs) == len(word.pieces) else ""


def _kept(statement: Statement) -> tuple[Token, ...]:
    """The assignments of a statement that hold after it."""
    if _name(statement) in _DECLARING or all(word.name for word in statement.words):
        return tuple(word for word in statement.words if word.name)
    return ()


def _commands(statements: Sequence[Statement], values: Values) -> Iterator[ShellCommand]:
    given: dict[str, source.ShellWord] = {}
    exported: tuple[tuple[str, source.ShellWord], ...] = ()
    for statement in statements:
        if _runs_others(statement, values.text):
            values.forget()
            given = {name: replace(word, value=None) for name, word in given.items()}
            exported = tuple((name, replace(word, value=None)) for name, word in exported)
        if not _kept(statement) and _name(statement) not in _DECLARING:
            yield from _command(statement, values, exported)
            continue
        for word in statement.words:
            given |= _given(word, statement.when, values)
        if _exports(statement):
            names = [word.name or _plain(word) for word in statement.words[1:]]
            exported = tuple((dict(exported) | {name: given[name] for name in names if name in given}).items())
            values.count(len(exported), statement.words[0])


def _given(word: Token, when: When, values: Values) -> dict[str, source.ShellWord]:
    """The variable that `word` sets for good, if it sets one."""
    value = values.value(word, when) if word.name else None
    if word.name and when == "once":
        values.assign(word)
    if value is None:
        return {}
    is_known = word.name not in values.unknown and not word.is_append
    return {word.name: value if is_known else replace(value, value=None)}


def _exports(statement: Statement) -> bool:
    flags = [_plain(word) for word in statement.words[1:] if _plain(word).startswith("-")]
    return _name(statement) == "export" or any("x" in flag for flag in flags)


def _command(
    statement: Statement, values: Values, exported: tuple[tuple[str, source.ShellWord], ...]
) -> Iterator[ShellCommand]:
    """The command of a statement; none when its words are empty variables."""
    settings = tuple(itertools.takewhile(lambda word: word.name, statement.words))
    own = ((word.name, values.value(word, statement.when)) for word in settings)
    variables = tuple((name, value) for name, value in own if value is not None)
    words = [made for word in statement.words[len(settings) :] for made in values.words(word, statement.when)]
    if variables:
        values.count(len(exported), statement.words[0])
    if words:
        start, end = statement.words[0].start, statement.words[-1].end
        lines = values.text.line(start), values.text.line(max(start, end - 1))
        yield ShellCommand(tuple(words), exported + variables, *lines, statement.scope)
