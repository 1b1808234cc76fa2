"""diagnose --pid: from a process that runs to what bounds it.

1. Find it, and refuse what cannot be looked at (target.py).
2. Look at the system's counters for some seconds (sampling.py, facts.py): no privileges are needed.
3. Take its stacks, where ptrace is allowed and a program for it is there (stacks.py).
4. Have it run one window of the probe, where its Python can be asked to (remote_window.py).
5. Say what bounds it, and whether a restart can pay (verdict.py, restart.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from msgspec import Struct

from autotune.attach import facts as counted
from autotune.attach import remote_window, restart, sampling, stacks, target, verdict
from autotune.attach.facts import Facts
from autotune.attach.target import Target
from autotune.errors import UsageError
from autotune.model.attached import Attached, AttachedWindow, AttachVerdict, Stacks, Tier, TierName
from autotune.model.outlook import ProgressLine

SECONDS = 15.0
"""A look in which steps of some seconds are seen, and a worker's round."""


ALL_TIERS = 3


class AttachOptions(Struct, frozen=True):
    """What the user asked for: the process, how long to look at it, its progress line where they pasted it, and the
    highest tier to use."""

    pid: int
    seconds: float = SECONDS
    at: ProgressLine | None = None
    tier: int = ALL_TIERS


def attach(options: AttachOptions, on_found: Callable[[], None] = lambda: None) -> Attached:
    """Look at a running process; `on_found` is called when it begins. Raises UsageError where nothing can be seen."""
    if sys.platform != "linux":
        raise UsageError("a running process can be looked at on Linux", where=target.WHERE)
    found = target.find(options.pid)
    on_found()
    process = target.described(found)
    samples = sampling.sample(found, options.seconds)
    facts = counted.facts(found, samples, options.at)
    sampled, of_stacks = _stacks(found, options)
    window, of_window = _window(found, options)
    bound = verdict.verdict(facts, sampled, window)
    ended = target.has_ended(found)
    return Attached(
        process=process,
        seconds=samples.seconds,
        samples=len(samples.moments),
        tiers=(_counters(found, facts), of_stacks, of_window),
        verdict=bound,
        main=facts.main,
        threads=facts.threads,
        workers=facts.workers,
        cpus=facts.cpus,
        memory=facts.memory,
        storage=facts.storage,
        gpus=facts.gpus,
        why_no_gpu=samples.why_no_gpu,
        progress=facts.progress,
        why_no_progress="" if facts.progress is not None else samples.why_no_progress,
        restart=restart.OF_ENDED if ended else restart.restart(facts, bound),
        stacks=sampled,
        window=window,
        others=found.others,
        notes=tuple(_notes(found, bound, ended=ended)),
    )


def _stacks(found: Target, options: AttachOptions) -> tuple[Stacks | None, Tier]:
    if options.tier < 2:
        return None, _not_asked("stacks")
    if target.has_ended(found):
        return None, Tier("stacks", "refused", target.ENDED)
    return stacks.take(found, options.seconds)


def _window(found: Target, options: AttachOptions) -> tuple[AttachedWindow | None, Tier]:
    if options.tier < ALL_TIERS:
        return None, _not_asked("window")
    if target.has_ended(found):
        return None, Tier("window", "refused", target.ENDED)
    return remote_window.measure(found)


def _not_asked(tier: TierName) -> Tier:
    return Tier(tier, "not_asked", "--tier leaves it out")


def _counters(found: Target, facts: Facts) -> Tier:
    """What the first tier saw, and what the system kept from it."""
    seen = ["its threads and children", "limits", "memory"]
    seen += ["GPUs"] if facts.gpus else []
    seen += ["its progress line"] if facts.progress is not None and facts.progress.source != "--at" else []
    hidden = [] if facts.storage.read_bytes_per_s is not None else ["bytes from storage"]
    hidden += [] if found.about.environ is not None else ["its variables", "what it has loaded", "its outputs"]
    kept = f"; the system hides {', '.join(hidden)} of it from you" if hidden else ""
    to_do = "Run autotune as the user of the process, or with sudo." if hidden and not found.is_own else ""
    return Tier("counters", "used", f"{', '.join(seen)}{kept}", to_do)


def _notes(found: Target, bound: AttachVerdict, *, ended: bool) -> list[str]:
    about = found.about
    notes = ["it has ended meanwhile: what is said is of the time before"] if ended else []
    started = next((other for other in found.others if other.what == "child"), None)
    if bound.kind == "idle" and started is not None:
        notes.append(f"it may only have started process {started.pid}: look at that one")
    if about.has_torch is None:
        notes.append("whether it has loaded torch is not known: the system hides that of other users' processes")
    elif not about.has_torch:
        notes.append("it has not loaded torch: it may be before its training, or no training")
    if len(about.namespace_pids) > 1:
        notes.append(f"it runs in a container of its own, as process {about.namespace_pids[-1]}")
    if about.tracer:
        notes.append(f"process {about.tracer} traces it (a debugger)")
    return notes
