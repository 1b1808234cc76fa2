"""Lines that pick rows by what was computed for them, as the hardest of a batch: which these are is not known before.

Read from the source, within one function: an index that comes of sorting the very numbers that are picked from, or
what a call gave for them; a product with a mask that compares what a call gave, as the confidence of a teacher. An
order of random numbers, or of what the data says, is known before anything is computed.
"""

from __future__ import annotations

import ast

from .statements import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Origins = dict[str, list[ast.expr]]

RANKS = (
    "sort",
    "argsort",
    "msort",
    "topk",
    "kthvalue",
    "argmax",
    "argmin",
    "quantile",
    "nanquantile",
    "median",
    "linear_sum_assignment",
)
PICKS = ("gather", "index_select", "take_along_dim", "take", "masked_select")
RANDOM = frozenset((
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "random", "uniform_", "normal_", "bernoulli"),
    *("normal", "uniform", "permutation", "shuffle", "choice", "multinomial", "exponential_", "random_"),
))  # fmt: skip
PLAIN = frozenset((
    *("view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "to", "cpu", "cuda", "numpy"),
    *("detach", "float", "double", "long", "int", "clone", "contiguous", "len", "item", "tolist", "size", "dim"),
))  # fmt: skip
"""Calls that compute nothing of a model."""

MADE = frozenset((
    *("arange", "zeros", "ones", "full", "tensor", "as_tensor", "linspace", "zeros_like", "ones_like", "range", "sum"),
    *("ne", "eq", "isin", "any", "all", "cumsum", "from_numpy", "stack", "cat", "expand", "min", "max", "abs"),
))  # fmt: skip
"""Calls that compute nothing of a model, or only what the data says."""

OF_THE_FORM = ("shape", "device", "dtype", "ndim", "size", "dim", "numel")
"""Attributes that tell nothing of the values."""

MOST_NAMES = 64


def of_lines(lines: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those of `lines` (file, line) on which such a pick stands."""
    by_file: dict[str, set[int]] = {}
    for file, line in lines:
        by_file.setdefault(file, set()).add(line)
    found = []
    for file, numbers in sorted(by_file.items()):
        tree = parsed(file)
        if tree is not None:
            found += [(file, line) for line in sorted(numbers & set(_picking_lines(tree)))]
    return found


def _picking_lines(tree: ast.Module) -> Iterator[int]:
    for scope in [
        tree,
        *(node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))),
    ]:
        origins = _origins(scope)
        for node in _own(scope):
            by_value = [each for each in _picks(node) if _is_by_value(*each, origins)]
            by_value += [each for each in _masked(node) if _is_threshold(each[1], origins)]
            for one, other in by_value:
                first, last = (
                    min(one.lineno, other.lineno),
                    max(each.end_lineno or each.lineno for each in (one, other)),
                )
                yield from range(first, last + 1)


def _picks(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(what is picked from, the index) of a subscript or a call that picks."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PICKS:
        given = [*node.args, *(each.value for each in node.keywords)]
        is_function = isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "np", "numpy")
        picked = given.pop(0) if is_function and given else node.func.value
        yield from ((picked, each) for each in given)


def _masked(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(what is masked, the mask) of a product, either side."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield node.left, node.right
        yield node.right, node.left


def _is_threshold(mask: ast.expr, origins: Origins) -> bool:
    """Whether a mask compares what a call gave for the data with a number."""
    for each in _closure(mask, origins):
        for compared in (one for one in ast.walk(each) if isinstance(one, ast.Compare)):
            is_order = any(isinstance(op, (ast.Gt, ast.GtE, ast.Lt, ast.LtE)) for op in compared.ops)
            inputs = [part for side in (compared.left, *compared.comparators) for part in _closure(side, origins)]
            calls = {_called(one) for part in inputs for one in _values(part) if isinstance(one, ast.Call)}
            if is_order and not calls & RANDOM and calls - PLAIN - MADE:
                return True
    return False


def _is_by_value(picked: ast.expr, index: ast.expr, origins: Origins) -> bool:
    own = {name for each in _closure(picked, origins) for name in _names(each)}
    for each in _closure(index, origins):
        for call in ast.walk(each):
            if not isinstance(call, ast.Call) or _called(call) not in RANKS:
                continue
            ranked = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
            inputs = [part for one in ranked for part in _closure(one, origins)]
            calls = {_called(one) for part in inputs for one in _values(part) if isinstance(one, ast.Call)}
            if calls & RANDOM:
                continue
            names = {name for part in inputs for name in _names(part)}
            if names & own or calls - PLAIN - set(RANKS):
                return True
    return False


def _closure(expression: ast.expr, origins: Origins) -> list[ast.expr]:
    """An expression, and those that give the names in it their values in this function."""
    found, todo = [expression], list(_names(expression))
    seen: set[str] = set()
    while todo and len(seen) < MOST_NAMES:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for each in origins.get(name, ()):
            found.append(each)
            todo += _names(each)
    return found


def _origins(scope: ast.AST) -> Origins:
    """What names get their values from, in a function."""
    found: Origins = {}
    for node in _own(scope):
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            pairs = [(node.target, node.value)]
        else:
            continue
        for target, value in pairs:
            for one in ast.walk(target):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    found.setdefault(one.id, []).append(value)
    return found


def _names(expression: ast.AST) -> Iterator[str]:
    """The names whose values an expression reads, but for modules and functions that it calls."""
    called = {id(node.func) for node in _values(expression) if isinstance(node, ast.Call)}
    modules = ("torch", "np", "numpy", "F", "nn", "self")
    for node in _values(expression):
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in modules:
            yield node.id


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in an expression, without what asks for a tensor's form alone."""
    if isinstance(node, ast.Attribute) and node.attr in OF_THE_FORM:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _values(child)


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function or a module, without the functions and classes that it defines."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child
            yield from _own(child)
