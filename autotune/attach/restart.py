"""Whether a restart with a repair can pay: it wins back at most the share that the run wastes now, of the time left."""

from __future__ import annotations

from autotune.attach.facts import Facts
from autotune.attach.verdict import NOTICEABLE_CPUS
from autotune.model.attached import AttachedRestart, AttachVerdict, RestartAnswer
from autotune.predict.restart_or_finish import least_s
from autotune.report.units import number

OF_ENDED = AttachedRestart("cannot_tell", None, None, None, None, ("how it ended",))
"""Of a process that ended while it was looked at: nothing is left that a repair could shorten."""


def restart(facts: Facts, verdict: AttachVerdict) -> AttachedRestart:
    """The answer, and what it lacks: start-up and the last save are known to nobody outside of the process."""
    left = facts.progress.left_s if facts.progress is not None else None
    wasted = verdict.lost_share
    least = None if left is None else least_s(left)
    missing = [*_missing_progress(facts)]
    if wasted is None:
        missing.append("the share of the time that a repair wins back")
    saves = None if left is None or wasted is None else left * wasted
    if saves is not None and least is not None and saves < least:
        return AttachedRestart("not_worth_it", left, wasted, saves, least, tuple(missing))
    missing += [*_missing_cpus(facts, verdict), "how long the start takes", "when it last saved"]
    answer: RestartAnswer = "may_pay" if saves is not None else "cannot_tell"
    return AttachedRestart(answer, left, wasted, saves, least, tuple(missing))


def _missing_cpus(facts: Facts, verdict: AttachVerdict) -> list[str]:
    """CPUs that others use are there after a restart only if these have ended."""
    others = facts.cpus.of_others
    if verdict.kind != "queued" or others is None or others < NOTICEABLE_CPUS:
        return []
    return [f"whether the other processes, which use {number(others)} CPUs, will have ended"]


def _missing_progress(facts: Facts) -> list[str]:
    if facts.progress is None:
        return ["how far it is (its progress line)"]
    missing = []
    if facts.progress.is_of_epoch:
        missing.append('how many epochs are left (its bar counts the batches of one: --at "step N/M")')
    if facts.progress.total is None:
        missing.append("how many steps it makes")
    if facts.progress.step_s is None:
        missing.append("how long a step takes")
    return missing
