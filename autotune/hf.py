"""The watch as a callback of transformers' Trainer: `Trainer(..., callbacks=[autotune.hf.Callback()])`."""

from __future__ import annotations

import sys
from typing import Any

from transformers.trainer_callback import CallbackHandler, TrainerCallback, TrainerControl, TrainerState

from autotune import in_process


class Callback(TrainerCallback):
    """Watches `train()`. Its figures (`autotune.summary()`) go where the Trainer logs: `report_to`, `log_history`."""

    def __init__(self) -> None:
        self._began = False

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Watch from here, and be called before the loggers are."""
        self._began = in_process.begin()
        handler = sys._getframe(1).f_locals.get("self")  # nothing hands it over
        if isinstance(handler, CallbackHandler) and self in handler.callbacks:
            handler.callbacks.remove(self)
            handler.callbacks.insert(0, self)

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the figures to what the loggers get next, and to what the Trainer has kept of it.

        Only where the training loss is logged: the metrics of an evaluation go back to who asked for them.
        """
        if logs is None or "loss" not in logs:
            return
        figures = in_process.summary()
        logs.update(figures)
        if state.log_history:
            state.log_history[-1].update(figures)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Training is over; a watch that others began goes on."""
        if self._began:
            in_process.end()
