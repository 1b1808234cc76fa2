"""Which module of the model runs now, while a phase asks for it."""

from __future__ import annotations

import sys
import time
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Function, Row

NONE = 0
"""No module runs."""


class ModuleStack:
    """The modules whose calls are under way, by id; `changes` are (time.time_ns(), id of the innermost) of each change.

    It holds the modules alive, so that no id is used twice: let it go when the phase is over.
    """

    def __init__(self, *, keeps_changes: bool = False) -> None:
        self.stack: list[int] = []
        self.changes: list[tuple[int, int]] = []
        self._keeps_changes = keeps_changes
        self._known: dict[int, Any] = {}
        self._calls: Counter[int] = Counter()

    def calling(self, module: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`call(module, *args, **kwargs)`, noted."""
        key = id(module)
        self._known[key] = module
        self._calls[key] += sys.modules["torch"].is_grad_enabled()
        self.stack.append(key)
        self._note()
        try:
            return call(module, *args, **kwargs)
        finally:
            self.stack.pop()
            self._note()

    def _note(self) -> None:
        if self._keeps_changes:
            self.changes.append((time.time_ns(), self.innermost()))

    def innermost(self) -> int:
        """The id of the module that runs now, NONE without one."""
        return (self.stack[-1:] or [NONE])[0]

    def outermost(self) -> int:
        """The id of the root model that runs now, NONE without one."""
        return (self.stack[:1] or [NONE])[0]

    def rows(self, session: ProbeSession) -> dict[int, Row]:
        """The `ModuleName` of each module that ran, by id; one of no root model has its class alone."""
        names = names_of(session)
        trained = {id(part) for root in roots_of(session) if _is_trained(root) for part in root.modules()}
        return {
            key: {
                "name": names.get(key, type(module).__name__),
                "type": type(module).__name__,
                "is_frozen": _is_frozen(module),
                "is_trained": key in trained or _is_trained(module),
                "calls": self._calls[key],
            }
            for key, module in self._known.items()
        }

    def frozen(self) -> list[Any]:
        """The frozen modules that ran, without those inside another one of them."""
        frozen = [module for module in self._known.values() if _is_frozen(module)]
        inner = {id(part) for module in frozen for part in module.modules() if part is not module}
        return [module for module in frozen if id(module) not in inner]


def roots_of(session: ProbeSession) -> list[Any]:
    """The root models that are alive."""
    return [root for root in (row["object"]() for row in session.models) if root is not None]


def names_of(session: ProbeSession) -> dict[int, str]:
    """Names of the modules of all root models, by id. Of several roots they begin with the root's class, and with its
    number where these are of one class: "Bert.encoder", "Bert#2.encoder"."""
    roots = roots_of(session)
    names: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for root in roots:
        kind = type(root).__name__
        seen[kind] += 1
        label = kind if seen[kind] == 1 else f"{kind}#{seen[kind]}"
        for name, module in root.named_modules():
            of_root = [label] if len(roots) > 1 or not name else []
            names.setdefault(id(module), ".".join([*of_root, *([name] if name else [])]))
    return names


def _is_frozen(module: Any) -> bool:
    """Whether it has weights, none of them is trained, and it gives the same for the same input: it is in eval mode."""
    weights = list(module.parameters())
    return bool(weights) and not module.training and not any(one.requires_grad for one in weights)


def _is_trained(module: Any) -> bool:
    """Also of a discriminator that the generator's step has frozen: its weights have gradients."""
    return any(one.requires_grad or one.grad is not None for one in module.parameters())
