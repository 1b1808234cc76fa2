"""What a library does is known from its model alone: without one, code that is not read may do anything."""

from __future__ import annotations

import ast

from autotune.pycode import cli_options
from autotune.pycode.build_index import build
from autotune.pycode.escape import escapes
from autotune.pycode.library_models import LibraryModels
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import written_value
from autotune.pycode.work_budget import Work
from autotune.syntax import python
from autotune.syntax.python import calls_of

NOTHING = LibraryModels()


def read(code: str, models: LibraryModels) -> tuple[ScriptView, ast.Call]:
    """The view of a script, and its call of made()."""
    source = python.read(code.encode(), "train.py")
    index = build(source.tree, Work())
    view = ScriptView(index, source, "train.py", cli_options.parser_options(index), {}, False, models=models)
    return view, calls_of(source, "made")[0]


def test_a_value_is_followed_through_a_method_that_returns_its_arguments() -> None:
    code = "model = library.prepare(made())\nmodel.fit()"
    wrapped = LibraryModels(return_arguments=frozenset({"prepare"}))
    for models, is_followed in ((NOTHING, False), (wrapped, True)):
        view, made = read(code, models)
        (name,) = view.index.reads["model"]
        assert (made in [origin.node for origin in origins(view, name)]) is is_followed


def test_an_object_does_not_escape_into_a_container_that_stays() -> None:
    code = "box = Box(made())\nfor one in box:\n    print(one)"
    for models, is_escaping in ((NOTHING, True), (LibraryModels(containers=frozenset({"Box"})), False)):
        assert escapes(*read(code, models)) is is_escaping


def test_a_constant_of_a_library_has_the_value_of_its_model() -> None:
    code = "import library\nmade(library.WIDE)"
    known = LibraryModels(constant={"library.WIDE": 8}.get)
    for models, value in ((NOTHING, None), (known, 8)):
        view, made = read(code, models)
        assert written_value(view, made.args[0]).value == value


def test_a_condition_that_is_assumed_holds() -> None:
    code = "if has_gpu:\n    made()"
    on_gpu = LibraryModels(assumes=lambda index, test: isinstance(test, ast.Name) and test.id == "has_gpu")
    for models, expected in ((NOTHING, None), (on_gpu, True)):
        assert is_reached(*read(code, models)) is expected
