"""What the probe observes in torch and in the trainer frameworks. A new hook is a module here and a line below."""

from __future__ import annotations

from . import calls, collectives, data, fetches, frameworks, model, optimizer, override

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..shapes import FrameworkHook, TorchHook

IN_WORKERS: tuple[TorchHook, ...] = (fetches,)
"""Installed in every process that imports torch, DataLoader workers among them."""

IN_TRAINING: tuple[TorchHook, ...] = (data, model, optimizer, calls, collectives, override)
"""Installed in the training process, in this order."""

AFTER_IMPORT: tuple[FrameworkHook, ...] = (frameworks, override)
"""Asked about every module of `hooked_modules` in the training process."""
