"""Mixed precision as the script itself sets it up: autocast, GradScaler, casts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.escape import escapes, name_escapes
from autotune.pycode.index import base_name
from autotune.pycode.names import full_name, package_and_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.consumer_calls import call_arguments
from autotune.scan.script.consumers import AUTOCASTS, FUNCTIONS, SCALERS
from autotune.syntax.python import last_name

LEGACY = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"})

CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})

DEFAULT_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}
"""What autocast computes in when it is given no dtype, by device."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts on precision: run.* that a run would show too, and code.*."""
    scalers = script.calls_of(SCALERS)
    is_scaled = _is_scaled(script, scalers)
    yield from script.state_fact("run.grad_scaler", is_scaled, *scalers)
    yield from _autocast_facts(script)
    legacy = script.calls_of(LEGACY)
    yield from script.state_fact("run.legacy_amp", bool(legacy), *legacy)
    if is_scaled:
        yield from _clipping_facts(script, scalers)
        yield from _update_facts(script, scalers)
    halves = _half_casts(script)
    yield from script.state_fact("code.trains_half_params", bool(halves), *halves)


def _is_scaled(script: ScriptAnalysis, scalers: list[ast.Call]) -> bool | None:
    """Whether an enabled GradScaler is used. A library may bring its own, so that only a raw loop has none."""
    enabled = [_is_enabled(script, call) for call in scalers]
    if any(enabled) and script.view.index.called.get("scale"):
        return True
    is_off = script.is_raw and all(one is False for one in enabled) and not _may_scale(script, scalers)
    return False if is_off else None


def _may_scale(script: ScriptAnalysis, scalers: list[ast.Call]) -> bool:
    """Whether something else may scale the loss: timm's NativeScaler, a scaler that is made elsewhere."""
    if not scalers and script.view.index.called.get("scale"):
        return True
    names = (full_name(script.view.index, call.func) or last_name(call.func) for call in script.view.index.calls)
    others = (name for name in names if name not in SCALERS and name.lower().endswith("scaler"))
    return any(package_and_name(name)[0] != "sklearn" for name in others)


def _is_enabled(script: ScriptAnalysis, call: ast.Call) -> bool | None:
    """Whether an autocast or GradScaler is made, and enabled."""
    which = FUNCTIONS[full_name(script.view.index, call.func) or ""]
    found, is_open = call_arguments(script.view, call, which.parameters)
    if is_reached(script.view, call) is None or is_open:
        return None
    if "enabled" not in found:
        return True
    given = found["enabled"]
    return bool(given.value) if values.is_certain(script.view, given) else None


def _autocast_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """The dtype when all autocasts of the script agree; "off" of a raw loop without one."""
    named = script.calls_of(AUTOCASTS)
    calls = [call for call in named if call in script.step_path] or [
        call for call in named if not _is_context(script, call)
    ]
    if named and not calls:
        return
    enabled = [_is_enabled(script, call) for call in calls]
    dtypes = {_dtype(script, call) for call, is_on in zip(calls, enabled, strict=True) if is_on}
    if calls and all(enabled) and len(dtypes) == 1:
        yield from script.state_fact("run.autocast", dtypes.pop(), *calls)
    elif script.is_raw and script.is_whole and all(is_on is False for is_on in enabled):
        yield from script.state_fact("run.autocast", "off", *calls)


def _is_context(script: ScriptAnalysis, call: ast.Call) -> bool:
    return isinstance(script.view.index.parents.get(call), ast.withitem)


def _dtype(script: ScriptAnalysis, call: ast.Call) -> str | None:
    name = full_name(script.view.index, call.func) or ""
    found, _ = call_arguments(script.view, call, FUNCTIONS[name].parameters)
    if "dtype" in found:
        given = found["dtype"]
        return given.value if given.known and isinstance(given.value, str) else None
    device = found.get("device_type")
    if device is None:
        return DEFAULT_DTYPES["cuda"] if name == "torch.cuda.amp.autocast" else None
    return DEFAULT_DTYPES.get(str(device.value).split(":")[0]) if device.known else None


def _clipping_facts(script: ScriptAnalysis, scalers: list[ast.Call]) -> Iterator[Fact]:
    """Gradients clipped beside a scaled backward, and unscale_ nowhere."""
    index = script.view.index
    clips = [call for name in sorted(CLIPS) for call in index.called.get(name, ()) if _is_torch(script, call)]
    if not clips:
        yield from script.state_fact("run.clips_scaled_gradients", False)
    elif not index.called.get("unscale_") and (
        script.is_whole or not any(escapes(script.view, call) for call in scalers)
    ):
        scaled = {index.enclosing_function(call) for call in index.called.get("scale", ())}
        beside = [call for call in clips if index.enclosing_function(call) in scaled]
        yield from script.state_fact("run.clips_scaled_gradients", bool(beside) or None, *beside)
    elif len(clips) == 1 and any(_is_before(one, clips[0]) for one in index.called.get("unscale_", ())):
        yield from script.state_fact("run.clips_scaled_gradients", False)


def _is_torch(script: ScriptAnalysis, call: ast.Call) -> bool:
    return (full_name(script.view.index, call.func) or "").startswith("torch.nn.utils.")


def _is_before(first: ast.Call, then: ast.Call) -> bool:
    return (first.lineno, first.col_offset) < (then.lineno, then.col_offset)


def _update_facts(script: ScriptAnalysis, scalers: list[ast.Call]) -> Iterator[Fact]:
    """A GradScaler that steps, and whose update() is never called; not known of one that other names stand for."""
    index = script.view.index
    outer = [index.parents.get(call) for call in scalers]
    names = {last_name(one.targets[0]) for one in outer if isinstance(one, ast.Assign)} - {""}
    stepped = [call for call in index.called.get("step", ()) if base_name(call) in names]
    updated = [one for one in index.attributes.get("update", ()) if last_name(one.value) in names]
    if stepped and (updated or not any(name_escapes(script.view, name) for name in names)):
        yield from script.state_fact(
            "code.scaler_lacks_update", (not updated and script.is_whole), *(updated or stepped)
        )


def _half_casts(script: ScriptAnalysis) -> list[ast.Call]:
    """`model.half()` or `model.to(torch.float16)` of a model whose parameters an optimizer gets."""
    index = script.view.index
    trained = {base_name(call) for call in index.called.get("parameters", ())} - {""}
    if index.called.get("get_peft_model"):
        return []
    moved = (call for call in index.called.get("to", ()) if base_name(call) in trained and _to_half(script, call))
    halved = (call for call in index.called.get("half", ()) if base_name(call) in trained)
    return [call for call in (*halved, *moved) if is_reached(script.view, call) is True]


def _to_half(script: ScriptAnalysis, call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "dtype")]
    return any(values.written_value(script.view, one).value == "float16" for one in given)
