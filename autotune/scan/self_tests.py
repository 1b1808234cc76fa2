"""Modules that test themselves: they train below their main guard alone, and other files import what they define; or
in functions alone that tests are, by their names."""

from __future__ import annotations

import ast
import posixpath
import re

from autotune.pycode.reachability import is_main_guard
from autotune.scan.library import ANYTHING, Library
from autotune.scan.script.training_loops import BACKWARDS
from autotune.syntax.python import Source, last_name

TESTS = re.compile(r"_*(?:(?:smoke_?|unit_?)?tests?|bench(?:mark)?s?|profile)(?:_|$)")
"""How the names of functions begin that try or measure what a file defines."""


def is_self_test(library: Library, name: str, source: Source) -> bool:
    """Whether all that trains in a file stands in its main guard itself, and another file imports the file; or in
    functions that test it, of a file that defines classes."""
    guarded = [one for one in source.tree.body if isinstance(one, ast.If) and is_main_guard(one.test)]
    others = [one for one in source.tree.body if one not in guarded]
    if any(map(_trains, guarded)):
        return not any(map(_trains, others)) and _is_imported(library, name)
    training = [one for one in others if _trains(one)]
    defines = any(isinstance(one, ast.ClassDef) for one in others)
    return bool(training) and bool(guarded) and defines and all(map(_is_test, training))


def _is_test(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and TESTS.match(statement.name) is not None


def _trains(statement: ast.stmt) -> bool:
    calls = (one for one in ast.walk(statement) if isinstance(one, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and last_name(call.func) in BACKWARDS for call in calls)


def _is_imported(library: Library, name: str) -> bool:
    module = re.escape(posixpath.basename(name).removesuffix(".py")).encode()
    pattern = re.compile(
        rb"^[ \t]*(?:from[ \t]+[\w.]*\b%b[ \t]+import|(?:from|import)[ \t].*\b%b\b)" % (module, module), re.M
    )
    library.note_asked((ANYTHING,))  # any file may begin to import it
    others = (one for one in library.named("python") if one != name)
    return any(pattern.search(library.files[one].data) for one in others)
