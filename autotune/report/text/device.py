"""What the device did in the profiled steps: how busy it was, why it was idle, and what its kernels were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from autotune.model.report import DeviceProfile, IdlePart, Report
from autotune.outlet import clean
from autotune.report.text.layout import StyledLine, paragraph, wrap
from autotune.report.units import percent, step_time

SHOWN_FROM = 0.01
"""Of the step; of the kernels' time."""

MOST_PLACES = 2
MOST_RANKS = 16
LATE_FROM = 0.02
"""Of the step: a rank that is later is named."""

MOST_GROUPS = 5

_IDLE = {
    "data_wait": "the host waits for a batch",
    "copy": "the device copies",
    "device": "between kernels that are queued",
    "sync": "after the host waited for the device",
    "host": "the host works for 1 ms and more before a launch",
    "operator": "the host is in operators of torch",
    "python": "the host is in Python",
    "save": "the host saves",
    "evaluation": "evaluation",
}


def lines(report: Report, width: int) -> list[StyledLine]:
    """Nothing where no device was profiled."""
    device = report.device
    if device is None:
        return []
    return [
        *(StyledLine(line.text, "heading") for line in wrap(heading(device), width, rest="  ")),
        *body(report, device, width),
    ]


def heading(device: DeviceProfile) -> str:
    """ "The device over 3 profiled steps: 31 % busy, 69 % idle"."""
    busy = f"{percent(device.busy_share)} busy, {percent(1 - device.busy_share)} idle"
    noun = "step" if device.steps == 1 else "steps"
    return f"The device over {device.steps} profiled {noun}: {busy}"


def body(report: Report, device: DeviceProfile, width: int) -> list[StyledLine]:
    """Why it was idle, and what its kernels, copies and waits were."""
    return [
        *(line for kind in _kinds(device.idle) for line in _idle(kind, device.idle, width)),
        *_communication(device, width),
        *paragraph("Kernels", _kernels(device), width),
        *paragraph("Copies", _copies(device), width),
        *paragraph("Waits for the device", _syncs(device), width),
        *_ranks(report.devices),
    ]


def _ranks(devices: Sequence[DeviceProfile]) -> list[StyledLine]:
    """A row for each of several ranks. Who communicates least came last: the others' kernels waited for it."""
    if len(devices) < 2:
        return []
    talks = [one.communication_share * one.step_ms for one in devices]
    late_ms, last = median(talks) - min(talks), devices[talks.index(min(talks))]
    rows = [StyledLine("  rank      step    computes  communicates (exposed)      idle")]
    for one in devices[:MOST_RANKS]:
        late = f"  {step_time(late_ms)} late" if one is last and late_ms >= LATE_FROM * one.step_ms else ""
        rows.append(StyledLine(f"{_rank(one)}{late}"))
    left = len(devices) - MOST_RANKS
    return [*rows, StyledLine(f"  and {left} more")] if left > 0 else rows


def _rank(one: DeviceProfile) -> str:
    computes, idle = percent(one.busy_share - one.exposed_share), percent(1 - one.busy_share)
    talks = f"{percent(one.communication_share)} ({percent(one.exposed_share)})"
    return f"  {one.rank:>4}  {step_time(one.step_ms):>8}  {computes:>10}  {talks:>22}  {idle:>8}"


def _kinds(parts: Sequence[IdlePart]) -> list[str]:
    """Those with a visible share, the largest first."""
    shares = {kind: _share(kind, parts) for kind in dict.fromkeys(part.kind for part in parts)}
    return sorted((kind for kind in shares if shares[kind] >= SHOWN_FROM), key=lambda kind: -shares[kind])


def _share(kind: str, parts: Iterable[IdlePart]) -> float:
    return sum(part.share for part in parts if part.kind == kind)


def _idle(kind: str, parts: Sequence[IdlePart], width: int) -> list[StyledLine]:
    named = [part for part in parts if part.kind == kind and (part.name or part.place) and part.share >= SHOWN_FROM]
    places = "; ".join(f"{_name(part)} {percent(part.share)}" for part in named[:MOST_PLACES])
    text = f"idle: {_IDLE[kind]}{f': {places}' if places else ''}"
    return _row(_share(kind, parts), text, width)


def _row(share: float, text: str, width: int) -> list[StyledLine]:
    return wrap(text, width, first=f"  {percent(share):>6}  ", rest="          ")


def _name(part: IdlePart) -> str:
    return clean(" in ".join(each for each in (part.name, part.place) if each))


def _communication(device: DeviceProfile, width: int) -> list[StyledLine]:
    if device.communication_share < SHOWN_FROM:
        return []
    hidden = device.communication_share - device.exposed_share
    shown = [one for one in device.collectives if one.exposed_share >= SHOWN_FROM]
    kinds = ", ".join(f"{one.kind} {percent(one.exposed_share)}" for one in shown)
    alone = f"busy with communication alone (exposed{f': {kinds}' if kinds else ''})"
    text = f"{alone}; {percent(hidden)} more is hidden behind other kernels"
    return _row(device.exposed_share, text, width)


def _kernels(device: DeviceProfile) -> str:
    if device.mean_kernel_us is None:
        return "none"
    groups = [group for group in device.kernels if group.share >= SHOWN_FROM][:MOST_GROUPS]
    shares = ", ".join(f"{group.kind} {percent(group.share)}" for group in groups)
    return f"{device.kernels_per_step:,.0f} a step, {device.mean_kernel_us:.0f} us each; {shares}"


def _copies(device: DeviceProfile) -> str:
    shown = [copy for copy in device.copies if copy.ms >= SHOWN_FROM * device.step_ms]
    return ", ".join(f"{clean(copy.kind)} {step_time(copy.ms)} in {copy.per_step:g} a step" for copy in shown)


def _syncs(device: DeviceProfile) -> str:
    rows = sorted(device.syncs, key=lambda sync: -sync.ms)[:MOST_PLACES]
    words = []
    for sync in rows:
        by = f"{sync.operator} ({sync.name})" if sync.operator else sync.name
        place = f" in {sync.place}" if sync.place else ""
        words.append(clean(f"{by}{place}, {sync.per_step:g} a step, {step_time(sync.ms)}"))
    return "; ".join(words)
