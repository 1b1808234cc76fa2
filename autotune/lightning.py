"""The watch as a callback of Lightning's Trainer: `Trainer(..., callbacks=[autotune.lightning.Callback()])`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from autotune import in_process

# The older of its two packages, where the script uses that: each Trainer takes callbacks of its own alone.
_IS_OLD = "pytorch_lightning" in sys.modules and "lightning" not in sys.modules
_Callback: Any = importlib.import_module("pytorch_lightning" if _IS_OLD else "lightning.pytorch").Callback


class Callback(_Callback):  # type: ignore[misc]
    """Watches `fit()`. Its figures (`autotune.summary()`) go to the Trainer's loggers every `log_every_n_steps`."""

    def __init__(self) -> None:
        self._began = False
        self._logged = -1

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Watch from here."""
        self._began = in_process.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Log as often as the Trainer does."""
        step = trainer.global_step
        if trainer.loggers and step != self._logged and step % max(1, trainer.log_every_n_steps) == 0:
            self._logged = step
            self._log(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Training is over; a watch that others began goes on."""
        self._end(trainer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """So it is."""
        self._end(trainer)

    def _end(self, trainer: Any) -> None:
        self._log(trainer)
        if self._began:
            in_process.end()
            self._began = False

    def _log(self, trainer: Any) -> None:
        figures = in_process.summary()
        for logger in trainer.loggers if figures and trainer.is_global_zero else ():
            logger.log_metrics(figures, step=trainer.global_step)
