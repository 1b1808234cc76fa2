"""Facts on the training process: CUDA, determinism, profilers, seeds of workers, the main guard, a progress bar."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.functions import with_callers
from autotune.pycode.names import full_name
from autotune.pycode.reachability import is_main_guard, is_reached
from autotune.scan.script.analysis import ScriptAnalysis, trainer_runs, training_starts
from autotune.scan.script.training_models import DEVICE
from autotune.syntax.python import last_name

CUDA_CALLS = frozenset({"torch.cuda.set_device", "torch.accelerator.current_accelerator"})

PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
NVTX = frozenset({"torch.autograd.profiler.emit_nvtx"})
HISTORY = frozenset({"torch.cuda.memory._record_memory_history", "torch.cuda.memory.record_memory_history"})

CHECKPOINTS = frozenset({"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"})

ATTENTIONS = re.compile(r"((encoder|decoder|cross)_)?attentions")
"""What models of transformers call the attention weights that they return."""

SPARSE = frozenset({"zero_", "detach_", "norm", "is_sparse", "coalesce"})
"""What a script may do with a gradient, whether it holds all rows of a table or some."""

LOOKS = frozenset({"norm", "vector_norm", "print", "isfinite", "isnan", "isinf", "type", "id"})
"""Calls that only look at one."""

BARS = ("tqdm", "trange", "tqdm_notebook", "track", "Progress", "ProgressBar", "progressbar", "alive_bar", "Progbar")
"""Calls that draw a progress bar, by their last name."""

GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator"})


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.*` that are about no loop in particular."""
    yield from _cuda_facts(script)
    yield from _determinism_facts(script)
    yield from _profiler_facts(script)
    yield from _checkpoint_facts(script)
    yield from _numpy_facts(script)
    yield from _seed_facts(script)
    yield from _main_guard_facts(script)
    yield from _attention_facts(script)
    yield from _gradient_facts(script)
    bars = [call for name in BARS for call in script.view.index.called.get(name, ())]
    yield from script.state_fact("code.shows_progress", bool(bars), *bars[:1])


DEVICES = ("torch.device", "torch.set_default_device")

MAX_MOVES = 20
"""Calls of to() whose argument is followed."""


def _cuda_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """A tensor or model can go to a GPU: .cuda(), a "cuda" device, or a library that looks for one."""
    index = script.view.index
    named = [one for one in index.strings if one.value == "cuda" or str(one.value).startswith("cuda:")]
    moved = [call for call in index.called.get("cuda", ()) if isinstance(call.func, ast.Attribute)]
    calls = [call for name in sorted(CUDA_CALLS) for call in script.calls_by_name.get(name, ())]
    given = list(_devices_of_settings(script)) if not (named or moved or calls) else []
    places = [one for one in (*moved, *named, *calls, *given) if is_reached(script.view, one) is not False]
    if places:
        yield from script.state_fact("code.uses_cuda", True, *sorted(places, key=_line)[:1])
    elif not script.is_raw:
        yield from _library_cuda_facts(script)
    elif not any(DEVICE.search(name) for name in (*index.attributes, *index.reads, *index.called)):
        yield from script.state_fact("code.uses_cuda", False)


def _devices_of_settings(script: ScriptAnalysis) -> Iterator[ast.Call]:
    """`torch.device(cfg.device)` and `model.to(cfg.device)`, where a config or an option says "cuda"."""
    made = [one for name in DEVICES for one in script.calls_by_name.get(name, ())]
    moved = [one for one in script.view.index.called.get("to", ()) if isinstance(one.func, ast.Attribute)]
    for call in (*made, *moved[:MAX_MOVES]):
        given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "device")]
        value = values.written_value(script.view, given[0]).value if given else None
        if isinstance(value, str) and value.partition(":")[0] == "cuda":
            yield call
            return


def _library_cuda_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """A Trainer, Accelerator or Fabric uses a GPU unless it is told not to."""
    asked = [one for one in script.consumer_calls if one.consumer.dialect != "torch"]
    on_cpu = [name for one in frameworks().values() for name in one.cpu_arguments]
    told = [one.call.arguments[name] for one in asked for name in on_cpu if name in one.call.arguments]
    chosen = [one.call.arguments["accelerator"] for one in asked if "accelerator" in one.call.arguments]
    is_on_cpu = any(given.value is not False for given in told) or any(given.value == "cpu" for given in chosen)
    hooks = [step.node for step in script.steps if step.is_hook]
    starts = [*(one.node for one in asked), *trainer_runs(script.view), *hooks]
    if starts and not is_on_cpu:
        yield from script.state_fact("code.uses_cuda", True, starts[0])


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _determinism_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    view = script.view
    asked: list[ast.AST] = []
    open_: list[ast.AST] = []
    for call in script.calls_of({"torch.use_deterministic_algorithms", "transformers.enable_full_determinism"}):
        mode = call.args[:1] or [one.value for one in call.keywords if one.arg == "mode"]
        is_on = values.is_true(view, mode[0]) if mode and not last_name(call.func).startswith("enable") else True
        (asked if is_on and is_reached(view, call) else open_ if is_on is not False else []).append(call)
    for store in view.index.stores.get("deterministic", ()):
        if full_name(view.index, store.node) == "torch.backends.cudnn.deterministic" and store.value is not None:
            is_on = values.is_true(view, store.value)
            (asked if is_on and is_reached(view, store.node) else open_ if is_on is not False else []).append(
                store.node
            )
    if asked or not open_:
        yield from script.state_fact("code.is_deterministic", bool(asked), *asked)


def _profiler_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """A profiler that nothing limits, around training."""
    view = script.view
    unlimited = [
        call for call in script.calls_of(PROFILERS) if not any(one.arg in ("schedule", None) for one in call.keywords)
    ]
    enabled = {call: _is_enabled(script, call) for call in [*unlimited, *script.calls_of(NVTX)]}
    contexts = [
        call for call, is_on in enabled.items() if is_on and is_reached(view, call) and _covers_training(script, call)
    ]
    history = [call for call in script.calls_of(HISTORY) if is_reached(view, call)]
    stops = [call for call in history if any(one.arg == "enabled" for one in call.keywords) or call.args]
    places = [*contexts, *(history if not stops else [])]
    if places or not (history or any(is_on is not False for is_on in enabled.values())):
        yield from script.state_fact("code.profiles_always", bool(places), *places)


def _is_enabled(script: ScriptAnalysis, call: ast.Call) -> bool | None:
    """Whether a profiler is on: those of autograd take `enabled`, as their first argument too."""
    given = [one.value for one in call.keywords if one.arg == "enabled"]
    if (full_name(script.view.index, call.func) or "").startswith("torch.autograd."):
        given += call.args[:1]
    return values.is_true(script.view, given[0]) if given else True


def _covers_training(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether the `with` statement of a profiler has a training loop in it, or runs a function that has one."""
    index = script.view.index
    block = next((one for one in index.ancestors_in_function(call) if isinstance(one, ast.With)), None)
    if block is None or not any(item.context_expr is call for item in block.items):
        return False
    inside = set(ast.walk(block))
    starts = [*(step.node for step in script.steps if not step.is_hook), *training_starts(script)]
    return any(one in inside for start in starts for one in with_callers(index, start))


def _checkpoint_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    calls = script.calls_of(CHECKPOINTS)
    without = [call for call in calls if not any(one.arg in ("use_reentrant", None) for one in call.keywords)]
    yield from script.state_fact("code.checkpoint_without_reentrant", bool(without), *without)


def _numpy_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """A dataset whose items draw from a Generator that its constructor made: every worker has the same copy of it."""
    index = script.view.index
    drawn: list[ast.AST] = []
    for class_ in index.classes:
        methods = {one.name: one for one in class_.body if isinstance(one, ast.FunctionDef)}
        if "__getitem__" not in methods or "__init__" not in methods:
            continue
        made = {last_name(target) for target in _generators(script, methods["__init__"])}
        drawn += [
            node
            for node in ast.walk(methods["__getitem__"])
            if isinstance(node, ast.Attribute) and node.attr in made and last_name(node.value) == "self"
        ]
    yield from script.state_fact("code.numpy_random_in_dataset", bool(drawn), *drawn)


def _generators(script: ScriptAnalysis, constructor: ast.FunctionDef) -> Iterator[ast.expr]:
    """The attributes that a constructor sets to a Generator of numpy."""
    for node in ast.walk(constructor):
        made = node.value if isinstance(node, ast.Assign) else None
        if isinstance(made, ast.Call) and full_name(script.view.index, made.func) in GENERATORS:
            yield from node.targets if isinstance(node, ast.Assign) else ()


def _seed_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """A worker_init_fn, or seed_everything(workers=True)."""
    loaders = [one for one in script.consumer_calls if one.consumer.kind == "loader"]
    given = [(one.node, one.call.arguments.get("worker_init_fn")) for one in loaders]
    seeding = [node for node, one in given if one is not None and not (one.known and one.value is None)]
    for call in script.view.index.called.get("seed_everything", ()):
        asked = [one.value for one in call.keywords if one.arg == "workers"]
        seeding += [call for one in asked if values.is_true(script.view, one) is not False]
    if seeding:
        yield from script.state_fact("code.seeds_workers", True, *seeding)
    elif loaders and script.is_raw and not any(one.call.is_open for one in loaders):
        yield from script.state_fact("code.seeds_workers", False)


def _main_guard_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Whether all that starts training stands below `if __name__ == "__main__"`."""
    index = script.view.index
    starts: list[ast.AST] = [step.node for step in script.steps if not step.is_hook]
    starts += training_starts(script)
    uses = {one for start in starts for one in with_callers(index, start) if index.enclosing_function(one) is None}
    reaching = [one for one in uses if is_reached(script.view, one) is not False]
    outside = [one for one in reaching if not _is_guarded(script, one)]
    if outside:
        yield from script.state_fact("code.has_main_guard", False, *starts[:1], is_certain=True)
    elif reaching:
        yield from script.state_fact("code.has_main_guard", True)


def _is_guarded(script: ScriptAnalysis, node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.If) and is_main_guard(one.test) for one in script.view.index.ancestors_in_function(node)
    )


def _attention_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Attention weights that a script asks its model for, or reads from what it gave."""
    index = script.view.index
    read = [one for one in index.attributes if ATTENTIONS.fullmatch(one)]
    places: list[ast.AST] = [one for name in sorted(read) for one in index.attributes[name]]
    given = [one for call in index.calls for one in call.keywords if one.arg == "output_attentions"]
    places += [one.value for one in given if values.is_true(script.view, one.value) is not False]
    if places:
        yield from script.state_fact("code.uses_attentions", True, *sorted(places, key=_line)[:1])


def _gradient_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Gradients that a script works with itself: projects, flattens, adds noise to."""
    read = [one for one in script.view.index.attributes["grad"] if _is_worked_with(script, one)]
    if read:
        yield from script.state_fact("code.reads_gradients", True, *sorted(read, key=_line)[:1])


def _is_worked_with(script: ScriptAnalysis, one: ast.Attribute) -> bool:
    """Whether a script computes with a gradient. Setting, clearing, measuring or printing it, asking whether it is
    there (`p.grad is None`) and calls of torch.autograd.grad leave its layout free."""
    parents = script.view.index.parents
    node: ast.AST = one
    while isinstance(around := parents.get(node), ast.Attribute) and around.attr in ("data", "detach"):
        call = parents.get(around)
        node = call if isinstance(call, ast.Call) and call.func is around else around
    if isinstance(around, ast.AugAssign):
        return True
    is_any = isinstance(around, ast.Attribute) and around.attr in SPARSE
    is_called = isinstance(around, ast.Call) and (around.func is node or last_name(around.func) in LOOKS)
    is_looked_for = isinstance(around, ast.Compare | ast.If | ast.BoolOp | ast.UnaryOp | ast.comprehension)
    return (
        isinstance(one.ctx, ast.Load)
        and not (is_any or is_called or is_looked_for)
        and not (isinstance(around, ast.Assign) and node in around.targets)
    )
