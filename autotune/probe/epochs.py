"""How long the epochs are that are seen: what begins one belongs into a window as often as it comes."""

from __future__ import annotations

MOST_NS = 5_000_000_000
"""A window is that much longer at most, for the end of an epoch."""


class Epochs:
    """The steps that were made when iterators began, by where their loaders were made."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, int], list[int]] = {}

    def on_iterator(self, site: tuple[str, int], steps: int) -> None:
        begun = self._begun.setdefault(site, [])
        if not begun or begun[-1] != steps:
            begun.append(steps)

    def steps(self, step_ns: float) -> int:
        """Those of the longest epoch that is short, in steps of `step_ns`; 1 where none is, or no second one began."""
        lengths = [begun[-1] - begun[-2] for begun in self._begun.values() if len(begun) > 1]
        return max((length for length in lengths if length * step_ns <= MOST_NS), default=1)
