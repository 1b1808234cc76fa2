"""Whether a dataset holds finished tensors in memory: a batch of it needs no preparation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.functions import called_class, passed_arguments
from autotune.pycode.names import full_name, package_and_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.loaders import TRAIN, dataset_argument
from autotune.scan.script.padding import COLLATORS
from autotune.syntax.python import last_name

MAX_WRAPPERS = 6
"""Datasets around a dataset, such as Subset(random_split(...))."""

CHEAP = frozenset(
    ("len", "int", "float", "min", "max", "range", "slice", "randrange", "randint", "random")
) | frozenset(
    (
        "items",
        "values",
        "keys",
        "dict",
        "tuple",
        "zip",
        "tensor",
        "as_tensor",
        "from_numpy",
        "long",
        "clone",
        "astype",
        "copy",
        "stack",
        "item",
        "cat",
        "zeros",
        "ones",
        "full",
        "arange",
        "array",
        "FloatTensor",
        "LongTensor",
        "Tensor",
        "TensorDict",
        "bool",
        "view",
        "reshape",
        "flatten",
        "squeeze",
        "unsqueeze",
        "permute",
        "size",
    )
)
"""Calls that make an item out of what lies in memory: they index, cut, pad and copy."""

READS_FILE = frozenset({"load", "memmap", "fromfile", "genfromtxt", "loadtxt", "open_memmap", "lib"})
"""Functions of numpy whose result may lie in a file."""


VIEWS = ("items", "values")
"""Methods of a dict that give what is in it."""

TENSORS = re.compile(
    r"(?:(?:typing\.)?(?:[Dd]ict|Mapping|[Ll]ist|Sequence|[Tt]uple)\[(?:str, )?)?(?:torch\.)?Tensor(?:, \.\.\.)?\]?"
)
"""A type of tensors in memory: `torch.Tensor`, `Dict[str, torch.Tensor]`, `list[Tensor]`."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `loader.is_in_memory`, of each loader, and of the one that a Trainer makes of a dataset of the script's."""
    for loader in script.loaders:
        is_in_memory = _of_loader(script.view, loader.node)
        if is_in_memory is not None:
            yield Fact("loader.is_in_memory", loader.subject, is_in_memory, (loader.call.location,))
    for node in script.trainers[:1]:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        collator = given.get("data_collator")
        is_known = collator is None or (
            isinstance(collator, ast.Call) and last_name(collator.func).startswith(COLLATORS)
        )
        if "train_dataset" in given and is_known and _is_in_memory(script.view, given["train_dataset"]):
            yield Fact("loader.is_in_memory", TRAIN, True, (script.view.place(node),))


def _of_loader(view: ScriptView, node: ast.Call) -> bool | None:
    """Whether every origin of a DataLoader's dataset holds finished tensors; False when one certainly does not."""
    dataset = dataset_argument(node)
    is_held = _is_in_memory(view, dataset) if dataset is not None else None
    collates = any(keyword.arg == "collate_fn" for keyword in node.keywords)
    return None if is_held and collates else is_held


def _is_in_memory(view: ScriptView, dataset: ast.expr) -> bool | None:
    found = [_holds_tensors(view, origin.node) for origin in origins(view, dataset)]
    if found and all(found):
        return True
    return False if any(one is False for one in found) else None


def _holds_tensors(view: ScriptView, node: ast.AST, depth: int = 0) -> bool | None:
    if isinstance(node, ast.ListComp | ast.List):
        return True
    if not isinstance(node, ast.Call):
        return None
    package, name = package_and_name(full_name(view.index, node.func))
    if name == "TensorDataset":
        return True
    is_wrapper = package == "torch" and name in ("Subset", "random_split", "ConcatDataset")
    if is_wrapper and depth < MAX_WRAPPERS and node.args:
        inner = [_holds_tensors(view, one.node, depth + 1) for one in origins(view, node.args[0])]
        return inner[0] if len(set(inner)) == 1 else None
    if package in ("torchvision", "torchaudio") and name not in ("FakeData",):
        return False
    class_ = called_class(view.index, node.func)
    return _items_in_memory(view, class_) if class_ is not None else None


def _items_in_memory(view: ScriptView, class_: ast.ClassDef) -> bool | None:
    """Whether items are cut out of lists and tensors that the constructor filled.

    False for a dataset whose items take another call to make: they are opened, decoded or tokenised.
    """
    methods = view.index.inner[class_].bindings
    of_graphs = any((full_name(view.index, base) or "").startswith("torch_geometric.") for base in class_.bases)
    for binding in methods.get("get" if of_graphs and "__getitem__" not in methods else "__getitem__", ()):
        called = [one for one in ast.walk(binding.node) if isinstance(one, ast.Call)]
        if any(last_name(one.func) not in CHEAP for one in called):
            return False
        indexed = {name for one in ast.walk(binding.node) if (name := _indexed_attribute(one))}
        read = indexed or {name for one in ast.walk(binding.node) if (name := _iterated_attribute(one))}
        held = {name for each in methods.get("__init__", ()) for name in _filled_attributes(view, each.node)}
        if read and read <= held:
            return True
    return None


def _indexed_attribute(node: ast.AST) -> str:
    """The attribute of `self.attribute[...]`."""
    return _own_attribute(node.value) if isinstance(node, ast.Subscript) else ""


def _iterated_attribute(node: ast.AST) -> str:
    """The attribute of `for x in self.attribute`, and of `for x in self.attribute.items()`."""
    over = node.iter if isinstance(node, ast.For | ast.comprehension) else None
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr in VIEWS:
        over = over.func.value
    return _own_attribute(over)


def _own_attribute(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return ""


def _filled_attributes(view: ScriptView, constructor: ast.AST) -> Iterator[str]:
    """The attributes that a constructor sets to a list that it builds, to a tensor of torch, to an array, or to tensors
    that it is given."""
    given = _given_tensors(view, constructor) if isinstance(constructor, ast.FunctionDef) else frozenset()
    for node in ast.walk(constructor):
        if isinstance(node, ast.Assign) and (
            _is_built(node.value) or (isinstance(node.value, ast.Name) and node.value.id in given)
        ):
            yield from map(last_name, node.targets)


def _given_tensors(view: ScriptView, constructor: ast.FunctionDef) -> frozenset[str]:
    """The parameters of a constructor that are tensors, or dicts and lists of these: by their types, or by all that is
    passed for them."""
    index, names = view.at(constructor).index, list[str]()
    for one in constructor.args.args[1:]:
        if one.annotation is not None:
            is_given = bool(TENSORS.fullmatch(ast.unparse(one.annotation)))
        else:
            passed = list(passed_arguments(index, constructor, one.arg))
            is_given = bool(passed) and all(each is not None and _are_tensors(view, each) for each in passed)
        names += [one.arg] if is_given else []
    return frozenset(names)


def _are_tensors(view: ScriptView, node: ast.expr) -> bool:
    found = [one.node for one in origins(view, node)]
    return bool(found) and all(isinstance(one, ast.expr) and _is_built(one) for one in found)


def _is_built(node: ast.expr) -> bool:
    """Whether a value is a list that is built there, a tensor, an array, or a dict of these."""
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(map(_is_built, node.values))
    if isinstance(node, ast.DictComp):
        return _is_tensor(node.value)
    return isinstance(node, ast.ListComp | ast.List) or _is_tensor(node) or _is_array(node)


def _is_array(node: ast.expr) -> bool:
    """Whether a value is an array in memory: `np.concatenate(...)`, `frame.to_numpy()`, `frame["x"].values`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "values"
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(func, ast.Attribute):
        return False
    is_numpy = isinstance(func.value, ast.Name) and func.value.id in ("np", "numpy") and func.attr not in READS_FILE
    return is_numpy or func.attr == "to_numpy"


def _is_tensor(node: ast.expr | None) -> bool:
    """Whether a value is made by torch: `torch.randn(...)`."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "torch"
