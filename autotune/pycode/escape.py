"""Objects that a script keeps to itself: what it does not do with one, no other module does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.pycode.index import Index, last_name

READERS = frozenset({"enumerate", "iter", "len", "tqdm", "trange", "zip", "islice", "cycle"})
"""Functions that only read what they are given."""

HOLDERS = frozenset({"DataLoader", "BatchSampler"})
"""Classes that hold what they are given: it is kept as long as they are."""


def stays(index: Index, made: ast.Call) -> bool:
    """Whether what a call makes is neither passed to code of others, returned, stored nor given a second name."""
    outer = index.parents.get(made)
    if isinstance(outer, ast.Assign):
        target = outer.targets[0]
        return len(outer.targets) == 1 and isinstance(target, ast.Name) and not is_handed_on(index, target.id)
    return _is_own(index, made)


def is_handed_on(index: Index, name: str) -> bool:
    """Whether something of this name, a variable or an attribute, is given to code that may do anything with it."""
    return not all(_is_own(index, one) for one in reads(index, name))


def reads(index: Index, name: str) -> Iterator[ast.expr]:
    """Everything of this name that is read, a variable or an attribute."""
    yield from index.reads.get(name, ())
    yield from (one for one in index.attributes.get(name, ()) if isinstance(one.ctx, ast.Load))


def _is_own(index: Index, node: ast.expr) -> bool:
    """Whether an object is only asked for a member, compared, iterated over, or held by an object that stays."""
    outer = index.parents.get(node)
    if isinstance(outer, ast.keyword):
        outer = index.parents.get(outer)
    if isinstance(outer, ast.Call) and outer.func is not node:
        called = last_name(outer.func)
        return called in READERS or (called in HOLDERS and stays(index, outer))
    return isinstance(outer, ast.Attribute | ast.Compare | ast.If | ast.For | ast.comprehension | ast.Expr)
