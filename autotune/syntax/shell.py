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

from autotune.errors import UsageError
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
_TAKES_TEXT = re.compile(r"-[a-zA-Z]*c")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\\n)*\"")
"""A text in quotes in which nothing but ends of lines is escaped."""
_USED = re.compile(r"\$\{?(\w*)", re.ASCII)
_GOING = ("cd", "pushd", "popd")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class ShellScript(Struct, frozen=True):
    """The simple commands of a shell script in the order of the file, and its comments."""

    commands: tuple[ShellCommand, ...]
    comments: tuple[Comment, ...]


def read(data: bytes, where: str, arguments: Sequence[str] | None = None) -> ShellScript:
    """The commands of a shell script that is started with `arguments`, if these are known. Raises UsageError.

    What `bash -c` is given stands in the place of `bash -c`, where it is only commands that change nothing for others.
    """
    text = decode(data, where)
    read_plainly = _statements(text)
    lexer, reader, statements = _with_inner(text, *read_plainly) or read_plainly
    values = replace(_values(statements, lexer.text, reader.changed | lexer.changed), arguments=arguments)
    return ShellScript(tuple(_commands(statements, values)), tuple(lexer.comments))


_Read = tuple[Lexer, Statements, tuple[Statement, ...]]


def _statements(text: Text) -> _Read:
    lexer = Lexer(text)
    reader = Statements(lexer)
    return lexer, reader, tuple(reader.read())


class _Inner(Struct, frozen=True):
    """What a statement gives to `bash -c`: the words before it, the commands between the quotes as words, and the
    places of `bash -c` and of the two quotes."""

    before: list[str]
    commands: list[list[str]]
    places: tuple[tuple[int, int], ...]

    is_on_new_line: bool
    """The commands: the words before them are a command of their own then."""

    def in_place(self) -> list[list[str]]:
        """The commands as they are read in the place of the statement."""
        if self.is_on_new_line and self.before:
            return [self.before, *self.commands]
        return [self.before + self.commands[0], *self.commands[1:]]


def _with_inner(text: Text, lexer: Lexer, reader: Statements, statements: Sequence[Statement]) -> _Read | None:
    """The script with the texts of its `bash -c` in their places; None where it has none that is read, or where the
    rest of the script would be read in another way than without them."""
    found = [(statement, _inner(statement, text)) for statement in statements]
    places = [place for _, inner in found if inner is not None for place in inner.places]
    if not places:
        return None
    expected: list[Statement | list[str]] = []
    for statement, inner in found:
        if inner is None:
            expected.append(statement)
        else:
            expected += inner.in_place()
    try:
        made = _statements(replace(text, text=_without(text.text, places)))
    except UsageError:
        return None
    is_same = len(made[2]) == len(expected) and all(
        (one if isinstance(each, Statement) else _written(one.words, text.text)) == each
        for one, each in zip(made[2], expected, strict=True)
    )
    others = made[0].comments, made[0].changed, made[1].changed
    return made if is_same and others == (lexer.comments, lexer.changed, reader.changed) else None


def _inner(statement: Statement, text: Text) -> _Inner | None:
    """What the statement gives to `bash -c` in quotes, if it can be read as if it stood in the script.

    Words behind it would be its arguments. The text has no quote of its own kind.
    """
    words = statement.words
    at = next((at for at, word in enumerate(words) if _SHELL.fullmatch(_plain(word))), len(words))
    options, (start, end) = words[at + 1 : -1], (words[-1].start, words[-1].end)
    if not options or not all(_plain(one).startswith("-") for one in options):
        return None
    if not _TAKES_TEXT.fullmatch(_plain(options[-1])) or not _QUOTED.fullmatch(text.text, start, end):
        return None
    commands = _commands_in(text, start, end)
    places = (words[at].start, options[-1].end), (start, start + 1), (end - 1, end)
    is_on_new_line = re.match(r"[ \t]*\n", text.text[start + 1 : end]) is not None
    return _Inner(_written(words[:at], text.text), commands, places, is_on_new_line) if commands else None


def _commands_in(text: Text, start: int, end: int) -> list[list[str]]:
    """The words of the commands in the quoted text from `start` to `end`; none where it must not be read.

    That is a text with a comment, a here-document, a branch or a loop, with what sets variables or a folder for the
    commands behind it, or with variables that may have another value in the inner shell than in the script.
    """
    quoted = text.text[start:end]
    alone = replace(text, text=quoted[1:-1])
    try:
        lexer, reader, statements = _statements(alone)
    except UsageError:
        return []
    if "<<" in quoted or lexer.comments or reader.num_scopes or lexer.changed or reader.changed:
        return []
    if "'" in quoted[1:-1] and re.search(r"[$`]", quoted):  # the script fills variables in between these quotes
        return []
    if quoted[0] == "'" and not _mean_the_same(quoted, text.text[:start] + text.text[end:]):
        return []
    if any(_changes_its_shell(one, alone) for one in statements):
        return []
    return [_written(one.words, alone.text) for one in statements]


def _mean_the_same(quoted: str, rest: str) -> bool:
    """Whether all variables of the text are names of which the rest of the script does not speak."""
    names = set(_USED.findall(quoted))
    return all(_NAME.fullmatch(name) for name in names) and not names & set(_NAME.findall(rest))


def _changes_its_shell(statement: Statement, text: Text) -> bool:
    """Whether the commands behind a statement run with other variables, arguments or files than those before it."""
    changing = (*_DECLARING, *_CHANGING, *_SHIFTING, *_GOING)
    return bool(statement.words[0].name) or _name(statement) in changing or _runs_others(statement, text)


def _written(words: Sequence[Token], text: str) -> list[str]:
    return [text[word.start : word.end] for word in words]


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
