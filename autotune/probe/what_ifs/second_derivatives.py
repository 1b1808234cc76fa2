"""Derivatives that can be differentiated again (`create_graph=True`) and never are, and replays without that.

A graph of a derivative is used when a gradient that is not zero comes back to it: one that nothing trained depends on
gets none, one behind `sign`, `detach` or a comparison gets zeros, and the backward pass runs through it all the same.
"""

from __future__ import annotations

from .. import call_sites
from . import backward_graph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from ..session import ProbeSession
    from ..shapes import Function, Row, Undo

    Key = tuple[str, int]

LEAST_SEEN = 2
"""Calls of a line before what it made counts as unused."""

RETAIN, CREATE, INPUTS = 2, 3, 4
"""Where the engine is given retain_graph, create_graph and the tensors to derive by, after roots and gradients."""


class SecondDerivativeWatch:
    """Watches whole steps from `start` to `stop`; `unused` are then the lines whose graphs nothing went back to.

    `is_possible`: this torch can be watched.
    """

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._calls: dict[Key, int] = {}
        self._used: set[Key] = set()
        self._handles: list[Any] = []
        self.is_possible = True
        self.unused: set[Key] = set()

    def start(self) -> Undo:
        """Watch; what ends that."""

        def watched(run: Function, given: list[Any], named: Row) -> Any:
            if not given[CREATE] or not self._session.recorder.is_mine():
                return run(*given, **named)
            leaves = _leaves(given) if named.get("accumulate_grad") else None
            made = run(*given, **named)
            self._note(made if leaves is None else [leaf.grad for leaf in leaves])
            return made

        leave = _entered(watched)
        self.is_possible = leave is not None

        def stop() -> None:
            if leave is not None:
                leave()
            for handle in self._handles:
                handle.remove()
            self._handles.clear()

        return stop

    def _note(self, derivatives: Sequence[Any]) -> None:
        """A line made `derivatives`: those with a graph tell when a gradient comes back."""
        key = _key()
        self._calls[key] = self._calls.get(key, 0) + 1

        def comes_back(gradient: Any) -> None:
            if key not in self._used and bool(gradient.any()):
                self._used.add(key)

        for one in derivatives:
            if one is None:
                continue
            if _is_wrapped(one):
                self._used.add(key)
            elif one.requires_grad:
                self._handles.append(one.register_hook(comes_back))

    def conclude(self) -> None:
        """Fill `unused`."""
        self.unused = {key for key, count in self._calls.items() if count >= LEAST_SEEN} - self._used
        self._calls.clear()

    def rows(self) -> list[Row]:
        """The lines whose graphs are not used, for the Recording."""
        return [{"file": file, "line": line} for file, line in sorted(self.unused)]


def without(session: ProbeSession, unused: set[Key]) -> Undo:
    """Make no graph of the derivatives at these lines; the graph of the function stays. What takes it back."""

    def changed(run: Function, given: list[Any], named: Row) -> Any:
        if given[CREATE] and session.recorder.is_mine() and _key() in unused:
            given = [*given[:RETAIN], True, False, *given[INPUTS:]]
        return run(*given, **named)

    return _entered(changed) or (lambda: None)


def _key() -> Key:
    site = call_sites.user_caller()
    return site["file"], site["line"]


def _is_wrapped(derivative: Any) -> bool:
    """Whether it is inside of vmap or torch.func.grad, or stands for a batch of derivatives (is_grads_batched): a hook
    does not see what comes back to those. torch.func.grad asks for a graph itself, whoever needs it."""
    import torch

    functorch: Any = getattr(torch._C, "_functorch", None)
    names = ("is_legacy_batchedtensor", "is_batchedtensor", "is_functorch_wrapped_tensor")
    asked = [getattr(functorch, name, None) for name in names]
    return any(is_wrapped(derivative) for is_wrapped in asked if is_wrapped is not None)


def _leaves(given: list[Any]) -> list[Any]:
    """The tensors at which a backward leaves gradients; edges of the graph are none."""
    roots = [root for root in given[0] if hasattr(root, "grad_fn")]
    leaves = given[INPUTS] or backward_graph.BackwardGraph(roots).tensors.values()
    return [leaf for leaf in leaves if hasattr(leaf, "grad")]


def _entered(call: Callable[[Function, list[Any], Row], Any]) -> Undo | None:
    """Let `call(run, given, named)` stand for what torch.autograd.grad and backward run, by whatever name they go.

    None with a torch before 2.3, which has no such function.
    """
    import torch

    autograd: Any = torch.autograd
    run = getattr(autograd, "_engine_run_backward", None)
    if run is None:
        return None

    def called(*given: Any, **named: Any) -> Any:
        if len(given) <= INPUTS:
            return run(*given, **named)
        return call(run, list(given), named)

    autograd._engine_run_backward = called

    def leave() -> None:
        autograd._engine_run_backward = run

    return leave
