"""The parts that a step is made of, and its length once some of them have changed."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence
from autotune.predict.gain_inputs import TRAIN, micro_batches_share, number
from autotune.predict.pipeline import Pipeline, batch_ms
from autotune.predict.workers import PREFETCH, pipeline


class Timeline(Struct, frozen=True):
    """An optimizer step of `batches` micro-batches: milliseconds of each part, with nothing beside it.

    A micro-batch waits `wait_ms` for its batch and takes `micro_ms`; `update_ms` and `besides_ms` (saving, evaluating,
    logging) come once a step. `loader` makes the wait out of `workers` and `prefetch`; without it the wait is as it
    was. `doubt` is the relative error that the changes brought.
    """

    batches: float
    wait_ms: float
    micro_ms: float
    update_ms: float
    besides_ms: float
    loader: Pipeline | None
    workers: int = 0
    prefetch: int = PREFETCH
    doubt: float = 0.0

    @property
    def step_ms(self) -> float:
        once = self.update_ms + self.besides_ms
        if self.loader is None:
            return self.batches * (self.wait_ms + self.micro_ms) + once
        compute = self.micro_ms + once / self.batches
        warm = self.loader.warm_ms * compute / self.loader.compute_ms
        fed = replace(self.loader, compute_ms=compute, warm_ms=warm)
        return self.batches * batch_ms(fed, self.workers, self.prefetch)

    def doubting(self, error: float) -> Timeline:
        """The same, known worse by `error`, which is independent of what it was doubted for before."""
        return replace(self, doubt=math.hypot(self.doubt, error))


def timeline(evidence: Evidence, persistent: bool) -> Timeline | None:
    """Today's step; `persistent`: workers live as long as the run. None without a window or without batches."""
    mean, batches = number(evidence, RUN, "step.mean_ms"), number(evidence, TRAIN, "loader.batches_per_step")
    part = micro_batches_share(evidence)
    if not mean or not batches or part is None:
        return None
    wait, update = (number(evidence, RUN, f"step.{phase}_share") or 0.0 for phase in ("data_wait", "optimizer"))
    loader = pipeline(evidence, TRAIN, persistent)
    besides_ms = mean * max(0.0, 1 - wait - part - update)
    # Where the window was crowded a replay stands for it, which was as much faster in each of its parts.
    trained_ms = batches * loader.compute_ms - besides_ms if loader else mean * (part + update)
    pace = max(0.0, trained_ms) / (mean * (part + update)) if part + update else 0.0
    return Timeline(
        batches=batches,
        wait_ms=mean * wait / batches,
        micro_ms=mean * part * pace / batches,
        update_ms=mean * update * pace,
        besides_ms=besides_ms,
        loader=loader,
        workers=round(number(evidence, TRAIN, "loader.num_workers") or 0),
        prefetch=round(number(evidence, TRAIN, "loader.prefetch_factor") or PREFETCH),
        doubt=number(evidence, RUN, "step.noise_share") or 0.0,
    )
