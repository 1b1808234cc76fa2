"""Dropout of scaled_dot_product_attention that stays on in evaluation: the function knows nothing of model.eval()."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from autotune.model.evidence import RUN, Fact
from autotune.model.scanned import WrittenValue
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.index import AttributeWrite
from autotune.pycode.names import full_name
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import is_certain, written_value
from autotune.syntax.python import last_name

SDPA = "scaled_dot_product_attention"

PLACE = 4
"""Of dropout_p among the arguments."""

MODES = re.compile(r"train|eval|infer|predict|sampl|generat|determinis", re.IGNORECASE)
"""What names have in them that know of training and evaluation."""

WANTED = re.compile(r"bayes|uncertain|mc_?drop|monte_?carlo", re.IGNORECASE)
"""Classes whose dropout stays on for a reason."""

SWITCHES = frozenset({"train", "eval"})
"""Methods by which a module of its own learns of its mode."""

MAX_OUTER = 8
"""Classes that are made one inside another."""


class FixedProbability(Struct, frozen=True, eq=False):
    """A probability that no mode changes: the expression that says it, in its file."""

    view: ScriptView
    value: ast.expr


def facts(views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Facts `code.keeps_attention_dropout` and, where its value is certain, `code.attention_dropout`; none where it
    is 0 in this run as far as files show."""
    found = [(view, call, value) for view in views for call, value in _kept(views, view)]
    certain = [one for one in found if is_certain(one[0], one[2])]
    if found:
        yield Fact("code.keeps_attention_dropout", RUN, True, tuple(view.place(call) for view, call, _ in found))
    if certain:
        largest = max(float(value.value) for _, _, value in certain if isinstance(value.value, int | float))
        yield Fact("code.attention_dropout", RUN, largest, tuple(view.place(call) for view, call, _ in certain))


def _kept(views: Sequence[ScriptView], view: ScriptView) -> Iterator[tuple[ast.Call, WrittenValue]]:
    """The calls in modules of the run whose dropout no mode changes, and its probability."""
    for call in view.index.called.get(SDPA, ()):
        class_ = _module_around(view, call)
        given = _given(call)
        if class_ is None or given is None or is_reached(view, call) is False or not _is_made(views, class_):
            continue
        held = _fixed_probability(views, view, class_, given)
        value = written_value(held.view, held.value) if held is not None else None
        if value is None or (value.known and not _is_positive(value)):
            continue
        yield call, value


def _is_positive(value: WrittenValue) -> bool:
    return isinstance(value.value, int | float) and 0 < value.value < 1


def _module_around(view: ScriptView, call: ast.Call) -> ast.ClassDef | None:
    """The module whose method calls torch's function, where the method names no mode and the module hears of none."""
    if not (full_name(view.index, call.func) or "").startswith("torch."):
        return None
    function = view.index.enclosing_function(call)
    class_ = view.index.method_class(function) if function is not None else None
    if function is None or class_ is None or WANTED.search(class_.name) or _names_mode(function):
        return None
    family = list(with_bases(view.index, class_))
    is_module = any(last_name(base).endswith("Module") for one in family for base in one.bases)
    methods = {one.name for each in family for one in each.body if isinstance(one, ast.FunctionDef)}
    return class_ if is_module and methods.isdisjoint(SWITCHES) else None


def _names_mode(node: ast.AST) -> bool:
    names = (one.id if isinstance(one, ast.Name) else getattr(one, "attr", None) for one in ast.walk(node))
    own = (getattr(one, "arg", None) or getattr(one, "name", None) for one in ast.walk(node))
    return any(isinstance(one, str) and MODES.search(one) for one in (*names, *own))


def _given(call: ast.Call) -> ast.expr | None:
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    named = [one.value for one in call.keywords if one.arg == "dropout_p"]
    return next(iter([*named, *call.args[PLACE : PLACE + 1]]), None)


def _fixed_probability(
    views: Sequence[ScriptView], view: ScriptView, class_: ast.ClassDef, given: ast.expr
) -> FixedProbability | None:
    """What a probability is, where only __init__ sets it; None where anything else may."""
    if isinstance(given, ast.Constant):
        return FixedProbability(view, given)
    if isinstance(given, ast.Name):
        bindings = view.index.lookup(given)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "value" else None
        return _fixed_probability(views, view, class_, value) if value is not None else None
    if not isinstance(given, ast.Attribute):
        return None
    if last_name(given.value) == "self":
        store = _only_store(views, view, class_, given.attr)
        return FixedProbability(view, given) if store is not None else None
    owner = given.value
    if given.attr != "p" or not isinstance(owner, ast.Attribute) or last_name(owner.value) != "self":
        return None
    store = _only_store(views, view, class_, owner.attr)
    made = store.value if store is not None else None
    if not isinstance(made, ast.Call) or last_name(made.func) != "Dropout":
        return None
    value = next(iter([*made.args[:1], *(one.value for one in made.keywords if one.arg == "p")]), None)
    return FixedProbability(view, value) if value is not None else None


def _only_store(
    views: Sequence[ScriptView], view: ScriptView, class_: ast.ClassDef, name: str
) -> AttributeWrite | None:
    """Where __init__ of a class, and nothing else, sets an attribute to what names no mode."""
    family = list(with_bases(view.index, class_))
    own = []
    for each in views:
        for store in each.index.stores.get(name, ()):
            function = each.index.enclosing_function(store.node)
            owner = each.index.method_class(function) if function is not None else None
            if last_name(store.base) != "self":
                return None
            if owner is class_ and function is not None and function.name == "__init__":
                own.append(store)
            elif any(owner is one for one in family):
                return None
    is_method = any(isinstance(one, ast.FunctionDef) and one.name == name for each in family for one in each.body)
    if len(own) != 1 or is_method or own[0].value is None or _names_mode(own[0].value):
        return None
    return own[0]


def _is_made(views: Sequence[ScriptView], class_: ast.ClassDef, depth: int = 0) -> bool:
    """Whether the run makes an object of a class, or of one that extends it, in what it may come to."""
    for view in views:
        for call in view.index.calls:
            made = called_class(view.index, call.func)
            if made is None or not any(one is class_ for one in with_bases(view.index, made)):
                continue
            function = view.index.enclosing_function(call)
            outer = view.index.method_class(function) if function is not None else None
            is_inside = outer is None or outer is class_ or depth >= MAX_OUTER or _is_made(views, outer, depth + 1)
            if is_inside and is_reached(view, call) is not False:
                return True
    return False
