"""Whether a dataset is map-style or iterable, where its class leaves no doubt."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.names import full_name, package_and_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.loaders import TRAIN, dataset_argument

OF_TORCH = {
    **dict.fromkeys(("TensorDataset", "Subset", "random_split", "ConcatDataset"), True),
    **dict.fromkeys(("IterableDataset", "ChainDataset"), False),
}

VISION = "torchvision.datasets."
"""All of its classes have items."""

PLAIN = frozenset({("torch", "Dataset"), ("object", "object"), ("abc", "ABC")})
"""Bases that say nothing: what extends them is a stream only if it extends another one too."""

HUB = frozenset({"datasets.load_from_disk", *(f"datasets.Dataset.from_{kind}" for kind in ("dict", "list", "pandas"))})

_KEEP = (
    "map filter select shuffle sort with_format rename_column rename_columns remove_columns select_columns cast shard"
)
KEEP = frozenset({*_KEEP.split(), "cast_column", "flatten_indices", "train_test_split"})
"""Methods of the hub's datasets that return one of the same kind."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `loader.is_map_style`, of each loader, and of the one that a Trainer makes."""
    for loader in script.loaders:
        has_items = _of_loader(script.view, loader.node)
        if has_items is not None:
            yield Fact("loader.is_map_style", loader.subject, has_items, (loader.call.location,))
    for node in script.trainers[:1]:
        given = [one.value for one in node.keywords if one.arg == "train_dataset"]
        has_items = _has_items(script.view, given[0]) if given else None
        if has_items is not None:
            yield Fact("loader.is_map_style", TRAIN, has_items, (script.view.place(node),))


def _of_loader(view: ScriptView, loader: ast.Call) -> bool | None:
    """Whether every origin of a DataLoader's dataset has items; None where one of them may be either.

    A class of the file that extends DataLoader may make another dataset of what it gets.
    """
    dataset = dataset_argument(loader)
    is_plain = package_and_name(full_name(view.index, loader.func))[1] in ("DataLoader", "StatefulDataLoader")
    return _has_items(view, dataset) if is_plain and dataset is not None else None


def _has_items(view: ScriptView, dataset: ast.expr) -> bool | None:
    found = {_of_origin(view, origin.node) for origin in origins(view, dataset)}
    return found.pop() if len(found) == 1 else None


def _of_origin(view: ScriptView, node: ast.AST) -> bool | None:
    if isinstance(node, ast.List | ast.ListComp):
        return True
    name = full_name(view.index, node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and name is None:
        class_ = called_class(view.index, node.func)
        if class_ is not None:
            return _of_class(view, class_)
    package, last = package_and_name(name)
    if package == "torch":
        return OF_TORCH.get(last)
    return True if _is_vision(name) else _of_hub(view, node)


def _of_class(view: ScriptView, class_: ast.ClassDef) -> bool | None:
    """Of a class of the file: False for a stream, True where it has items and no base may be a stream."""
    index, family = view.index, list(with_bases(view.index, class_))
    others = [base for one in family for base in one.bases if called_class(index, base) is None]
    names = [full_name(index, base.value if isinstance(base, ast.Subscript) else base) for base in others]
    if any(package_and_name(name) == ("torch", "IterableDataset") for name in names):
        return False
    is_plain = all(_is_vision(name) or package_and_name(name) in PLAIN for name in names)
    has_items = any(map(_is_vision, names)) or any("__getitem__" in index.inner[one].bindings for one in family)
    is_whole = not any(one.decorator_list or one.keywords for one in family)
    return True if is_plain and has_items and is_whole else None


def _is_vision(name: str | None) -> bool:
    return name is not None and name.startswith(VISION) and name.removeprefix(VISION)[:1].isupper()


def _of_hub(view: ScriptView, node: ast.AST) -> bool | None:
    """Of the hub's datasets: followed to what loaded them, through what is mapped and picked out of them."""
    found: set[bool | None] = set()
    seen = {node: None}
    for one in (waiting := [node]):
        inner = _source_dataset(one)
        if inner is None:
            found.add(_is_loaded_whole(view, one))
            continue
        new = [origin.node for origin in origins(view, inner) if origin.node not in seen]
        seen.update(dict.fromkeys(new))
        waiting += new
    return found.pop() if len(found) == 1 else None


def _source_dataset(node: ast.AST) -> ast.expr | None:
    """`rows` of `rows.map(...)` and of `rows["train"]`."""
    if isinstance(node, ast.Subscript):
        return node.value
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr in KEEP else None


def _is_loaded_whole(view: ScriptView, node: ast.AST) -> bool | None:
    name = full_name(view.index, node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or name != "datasets.load_dataset":
        return True if name in HUB else None
    if any(one.arg is None for one in node.keywords):
        return None
    streams = [values.is_true(view, one.value) for one in node.keywords if one.arg == "streaming"] or [False]
    return None if streams[0] is None else not streams[0]
