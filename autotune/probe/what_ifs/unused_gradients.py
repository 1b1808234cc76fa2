"""Gradients that nobody uses: who reads `.grad` in a few steps after the window, and replays that leave the rest out.

A gradient is used when anything but a `zero_grad` reads it before it is cleared: an optimizer, a clip, a logger, the
script itself. Left out are gradients of parameters in no optimizer, and those that are cleared unread, as far as a
`detach` would save them. Nothing is left out where a module or a leaf has a hook that waits for gradients, or a graph
of the gradients is wanted.
"""

from __future__ import annotations

import sys

from .. import call_sites
from . import backward_graph, module_names
from .backward_graph import BackwardGraph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Row, Undo

    Key = tuple[str, int, int]

CLEARS, MOVES = "zero_grad", ("_apply", "__deepcopy__")
"""Functions that read a gradient and use it for nothing: Optimizer's and Module's, Module.to, and copies."""

LEAST_SEEN = 2
"""Steps in which a backward ran, or a gradient was cleared, before it counts."""


class BackwardCall:
    """What the watched steps showed of one backward of a step: the `ordinal`-th of its line.

    `seen` counts steps by leaf, `cleared` those in which its gradient was cleared unread. `is_fixed`: leave it alone.
    """

    def __init__(self) -> None:
        self.count = 0
        self.seen: dict[int, int] = {}
        self.used: set[int] = set()
        self.cleared: dict[int, int] = {}
        self.graph: BackwardGraph | None = None
        self.is_fixed = False


class Reduced:
    """A backward of which `unowned` and `discarded` leaves are left out; `inputs` are the others.

    `has_passing`: some leaves are made anew in each step, so those of `inputs` are not all.
    """

    def __init__(self, inputs: list[Any], unowned: list[Any], discarded: list[Any], has_passing: bool) -> None:
        self.inputs, self.unowned, self.discarded, self.has_passing = inputs, unowned, discarded, has_passing
        self.left_out = {id(tensor) for tensor in (*unowned, *discarded)}


class GradientWatch:
    """Watches whole steps from `start` to `stop`; then `reduced` are the backwards with something to leave out."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._calls: dict[Key, BackwardCall] = {}
        self._pending: dict[int, list[BackwardCall]] = {}
        self._tensors: dict[int, Any] = {}
        self._versions: dict[int, int] = {}
        self._ordinals: dict[tuple[str, int], int] = {}
        self._inside: BackwardCall | None = None
        self._gives_up = False
        self._names = module_names.ModuleNames(session)
        self.reduced: dict[Key, Reduced] = {}

    def on_step(self) -> None:
        """A step begins."""
        self._ordinals.clear()

    def start(self) -> Undo:
        """Watch; what ends that."""
        import torch

        autograd: Any = torch.autograd
        tensor_type: Any = torch.Tensor
        backward, native = autograd.backward, tensor_type.grad

        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._inside is not None:  # checkpointing with re-entrant backwards: they take no `inputs`
                self._inside.is_fixed = True
                return backward(*args, **kwargs)
            if not self._is_mine():
                return backward(*args, **kwargs)
            self._inside = self._note(backward_graph.arguments(args, kwargs))
            try:
                return backward(*args, **kwargs)
            finally:
                self._inside = None

        def get(tensor: Any) -> Any:
            value = native.__get__(tensor)
            if value is not None:
                self._on_read(tensor, sys._getframe(1))
            return value

        def put(tensor: Any, value: Any) -> None:
            native.__set__(tensor, value)
            self._on_cleared(tensor)

        def delete(tensor: Any) -> None:
            native.__delete__(tensor)
            self._on_cleared(tensor)

        autograd.backward = watched
        tensor_type.grad = property(get, put, delete)

        def stop() -> None:
            del tensor_type.grad  # the descriptor is that of its base
            autograd.backward = backward
            self._pending.clear()

        return stop

    def _is_mine(self) -> bool:
        return self._session.recorder.is_mine()

    def _note(self, given: Row) -> BackwardCall:
        """A backward is about to run: its leaves await their readers."""
        site, frame = call_sites.user_caller(), call_sites.user_frame()
        place = (site["file"], site["line"])
        ordinal = self._ordinals[place] = self._ordinals.get(place, -1) + 1
        call = self._calls.setdefault((*place, ordinal), BackwardCall())
        call.count += 1
        if given.get("create_graph") or given.get("inputs") is not None:
            call.is_fixed = True
        if frame is not None and call.count == 1:
            self._names.look_in(frame)
        try:
            graph = call.graph = BackwardGraph(backward_graph.roots(given["tensors"]))
        except Exception:  # roots of another kind than tensors
            call.is_fixed = True
            return call
        for leaf, tensor in graph.tensors.items():
            self._tensors[leaf] = tensor
            self._versions.setdefault(leaf, tensor._version)
            call.seen[leaf] = call.seen.get(leaf, 0) + 1
            self._pending.setdefault(leaf, []).append(call)
        return call

    def _on_read(self, tensor: Any, reader: FrameType) -> None:
        name = reader.f_code.co_name
        if name in MOVES or call_sites.is_probe(reader.f_code.co_filename):
            return
        if name == CLEARS:
            self._on_cleared(tensor)
            return
        calls = self._pending.pop(id(tensor), None)
        if calls is not None:
            for call in calls:
                call.used.add(id(tensor))
        elif not tensor.is_leaf:  # retain_grad: a gradient on the way is wanted
            self._gives_up = True

    def _on_cleared(self, tensor: Any) -> None:
        for call in self._pending.pop(id(tensor), ()):
            call.cleared[id(tensor)] = call.cleared.get(id(tensor), 0) + 1

    def awaits_clearing(self) -> bool:
        """Whether gradients of an optimizer's that nothing has read have not been cleared often enough to say so."""
        if self._gives_up:
            return False
        owned = self._owned()
        return any(
            leaf in owned and leaf not in call.used and call.cleared.get(leaf, 0) < LEAST_SEEN
            for call in self._calls.values()
            if not call.is_fixed
            for leaf in call.seen
        )

    def conclude(self) -> None:
        """Fill `reduced`."""
        if not self._gives_up and not self._names.have_backward_hooks():
            owned = self._owned()
            for key, call in self._calls.items():
                if call.count >= LEAST_SEEN and not call.is_fixed and call.graph is not None:
                    found = self._reduce(call, call.graph, owned)
                    if found is not None:
                        self.reduced[key] = found
        self._calls.clear()
        self._tensors.clear()

    def _owned(self) -> set[int]:
        """Ids of all parameters that an optimizer has."""
        optimizers = [row["object"]() for row in self._session.optimizers]
        groups = [group for one in optimizers if one is not None for group in getattr(one, "param_groups", ())]
        return {id(tensor) for group in groups for tensor in group["params"]}

    def _reduce(self, call: BackwardCall, graph: BackwardGraph, owned: set[int]) -> Reduced | None:
        lasting = {leaf for leaf, count in call.seen.items() if count >= LEAST_SEEN}
        free = {leaf for leaf in lasting - call.used if not _has_other_readers(self._tensors[leaf])}
        # One that changes without an optimizer is updated by other means.
        unowned_ids = {leaf for leaf in free - owned if self._tensors[leaf]._version == self._versions[leaf]}
        cleared = {leaf for leaf in free & owned if call.cleared.get(leaf, 0) >= LEAST_SEEN}
        cut = graph.cut_off(unowned_ids | cleared, self._names.module_of) & cleared
        used = lasting - unowned_ids - cut
        if not used or not unowned_ids | cut:
            return None
        has_passing = any(leaf not in lasting for leaf in graph.tensors)
        inputs, unowned, discarded = ([self._tensors[leaf] for leaf in some] for some in (used, unowned_ids, cut))
        return Reduced(inputs, unowned, discarded, has_passing)

    def rows(self) -> list[Row]:
        """What is left out, for the Recording: a row for each line that calls backward and each reason."""
        found: dict[tuple[str, int, str], tuple[dict[int, Any], dict[int, Any]]] = {}
        for (file, line, _), one in self.reduced.items():
            for reason, unused in (("unowned", one.unowned), ("discarded", one.discarded)):
                if unused:
                    mine, every = found.setdefault((file, line, reason), ({}, {}))
                    mine.update((id(tensor), tensor) for tensor in unused)
                    every.update((id(tensor), tensor) for tensor in (*one.inputs, *one.unowned, *one.discarded))
        return [
            {
                "file": file,
                "line": line,
                "reason": reason,
                "parameters": sum(tensor.numel() for tensor in mine.values()),
                "of_parameters": sum(tensor.numel() for tensor in every.values()),
                "modules": self._names.of(mine),
            }
            for (file, line, reason), (mine, every) in found.items()
        ]


class ReducedBackwards:
    """Backwards run without what is left out, from `start` to `stop`."""

    def __init__(self, session: ProbeSession, reduced: dict[Key, Reduced]) -> None:
        self._session = session
        self._reduced = reduced
        self._ordinals: dict[tuple[str, int], int] = {}

    def on_step(self) -> None:
        """A step begins."""
        self._ordinals.clear()

    def start(self) -> Undo:
        """Reduce them; what takes it back."""
        import torch

        autograd: Any = torch.autograd
        backward, recorder = autograd.backward, self._session.recorder

        def reduced(*args: Any, **kwargs: Any) -> Any:
            if not recorder.is_mine() or recorder.in_backward:
                return backward(*args, **kwargs)
            given = backward_graph.arguments(args, kwargs)
            inputs = self._inputs(given["tensors"])
            return backward(**{**given, "inputs": inputs} if inputs else given)

        autograd.backward = reduced

        def stop() -> None:
            autograd.backward = backward

        return stop

    def _inputs(self, tensors: Any) -> list[Any] | None:
        site = call_sites.user_caller()
        place = (site["file"], site["line"])
        ordinal = self._ordinals[place] = self._ordinals.get(place, -1) + 1
        one = self._reduced.get((*place, ordinal))
        if one is None or not one.has_passing:
            return one.inputs if one is not None else None
        leaves = BackwardGraph(backward_graph.roots(tensors)).tensors
        return [tensor for leaf, tensor in leaves.items() if leaf not in one.left_out]


def _has_other_readers(tensor: Any) -> bool:
    """Whether a function waits for the tensor's gradient, or it lies in a buffer of several, which is read as one."""
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        return True
    grad = tensor.grad
    return grad is not None and (grad.is_sparse or grad.untyped_storage().nbytes() > grad.numel() * grad.element_size())
