"""The models of training libraries and of a GPU machine with which training scripts are read."""

from __future__ import annotations

import ast
import re

from autotune.catalogue.frameworks import wrapping_methods
from autotune.pycode.index import Index
from autotune.pycode.library_models import LibraryModels

DEVICE = re.compile(r"cuda|gpu|device|accelerator", re.IGNORECASE)
"""What the name of a condition on the hardware has: it holds where there is a GPU, and the facts speak of that."""

SEVERAL = re.compile(r"multi|parallel", re.IGNORECASE)
"""What the name of an option for several GPUs has: few runs give it."""

RANK = re.compile(r"rank|main_process|is_master|master_process|global_zero", re.IGNORECASE)
"""What the name of a condition on the process has: it holds in one of them."""

DTYPES = frozenset({"float16", "bfloat16", "float32", "float64", "half", "float", "double", "int8", "uint8"})

DTYPE_NAMES = {"half": "float16", "float": "float32", "double": "float64"}


def _constant(name: str) -> str | None:
    """A dtype of torch by its name, and a member of an enum of transformers by its value."""
    package, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    if package == "torch" and last in DTYPES and last == rest:
        return DTYPE_NAMES.get(last, last)
    if package == "transformers" and last.isupper() and last != rest:
        return last.lower()
    return None


def _assumes(index: Index, test: ast.expr) -> bool:
    """Whether a condition holds in a process that trains on a GPU."""
    return _is_device(index, test) or _is_rank(test)


def _is_device(index: Index, test: ast.expr) -> bool:
    """A condition that asks for a GPU: `use_cuda`, `device == "cuda"`, `torch.cuda.device_count() > 1`."""
    if isinstance(test, ast.UnaryOp):
        return False
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and all(_is_device(index, one) for one in test.values)
    if isinstance(test, ast.Compare):
        right = test.comparators[0]
        is_other = isinstance(right, ast.Constant) and (right.value is None or "cpu" in str(right.value))
        return isinstance(test.ops[0], ast.Eq | ast.Gt | ast.GtE) and not is_other and _names(test.left, DEVICE)
    return _names(test, DEVICE) and not _names(test, SEVERAL)


def _is_rank(test: ast.expr) -> bool:
    """A condition that one of the processes meets: `rank == 0`, `RANK in {-1, 0}`, `accelerator.is_main_process`."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.Eq | ast.In) and _names(test.left, RANK)
    return _names(test, RANK)


def _names(node: ast.expr, pattern: re.Pattern[str]) -> bool:
    """Whether a dotted name, or what is called, has the pattern in it."""
    parts = []
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        parts.append(node.attr if isinstance(node, ast.Attribute) else "")
        node = node.func if isinstance(node, ast.Call) else node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return any(pattern.search(part) for part in parts)


MODELS = LibraryModels(
    return_arguments=wrapping_methods(),
    containers=frozenset({"DataLoader", "BatchSampler"}),
    constant=_constant,
    assumes=_assumes,
)
"""The models with which training scripts are read."""
