"""TF32 that a script sets by torch's new switches and reads by the old ones, which raises where the two disagree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from autotune.model.evidence import Fact
from autotune.scan.python import values
from autotune.scan.python.index import Store
from autotune.scan.python.names import full_name
from autotune.scan.python.parts import Parts
from autotune.scan.python.reach import is_reached

BACKENDS = "torch.backends."


class Switches(Struct, frozen=True):
    """One backend's: after one of `new` is `value` reading `old` or calling `reads` raises, until `writes` agree again.

    The value is the one that differs from what the old switch is at first. Tried with torch 2.13.
    """

    new: frozenset[str]
    value: str
    old: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


def _named(names: str) -> frozenset[str]:
    return frozenset(f"{BACKENDS}{name}fp32_precision" for name in names.split(","))


MATMUL = Switches(
    _named(",cudnn.,cuda.matmul."),
    "tf32",
    f"{BACKENDS}cuda.matmul.allow_tf32",
    frozenset({"torch.get_float32_matmul_precision"}),
    frozenset({"torch.set_float32_matmul_precision"}),
)

CUDNN = Switches(_named(",cudnn.,cudnn.conv.,cudnn.rnn."), "ieee", f"{BACKENDS}cudnn.allow_tf32")


def facts(parts: Parts) -> Iterator[Fact]:
    """Fact `code.mixes_tf32_apis`."""
    if not parts.view.index.imports:
        return
    found = [_raising(parts, one) for one in (MATMUL, CUDNN)]
    raising = next((nodes for nodes in found if nodes), None)
    if raising:
        yield from parts.stated("code.mixes_tf32_apis", True, *raising)
    elif None not in found:
        yield from parts.stated("code.mixes_tf32_apis", False)


def _raising(parts: Parts, switches: Switches) -> tuple[ast.AST, ...] | None:
    """A new switch that is set and the read that raises; nothing where none does, None where it is not known."""
    index = parts.view.index
    stores = [one for one in index.stores.get("fp32_precision", ()) if full_name(index, one.node) in switches.new]
    old = [one for one in index.attributes.get("allow_tf32", ()) if full_name(index, one) == switches.old]
    reads = [*(one for one in old if isinstance(one.ctx, ast.Load)), *parts.named(switches.reads)]
    if not stores or not reads:
        return ()
    if len(reads) < len(old) or parts.named(switches.writes):
        return None
    if not all(_is_set(parts, one, switches.value) for one in stores):
        return None
    pairs = ((one.node, read) for one in stores for read in reads if _is_certain(parts, one.node, read))
    return next(pairs, None)


def _is_set(parts: Parts, store: Store, value: str) -> bool:
    found = values.given(parts.view, store.value) if store.value is not None else None
    return found is not None and values.is_certain(parts.view, found) and found.value == value


def _is_certain(parts: Parts, first: ast.stmt | ast.expr, then: ast.expr) -> bool:
    """Whether a run comes to both, one after the other in the same function."""
    index = parts.view.index
    is_after = first.lineno < then.lineno and index.function(first) is index.function(then)
    return is_after and is_reached(parts.view, first) is True and is_reached(parts.view, then) is True
