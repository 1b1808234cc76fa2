"""What a shell script is cut into: words, made of pieces, and operators."""

from __future__ import annotations

from msgspec import Struct


class ExpansionRun(Struct, frozen=True):
    """Characters of a word that stand one behind the other in the file from `start` on.

    `text` is None for what is only known when the script runs. What is `quoted` is taken as it is: no blanks split it.
    """

    text: str | None
    start: int
    quoted: bool


class Variable(Struct, frozen=True):
    """A variable in a word: $X, ${X}, ${X:-default} or, `is_array`, ${X[@]}; $1 and $@ are arguments of the script.

    `takes_empty` says that an empty value replaces the default: ${X-default}.
    """

    name: str
    quoted: bool
    default: tuple[Piece, ...] | None = None
    is_array: bool = False
    takes_empty: bool = False


Piece = ExpansionRun | Variable


class Token(Struct, frozen=True):
    """A word from `start` to `end`.

    One of the form NAME=value or NAME+=value has a `name` and the `value` as a word, or `items` when it is (a b c).
    """

    start: int
    end: int
    pieces: tuple[Piece, ...]
    name: str = ""
    is_append: bool = False
    value: Token | None = None
    items: tuple[Token, ...] | None = None


class Operator(Struct, frozen=True):
    """What stands between commands: ";", "&&", "(", a line break ..."""

    text: str
    start: int
