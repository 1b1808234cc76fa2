"""What functions of the script's own that log take of a step, by stack samples. Those of libraries are timed.

A function logs that is called so, or that writes into a file whenever training calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Sample

LEAST_SAMPLES = 20
LITTLE = 0.05
"""Of the step: where the script's own code takes less, whatever part of it logs takes less too."""

WHAT = (
    "metrics?|stats|statistics|scalars?|histograms?|images?|loss(es)?|gradients?|grads?|grad_norms?|params|parameters"
    "|steps?|batch|epoch|iteration|training|train|results?|dict|progress|events?|lines?|rows?|messages?|summary|summaries"
)
LOGS = re.compile(
    r"(^|[ .])_?("
    rf"logs?|logging|log_({WHAT})|log_to_\w+|add_(scalars?|histogram|images?|figure|text)"
    rf"|(write|report|record|dump|track|print)_(logs?|{WHAT})"
    r")( |$)"
    r"|(^|[ .])\w*(Log(s|ger|ging|book|Writer|File)?|(Summary|Event|Metrics?|Scalar)Writer|Metrics?Tracker|Dashboard)"
    r"\.(?!(forward|backward|apply|__call__)( |$))"
)
"""Names of functions and classes that log, anywhere in a path; not log_prob, SafeLog.forward and other logarithms."""

SEPARATOR = " > "


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `step.own_logging_share` and, with what libraries take, `step.all_logging_share`."""
    share = _share(view)
    if share is not None:
        yield Fact("step.own_logging_share", RUN, share)
    logging_ms = None if view.window is None else view.window.phase_ms("logging")
    timed = None if view.window is None or logging_ms is None else logging_ms / view.window.mean_ms
    known = [each for each in (share, timed) if each is not None]
    if known:
        yield Fact("step.all_logging_share", RUN, min(1.0, sum(known)))


def _share(view: RecordingView) -> float | None:
    window = view.window
    other_ms = None if window is None else window.phase_ms("other")
    # On CUDA the script's own code also waits for the device, and a logger's read of the loss is not its cost.
    if window is None or other_ms is None or view.recording.device_type == "cuda":
        return None
    other = other_ms / window.mean_ms
    samples = [sample for sample in view.recording.samples if sample.phase == "other"]
    total = sum(sample.count for sample in samples)
    loop = [sample.path for sample in view.recording.samples if sample.phase == "backward" and sample.path]
    below = _below([sample.path for sample in samples], loop)
    if total < LEAST_SAMPLES:
        return 0.0 if other < LITTLE else None
    writers = _writers(samples, {name for path in loop for name in path.split(SEPARATOR)})
    return other * sum(sample.count for sample in samples if _logs(below[sample.path], writers)) / total


def _logs(below: str, writers: Set[str]) -> bool:
    """By a name; or as a function that writes, with what it calls of its own class: others it only watches."""
    names = below.split(SEPARATOR)
    first = next((place for place, name in enumerate(names) if name in writers), None)
    if first is not None and all(_class(name) == _class(names[first]) != "" for name in names[first + 1 :]):
        return True
    return LOGS.search(below) is not None


def _class(qualified: str) -> str:
    owner = qualified.rpartition(".")[0]
    return "" if owner.endswith("<locals>") else owner


def _writers(samples: Sequence[Sample], in_loop: Set[str]) -> Set[str]:
    """Functions that write whenever they are called; not those of the training loop itself.

    Without a sample of the backward it is not known which are.
    """
    if not in_loop:
        return set()
    return {name for sample in samples for name in sample.writers.split(SEPARATOR)} - in_loop - {""}


def _below(paths: Sequence[str], loop: Sequence[str]) -> dict[str, str]:
    """Each path without what leads to the training loop, which may stand in a class with a telling name.

    That is what all begin with and those of the backward too (`loop`); where none of that was seen, one name stays.
    """
    split = {path: path.split(SEPARATOR) for path in paths}
    names = [*split.values(), *(path.split(SEPARATOR) for path in loop)]
    most = min(map(len, names), default=0) - (0 if loop else 1)
    common = 0
    while common < most and len({each[common] for each in names}) == 1:
        common += 1
    return {path: SEPARATOR.join(each[common:]) for path, each in split.items()}
