"""The step with each number of workers, beside what was tried."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence
from autotune.model.window_detail import WorkerCount
from autotune.predict.gain_inputs import TRAIN, number
from autotune.predict.step_time import step_ms

MOST = 16
"""Workers that are asked about."""

BEYOND = 2
"""Workers more than there are cores: the curve shows where it ends to fall."""


def predicted(tried: Sequence[WorkerCount], evidence: Evidence) -> tuple[WorkerCount, ...]:
    """From none to some more than there are cores, with what was `tried`; nothing where no step can be predicted."""
    cores, now = number(evidence, RUN, "machine.cpus_per_rank"), number(evidence, TRAIN, "loader.num_workers")
    if cores is None or now is None or not tried:
        return ()
    alone = {one.workers: one for one in tried}
    most = min(MOST, max(round(cores) + BEYOND, round(now), *alone))
    found = []
    for count in range(most + 1):
        forecast = step_ms({"loader.num_workers": count}, evidence)
        if forecast is None or forecast.unmodelled:
            return ()
        one = alone.get(count, WorkerCount(count, None, None))
        found.append(replace(one, predicted_ms=forecast.ms, is_now=count == now))
    return tuple(found)
