"""What-if: training computes with fewer threads, and so does the process that prepares its own batches."""

from __future__ import annotations

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number
from autotune.predict.share_removed import share_removed
from autotune.predict.step_time import step_ms
from autotune.predict.workers import SLACK, others

THREADS = "train.num_threads"


def threads(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Step time now / with the best of the numbers of threads that were tried in replays, where these are fewer.

    What is computed is as in the replay; what the training process prepares is as in a worker, which has one thread.
    More threads are a bound: `share` of a replayed step, `of` the part of the step that was replayed. None where other
    programs worked on the same CPUs.
    """
    if is_crowded(evidence):
        return None
    best, now = number(evidence, RUN, "replay.best_threads"), number(evidence, RUN, "run.num_threads")
    mean = number(evidence, RUN, "step.mean_ms")
    if best is None or now is None or mean is None or best >= now:
        return share_removed(arguments, evidence, subject)
    forecast = step_ms({THREADS: round(best)}, evidence)
    if forecast is None or forecast.unmodelled:
        return share_removed(arguments, evidence, subject)
    interval = mean / forecast.high_ms, mean / forecast.low_ms
    return gain(evidence, subject, mean / forecast.ms, interval, forecast.basis)


def is_crowded(evidence: Evidence) -> bool:
    """Whether other programs took CPUs from the threads while numbers of them were tried.

    A thread that waits for a CPU keeps all others of its operation waiting, for a whole turn of the scheduler: a step
    may take many times as long, which says nothing of a machine that is free. Other ranks of a run are no other
    programs.
    """
    cores, now = number(evidence, RUN, "machine.cpus_per_rank"), number(evidence, RUN, "run.num_threads")
    if cores is None or now is None or (number(evidence, RUN, "run.local_world_size") or 1) > 1:
        return False
    return min(now, cores) + others(evidence, "replay.other_cpus") > cores + SLACK
