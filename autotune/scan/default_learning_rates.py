"""Optimizers without a learning rate that a Trainer of transformers gets, while a command or a config gives one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from autotune.model.evidence import RUN, Fact, Setting
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView, ValueOrigin
from autotune.pycode.values import written_value
from autotune.syntax.python import last_name

FOUND = "code.trainer_default_lr"

LIBRARIES = ("transformers", "trl")

ADAMS = 1e-3, ("Adam", "AdamW")
LIONS = 1e-4, ("Lion",)

RATES = {
    **{f"torch.optim.{name}": 1e-3 for name in ("Adam", "AdamW", "RAdam")},
    **{f"torch.optim.{name}": 1e-2 for name in ("RMSprop", "Adagrad")},
    **{f"torch.optim.{name}": 2e-3 for name in ("Adamax", "NAdam")},
    **{
        f"bitsandbytes.optim.{paged}{name}{bits}": rate
        for rate, names in (ADAMS, LIONS)
        for name in names
        for paged in ("", "Paged")
        for bits in ("", "8bit", "32bit")
    },
}
"""The default of `lr` by the full name of the optimizer in torch 2.13 and bitsandbytes, of those that need none."""

OWN_MAKERS = frozenset({"create_optimizer", "create_scheduler", "create_optimizer_and_scheduler"})
"""Methods of Trainer by which a subclass makes its own."""


def facts(views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Fact `code.trainer_default_lr`, where the optimizer that a Trainer gets certainly has that of its class."""
    if any(one.name in OWN_MAKERS for view in views for one in view.index.functions):
        return
    for view in views:
        for call in view.index.calls:
            pair = next((one.value for one in call.keywords if one.arg == "optimizers"), None)
            if pair is None or not _makes_trainer(view, call) or is_reached(view, call) is False:
                continue
            first, second = origins(view, pair, (0,)), origins(view, pair, (1,))
            made = first[0] if len(first) == 1 else None
            rate = _default_lr(view, made) if made is not None else None
            if made is not None and rate is not None and _is_none(view, second):
                yield Fact(FOUND, RUN, rate, (view.place(made.node),))
                return


def ignored(found: Iterable[Fact], settings: Iterable[Setting]) -> Iterator[Fact]:
    """Fact `code.ignored_lr`: the learning rate that is given to a Trainer with such an optimizer."""
    default = next((one for one in found if one.name == FOUND), None)
    given = next((one for one in settings if one.name == "train.learning_rate" and one.subject == RUN), None)
    if default is None or given is None or given.origin == "default" or given.location is None:
        return
    if isinstance(given.value, int | float):
        yield Fact("code.ignored_lr", RUN, float(given.value), (*default.places, given.location))


def _makes_trainer(view: ScriptView, call: ast.Call) -> bool:
    """Whether a call makes a Trainer of transformers or trl, or of a class that extends one."""
    class_ = called_class(view.index, call.func)
    if class_ is None:
        return _is_trainer(full_name(view.index, call.func))
    family = with_bases(view.index, class_)
    return any(_is_trainer(full_name(view.at(one).index, base)) for one in family for base in one.bases)


def _is_trainer(name: str | None) -> bool:
    return name is not None and name.partition(".")[0] in LIBRARIES and name.endswith("Trainer")


def _default_lr(view: ScriptView, made: ValueOrigin) -> float | None:
    """The rate of an optimizer whose call, and whose groups, give none; None where its file gives any a rate."""
    node, at = made.node, view.at(made.node)
    if not isinstance(node, ast.Call) or made.path or len(node.args) > 1:
        return None
    if any(one.arg is None for one in node.keywords) or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    return RATES.get(full_name(at.index, node.func) or "") if not _sets_lr(at.index.tree) else None


def _sets_lr(tree: ast.Module) -> bool:
    """Whether a file has an argument, a key or a word `lr`, by which groups get a rate of their own."""
    return any(
        (isinstance(one, ast.keyword) and one.arg == "lr")
        or (isinstance(one, ast.Constant) and one.value == "lr")
        or last_name(one) == "param_groups"
        for one in ast.walk(tree)
        if isinstance(one, ast.keyword | ast.Constant | ast.Attribute | ast.Name)
    )


def _is_none(view: ScriptView, found: Sequence[ValueOrigin]) -> bool:
    """Whether no schedule is given: one of the project's may set any rate."""
    values = [written_value(view, one.node) for one in found if not one.path]
    return len(values) == len(found) == 1 and values[0].known and values[0].value is None
