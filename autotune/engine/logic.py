"""Three-valued (Kleene) logic and arithmetic: what is unknown stays unknown, and says what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from autotune.model.evidence import Value

Lookup = Callable[[str], Value | None]
"""The value of a fact or setting, None when it is unknown."""


class Answer(NamedTuple):
    """A value, or None with the names that are missing to know it."""

    value: Any
    missing: tuple[str, ...] = ()


Node = Callable[[Lookup], Answer]
"""A compiled expression."""

TRUE, FALSE = Answer(True), Answer(False)


def constant(value: Value) -> Node:
    answer = Answer(value)
    return lambda lookup: answer


def name(text: str) -> Node:
    unknown = Answer(None, (text,))

    def node(lookup: Lookup) -> Answer:
        value = lookup(text)
        return unknown if value is None else Answer(value)

    return node


def all_of(nodes: Sequence[Node]) -> Node:
    """False as soon as one is false, whatever the others are."""
    return _decided_by(False, FALSE, TRUE, nodes)


def any_of(nodes: Sequence[Node]) -> Node:
    """True as soon as one is true, whatever the others are."""
    return _decided_by(True, TRUE, FALSE, nodes)


def _decided_by(value: bool, decided: Answer, otherwise: Answer, nodes: Sequence[Node]) -> Node:
    def node(lookup: Lookup) -> Answer:
        missing: tuple[str, ...] | None = None
        for each in nodes:
            found, lacks = each(lookup)
            if found is value:
                return decided
            if found is None:
                missing = lacks if missing is None else missing + lacks
        return otherwise if missing is None else _unknown(missing)

    return node


def surely(node: Node) -> Node:
    """The answer where there is one, else false."""
    return lambda lookup: TRUE if node(lookup).value else FALSE


def apply(function: Callable[..., Any], nodes: Sequence[Node]) -> Node:
    """`function` of the values, unknown while one of them is."""

    def node(lookup: Lookup) -> Answer:
        values: list[Value] = []
        missing: tuple[str, ...] | None = None
        for each in nodes:
            found, lacks = each(lookup)
            values.append(found)
            if found is None:
                missing = lacks if missing is None else missing + lacks
        return Answer(function(*values)) if missing is None else _unknown(missing)

    return node


def divide(function: Callable[..., Any], nodes: Sequence[Node], divisor_names: tuple[str, ...]) -> Node:
    """`function` of two numbers; by zero it is unknown, for want of another divisor."""
    plain, divisor = apply(function, nodes), nodes[1]

    def node(lookup: Lookup) -> Answer:
        return Answer(None, divisor_names) if divisor(lookup).value == 0 else plain(lookup)

    return node


def whole(function: Callable[[float], float]) -> Callable[[float], float]:
    """`function` (ceil, floor or round) where it is defined; infinity stays itself."""
    return lambda number: function(number) if math.isfinite(number) else number


def same_length(left: Value, right: Value) -> tuple[Value, Value]:
    """Versions filled up with zeros, so that 4.41 equals 4.41.0; other values unchanged."""
    if not isinstance(left, tuple) or not isinstance(right, tuple):
        return left, right
    length = max(len(left), len(right))
    return left + (0,) * (length - len(left)), right + (0,) * (length - len(right))


def _unknown(missing: tuple[str, ...]) -> Answer:
    """The answer of an undecided combination, with each name once."""
    return Answer(None, tuple(dict.fromkeys(missing)))
