"""Cuts a shell script into words and operators (bash; source: its manual, "Shell Syntax" and "Shell Expansions").

Redirections are passed over, here-documents too, but for the text of the last one; what a substitution would run is
passed over and never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.model.source import Comment
from autotune.syntax.shell_tokens import ExpansionRun, Operator, Piece, Token, Variable
from autotune.syntax.text import MAX_VALUES, Text

_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)*")
"""Not possessive: Python before 3.11.5 then takes a backslash that no line break follows."""
_COMMENT = re.compile(r"#[^\n]*+")
_OPERATOR = re.compile(r"\n|;;&|;;|;&|;|&&|\|\||\|&|\||&|\(|\)")
_REDIRECTION = re.compile(r"&>>?|(?:\d+|\{\w+\})?(?:<<<|<<-?|<>|<&|>&|>>|>\||<|>)")
_OUTSIDE = re.compile(r"[^ \t\r\n\\'\"$`|&;()<>]++")
_IN_QUOTES = re.compile(r"[^\\\"$`]++")
_IN_BODY = re.compile(r"[^\\$`]++")
_IN_DEFAULT = re.compile(r"[^\\'\"$`}]++")
_ESCAPE = re.compile(r"\\(\r?\n|.)", re.DOTALL)
_SINGLE_QUOTED = re.compile(r"'([^']*)'")
_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]\s]*\])?(\+?)=", re.ASCII)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*|[1-9@])|\{([A-Za-z_]\w*|[1-9][0-9]?|@)(\[@\])?\})", re.ASCII)
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*|[1-9][0-9]?)(:?)([-=])", re.ASCII)
_SPECIAL = re.compile(r"\$[0*#?$!-]")
_CHANGED = re.compile(
    r"(?:\+\+|--)\s*+(\w++)|(?<!\w)([A-Za-z_]\w*+)\s*+(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))", re.ASCII
)
_NESTED = {
    ")": re.compile(r"\\.|'[^']*'|(?<=[\s;])#[^\r\n]*|\$\{|[\"`()]", re.DOTALL),
    "}": re.compile(r"\\.|'[^']*'|\$\(|\$\{|[\"`}]", re.DOTALL),
    '"': re.compile(r"\\.|\$\(|\$\{|[\"`]", re.DOTALL),
    "`": re.compile(r"\\.|`", re.DOTALL),
}
_CLOSING = {"(": ")", "$(": ")", "${": "}", '"': '"', "`": "`"}


class Lexer(Struct):
    """A place in the text that only moves on.

    `changed` are variables that an expression in a word changes; `body` is the text of the last here-document.
    """

    text: Text
    place: int = 0
    comments: list[Comment] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    heredocs: list[tuple[re.Pattern[str], bool]] = field(default_factory=list)
    body: Token | None = None
    left: int = 4 * MAX_VALUES

    def tokens(self) -> Iterator[Token | Operator]:
        """All words and operators, in order. Raises UsageError at a quote or bracket without an end."""
        while self._skip() < len(self.text.text):
            self._count()
            if self._is_at("<(", ">("):
                yield self._process()
            elif self._is_at("(("):
                self._expression("(")
            elif match := _REDIRECTION.match(self.text.text, self.place):
                self._redirection(match)
            elif match := _OPERATOR.match(self.text.text, self.place):
                yield self._operator(match)
            else:
                yield self._word()

    def _skip(self) -> int:
        """Over blanks, continued lines and a comment."""
        self.place = _BLANK.match(self.text.text, self.place).end()  # type: ignore[union-attr]  # it matches "" too
        comment = _COMMENT.match(self.text.text, self.place)
        if comment:
            self.comments.append(self.text.comment(self.place, comment[0]))
            self.place = comment.end()
        return self.place

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.text.error("a script that is too long", self.place)

    def _is_at(self, *signs: str) -> bool:
        return self.text.text.startswith(signs, self.place)

    def _operator(self, match: re.Match[str]) -> Operator:
        self.place = match.end()
        if match[0] == "\n":
            for end, has_variables in self.heredocs:
                found = end.search(self.text.text, self.place)
                self.body = self._body(found.start() if found else len(self.text.text), has_variables)
                self.place = found.end() if found else len(self.text.text)
            self.heredocs.clear()
        return Operator(match[0], match.start())

    def _redirection(self, match: re.Match[str]) -> None:
        self.place = match.end()
        self._skip()
        if self._is_at("<(", ">("):
            self._process()
            return
        target = self._word()
        if "<<" in match[0] and "<<<" not in match[0]:
            delimiter = re.sub(r"['\"\\]", "", self.text.text[target.start : target.end])
            tabs = r"\t*" if match[0].endswith("-") else ""
            last = re.compile(rf"^{tabs}{re.escape(delimiter)}\r?$", re.MULTILINE)
            self.heredocs.append((last, target.end - target.start == len(delimiter)))

    def _body(self, end: int, has_variables: bool) -> Token:
        """The text of a here-document, which goes up to `end`."""
        start = self.place
        if not has_variables:
            return Token(start, end, (ExpansionRun(self.text.text[start:end], start, True),))
        inner = Lexer(replace(self.text, text=self.text.text[:end]), start, left=self.left)
        pieces = inner._pieces(_IN_BODY, True, 0)
        self.left, self.changed = inner.left, self.changed | inner.changed
        return Token(start, end, pieces)

    def _process(self) -> Token:
        """<(command) or >(command): the name of a file that nobody knows."""
        start = self.place
        self.place += 1
        self._nested("(")
        return Token(start, self.place, (ExpansionRun(None, start, False),))

    def _expression(self, opening: str) -> None:
        """Over an arithmetic expression; what it changes is known no more."""
        start = self.place
        self._nested(opening)
        for match in _CHANGED.finditer(self.text.text, start, self.place):
            self.changed.add(match[1] or match[2])

    def _word(self, is_item: bool = False) -> Token:
        start = self.place
        assignment = None if is_item else _ASSIGNMENT.match(self.text.text, start)
        if assignment is None:
            pieces = self._pieces(_OUTSIDE, False, 0)
            return Token(start, self.place, pieces)
        self.place = assignment.end()
        items = self._items() if self._is_at("(") else None
        pieces = self._pieces(_OUTSIDE, False, 0)
        value = Token(assignment.end(), self.place, pieces) if items is None else None
        if "[" in assignment[0] or any(self.text.text.startswith("[", item.start) for item in items or ()):
            self.changed.add(assignment[1])  # single items are not followed
        name = ExpansionRun(assignment[0], start, False)
        return Token(start, self.place, (name, *pieces), assignment[1], bool(assignment[2]), value, items)

    def _items(self) -> tuple[Token, ...]:
        items: list[Token] = []
        start = self.place
        self.place += 1
        while True:
            self._skip()
            if self._is_at("\n"):
                self.place += 1
            elif self._is_at(")"):
                self.place += 1
                return tuple(items)
            else:
                items.append(self._word(is_item=True))
                if items[-1].end == items[-1].start:
                    raise self.text.error("an array without an end", start)

    def _pieces(self, plain: re.Pattern[str], quoted: bool, depth: int) -> tuple[Piece, ...]:
        """The pieces up to what ends them: a blank or an operator outside of quotes, else the closing sign."""
        pieces: list[Piece] = []
        self.text.bound(self.place, depth, 0)
        while True:
            self._count()
            start = self.place
            if match := plain.match(self.text.text, start):
                self.place = match.end()
                pieces.append(ExpansionRun(match[0], start, quoted))
            elif self._is_at("\\"):
                pieces.append(self._escape(quoted))
            elif self._is_at("$", "`"):
                pieces += self._expansion(quoted, depth)
            elif plain not in (_IN_QUOTES, _IN_BODY) and self._is_at("'", '"'):
                pieces += self._quotes(depth)
            else:
                return tuple(pieces)

    def _escape(self, quoted: bool) -> ExpansionRun:
        match = _ESCAPE.match(self.text.text, self.place)
        if match is None:
            self.place += 1
            return ExpansionRun("\\", self.place - 1, True)
        self.place = match.end()
        if match[1].endswith("\n"):
            return ExpansionRun("", match.end(), quoted)
        if quoted and match[1] not in '$`"\\':
            return ExpansionRun(match[0], match.start(), True)
        return ExpansionRun(match[1], match.start(1), True)

    def _quotes(self, depth: int) -> tuple[Piece, ...]:
        start = self.place
        match = _SINGLE_QUOTED.match(self.text.text, start)
        if match is not None:
            self.place = match.end()
            return (ExpansionRun(match[1], match.start(1), True),)
        self.place += 1
        pieces = self._pieces(_IN_QUOTES, True, depth + 1) if self.text.text[start] == '"' else ()
        if not self._is_at('"'):
            raise self.text.error("a quote without an end", start)
        self.place += 1
        return pieces or (ExpansionRun("", start + 1, True),)

    def _expansion(self, quoted: bool, depth: int) -> tuple[Piece, ...]:
        """What starts with $ or `."""
        start = self.place
        if match := _VARIABLE.match(self.text.text, start):
            self.place = match.end()
            name = match[1] or match[2]
            return (Variable(name, quoted, is_array=match[3] is not None or name == "@"),)
        if match := _DEFAULT.match(self.text.text, start):
            return (self._with_default(match, quoted, depth),)
        if not quoted and (match := _ANSI_QUOTED.match(self.text.text, start)):
            self.place = match.end()
            return (ExpansionRun(None if "\\" in match[1] else match[1], match.start(1), True),)
        if self._passes_substitution():
            return (ExpansionRun(None, start, quoted),)
        self.place += 1
        return () if not quoted and self._is_at('"') else (ExpansionRun("$", start, quoted),)

    def _with_default(self, match: re.Match[str], quoted: bool, depth: int) -> Variable:
        self.place = match.end()
        if match[3] == "=":
            self.changed.add(match[1])
        default = self._pieces(_IN_DEFAULT, quoted, depth + 1)
        if not self._is_at("}"):
            raise self.text.error("'${' without an end", match.start())
        self.place += 1
        return Variable(match[1], quoted, default, takes_empty=not match[2])

    def _passes_substitution(self) -> bool:
        special = _SPECIAL.match(self.text.text, self.place)
        if special:
            self.place = special.end()
        elif self._is_at("$(("):
            self._expression("$(")
        elif self._is_at("$(", "${"):
            self._nested(self.text.text[self.place : self.place + 2])
        elif self._is_at("`"):
            self._nested("`")
        else:
            return False
        return True

    def _nested(self, opening: str) -> None:
        """Over what `opening` opens, to behind its end."""
        start = self.place
        self.place += len(opening)
        closings = [_CLOSING[opening]]
        while closings:
            match = _NESTED[closings[-1]].search(self.text.text, self.place)
            if match is None:
                raise self.text.error(f"'{opening}' without an end", start)
            self.place = match.end()
            if match[0] == closings[-1]:
                closings.pop()
            elif match[0] in _CLOSING:
                closings.append(_CLOSING[match[0]])
