"""The writes that change an object after it is made, in any file of the run: `cfg["workers"] = 8`, `setattr(...)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from autotune.pycode.functions import called_class, called_function, with_bases
from autotune.pycode.index import AttributeWrite, Function, Index
from autotune.pycode.script_view import ScriptView
from autotune.syntax.python import last_name

CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})


class Holder(Protocol):
    """An object that is asked for, as the writes see it."""

    def holds(self, view: ScriptView, node: ast.expr) -> bool:
        """Whether an expression of a file may stand for the object."""

    def possible_writes(self, view: ScriptView, key: str) -> Iterable[AttributeWrite]:
        """The writes of this key in a file, in their order, without those that are known to be of another object."""


IsKnown = Callable[[ScriptView, AttributeWrite], bool]

ANY = ""
"""The key of a change of which it is not known what it sets."""


def may_happen(view: ScriptView, node: ast.AST) -> bool:
    """Whether a run may come to a change. Conditions ask for values: not while it is only asked what is one object."""
    return bool(view.identified) or view.reach(view, node) is not False


def later_values(view: ScriptView, key: str, holder: Holder, is_known: IsKnown) -> Iterator[ast.expr | None]:
    """What changes that `is_known` leaves out set the attribute or key of the object to; None for what is not known."""
    for one in (key, ANY):
        yield from (store.value for store in _later_writes(view, one, holder, is_known))


def changed_keys(view: ScriptView, holder: Holder, is_known: IsKnown) -> frozenset[str]:
    """The attributes and keys of the object that changes set which `is_known` leaves out; ANY where it may be any."""
    keys = {key for one in _files(view) for key in one.index.writes}
    return frozenset(key for key in keys if any(True for _ in _later_writes(view, key, holder, is_known)))


def sets_global(index: Index, name: str) -> bool:
    """Whether a file sets a name of its own through globals()."""
    bases = (store.base for key in (name, ANY) for store in index.writes.get(key, ()))
    return any(isinstance(one, ast.Call) and last_name(one.func) == "globals" for one in bases)


def _files(view: ScriptView) -> list[ScriptView]:
    return list(view.views.values()) or [view]


def _later_writes(view: ScriptView, key: str, holder: Holder, is_known: IsKnown) -> Iterator[AttributeWrite]:
    """The changes of exactly this key, as it is written, that may be ones of the object."""
    for at in _files(view):
        for store in holder.possible_writes(at, key):
            is_other = not is_known(at, store) and not _is_followed(at, store)
            if is_other and holder.holds(at, store.base) and may_happen(at, store.node):
                yield store


def _is_followed(view: ScriptView, store: AttributeWrite) -> bool:
    """Whether a function of the project gets the object: what the function does with it is known by itself."""
    if store not in view.followed_writes:
        is_own = isinstance(store.node, ast.Call) and called_function(view.index, store.node) is not None
        view.followed_writes[store] = is_own and not _is_asked(store)
    return view.followed_writes[store]


def _is_asked(store: AttributeWrite) -> bool:
    """Whether a call asks the object itself: `cfg.update(...)`."""
    return isinstance(store.node, ast.Call) and any(one is store.base for one in ast.walk(store.node.func))


def sets_itself(view: ScriptView, made: ast.AST, base: ast.expr, key: str) -> bool:
    """Whether a method that sets `self` by names that are not known does so for the object that a call makes."""
    function = view.index.enclosing_function(base)
    own = view.index.method_class(function) if function is not None else None
    class_ = called_class(view.index, made.func) if isinstance(made, ast.Call) else None
    if function is None or own is None or class_ is None or own not in with_bases(view.index, class_):
        return False
    if function.name in CONSTRUCTORS:
        assert isinstance(made, ast.Call)
        return bool(made.args) or any(one.arg in (key, None) for one in made.keywords)
    return _is_called(view, function)


def _is_called(view: ScriptView, method: Function) -> bool:
    return any(one.index.called.get(method.name) for one in _files(view))
