"""Whether modules that are not trained give the same for the same batch, and whether batches come back as they were.

Both together mean that what these modules give could be computed once for each sample, and kept.
"""

from __future__ import annotations

from . import results
from .modules import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Function, Row

STEPS = 3


class FrozenComparison:
    """The outputs of `modules`, held against each other over steps that all get the same batch.

    It compares from when it is made until `table`.
    """

    def __init__(self, session: ProbeSession, modules: Sequence[Any]) -> None:
        self._session = session
        self._modules = {id(module): module for module in modules}
        self._steps: list[dict[int, list[results.Mark]]] = []
        self._sizes: dict[int, int] = {}
        self._needs_grad: set[int] = set()
        session.recorder.modules = self if modules else None

    def calling(self, module: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`call(module, *args, **kwargs)`, its output noted."""
        output = call(module, *args, **kwargs)
        key = id(module)
        if key in self._modules and self._steps:
            try:
                mark, numbers, size = results.marked(output)
            except Exception:  # it shows no numbers
                mark, numbers, size = None, 0, 0
            self._steps[-1].setdefault(key, []).append(mark if numbers >= results.LEAST_NUMBERS else None)
            self._sizes[key] = size
            if results.needs_grad(output):
                self._needs_grad.add(key)
        return output

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one. The first one was under way already."""
        if not self._modules or len(self._steps) > STEPS:
            return True
        self._steps.append({})
        return len(self._steps) > STEPS

    def table(self) -> Row | None:
        """The Recording's `lines.frozen`; None when no two whole steps were seen."""
        self._session.recorder.modules = None
        whole = self._steps[:-1]  # the last one has begun and not ended
        if len(whole) < 2:
            return None
        names = names_of(self._session)
        return {
            "steps": len(whole),
            "rows": [
                {
                    "name": names.get(key, type(module).__name__),
                    "is_same": _are_same([step.get(key, []) for step in whole]),
                    "needs_grad": key in self._needs_grad,
                    "bytes": self._sizes[key],
                }
                for key, module in self._modules.items()
                if key in self._sizes
            ],
        }


def _are_same(steps: Sequence[Sequence[results.Mark]]) -> bool:
    """Whether each step had the same outputs as the first one, all of them known."""
    return bool(steps[0]) and None not in steps[0] and all(marks == steps[0] for marks in steps)
