"""Whether a restart with a repair can pay: at most what is wasted now is won back, of what the run has left."""

from __future__ import annotations

from autotune.attach import verdict as verdicts
from autotune.attach.facts import Facts
from autotune.model.attached import AttachedRestart, AttachedWindow, AttachVerdict, RestartAnswer
from autotune.predict.restart_or_finish import least_s


def restart(facts: Facts, verdict: AttachVerdict, window: AttachedWindow | None) -> AttachedRestart:
    """The answer, and what it lacks: start-up and the last save are known to nobody outside of the process."""
    left = facts.progress.left_s if facts.progress is not None else None
    wasted = wasted_share(facts, verdict, window)
    least = None if left is None else least_s(left)
    missing = [*_missing_progress(facts)]
    if wasted is None:
        missing.append("the share of the time that a repair wins back")
    saves = None if left is None or wasted is None else left * wasted
    if saves is not None and least is not None and saves < least:
        return AttachedRestart("not_worth_it", left, wasted, saves, least, tuple(missing))
    missing += ["how long the start takes", "when it last saved"]
    answer: RestartAnswer = "may_pay" if saves is not None else "cannot_tell"
    return AttachedRestart(answer, left, wasted, saves, least, tuple(missing))


def wasted_share(facts: Facts, verdict: AttachVerdict, window: AttachedWindow | None) -> float | None:
    """Of the time, at most; None where the verdict names nothing that has a share."""
    main, busy = facts.main, verdicts.gpu_busy(facts)
    if verdict.kind == "queued" and window is not None:
        return verdicts.queued_share(window)
    shares = {
        "throttled": facts.cpus.throttled_share,
        "queued": main.queued_share if main is not None else None,
        "starved_by_workers": verdicts.waiting(facts),
        "starved": None if main is None else 1.0 - main.cpu_share,
        "one_python_thread": None if busy is None else 1.0 - busy,
        "input_bound": None if window is None else window.window.wait_share,
    }
    return shares.get(verdict.kind)


def _missing_progress(facts: Facts) -> list[str]:
    if facts.progress is None:
        return ["how far it is (its progress line)"]
    missing = []
    if facts.progress.total is None:
        missing.append("how many steps it makes")
    if facts.progress.step_s is None:
        missing.append("how long a step takes")
    return missing
