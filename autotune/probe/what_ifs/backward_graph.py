"""The graph that one backward runs: its leaves, and which of them hang on branches that lead to no other."""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..shapes import Row


class BackwardGraph:
    """`children` of each node by their numbers, the roots last; `leaves`: node -> id of the tensor that it adds to.

    `tensors` are the leaves by id. The nodes themselves are not kept: they hold the activations of a step.
    """

    def __init__(self, roots: Sequence[Any]) -> None:
        self.children: list[list[int]] = []
        self.leaves: dict[int, int] = {}
        self.tensors: dict[int, Any] = {}
        numbers: dict[Any, int] = {}
        self.roots = [self._visit(tensor.grad_fn, numbers) for tensor in roots if tensor.grad_fn is not None]

    def _visit(self, root: Any, numbers: dict[Any, int]) -> int:
        if root in numbers:
            return numbers[root]
        todo: list[tuple[Any, list[Any] | None]] = [(root, None)]
        while todo:
            node, below = todo.pop()
            if below is not None:
                number = numbers[node] = len(self.children)
                self.children.append([numbers[one] for one in below if one in numbers])
                self._note_leaf(node, number)
            elif node not in numbers:
                below = [one for one, _ in node.next_functions if one is not None]
                todo.append((node, below))
                todo.extend((one, None) for one in below if one not in numbers)
        return numbers[root]

    def _note_leaf(self, node: Any, number: int) -> None:
        tensor = node.variable if node.name() == "torch::autograd::AccumulateGrad" else None
        if tensor is not None:
            self.leaves[number] = id(tensor)
            self.tensors[id(tensor)] = tensor

    def cut_off(self, unused: set[int], module_of: Callable[[int], object]) -> set[int]:
        """Those of `unused` that hang on branches which lead to no other leaf: where `detach` would cut.

        A branch of one module's own parameters is a weight (its normalised form, say) and not what that module is
        given: the rest of the backward passes it by.
        """
        leads = self._leads(unused)
        tops = {child for node, below in enumerate(self.children) if leads[node] for child in below if not leads[child]}
        tops |= {root for root in self.roots if not leads[root]}
        found: set[int] = set()
        for top in tops:
            below = self._below(top)
            if len({module_of(leaf) for leaf in below}) > 1:
                found |= below
        return found

    def _leads(self, unused: set[int]) -> list[bool]:
        """Of each node, whether a leaf that is used comes after it; children have the smaller numbers."""
        leads: list[bool] = []
        for node, below in enumerate(self.children):
            leaf = self.leaves.get(node)
            leads.append((leaf is not None and leaf not in unused) or any(leads[child] for child in below))
        return leads

    def _below(self, top: int) -> set[int]:
        seen, todo = {top}, [top]
        while todo:
            for child in self.children[todo.pop()]:
                if child not in seen:
                    seen.add(child)
                    todo.append(child)
        return {self.leaves[node] for node in seen if node in self.leaves}


def arguments(args: Sequence[Any], kwargs: Row) -> Row:
    """What torch.autograd.backward was given, by name."""
    names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
    return {**dict(zip(names, args)), **kwargs}


def roots(tensors: Any) -> list[Any]:
    """The tensors that a backward begins at."""
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
