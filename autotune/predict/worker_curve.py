"""The step with each number of workers, beside what was tried."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence
from autotune.model.window_detail import WorkerCount
from autotune.predict.gain_inputs import TRAIN, number
from autotune.predict.workers import workers

MOST = 16
"""Workers that are asked about."""

BEYOND = 2
"""Workers more than there are cores: the curve shows where it ends to fall."""


def predicted(tried: Sequence[WorkerCount], evidence: Evidence) -> tuple[WorkerCount, ...]:
    """From none to some more than there are cores, with what was `tried`; nothing where no step can be predicted."""
    cores, now = number(evidence, RUN, "machine.cpus_per_rank"), number(evidence, TRAIN, "loader.num_workers")
    mean_ms = number(evidence, RUN, "step.mean_ms")
    if cores is None or now is None or mean_ms is None or not tried:
        return ()
    alone = {one.workers: one for one in tried}
    most = min(MOST, max(round(cores) + BEYOND, round(now), *alone))
    found = []
    for count in range(most + 1):
        # The gain that a recommendation of so many workers has: a report says one thing of a number of workers.
        gain = workers({"workers": str(count)}, evidence, TRAIN)
        if gain is None or gain.basis == "bound":
            return ()
        one = alone.get(count, WorkerCount(count, None, None))
        found.append(replace(one, predicted_ms=mean_ms / gain.speedup, is_now=count == now))
    return tuple(found)
