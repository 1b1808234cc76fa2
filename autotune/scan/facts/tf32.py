"""TF32 that a script sets by torch's new switches and reads by the old ones, which raises where the two disagree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.index import AttributeWrite
from autotune.pycode.names import full_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis

BACKENDS = "torch.backends."


class Tf32Writes(Struct, frozen=True):
    """One backend's: after one of `new` is `value` reading `old` or calling `reads` raises, until `writes` agree again.

    The value is the one that differs from what the old switch is at first. Tried with torch 2.13.
    """

    new: frozenset[str]
    value: str
    old: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


def _switch_names(names: str) -> frozenset[str]:
    return frozenset(f"{BACKENDS}{name}fp32_precision" for name in names.split(","))


MATMUL = Tf32Writes(
    _switch_names(",cudnn.,cuda.matmul."),
    "tf32",
    f"{BACKENDS}cuda.matmul.allow_tf32",
    frozenset({"torch.get_float32_matmul_precision"}),
    frozenset({"torch.set_float32_matmul_precision"}),
)

CUDNN = Tf32Writes(_switch_names(",cudnn.,cudnn.conv.,cudnn.rnn."), "ieee", f"{BACKENDS}cudnn.allow_tf32")


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.mixes_tf32_apis`."""
    if not script.view.index.imports:
        return
    found = [_raising_pair(script, one) for one in (MATMUL, CUDNN)]
    raising = next((nodes for nodes in found if nodes), None)
    if raising:
        yield from script.state_fact("code.mixes_tf32_apis", True, *raising)
    elif None not in found:
        yield from script.state_fact("code.mixes_tf32_apis", False)


def _raising_pair(script: ScriptAnalysis, switches: Tf32Writes) -> tuple[ast.AST, ...] | None:
    """A new switch that is set and the read that raises; nothing where none does, None where it is not known."""
    index = script.view.index
    stores = [one for one in index.stores.get("fp32_precision", ()) if full_name(index, one.node) in switches.new]
    old = [one for one in index.attributes.get("allow_tf32", ()) if full_name(index, one) == switches.old]
    reads = [*(one for one in old if isinstance(one.ctx, ast.Load)), *script.calls_of(switches.reads)]
    if not stores or not reads:
        return ()
    if len(reads) < len(old) or script.calls_of(switches.writes):
        return None
    if not all(_is_set(script, one, switches.value) for one in stores):
        return None
    pairs = ((one.node, read) for one in stores for read in reads if _is_certain(script, one.node, read))
    return next(pairs, None)


def _is_set(script: ScriptAnalysis, store: AttributeWrite, value: str) -> bool:
    found = values.written_value(script.view, store.value) if store.value is not None else None
    return found is not None and values.is_certain(script.view, found) and found.value == value


def _is_certain(script: ScriptAnalysis, first: ast.stmt | ast.expr, then: ast.expr) -> bool:
    """Whether a run comes to both, one after the other in the same function."""
    index = script.view.index
    is_after = first.lineno < then.lineno and index.enclosing_function(first) is index.enclosing_function(then)
    return is_after and is_reached(script.view, first) is True and is_reached(script.view, then) is True
