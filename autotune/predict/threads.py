"""What-if: training computes with fewer threads, and so does the process that prepares its own batches."""

from __future__ import annotations

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number
from autotune.predict.share_removed import share_removed
from autotune.predict.step_time import step_ms

THREADS = "train.num_threads"


def threads(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Step time now / with the best of the numbers of threads that were tried in replays, where these are fewer.

    What is computed is as in the replay; what the training process prepares is as in a worker, which has one thread.
    More threads are a bound: `share` of a replayed step, `of` the part of the step that was replayed.
    """
    best, now = number(evidence, RUN, "replay.best_threads"), number(evidence, RUN, "run.num_threads")
    mean = number(evidence, RUN, "step.mean_ms")
    if best is None or now is None or mean is None or best >= now:
        return share_removed(arguments, evidence, subject)
    forecast = step_ms({THREADS: round(best)}, evidence)
    if forecast is None or forecast.unmodelled:
        return share_removed(arguments, evidence, subject)
    interval = mean / forecast.high_ms, mean / forecast.low_ms
    return gain(evidence, subject, mean / forecast.ms, interval, forecast.basis)
