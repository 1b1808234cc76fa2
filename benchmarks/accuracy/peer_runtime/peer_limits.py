"""Ends a training as if it had come to its end, after enough optimizer steps and seconds; edited scripts import it.

PEER_STEPS is the least number of optimizer steps, PEER_FOLDER a folder that all processes of one start share. Inside
what a peer times nothing of ours runs but one addition for each update.
"""

import os
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook

LEAST_S = 20.0
MOST_S = 75.0
AHEAD = 64
"""Iterations from the decision to the end in several processes: more than any of them can be ahead of another."""


class Limits:
    """Counts the iterations and updates of one process; the first process decides for all when to end."""

    def __init__(self, steps: int, folder: Path, environ: dict[str, str]) -> None:
        self.steps, self.note = steps, folder / "last"
        self.rank, self.world = int(environ.get("RANK", "0")), int(environ.get("WORLD_SIZE", "1"))
        self.updates, self.iterations = 0, 0
        self.began: float | None = None
        self.last: int | None = None

    def count(self, *_: object) -> None:
        self.updates += 1

    def is_enough(self, updates: int) -> bool:
        now = time.monotonic()
        self.began = now if self.began is None else self.began
        passed = now - self.began
        return passed >= MOST_S or (passed >= LEAST_S and updates >= self.steps)

    def reached(self) -> bool:
        """Asked at the start of each iteration of the training loop."""
        self.iterations += 1
        if self.last is None:
            self.last = self.decided() if self.rank == 0 else self.told()
        return self.is_over()

    def is_over(self) -> bool:
        return self.last is not None and self.iterations >= self.last

    def decided(self) -> int | None:
        if not self.is_enough(self.updates):
            return None
        if self.world == 1:
            return self.iterations
        part = self.note.with_suffix(".part")
        part.write_text(str(self.iterations + AHEAD), encoding="utf-8")
        part.replace(self.note)
        return self.iterations + AHEAD

    def told(self) -> int | None:
        return int(self.note.read_text(encoding="utf-8")) if self.note.exists() else None


LIMITS = Limits(int(os.environ["PEER_STEPS"]), Path(os.environ["PEER_FOLDER"]), dict(os.environ))
register_optimizer_step_post_hook(LIMITS.count)
reached, is_over = LIMITS.reached, LIMITS.is_over


def trainer_callback() -> object:
    """Ends a training of the HF Trainer."""
    from transformers import TrainerCallback

    class Ending(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop |= LIMITS.is_enough(state.global_step)

    return Ending()


def lightning_callback() -> object:
    """Ends a training of Lightning."""
    from lightning.pytorch import Callback

    class Ending(Callback):
        def on_train_batch_end(self, trainer, *_):
            trainer.should_stop |= LIMITS.is_enough(trainer.global_step)

    return Ending()
