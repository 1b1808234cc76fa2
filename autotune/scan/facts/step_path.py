"""What costs time in every step: tensors read on the host, synchronisation, blocking copies."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from autotune.model.evidence import RUN, Fact
from autotune.pycode import values
from autotune.pycode.functions import called_function, passed_arguments
from autotune.pycode.index import Binding, Function, Index
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.optimizer_steps import Loop
from autotune.scan.script.save_intervals import writes_checkpoint
from autotune.scan.script.training_loops import TrainingStep, backwards, step_path
from autotune.syntax.python import last_name

READS = frozenset({"item", "tolist", "cpu"})
"""Methods that wait for the device and bring a tensor's values to the host; numpy() follows cpu()."""

MOVES = frozenset({"to", "cuda"})

WAITS = frozenset(f"torch.{device}.synchronize" for device in ("cuda", "xpu", "mps", "accelerator"))

ALWAYS = frozenset(f"code.num_{what}_in_step" for what in ("saves", "barriers", "gc", "empty_cache", "new_iterators"))
"""What is dear enough that a person puts it behind a condition: it counts only where none may skip it."""

STREAMS = frozenset(f"torch.cuda.{name}" for name in ("Stream", "current_stream", "default_stream")) | {"torch.Stream"}
"""What makes an object whose synchronize() waits for all that is queued; that of an Event waits for one point."""

DEVICE = re.compile(r"device|gpu|cuda|rank", re.IGNORECASE)

SIZE = re.compile(r"len|size|shape|\bn(um)?_|\.(max|min|argmax|argmin)\b", re.IGNORECASE)
"""What the names of a number have in them that the host needs, to slice or to loop."""

HOST_PACKAGES = frozenset({"numpy", "math", "time", "random", "os"})

PARAMETERS = ("parameters", "named_parameters")

STEP_HOOKS = ("on_before_optimizer_step", "on_before_zero_grad", "on_after_backward", "on_before_backward")
"""Methods of a LightningModule or a callback that run with each step."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

MAX_DEPTH = 8


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.num_..._in_step`; none found is 0 only when the whole step can be read."""
    view = script.view
    batches = _Batches(view, script.steps)
    patterns: Mapping[str, Callable[[ast.Call], bool]] = {
        "code.num_scalar_reads_in_step": batches.is_read,
        "code.num_nonblocking_copies_in_step": batches.is_nonblocking_copy,
        "code.num_synchronize_in_step": lambda call: _waits_for_device(view, call),
        "code.num_empty_cache_in_step": lambda call: last_name(call.func) == "empty_cache",
        "code.num_gc_in_step": lambda call: full_name(view.index, call.func) == "gc.collect",
        "code.num_blocking_copies_in_step": batches.is_blocking_copy,
        "code.num_barriers_in_step": lambda call: _is_barrier(view, call),
        "code.num_saves_in_step": lambda call: _saves(view, call),
        "code.num_new_iterators_in_step": lambda call: _starts_iterator(view, call),
        "code.num_filled_gradients_in_step": lambda call: (
            last_name(call.func) == "zero_grad"
            and _is_keyword_true(view, call, "set_to_none") is False
            and not any("deepspeed" in name.lower() for name in view.index.attributes)  # an engine clears them itself
        ),
        "code.num_retained_graphs_in_step": lambda call: (
            num_backwards == 1
            and last_name(call.func) == "backward"
            and _is_keyword_true(view, call, "retain_graph") is True
        ),
    }
    yield from _parameter_reads(script, batches)
    yield from _early_reads(script, batches)
    unconditional = tuple(step_path(view, script.steps, always=True))
    num_backwards = sum(last_name(call.func) == "backward" for call in script.step_path)
    for name, pattern in patterns.items():
        calls = unconditional if name in ALWAYS else script.step_path
        places = tuple(view.place(call) for call in calls if pattern(call))
        if places or (script.steps and script.is_whole):
            yield Fact(name, RUN, len(places), places)


class _Batches:
    """What in the step path is a batch as the loader gave it, on the host."""

    def __init__(self, view: ScriptView, steps: tuple[TrainingStep, ...]) -> None:
        self._view = view
        self._loops = {loop for step in steps for loop in (step.node, *step.around) if isinstance(loop, Loop)}
        self._known: dict[Binding, bool] = {}
        self._moved_by_framework = "prepare" in view.index.called or "setup_dataloaders" in view.index.called

    def is_read(self, call: ast.Call) -> bool:
        """`loss.item()`, `x.cpu()`, `float(loss)`: of a tensor that is not known to be on the host."""
        if full_name(self._view.index, call.func) == "float" and len(call.args) == 1:
            root = _root_name(call.args[0])
            return root is not None and "loss" in root.id.lower() and not self._is_number(root)
        if last_name(call.func) not in READS or not isinstance(call.func, ast.Attribute) or call.args:
            return False
        receiver = call.func.value
        if any(last_name(one.func) in READS for one in _method_chain(receiver)):
            return False
        root = _root_name(receiver)
        package = (full_name(self._view.index, root) or "").split(".")[0] if root is not None else ""
        return package not in HOST_PACKAGES and not self._is_on_host(receiver)

    def is_blocking_copy(self, call: ast.Call) -> bool:
        """`batch.to(device)` or `batch.cuda()` without non_blocking=True."""
        return self._is_blocking(call) is True

    def is_nonblocking_copy(self, call: ast.Call) -> bool:
        """`batch.to(device, non_blocking=True)` or `batch.cuda(non_blocking=True)` without a pin_memory() before it."""
        pinned = isinstance(call.func, ast.Attribute) and any(
            last_name(one.func) == "pin_memory" for one in _method_chain(call.func.value)
        )
        return self._is_blocking(call) is False and not pinned

    def _is_blocking(self, call: ast.Call) -> bool | None:
        """Whether a copy of a batch to the GPU waits; None of another call, and where it is not known."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in MOVES or self._moved_by_framework:
            return None
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        is_move = None not in keywords and (call.func.attr == "cuda" or self._is_device(call, keywords))
        if not is_move or not self.is_batch(call.func.value):
            return None
        given = values.is_true(self._view, keywords["non_blocking"]) if "non_blocking" in keywords else False
        return None if given is None else not given

    def is_batch(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression is (a part of) what a training loop iterates over."""
        root = _root_name(node)
        bindings = self._view.index.lookup(root) if root is not None and depth <= MAX_DEPTH else ()
        for binding in bindings:
            if binding not in self._known:
                self._known[binding] = False  # while it is being followed
                self._known[binding] = self._gives_batch(binding, depth + 1)
        return any(self._known[binding] for binding in bindings)

    def _gives_batch(self, binding: Binding, depth: int) -> bool:
        if binding.kind == "loop" and binding.value is not None:
            return binding.node in self._loops or self.is_batch(binding.value, depth)
        if binding.kind in ("value", "item") and binding.value is not None:
            value = _assigned_item(binding.value, binding.path)
            return (isinstance(value, ast.Call) and last_name(value.func) == "next") or self.is_batch(value, depth)
        if binding.kind == "parameter":
            given = _passed_arguments(self._view.index, binding.node)
            return any(one is not None and self.is_batch(one, depth) for one in given)
        return False

    def _is_on_host(self, node: ast.expr) -> bool:
        """Whether it is a batch that was not moved, or computed from such: `(y == 1).sum()`."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
                break
            if isinstance(node, ast.Call) and last_name(node.func) in MOVES:
                return False
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Compare | ast.BinOp):
            parts = [node.left, *(node.comparators if isinstance(node, ast.Compare) else [node.right])]
            return all(isinstance(one, ast.Constant) or self._is_on_host(one) for one in parts)
        return self.is_batch(node) and not self._is_moved(node)

    def _is_device(self, call: ast.Call, keywords: Mapping[str | None, ast.expr]) -> bool:
        """Whether `.to(...)` names a device: a string or a name that speaks of one."""
        target = keywords.get("device", call.args[0] if call.args else None)
        if isinstance(target, ast.Constant):
            return str(target.value).startswith("cuda")
        if isinstance(target, ast.Attribute) and last_name(target.value) in ("accelerator", "fabric"):
            return False
        if isinstance(target, ast.Attribute) and last_name(target.value) == "self":
            # Lightning sets it, and moves the batch; a class that sets it itself moves its batches itself.
            return target.attr in self._view.index.stores
        return target is not None and bool(DEVICE.search(last_name(target)))

    def _is_moved(self, node: ast.expr) -> bool:
        """Whether the name is also given what a model or a move to a device returns."""
        root = _root_name(node)
        bindings = self._view.index.lookup(root) if root is not None else []
        return self._moved_by_framework or any(
            binding.value is not None and any(last_name(call.func) in MOVES for call in _calls(binding.value))
            for binding in bindings
        )

    def _is_number(self, node: ast.expr) -> bool:
        """Whether the name is given what a read returned: float() of it costs nothing."""
        bindings = self._view.index.lookup(node) if isinstance(node, ast.Name) else []
        return any(
            binding.value is not None
            and any(last_name(call.func) in READS | {"float"} for call in _calls(binding.value))
            for binding in bindings
        )


def _parameter_reads(script: ScriptAnalysis, batches: _Batches) -> Iterator[Fact]:
    """Values that each step reads of each parameter: `for p in model.parameters(): total += p.grad.norm().item()`."""
    index = script.view.index
    hooks = [one for one in index.functions if one.name in STEP_HOOKS and index.method_class(one) is not None]
    in_hooks = step_path(script.view, [TrainingStep(one) for one in hooks]) if script.steps else {}
    found = [call for call in {**dict.fromkeys(script.step_path), **in_hooks} if _is_per_parameter(script, call)]
    found = [call for call in found if batches.is_read(call)]
    if found or (script.steps and script.is_whole):
        yield Fact("code.num_parameter_reads_in_step", RUN, len(found), tuple(map(script.view.place, found)))


def _early_reads(script: ScriptAnalysis, batches: _Batches) -> Iterator[Fact]:
    """Reads before the backward of a step: the device runs dry while backward is launched. A framework calls that of
    its hook after all that stands there; where other code has it, nothing is known. A size has to be read."""
    if not script.steps or any(step.backward is None and not step.is_hook for step in script.steps):
        return
    reads = [call for call in script.step_path if batches.is_read(call) and not SIZE.search(ast.unparse(call.func))]
    found = [call for call in reads if _is_before_backward(script, call)]
    if found or script.is_whole:
        yield Fact("code.num_reads_before_backward", RUN, len(found), tuple(map(script.view.place, found)))


def _is_per_parameter(script: ScriptAnalysis, call: ast.Call) -> bool:
    around = list(script.view.index.ancestors_in_function(call))
    comprehensions = (one.generators for one in around if isinstance(one, COMPREHENSIONS))
    headers = [one.iter for one in around if isinstance(one, ast.For)]
    headers += [each.iter for generators in comprehensions for each in generators]
    return any(last_name(one.func) in PARAMETERS for header in headers for one in _calls(header))


def _is_before_backward(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether a call stands before the backward of its function, or in a hook without one, after which a framework
    calls its own."""
    index = script.view.index
    around = index.enclosing_function(call)
    own = [one for one in backwards(script.view) if index.enclosing_function(one) is around]
    if not own and any(step.is_hook and step.backward is None and step.node is around for step in script.steps):
        return True
    return any(call.lineno < one.lineno for one in own)


def _waits_for_device(view: ScriptView, call: ast.Call) -> bool:
    """`torch.cuda.synchronize()`, and the synchronize() of a Stream of torch."""
    if full_name(view.index, call.func) in WAITS:
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "synchronize":
        return False
    made = [one.node for one in origins(view, call.func.value)]
    return any(isinstance(one, ast.Call) and full_name(view.index, one.func) in STREAMS for one in made)


def _is_barrier(view: ScriptView, call: ast.Call) -> bool:
    return (
        full_name(view.index, call.func) == "torch.distributed.barrier" or last_name(call.func) == "wait_for_everyone"
    )


def _saves(view: ScriptView, call: ast.Call) -> bool:
    """Whether a call saves each time that it is made. What a method of the project's own is called does not say so: it
    may save every N steps. What such a method certainly calls stands in the step path itself, where it is known."""
    if not writes_checkpoint(view, call):
        return False
    own = called_function(view.index, call)
    if own is not None:
        return not _makes(view, own, writes_checkpoint) and _makes(view, own, _may_save)
    func = call.func
    indexes = [one.index for one in view.views.values()] or [view.index]
    is_method = isinstance(func, ast.Attribute) and full_name(view.index, func) != "torch.save"
    named = [one for index in indexes for one in index.functions if is_method and one.name == last_name(func)]
    return all(_makes(view, one, _may_save) for one in named)


def _makes(view: ScriptView, function: Function, is_wanted: Callable[[ScriptView, ast.Call], bool]) -> bool:
    """Whether a function certainly makes such a call whenever it is called."""
    return any(is_wanted(view, one) for one in step_path(view, [TrainingStep(function)], always=True))


def _may_save(view: ScriptView, call: ast.Call) -> bool:
    """Whether what is called is named like what saves: `torch.save`, `self.manager.save`, `save_file`."""
    return "save" in last_name(call.func).lower()


def _starts_iterator(view: ScriptView, call: ast.Call) -> bool:
    """`next(iter(loader))`: a new iterator over all of a loader, for one batch."""
    inner = call.args[0] if call.args and full_name(view.index, call.func) == "next" else None
    if not isinstance(inner, ast.Call) or full_name(view.index, inner.func) != "iter" or not inner.args:
        return False
    made = [one.node for one in origins(view, inner.args[0])]
    return any(isinstance(one, ast.Call) and last_name(one.func).endswith("DataLoader") for one in made)


def _is_keyword_true(view: ScriptView, call: ast.Call, name: str) -> bool | None:
    """What a keyword of a call is; None where it is not given, or not known."""
    found = next((one.value for one in call.keywords if one.arg == name), None)
    return values.is_true(view, found) if found is not None else None


def _assigned_item(value: ast.expr, path: tuple[int, ...]) -> ast.expr:
    """The part of `x, y = batch["x"], batch["y"]` that a name is given."""
    while path and isinstance(value, ast.Tuple | ast.List) and path[0] < len(value.elts):
        value, path = value.elts[path[0]], path[1:]
    return value


def _passed_arguments(index: Index, parameter: ast.AST) -> Iterable[ast.expr | None]:
    """What calls pass for a parameter of a function of the file."""
    function = index.parents[index.parents[parameter]]
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not isinstance(parameter, ast.arg):
        return ()
    return passed_arguments(index, function, parameter.arg)


def _root_name(node: ast.expr) -> ast.Name | None:
    """The name that a chain of attributes, items and method calls starts from."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Call) and last_name(node.func) in ("enumerate", "tqdm", "zip") and node.args:
            node = node.args[0]
        else:
            return None
    return node


def _method_chain(node: ast.expr) -> Iterator[ast.Call]:
    """The method calls of a chain: cpu() and detach() of x.detach().cpu()."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call):
            yield node
        node = node.func if isinstance(node, ast.Call) else node.value


def _calls(node: ast.expr) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))
