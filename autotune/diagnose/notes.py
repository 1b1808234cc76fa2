"""Notes of a report on its circumstances: the machine, the clock, and rules whose change would gain nothing."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.diagnose import later_training, multi_node
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Finding
from autotune.model.recording import Recording
from autotune.predict.threads import IS_CROWDED
from autotune.report.gains import interval

BUSY_SHARE = 0.75
"""Load per CPU before the run above which its times are called less true."""

NO_MACHINE = (
    "there is no run.json beside this Recording, as after an interrupted run: the machine is unknown, and so is "
    "what was to be tried after the window"
)


def notes(evidence: Evidence, recordings: Sequence[Recording], declined: Sequence[Finding]) -> tuple[str, ...]:
    """What the reader should know of the circumstances; `declined` are findings whose changes would gain nothing."""
    load, quota = evidence.lookup(RUN, "machine.load"), evidence.lookup(RUN, "machine.cpu_quota")
    found = [missing] if (missing := multi_node.missing_note(recordings)) else []
    found += [later] if (later := later_training.note(recordings)) else []
    is_traced = evidence.lookup(RUN, "run.is_traced") is True
    if not is_traced and not any(name.startswith("machine.") for name in evidence.facts.get(RUN, ())):
        found.append(NO_MACHINE)
    if isinstance(load, int | float) and isinstance(quota, int | float) and load >= BUSY_SHARE * quota:
        found.append(
            f"the machine was busy before the run (load {load:.1f} on {quota:g} CPUs): times are less reliable"
        )
    if evidence.lookup(RUN, "device.type") == "cuda" and (on_host := _on_host_clock(recordings)):
        found.append(on_host)
    taken = evidence.lookup(RUN, "replay.other_cpus")
    is_on_cpu, is_crowded = evidence.lookup(RUN, "device.type") == "cpu", evidence.lookup(RUN, IS_CROWDED) is True
    if is_on_cpu and is_crowded and isinstance(taken, float):
        found.append(
            f"other programs kept {taken:.1f} CPUs busy during the what-if probes: the effect of other thread counts "
            "on an idle machine is unknown"
        )
    return (*found, *map(_omission, declined))


def _omission(finding: Finding) -> str:
    assert finding.gain is not None
    speedup = f"{finding.gain.speedup:.2f}x ({interval(finding.gain, ' to ')})"
    change = f"its change {finding.gain.note or 'here'}"
    return f"{finding.rule.id} is omitted ({finding.message}): the predicted gain of {change} is {speedup}"


def _on_host_clock(recordings: Sequence[Recording]) -> str:
    """What is said where ranks have no clock of the device: CUDA gave no times, or there were more marks than are kept;
    "" where all have one."""
    windows = [one.window for one in recordings if one.window is not None]
    count = sum(not window.device_clock for window in windows)
    if windows and not count:
        return ""
    of = f" of {count} of {len(windows)} ranks" if count < len(windows) else ""
    return f"phases{of} are timed on the host: GPU work counts in the phase in which the host waits for it"
