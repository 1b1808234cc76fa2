"""Why a run that waits for its batches gets no change for that: the CPUs, the workers, or what was not tried."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.catalogue import topic_of
from autotune.model.evidence import RUN
from autotune.model.report import Report
from autotune.model.rule import Rule
from autotune.report.bound import TRAIN
from autotune.report.labels import phases
from autotune.report.units import percent

LEAST_WAIT = 0.1
"""A smaller wait, of the step, needs no reason why nothing is said of it."""

WORKERS = "loader.num_workers"

REPEATED = "repeated work in batches"
"""The topic of the facts that show it."""


def sentence(report: Report) -> str:
    """ "Nothing is recommended for the wait (71 %): ..." with each reason that is known; where something else than
    workers is, why they are not, which a reader thinks of first; "" where they are."""
    wait = report.evidence.lookup(RUN, "step.data_wait_share")
    if not isinstance(wait, float) or wait < LEAST_WAIT:
        return ""
    answers = [one.rule for each in report.recommendations for one in each.findings if "data_wait" in phases(one.rule)]
    if not answers:
        why = "; ".join([*_why_no_workers(report), *_why_not_measured(report)]) or "no rule proposes a change"
        return f"No change is recommended for the data wait ({percent(wait)}): {why}."
    why = "" if any(map(_changes_workers, answers)) else next(_why_no_workers(report), "")
    return f"More workers would not help here: {why}." if why else ""


def _changes_workers(rule: Rule) -> bool:
    """Whether the gain of a rule is that of another number of workers."""
    return rule.gain is not None and rule.gain.what_if == "workers"


def _proposes_workers(rule: Rule) -> bool:
    """Whether a rule sets as many workers as keep up with training."""
    return any(fix.setting == WORKERS and "loader.workers_needed" in fix.value for fix in rule.fixes)


def _why_no_workers(report: Report) -> Iterator[str]:
    """Why more workers are not recommended, where that was decided."""
    known = report.evidence
    passed = [each for each in report.evaluation.passed if each.subject == TRAIN and _proposes_workers(each.rule)]
    workers, cpus = known.lookup(TRAIN, WORKERS), known.lookup(RUN, "machine.cpus_per_rank")
    if not passed or not isinstance(workers, int):
        pass
    elif isinstance(cpus, int | float) and cpus <= max(1, workers):
        noun = "CPU" if cpus == 1 else "CPUs"
        yield f"another worker would need its own CPU, and a process has {cpus:g} {noun}"
    elif known.lookup(RUN, "step.starts_loader") is True:
        yield "each step starts a new iterator over the loader"
    else:
        beside = next((f"{each.note} " for each in passed if each.note), "")
        yield f"{beside}no gain is predicted for another worker"


def _why_not_measured(report: Report) -> Iterator[str]:
    needs = [name for each in report.evaluation.skipped if each.subject == TRAIN for name in each.needs]
    if any(topic_of(name).name == REPEATED for name in needs):
        several = report.run.num_processes > 1
        yield "repeated work in its batches was not measured" + (" (several processes)" if several else "")
