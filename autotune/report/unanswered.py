"""Why a run that waits for its batches gets no change for that: the CPUs, the workers, or what was not tried."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.evidence import RUN
from autotune.model.report import Report
from autotune.model.rule import Rule
from autotune.report.names import phases
from autotune.report.units import percent

TRAIN = "loader#train"

LEAST_WAIT = 0.1
"""A smaller wait, of the step, needs no reason why nothing is said of it."""

WORKERS, REPEATED = ("DL001", "DL002"), "DL006"


def sentence(report: Report) -> str:
    """ "Nothing is recommended for the wait (71 %): ..." with each reason that is known; where something else than
    workers is, why they are not, which a reader thinks of first; "" where they are."""
    wait = report.evidence.lookup(RUN, "step.data_wait_share")
    if not isinstance(wait, float) or wait < LEAST_WAIT:
        return ""
    answers = [one.rule for each in report.recommendations for one in each.findings if "data_wait" in phases(one.rule)]
    if not answers:
        why = "; ".join([*_of_workers(report), *_untried(report)]) or "no rule has a change for it"
        return f"Nothing is recommended for the wait for data ({percent(wait)}): {why}."
    why = "" if any(map(_is_of_more, answers)) else next(_of_workers(report), "")
    return f"More workers would not help here: {why}." if why else ""


def _is_of_more(rule: Rule) -> bool:
    """Whether a rule proposes workers."""
    return rule.id in WORKERS or (rule.gain is not None and rule.gain.what_if == "workers")


def _of_workers(report: Report) -> Iterator[str]:
    """Why more workers are not recommended, where that was decided."""
    known, passed = report.evidence, {each.rule.id for each in report.evaluation.passed if each.subject == TRAIN}
    workers, cpus = known.lookup(TRAIN, "loader.num_workers"), known.lookup(RUN, "machine.cpus_per_rank")
    if passed.isdisjoint(WORKERS) or not isinstance(workers, int):
        pass
    elif isinstance(cpus, int | float) and cpus <= max(1, workers):
        noun = "CPU" if cpus == 1 else "CPUs"
        yield f"a further worker would need a CPU of its own, and a process has {cpus:g} {noun}"
    elif known.lookup(RUN, "step.starts_loader") is True:
        yield "each step starts the loader again"
    else:
        yield "a further worker would not make this faster"


def _untried(report: Report) -> Iterator[str]:
    if any(each.rule.id == REPEATED and each.subject == TRAIN for each in report.evaluation.skipped):
        several = report.run.num_processes > 1
        yield "whether its batches repeat work was not tried" + (" (there are several processes)" if several else "")
