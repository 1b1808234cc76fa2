"""How many floating-point operations the products of a step take: matrices, convolutions, attention.

torch's own formulas (torch.utils.flop_counter) are asked at each operator, forward and backward. What activation
checkpointing computes again is left out: a model would not need it. Kernels that no operator of torch stands for are
not seen; operators that surely compute and have no formula are named.
"""

from __future__ import annotations

import re
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Row

STEPS = 3
"""Steps that differ much from each other are none to claim a rate of."""

OWN = ("aten", "prim", "prims", "profiler", "c10d", "_c10d_functional", "c10d_functional", "inductor")
"""Namespaces of operators that are torch's; any other operator may be a kernel that multiplies."""

MULTIPLIES = re.compile(r"attention|convolution|rnn|lstm|gru|(^|_)((b?add)?b?mm|matmul|linear)(_|$)")
"""Of the names of torch's own operators."""

MOST_NAMES = 8


class FlopCount:
    """It counts from the first step that begins while it is there; `table` ends it."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._mode: Any = None
        self._steps: list[dict[str, int]] = []

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one."""
        if self._mode is None:
            try:
                self._mode = _mode(self._session)
            except ImportError:  # torch before 2.2
                return True
            self._mode.__enter__()
            return False
        self._steps.append(self._mode.taken())
        return len(self._steps) >= STEPS

    def table(self) -> Row | None:
        """The Recording's `lines.products`; None when no whole step was counted."""
        mode, self._mode = self._mode, None
        if mode is None:
            return None
        mode.__exit__(None, None, None)
        if not self._steps:
            return None
        return {"steps": self._steps, "unknown": sorted(mode.unknown)[:MOST_NAMES]}


def _mode(session: ProbeSession) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    base: Any = TorchDispatchMode

    class Mode(base):  # type: ignore[misc]  # torch's class has no types
        """`unknown` are names of operators without a formula that multiply."""

        def __init__(self) -> None:
            super().__init__()
            self.unknown: set[str] = set()
            self._counted: Counter[str] = Counter()

        def taken(self) -> dict[str, int]:
            """What was counted since it was asked last, by element type."""
            counted, self._counted = self._counted, Counter()
            return dict(counted)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            output = func(*args, **kwargs)
            if "recompute" not in session.recorder.stack:
                self._count(func, args, kwargs, output)
            return output

        def _count(self, func: Any, args: Any, kwargs: Any, output: Any) -> None:
            name = func._overloadpacket.__name__
            formula = flop_registry.get(func._overloadpacket)
            if formula is None:
                if func.namespace not in OWN or MULTIPLIES.search(name):
                    self.unknown.add(f"{func.namespace}::{name}")
                return
            try:
                number = int(formula(*args, **kwargs, out_val=output))
                kind = _element_type(output, "convolution" in name)
            except Exception:  # another torch's formula, an argument that it does not know
                self.unknown.add(f"{func.namespace}::{name}")
                return
            self._counted[kind] += number

    return Mode()


def _element_type(output: Any, is_convolution: bool) -> str:
    """ "bfloat16"; "tf32" for products of float32 that may be rounded to it."""
    import torch

    found = next(one for one in (output if isinstance(output, (tuple, list)) else (output,)) if one is not None)
    name = str(found.dtype).replace("torch.", "")
    if name != "float32" or not found.is_cuda:
        return name
    on: Any = torch.backends.cudnn if is_convolution else torch.backends.cuda.matmul
    return "tf32" if on.allow_tf32 else name
