"""What functions of the script's own that log take of a step, by stack samples. Those of libraries are timed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autotune.derive.view import View
from autotune.model.evidence import RUN, Fact

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
    r"|(^|[ .])\w*(Logger|SummaryWriter|Dashboard)\."
)
"""Names of functions and classes that log, anywhere in a path; not log_prob, log_softmax and other logarithms."""

SEPARATOR = " > "


def facts(view: View) -> Iterator[Fact]:
    """Facts `step.own_logging_share` and, with what libraries take, `step.all_logging_share`."""
    share = _share(view)
    if share is not None:
        yield Fact("step.own_logging_share", RUN, share)
    logging_ms = None if view.window is None else view.window.phase_ms("logging")
    timed = None if view.window is None or logging_ms is None else logging_ms / view.window.mean_ms
    known = [each for each in (share, timed) if each is not None]
    if known:
        yield Fact("step.all_logging_share", RUN, min(1.0, sum(known)))


def _share(view: View) -> float | None:
    window = view.window
    other_ms = None if window is None else window.phase_ms("other")
    # On CUDA the script's own code also waits for the device, and a logger's read of the loss is not its cost.
    if window is None or other_ms is None or (view.recording.device or {}).get("type") == "cuda":
        return None
    other = other_ms / window.mean_ms
    samples = [sample for sample in view.recording.samples if sample.phase == "other"]
    total = sum(sample.count for sample in samples)
    below = _below([sample.path for sample in samples])
    if total < LEAST_SAMPLES:
        return 0.0 if other < LITTLE else None
    return other * sum(sample.count for sample in samples if LOGS.search(below[sample.path])) / total


def _below(paths: Sequence[str]) -> dict[str, str]:
    """Each path without what all begin with: the training loop may stand in a class with a telling name."""
    split = {path: path.split(SEPARATOR) for path in paths}
    shortest = min((len(names) for names in split.values()), default=1)
    common = 0
    while common < shortest - 1 and len({names[common] for names in split.values()}) == 1:
        common += 1
    return {path: SEPARATOR.join(names[common:]) for path, names in split.items()}
