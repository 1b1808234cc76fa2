"""The loss of each step: the values whose backward is called, read when the window is over and nothing waits."""

from __future__ import annotations

import math
import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 4096
"""Backwards that are kept, from the first one of the script."""


class LossRecorder:
    """One row a backward: (step, loss). Copies stay on their device until `rows` asks for them.

    A loss is unknown (None) where it is no single number, or still carries the scale of a GradScaler.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, float | Any | None]] = []

    def clear(self) -> None:
        """Forget everything: in a forked child, and when the count of steps begins anew."""
        self._rows = []

    def note(self, step: int, tensors: Any, is_scaled: bool) -> None:
        """`tensors` as torch.autograd.backward gets them, in the step with index `step`."""
        if len(self._rows) < MOST:
            single: Any = tensors if not isinstance(tensors, (tuple, list)) or len(tensors) != 1 else tensors[0]
            self._rows.append((step, None if is_scaled else _kept(single)))

    def rows(self, thread: int) -> list[float | str | None]:
        """The sum of each step's losses, from step 0; "nan", "inf" or "-inf" where it is no finite number.

        A device may be busy for ever when a limit has passed: only `thread`, which trains, waits for its values.
        """
        found: dict[int, list[Any]] = {}
        for step, scalar in self._rows:
            if not isinstance(scalar, float) and get_ident() != thread:
                scalar = None
            found.setdefault(step, []).append(scalar)
        return [_sum(found.get(step, [None])) for step in range(max(found, default=-1) + 1)]


def _kept(loss: Any) -> Any:
    """A plain tensor of one real number: its value where reading it waits for no device, else a copy. None of others:
    subclasses may need their other ranks to be read.
    """
    if type(loss) is not sys.modules["torch"].Tensor or loss.numel() != 1 or not loss.is_floating_point():
        return None
    return loss.item() if loss.is_cpu else loss.detach().clone()


def _sum(scalars: list[Any]) -> float | str | None:
    if any(scalar is None for scalar in scalars):
        return None
    try:
        total = sum(float(scalar) for scalar in scalars)
    except RuntimeError:  # a device that failed
        return None
    return total if math.isfinite(total) else str(total)
