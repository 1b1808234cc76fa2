"""What the words of a shell command are once its variables are filled in, and where each of them came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from msgspec import Struct, field

from autotune.model import source
from autotune.syntax.shell_statements import When
from autotune.syntax.shell_tokens import ExpansionRun, Piece, Token, Variable
from autotune.syntax.text import MAX_VALUES, Text

_BLANKS_OR_WORD = re.compile(r"[ \t\r\n]+|[^ \t\r\n]+")
_GLOB = re.compile(r"[*?]|\{(?=[^{}]*+\})(?:[^{},.]|\.(?!\.))*(?:,|\.\.)|^~")
"""Not possessive: Python before 3.11.5 matches such a group wrongly where it looks ahead."""
ARGUMENTS = "@"
"""The name under which all arguments of a script are unknown."""
_LONGEST = 100_000
"""Characters of a variable, or items of an array: X=$X$X$X doubles quickly."""

Field = Sequence[ExpansionRun]
_UNKNOWN: Field = (ExpansionRun(None, 0, False),)
_TYPED = -1
"""Where an argument of the script stands: not in its text."""


class Values(Struct):
    """The variables of a script up to some command.

    `unknown` are those that are set twice, or only perhaps; `appended` those that grow, so that inside a function
    nobody knows how far they are; `assigned` all that the script sets anywhere. `is_open` says that others may be set
    too. `left` is how many words may still be made. `arguments` are those of the script: None for a start of which
    nobody says any, where the defaults hold.
    """

    text: Text
    unknown: Set[str]
    appended: Set[str]
    assigned: Set[str]
    scalars: dict[str, Field] = field(default_factory=dict)
    arrays: dict[str, Sequence[Field]] = field(default_factory=dict)
    is_open: bool = False
    left: int = MAX_VALUES
    arguments: Sequence[str] | None = None

    def assign(self, word: Token) -> None:
        """Take a NAME=value or NAME+=value that certainly runs."""
        if word.items is not None:
            fields = [found for item in word.items for found in self._fields(item.pieces, "once")]
            items = [found if _is_known(found) else _UNKNOWN for found in fields]
            unset: Sequence[Field] = (_UNKNOWN,) if self.is_open else ()
            before = self.arrays.get(word.name, unset) if word.is_append else ()
            self.count(len(items) + len(before), word)
            self.arrays[word.name] = (*before, *items)
        elif word.value is not None:
            before_it = self.scalars.get(word.name, _UNKNOWN) if word.is_append else ()
            self.scalars[word.name] = _limited((*before_it, *self._joined(word.value.pieces, "once")))

    def forget(self) -> None:
        """Something that is not read here has run, and may have set any variable."""
        self.scalars.clear()
        self.arrays.clear()
        self.is_open = True

    def words(self, word: Token, when: When) -> Iterator[source.ShellWord]:
        """The words that `word` of a command becomes; none for an unquoted variable that is empty."""
        is_variable = len(word.pieces) == 1 and isinstance(word.pieces[0], Variable)
        for found in self._fields(word.pieces, when):
            self.count(1, word)
            yield self._placed(word, found, _is_known(found), is_variable)

    def value(self, word: Token, when: When) -> source.ShellWord | None:
        """The value of NAME=value as a word; None for an array."""
        if word.value is None:
            return None
        runs = self._joined(word.value.pieces, when)
        is_known = all(run.text is not None for run in runs)
        is_variable = len(word.value.pieces) == 1 and isinstance(word.value.pieces[0], Variable)
        return self._placed(word.value, runs, is_known, is_variable)

    def count(self, number: int, word: Token) -> None:
        """Note that `number` more words are made. Raises UsageError when they are too many."""
        self.left -= number
        if self.left < 0:
            raise self.text.error(f"more than {MAX_VALUES} words", word.start)

    def _placed(self, word: Token, runs: Field, is_known: bool, is_variable: bool) -> source.ShellWord:
        """A variable stands where its value stands, anything else where it is used."""
        start, end = (_place(runs) if is_variable else None) or (word.start, word.end)
        value = "".join(run.text or "" for run in runs) if is_known else None
        is_typed = is_known and any(run.start == _TYPED for run in runs)
        return source.ShellWord(
            value, self.text.text[start:end], self.text.span(start, end), self.text.line(start), is_typed
        )

    def _fields(self, pieces: Sequence[Piece], when: When) -> list[Field]:
        """The words of pieces that stand together: each blank in an unquoted variable starts a new one."""
        fields: list[list[ExpansionRun]] = [[]]
        for piece in pieces:
            parts = self._parts(piece, when)
            if len(pieces) > 1 and not all(run.text is not None for part in parts for run in part):
                parts = [_UNKNOWN]  # nobody knows at which of its words the rest is
            for index, part in enumerate(parts):
                if index:
                    fields.append([])
                fields[-1] += part
        return [runs for runs in fields if any(run.text != "" or run.quoted for run in runs)]

    def _parts(self, piece: Piece, when: When) -> list[Field]:
        if isinstance(piece, ExpansionRun):
            return [(piece,)]
        values = self._variable(piece, when)
        if piece.quoted:
            return [
                [ExpansionRun(run.text, run.start, True) for run in (*value, ExpansionRun("", 0, True))]
                for value in values
            ]
        return [part for value in values for part in _split(value)]

    def _joined(self, pieces: Sequence[Piece], when: When) -> Field:
        """The value of pieces where blanks split nothing: in an assignment."""
        runs: list[ExpansionRun] = []
        for piece in pieces:
            runs += (piece,) if isinstance(piece, ExpansionRun) else self._scalar(piece, when)
        is_home = bool(runs) and not runs[0].quoted and (runs[0].text or "").startswith("~")
        return _UNKNOWN if is_home else runs

    def _scalar(self, variable: Variable, when: When) -> Field:
        return _UNKNOWN if variable.is_array else self._variable(variable, when)[0]

    def _variable(self, variable: Variable, when: When) -> Sequence[Field]:
        name = variable.name
        if name == "@" or name.isdigit():
            return self._argument(variable, when)
        if name in self.unknown or (name in self.appended and when == "later"):
            return (_UNKNOWN,)
        if name in self.arrays:
            return self.arrays[name] if variable.is_array else (_UNKNOWN,)
        if name in self.scalars:
            is_empty = not any(run.text != "" for run in self.scalars[name])
            return (_UNKNOWN if is_empty and variable.default is not None else self.scalars[name],)
        is_unset = not self.is_open and (when == "once" or name not in self.assigned)
        if variable.default is not None and is_unset:
            return (self._joined(variable.default, when),)
        return (_UNKNOWN,)

    def _argument(self, variable: Variable, when: When) -> Sequence[Field]:
        """$1 and "$@" of the script, where no function around has its own, and nothing shifts them."""
        if ARGUMENTS in self.unknown or when == "later":
            return (_UNKNOWN,)
        given = [(ExpansionRun(word, _TYPED, True),) for word in self.arguments or ()]
        if variable.name == "@":
            return given if self.arguments is not None else (_UNKNOWN,)
        at = int(variable.name) - 1
        if at < len(given) and (given[at][0].text or variable.takes_empty):
            return (given[at],)
        if variable.default is not None:
            return (self._joined(variable.default, when),)
        return (_UNKNOWN if self.arguments is None else (ExpansionRun("", _TYPED, variable.quoted),),)


def _is_known(word: Field) -> bool:
    """Whether a word of a command stays as it is: no file name is to be filled in."""
    return not any(run.text is None or (not run.quoted and _GLOB.search(run.text)) for run in word)


def _split(value: Field) -> list[Field]:
    parts: list[list[ExpansionRun]] = [[]]
    for run in value:
        if run.text is None:
            parts[-1].append(run)
            continue
        for match in _BLANKS_OR_WORD.finditer(run.text):
            if match[0].isspace():
                parts.append([])
            else:
                start = _TYPED if run.start == _TYPED else run.start + match.start()
                parts[-1].append(ExpansionRun(match[0], start, False))
    return list(parts)


def _place(runs: Field) -> tuple[int, int] | None:
    """The one place where all characters of `runs` stand; None when they stand apart, or nowhere."""
    written = [run for run in runs if run.text != ""]
    if not written or any(run.text is None or run.start == _TYPED for run in written):
        return None
    ends = [run.start + len(run.text or "") for run in written]
    if any(run.start != end for run, end in zip(written[1:], ends, strict=False)):
        return None
    return written[0].start, ends[-1]


def _limited(runs: Field) -> Field:
    return runs if sum(len(run.text or "x") for run in runs) <= _LONGEST else _UNKNOWN
