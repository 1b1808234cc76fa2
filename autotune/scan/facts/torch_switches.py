"""Switches of torch that a script turns off, or on, for the whole process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.names import full_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis

STORES = {
    "code.disables_cudnn": ("enabled", "torch.backends.cudnn.enabled", False),
    "code.suppresses_compile_errors": ("suppress_errors", "torch._dynamo.config.suppress_errors", True),
}
"""Fact -> (attribute, its full name, the value that it speaks of)."""

FUSED_KERNELS = ("torch.backends.cuda.enable_flash_sdp", "torch.backends.cuda.enable_mem_efficient_sdp")


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.disables_...` and `code.suppresses_...`."""
    for name, (attribute, full, value) in STORES.items():
        stores = [
            one for one in script.view.index.stores.get(attribute, ()) if full_name(script.view.index, one.node) == full
        ]
        is_set = [one.node for one in stores if one.value is not None and _is_certainly(script, one.value, value)]
        if is_set or not stores:
            yield from script.state_fact(name, bool(is_set), *is_set)
    yield from _fused_attention(script)


def _is_certainly(script: ScriptAnalysis, node: ast.expr, value: bool) -> bool:
    return is_reached(script.view, node) is True and values.is_true(script.view, node) is value


def _fused_attention(script: ScriptAnalysis) -> Iterator[Fact]:
    """Both kernels are turned off, and neither on again."""
    calls = {name: script.calls_of({name}) for name in FUSED_KERNELS}
    is_off = [
        len(found) == 1 and all(_is_certainly(script, one, False) for one in found[0].args[:1]) and bool(found[0].args)
        for found in calls.values()
    ]
    if all(is_off) or not any(calls.values()):
        yield from script.state_fact(
            "code.disables_fused_attention", all(is_off), *(call for found in calls.values() for call in found)
        )
