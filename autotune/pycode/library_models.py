"""Models of what is not read: the functions and constants of libraries, and conditions on the machine."""

from __future__ import annotations

import ast
from collections.abc import Callable

from msgspec import Struct

from autotune.model.evidence import Value
from autotune.pycode.index import Index


def _no_value(name: str) -> Value | None:
    """Where no constant of a library is known."""


def _assumes_nothing(index: Index, test: ast.expr) -> bool:
    return False


class LibraryModels(Struct, frozen=True):
    """The models of libraries and of the machine with which a script is read; without any, nothing is assumed."""

    return_arguments: frozenset[str] = frozenset()
    """Methods that return the arguments that they get, wrapped."""
    containers: frozenset[str] = frozenset()
    """Classes that keep an argument as long as they live, and do nothing else with it."""
    constant: Callable[[str], Value | None] = _no_value
    """The value of a library's constant by its full name; None for any other name."""
    assumes: Callable[[Index, ast.expr], bool] = _assumes_nothing
    """Whether a condition on the machine or the process is assumed to hold."""
