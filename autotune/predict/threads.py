"""What-if: training computes with fewer threads, and so does the process that prepares its own batches."""

from __future__ import annotations

from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.gain_inputs import Arguments, gain, number
from autotune.predict.share_removed import share_removed
from autotune.predict.step_time import step_ms
from autotune.predict.workers import SLACK, other_cpu_use

THREADS = "train.num_threads"

OF_OTHERS = (
    "replay.threads_share",
    "replay.best_threads",
    "replay.one_thread_ms",
    "replay.most_threads",
    "replay.most_threads_ms",
)
"""What replays with other numbers of threads show."""

IS_CROWDED = "replay.is_crowded"


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


def undisturbed(evidence: Evidence) -> Evidence:
    """The evidence without what replays with other numbers of threads show where other programs took CPUs from them.

    It holds beside these programs alone, and a change of the script would outlast them.
    """
    known = evidence.facts.get(RUN, {})
    if known.keys().isdisjoint((*OF_OTHERS, "replay.other_cpus")) or not is_crowded(evidence):
        return evidence
    left = {name: value for name, value in known.items() if name not in OF_OTHERS}
    return replace(evidence, facts={**evidence.facts, RUN: {**left, IS_CROWDED: True}})


def is_crowded(evidence: Evidence) -> bool:
    """Whether other programs took CPUs from the threads while numbers of them were tried.

    A thread that waits for a CPU keeps all others of its operation waiting, for a whole turn of the scheduler: a step
    may take many times as long, which says nothing of a machine that is free. Other ranks of a run are no other
    programs.
    """
    cores, now = number(evidence, RUN, "machine.cpus_per_rank"), number(evidence, RUN, "run.num_threads")
    if cores is None or now is None or (number(evidence, RUN, "run.local_world_size") or 1) > 1:
        return False
    return min(now, cores) + other_cpu_use(evidence, "replay.other_cpus") > cores + SLACK
