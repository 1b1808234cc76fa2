"""Which rows that modules compute are thrown away afterwards, and which are computed several times.

Thrown away: the gradient of a row of a module's output is zero, in as many rows of each step, whatever the data, in all
but as many, or in nearly all of them. The modules that are looked at compute each row by itself, so that what nobody
uses need not have been computed, or not with gradients.
Not thrown away are rows among which the largest was sought (max pooling, topk): which these are is not known before.
Several times: the input of a module has each row k times, as an expansion leaves it, or most rows again, as candidates
of one batch that are drawn from few; and its output has so, too, or would have without dropout: then the module is
called once more without it.
"""

from __future__ import annotations

import math
import os
import sys
from functools import partial

from .. import call_sites, describe
from ..what_ifs import backward_graph
from .modules import names_of
from .prefixes import GrowingInputs
from .vocabularies import Vocabularies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Function, Row

    Key = int | tuple[str, int]
    """The id of a module; file and line of a product with a weight outside of any such module."""

STEPS = 3
LEAST_ROWS = 8
"""Fewer are as many in each step by chance, and fewer are not compared with each other."""

LEAST_NUMBERS = 4
"""Rows of fewer numbers, as of flags and counts, are equal by chance."""

MOST_NUMBERS, MOST_GRADIENTS = 1 << 22, 1 << 26
MOST_CALLS = 64
"""Of a module in a step."""

MOST_HELD = 64
"""Outputs whose graphs are held until the next backward; those that it does not reach until the one after it."""

BY_ROW = {"Linear": -1, "LayerNorm": -1, "RMSNorm": -1, "Embedding": -1, "Conv1d": 1, "Conv2d": 1, "Conv3d": 1}
"""Modules without others in them that compute each row by itself, and the dimension that makes up a row."""

MOSTLY = 0.8
"""Of the rows: so many without a gradient need not be as many in each step. A loss that is zero of some rows (a hinge)
leaves fewer out, for most of a training. Positions of a convolution do not count: a detector needs all of them, and
learns from few. Those of a linear layer do: labels tell, before the layer, which positions a masked loss reads."""

BY_CHANCE = 0.5
"""Of the rows: more repetitions are no chance, also where each row has another number of them."""

LEAST_VIEWS = 3
"""Times that a row comes where dropout makes its outputs differ: two may be the two views of a contrastive loss."""

ROUNDING = 1e4
"""Rows of an output that are equal in so many parts of the largest: products of equal rows differ by their rounding."""

PICKS = (
    "Amax",
    "Amin",
    "MaxBackward",
    "MinBackward",
    "MaxPool",
    "Topk",
    "Sort",
    "Msort",
    "Kthvalue",
    "Median",
    "Nanmedian",
)
"""In the names of nodes that hand their gradient to a few of many, by their values; not of two tensors (maximum)."""

BOUND = "Clamp"
"""Begins the names of nodes that hold numbers above or below one (clamp_min), and seek none among many."""

Count = tuple[int, int]
"""Rows without a gradient, or repetitions of rows; and all rows."""


class RowComparison:
    """It compares from when it is made until `table`. The first step was under way already."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._known: dict[Key, Any] = {}
        self._unused: list[dict[Key, list[Count]]] = []
        self._repeated: list[dict[int, list[Count]]] = []
        self._by_itself: set[Key] = set()
        """Modules whose rows are samples, or positions that can be left out one by one."""
        self._in_dropout: list[dict[int, list[Count]]] = []
        self._made: list[tuple[Key, Any]] = []
        """The layers that were called since the last backward, and the nodes of their outputs."""
        self._waiting: list[tuple[Key, Any]] = []
        """Those of `_made` that the last backward did not reach: the next one may."""
        self._picked: set[Key] = set()
        """Layers among whose rows a few were picked by their values."""
        self._is_trying = False
        self._growing = GrowingInputs()
        self._vocabularies = Vocabularies()
        self._depth = 0
        """Calls of modules that have begun and not ended."""
        self._inputs: list[float | None] = []
        """Of each step, the sum of what the first layer got: the data tells nothing where it is the same."""
        session.recorder.modules = self
        session.recorder.passes = _BackwardLook(self._note_picked)
        self._products = products(self._note_product)

    def calling(self, module: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`call(module, *args, **kwargs)`, its rows noted."""
        self._depth += 1
        try:
            output = call(module, *args, **kwargs)
        finally:
            self._depth -= 1
        if self._repeated and not self._is_trying:
            try:
                if not self._depth:
                    self._growing.note(module, args, kwargs)
                if self._note(module, args or tuple(kwargs.values()), output) == 0:
                    self._note_in_dropout(module, call, args, kwargs)
            except Exception:  # it shows no numbers: inside vmap, a subclass of Tensor
                return output
        return output

    def _note(self, module: Any, args: tuple[Any, ...], output: Any) -> int | None:
        """Repetitions among the rows of the input of a module with others in it; None where they were not counted."""
        torch = sys.modules["torch"]
        if isinstance(output, (tuple, list)) and output:
            output = output[0]
        if not isinstance(output, torch.Tensor) or output.dim() < 2:
            return None
        key, dimension = id(module), BY_ROW.get(type(module).__name__)
        is_leaf = next(module.children(), None) is None
        if dimension is not None and is_leaf:
            self._note_data(args[0] if args else None)
            if output.requires_grad:
                self._by_itself |= {key} if output.dim() == 2 or type(module).__name__ == "Linear" else set()
                self._follow(key, module, output, dimension)
                self._vocabularies.note(module, args)
        elif args and isinstance(args[0], torch.Tensor) and not is_leaf:
            again = repetitions(args[0].detach(), output.detach())
            calls = self._repeated[-1].setdefault(key, [])
            if again is not None and len(calls) < MOST_CALLS:
                self._known[key] = module
                calls.append((again, len(args[0])))
                return again
        return None

    def _note_product(self, place: tuple[str, int], inputs: Any, output: Any) -> None:
        """A line of the user's has multiplied with a weight: a head that is no module."""
        if self._repeated and output.requires_grad and output.dim() >= 2:
            self._note_data(inputs)
            self._by_itself.add(place)
            self._follow(place, None, output, -1)

    def _note_data(self, inputs: Any) -> None:
        """What the first layer, or product, of a step gets."""
        if self._inputs[-1] is None and isinstance(inputs, sys.modules["torch"].Tensor):
            self._inputs[-1] = float(inputs.detach().sum())

    def _follow(self, key: Key, module: Any, output: Any, dimension: int) -> None:
        """Which rows of an output get a gradient."""
        self._known[key] = module
        # A recomputation would hold what activation checkpointing frees.
        if len(self._made) < MOST_HELD and not self._session.recorder.in_backward:
            self._made.append((key, output.grad_fn))
        output.register_hook(partial(self._note_gradient, len(self._unused) - 1, key, dimension))

    def _note_in_dropout(self, module: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Whether the rows of a module's one input come several times, and dropout alone makes its outputs differ.

        Looked at once a step, as the module is called anew.
        """
        torch, calls = sys.modules["torch"], self._in_dropout[-1]
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        if id(module) in calls or len(given) != 1 or not has_dropout(module) or not can_be_called_again(module):
            return
        number = len(given[0])
        calls[id(module)] = []
        again = 0
        if number >= LEAST_VIEWS * len(_counts(given[0].detach(), None)):
            self._is_trying = True
            try:
                output = without_dropout(module, call, args, kwargs)
            finally:
                self._is_trying = False
            output = output[0] if isinstance(output, (tuple, list)) else output
            counted = repetitions(given[0].detach(), output)
            if counted is None:
                return
            again = counted
        calls[id(module)] = [(again, number)]

    def _note_picked(self, tensors: Any) -> None:
        """A backward begins at `tensors`; the nodes are let go, because they hold the activations of a step."""
        made, waiting, self._made, self._waiting = self._made, self._waiting, [], []
        roots = [each.grad_fn for each in backward_graph.roots(tensors) if hasattr(each, "grad_fn")]
        reached, picked = _behind_picks(roots)
        self._picked |= {key for key, node in (*waiting, *made) if node in picked}
        self._waiting = [(key, node) for key, node in made if node not in reached]

    def _note_gradient(self, step: int, key: Key, dimension: int, gradient: Any) -> None:
        """Within the script's own backward: whatever fails here is none of its business."""
        try:
            calls = self._unused[step].setdefault(key, [])
            if len(calls) < MOST_CALLS and gradient.numel() <= MOST_GRADIENTS:
                used = (gradient.detach() != 0).any(dim=dimension)
                calls.append((int(used.numel()) - int(used.sum()), int(used.numel())))
        except Exception:  # no memory for the mask, a gradient without numbers
            self._unused[step].pop(key, None)

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one."""
        if len(self._repeated) > STEPS:
            return True
        self._made, self._waiting = [], []
        self._repeated.append({})
        self._in_dropout.append({})
        self._unused.append({})
        self._inputs.append(None)
        return len(self._repeated) > STEPS

    def table(self) -> Row | None:
        """The Recording's `lines.rows`; None when no two whole steps were seen."""
        self._session.recorder.modules = self._session.recorder.passes = None
        self._made, self._waiting = [], []
        if self._products is not None:
            self._products.undo()
        # The last step has begun and not ended.
        unused, repeated, in_dropout = self._unused[:-1], self._repeated[:-1], self._in_dropout[:-1]
        if len(repeated) < 2:
            return None
        names = names_of(self._session)
        is_same_data = len(set(self._inputs[:-1])) == 1
        rows = []
        for key, module in self._known.items():
            mostly = MOSTLY if key in self._by_itself else 1.0
            share = _unused_share([step.get(key) for step in unused], mostly, is_same_data)
            share = 0.0 if share and key in self._picked else share
            if isinstance(key, tuple):
                rows += [{"name": "", "place": key, "unused": share, "repeated": None}] if share is not None else []
                continue
            again = _least([step.get(key) for step in repeated])
            if share is not None or again is not None:
                row = {"name": names.get(key, type(module).__name__), "unused": share, "repeated": again}
                rows.append({**row, "repeated_in_dropout": _least([step.get(key) for step in in_dropout])})
        found = {"steps": len(repeated), "rows": rows, "growing": self._growing.rows()}
        return {**found, "vocabularies": self._vocabularies.rows(names)}


PRODUCTS = ("linear", "matmul", "__matmul__", "mm")
"""Functions of torch by name. Their second argument is the weight; each row of the first makes a row of the output."""


def products(note: Function) -> Any:
    """A mode of torch's functions that tells `note(place, inputs, output)` of products that lines of the user's make
    with a weight, from now until `undo`. None under torch.compile, which would compile anew in it, and within a mode of
    the script's (`with torch.device(...)`), which may end before ours.

    A mode, because functions that were replaced would be seen: by torch.compile and torch.jit, by code that compares.
    """
    from torch import overrides

    modes: Any = overrides
    if describe.has_compiled_code() or modes._get_current_function_mode_stack():
        return None

    class Products(overrides.TorchFunctionMode):
        """Active in this process until `undo`."""

        pid: int | None = os.getpid()

        def __torch_function__(
            self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            output = function(*args, **(kwargs or {}))
            if getattr(function, "__name__", "") in PRODUCTS and self.pid == os.getpid():
                _tell(note, sys._getframe(1), _operands(args, kwargs), output)
            return output

        def undo(self) -> None:
            self.pid = None
            _take_out(self, modes)

    mode: Any = Products()
    mode.__enter__()
    return mode


def _tell(note: Function, caller: FrameType, operands: list[Any], output: Any) -> None:
    """A product that `caller` makes, if that is the user's and one of the operands a weight."""
    try:
        given, weight = operands
        if call_sites.is_user(caller.f_code.co_filename) and is_weight(weight):
            note((caller.f_code.co_filename, call_sites.line_of(caller)), given, output)
    except Exception:  # a tensor that shows nothing: inside vmap
        return


def _take_out(mode: Any, modes: Any) -> None:
    """`mode` ends; those that the script has begun since, and not ended, stay. `modes` is torch.overrides."""
    above = []
    while mode in modes._get_current_function_mode_stack():
        above.append(modes._pop_mode())
    for one in reversed(above):
        if one is not mode:
            modes._push_mode(one)


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
    """The two operands of one of PRODUCTS."""
    given = kwargs or {}
    named = [given[name] for name in ("input", "weight", "other", "mat2") if name in given]
    return [*args, *named][:2]


def is_weight(tensor: Any) -> bool:
    """Whether a tensor is a trained matrix or a view of such a matrix (`embedding.weight.T`)."""
    base = tensor if tensor._base is None else tensor._base
    return isinstance(base, sys.modules["torch"].nn.Parameter) and base.requires_grad and base.dim() == 2


class _BackwardLook:
    """The hook of backward hands its calls to this (`Recorder.passes`)."""

    def __init__(self, note: Function) -> None:
        self._note = note

    def calling(self, backward: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`backward(*args, **kwargs)`, after a look at what it begins at."""
        begin = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        try:
            self._note(begin)
        except Exception:  # a tensor that shows no graph: inside vmap
            pass
        return backward(*args, **kwargs)


def _behind_picks(roots: Iterable[Any]) -> tuple[set[Any], set[Any]]:
    """The nodes of a graph, and those of them that come after one of PICKS."""
    behind: set[Any] = set()
    todo = [(root, False) for root in roots if root is not None]
    seen = set(todo)
    while todo:
        node, is_behind = todo.pop()
        if is_behind:
            behind.add(node)
        name = node.name()
        is_pick = is_behind or (not name.startswith(BOUND) and any(pick in name for pick in PICKS))
        for each, _ in node.next_functions:
            if each is not None and (each, is_pick) not in seen:
                seen.add((each, is_pick))
                todo.append((each, is_pick))
    return {node for node, _ in seen}, behind


def _unused_share(steps: list[list[Count] | None], mostly: float, is_same_data: bool) -> float | None:
    """The share of rows without a gradient where it is the same in each step, or where as many rows of each step have
    one (the last position of each sample, however long it is), over all calls: of two calls one may be used where the
    other is not. The least share where it is `mostly` in each; else 0. None of no call, and where it is the same in
    each step because the data is."""
    if not all(steps):
        return None if not steps[0] else 0.0
    sums = [(sum(unused for unused, _ in calls or ()), sum(rows for _, rows in calls or ())) for calls in steps]
    if is_same_data and len(set(sums)) == 1:
        return None
    least = min(unused / max(1, rows) for unused, rows in sums)
    used = {rows - unused for unused, rows in sums}
    is_regular = len(set(sums)) == 1 or (len(used) == 1 and min(used) >= LEAST_ROWS)
    return least if is_regular or least >= mostly else 0.0


def _least(steps: list[list[Count] | None]) -> float | None:
    """The share of the rows that are repetitions, in the step with the fewest; None where none was compared."""
    shares = [sum(again for again, _ in calls) / sum(rows for _, rows in calls) for calls in steps if calls]
    return min(shares) if len(shares) == len(steps) else None


def has_dropout(module: Any) -> bool:
    """Whether it drops numbers at random: by a module for that, or by an attention's own."""
    layers = [each for each in module.modules() if each.training]
    rates = [getattr(each, "p" if "Dropout" in type(each).__name__ else "dropout", 0.0) for each in layers]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def can_be_called_again(module: Any) -> bool:
    """Whether nothing but its own forward runs when it is called: no hook of the script's, no wrapper that talks to
    other ranks, nothing that torch.compile would compile once more for another mode."""
    if describe.has_compiled_code():
        return False
    for each in module.modules():
        if each._forward_hooks or each._forward_pre_hooks or getattr(each, "_compiled_call_impl", None):
            return False
        if "Parallel" in type(each).__name__ or "FSDP" in type(each).__name__:
            return False
    return True


def without_dropout(module: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Its output for the same input in eval mode, without a trace of the call: the inputs and buffers are copies, which
    forward may write into, random numbers and modes are put back."""
    import random

    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")

    def copied(value: Any) -> Any:
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    devices = {each.device.index for each in module.parameters() if each.device.type == "cuda"}
    modes = [(each, each.training) for each in module.modules()]
    state, numbers = random.getstate(), numpy.random.get_state() if numpy is not None else None
    buffers = [(each, dict(each._buffers)) for each in module.modules() if each._buffers]
    try:
        for each, kept in buffers:
            each._buffers.update({name: copied(value) for name, value in kept.items()})
        for each, _ in modes:
            each.training = False
        with torch.no_grad(), torch.random.fork_rng(devices=sorted(devices)):
            return call(module, *map(copied, args), **{name: copied(value) for name, value in kwargs.items()})
    finally:
        for each, is_training in modes:
            each.training = is_training
        for each, kept in buffers:
            each._buffers.update(kept)
        random.setstate(state)
        if numpy is not None and numbers is not None:
            numpy.random.set_state(numbers)


def repetitions(given: Any, output: Any) -> int | None:
    """How many rows of `given` are repetitions, where each comes k times (or a multiple of it), or most come again, and
    rows of `output` are equal as often; else 0. None where they are too many or too few to be compared."""
    number = len(given)
    is_small = given.dim() < 2 or number < LEAST_ROWS or len(output) != number
    if is_small or given.numel() < LEAST_NUMBERS * number or max(given.numel(), output.numel()) > MOST_NUMBERS:
        return None
    counts = _counts(given, None)
    again = number - len(counts)
    # One value that comes again and again is padding, and no row that somebody repeated.
    is_chance = again <= BY_CHANCE * number or max(counts) - 1 > again / 2
    if len(counts) < 2 or (math.gcd(*counts) < 2 and is_chance):
        return 0
    return again if len(_counts(output, ROUNDING)) <= math.ceil(1.1 * len(counts)) else 0


def _counts(rows: Any, rounding: float | None) -> list[int]:
    """How often each of the different rows comes. They are told by two sums with a weight for each place."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        flat = rows.reshape(len(rows), -1).to("cpu", torch.float32)
        places = torch.arange(1, flat.shape[1] + 1, dtype=torch.float32)
        sums = flat @ torch.stack([torch.sin(places), torch.cos(places * 1.7)], dim=1)
        if rounding is not None:
            sums = (sums / sums.abs().max().clamp_min(1e-30) * rounding).round()
        _, counts = torch.unique(sums, dim=0, return_counts=True)
    return [int(count) for count in counts]
