"""Modules that get a sequence again with one element more, call after call: what a model generates without a cache of
its keys and values is computed anew for each element."""

from __future__ import annotations

import sys

from .. import call_sites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Row

LEAST_CALLS = 8
"""In a row, each with one element more: fewer may be lengths of batches."""

MOST_ROWS = 8
SEQUENCES = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
"""Keywords of Hugging Face models; other tensors that grow, such as masks, do so beside a cache, too."""


class GrowingInputs:
    """Of the outermost calls without gradients: runs of calls whose input grows by one along its second dimension."""

    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._rows: dict[tuple[str, int], Row] = {}
        self._trained: set[tuple[str, int]] = set()
        """Lines that also call a model with gradients: their time covers training and generation."""

    def note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call of `module` from the user's code has ended."""
        if sys.modules["torch"].is_grad_enabled():
            site = call_sites.user_caller()
            self._trained.add((site["file"], site["line"]))
            return
        sequence = _sequence(args, kwargs)
        shape = tuple(sequence.shape) if sequence is not None else ()
        if len(shape) < 2:
            return
        run = self._runs.get(id(module))
        if run is None or not run.is_followed_by(shape):
            self._end(run)
            run = self._runs[id(module)] = _Run(shape, call_sites.user_caller())
        run.take(shape)

    def _end(self, run: _Run | None) -> None:
        if run is None or run.calls < LEAST_CALLS:
            return
        row = self._rows.setdefault(
            (run.site[0], run.site[1]),
            {"file": run.site[0], "line": run.site[1], "function": run.site[2], "elements": 0, "needed": 0},
        )
        row["elements"] += run.elements
        row["needed"] += run.shape[1]

    def rows(self) -> list[Row]:
        """The `GrowingInput` of the Recording, those first that compute most anew, without lines that train, too."""
        for run in self._runs.values():
            self._end(run)
        self._runs = {}
        rows = [row for place, row in self._rows.items() if place not in self._trained]
        return sorted(rows, key=lambda row: row["needed"] - row["elements"])[:MOST_ROWS]


class _Run:
    """Calls in a row: the last one's shape, how many they are, and the elements of each sample that they got."""

    def __init__(self, shape: tuple[int, ...], site: Any) -> None:
        self.shape = (*shape[:1], shape[1] - 1, *shape[2:])
        self.site = (site["file"], site["line"], site["function"])
        self.calls = 0
        self.elements = 0

    def is_followed_by(self, shape: tuple[int, ...]) -> bool:
        return shape == (*self.shape[:1], self.shape[1] + 1, *self.shape[2:])

    def take(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.calls += 1
        self.elements += shape[1]


def _sequence(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor that holds a sequence; None without one."""
    torch = sys.modules["torch"]
    if args:
        return args[0] if isinstance(args[0], torch.Tensor) else None
    given = {name: each for name, each in kwargs.items() if isinstance(each, torch.Tensor)}
    named = [given[name] for name in SEQUENCES if name in given]
    return (named or [None])[0]
