"""Finds the simple commands of a shell script, in whatever loop, branch or function they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.syntax.shell_lexer import Lexer
from autotune.syntax.shell_tokens import Operator, Token

_OPENING = {"if", "while", "until", "{"}
_CLOSING = {"fi", "done", "esac", "}"}
_BETWEEN = {"then", "do", "!", "time"}
_TESTS = ("[", "test")
_ELSE = ("||", "|", "|&")
_MAYBE = ("&&", *_ELSE)
_WHOLE = tuple(tuple(words) for one in ("''", '""') for words in (("-r", "-d", one), ("-rd", one), ("-d", one, "-r")))
"""Options of `read` with which it takes all lines as they are."""
_CASE_ENDS = (";;", ";&", ";;&")
_LIST_ENDS = (";", "&", ")", *_CASE_ENDS)
When = Literal["once", "perhaps", "later"]
_Tokens = Iterator[Token | Operator]


class Statement(Struct, frozen=True):
    """A simple command, and when it runs.

    "once" is certain; "perhaps" is in a branch or a loop, or after && or |; "later" is in a function, after commands
    that stand behind it. `scope` are the numbers of the subshells, functions, branches and loops around it, the
    outermost first.
    """

    words: tuple[Token, ...]
    when: When
    scope: tuple[int, ...]


class Statements(Struct):
    """Reads statements; `changed` are the variables of loops.

    `blocks` are those around the next word, a function's named "function", and `scopes` their numbers: 0 for { } that
    runs where it stands, as if it were not there. `before` is the last operator. Of a list (a && b || c) `is_tested`
    says that its last command only tested something, and `branch` is the number of what runs only sometimes; 0 for
    none.
    """

    lexer: Lexer
    blocks: list[str] = field(default_factory=list)
    scopes: list[int] = field(default_factory=list)
    num_scopes: int = 0
    is_tested: bool = False
    branch: int = 0
    next_block: str = ""
    before: str = ""
    words: list[Token] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Statement]:
        """All statements in the order of the file."""
        tokens = self.lexer.tokens()
        for token in tokens:
            if isinstance(token, Token):
                if self.words or not self._keyword(token, tokens):
                    self.words.append(token)
            elif token.text == "(" and (self.words or self.next_block):  # name(): a function
                self.words.clear()
                self._open()
                self.next_block = "function"
            else:
                yield from self._statement()
                self._operator(token, tokens)
        yield from self._statement()

    def _statement(self) -> Iterator[Statement]:
        if self.words:
            is_certain = not self.blocks and self.before not in _MAYBE
            when: When = "later" if "function" in self.blocks else "once" if is_certain else "perhaps"
            if not self.branch and self._is_branch():
                self.branch = self._number()
            words = self._filled(self.lexer.body)
            yield Statement(words, when, tuple(filter(None, (*self.scopes, self.branch))))
            self.is_tested = self._written(self.words[0]) in _TESTS
            self.words.clear()
            self.before = ""

    def _filled(self, body: Token | None) -> tuple[Token, ...]:
        """The words. `read -r -d '' NAME <<END` takes a here-document as a whole: it is an assignment."""
        self.lexer.body = None
        words = tuple(map(self._written, self.words))
        if body is None or words[0] != "read" or words[1:-1] not in _WHOLE or not words[-1].isidentifier():
            return tuple(self.words)
        return (replace(self.words[-1], pieces=(), name=words[-1], value=body),)

    def _is_branch(self) -> bool:
        """Whether what stands next in its list runs only sometimes, or in a shell of its own: a test && it, a || it, a
        | it. A command that does something most often works: mkdir x && cd x."""
        return bool(self.branch) or self.before in _ELSE or (self.before == "&&" and self.is_tested)

    def _number(self) -> int:
        self.num_scopes += 1
        return self.num_scopes

    def _operator(self, operator: Operator, tokens: _Tokens) -> None:
        if operator.text in _LIST_ENDS or (operator.text == "\n" and self.before not in _MAYBE):
            self.branch, self.is_tested = 0, False
        if operator.text != "\n":  # a line break after && changes nothing
            self.before = operator.text
        if operator.text == "(":
            self._open()
        elif operator.text == ")":
            self._close()
        elif operator.text in _CASE_ENDS:
            self._next_branch()
            self._pattern(tokens)

    def _keyword(self, word: Token, tokens: _Tokens) -> bool:
        """Whether `word` is a keyword; if so, passes what belongs to it and is no command."""
        keyword = self._written(word)
        if keyword in _OPENING:
            self._open(is_group=keyword == "{")
        elif keyword in _CLOSING:
            self._close()
        elif keyword in ("for", "select"):
            self._loop(tokens)
        elif keyword == "case":
            self._pass_to("in", tokens)
            self._open()
            self._pattern(tokens)
        elif keyword == "function":
            next(tokens, None)
            self.next_block = "function"
        elif keyword == "[[":
            self._pass_to("]]", tokens)
            self.is_tested = True
        elif keyword in ("elif", "else"):
            self._next_branch()
        else:
            return keyword in _BETWEEN
        return True

    def _open(self, *, is_group: bool = False) -> None:
        runs_here = is_group and not self.next_block and not self._is_branch()
        self.scopes.append(0 if runs_here else self._number())
        self.blocks.append(self.next_block)
        self.next_block = self.before = ""
        self.branch, self.is_tested = 0, False

    def _next_branch(self) -> None:
        if self.scopes:
            self.scopes[-1] = self._number()

    def _close(self) -> None:
        if self.blocks:
            self.blocks.pop()
            self.scopes.pop()

    def _loop(self, tokens: _Tokens) -> None:
        self._open()
        variable = next(tokens, None)
        if isinstance(variable, Token):
            self.changed.add(self._written(variable))
            for token in tokens:
                if isinstance(token, Operator):
                    return

    def _pattern(self, tokens: _Tokens) -> None:
        """Over the pattern of a `case` up to its bracket, or over the end of the `case`."""
        for token in tokens:
            if isinstance(token, Operator) and token.text == ")":
                return
            if isinstance(token, Token) and self._written(token) == "esac":
                self._close()
                return

    def _pass_to(self, last: str, tokens: _Tokens) -> None:
        for token in tokens:
            if isinstance(token, Token) and self._written(token) == last:
                return

    def _written(self, word: Token) -> str:
        return self.lexer.text.text[word.start : word.end]
