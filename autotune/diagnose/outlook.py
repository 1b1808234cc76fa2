"""What lies ahead of a run, asked of predict for one diagnosis."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue.devices import named
from autotune.diagnose.promise import promise
from autotune.model.evidence import RUN
from autotune.model.finding import Gain, Recommendation
from autotune.model.outlook import Comparison, MemoryBudget, Outlook, Payback, ProgressLine, Restart
from autotune.model.recording import Recording
from autotune.model.report import Report
from autotune.predict.device_options import DeviceRequest, compare
from autotune.predict.gain_inputs import number
from autotune.predict.job_position import position
from autotune.predict.memory_budget import memory_budget
from autotune.predict.restart_or_finish import of_run, payback, restart
from autotune.report import gains


class OutlookRequest(Struct, frozen=True):
    """What the user asked for beside the report: `at` is where a running job is, `wanted` the options table."""

    at: ProgressLine | None = None
    wanted: DeviceRequest | None = None


NOTHING = OutlookRequest()


def outlook(report: Report, recordings: Sequence[Recording], asked: OutlookRequest) -> Outlook:
    """The outlook of `report`. What it counts on are the changes that need no decision, all of them together."""
    first = min(recordings, key=lambda one: one.process["rank"])
    limit = number(report.evidence, RUN, "memory.limit_bytes")
    memory = memory_budget(first, None if limit is None else round(limit))
    free = [each for each in gains.ready_to_apply(report) if gains.additional_gain(each) is not None]
    gain, numbers = _together(report, free), [each.number for each in free]
    promised = promise(report, asked.at) if asked.at else None
    # A job that is as fast as expected has the changes: there is nothing to restart it for.
    is_made = promised is not None and promised.result == "kept"
    return Outlook(
        memory=memory,
        payback=_payback(report, gain, numbers),
        promise=promised,
        restart=_restart(report, gain, numbers, asked.at) if asked.at and not is_made else None,
        comparison=_compare(report, first, memory, gain, asked.wanted) if asked.wanted else None,
    )


def _together(report: Report, free: Sequence[Recommendation]) -> Gain | None:
    """The gain of all of them as one of the whole run, with the basis that may be claimed."""
    gain = gains.combine(free)
    if gain is None or report.step is None:
        return gain
    return replace(of_run(gain, report.step), basis=gains.basis(gain, report.step))


def _payback(report: Report, gain: Gain | None, numbers: Sequence[int]) -> Payback | None:
    if gain is None or report.step is None:
        return None
    step_ms, steps = report.step.run_ms, report.run.planned_steps
    if step_ms is None:
        step_ms, steps = report.step.mean_ms, None
    return payback(gain, numbers, step_ms / 1000, steps, report.run.startup_s)


def _restart(report: Report, gain: Gain | None, numbers: Sequence[int], at: ProgressLine) -> Restart:
    where = position(at, report.evidence)
    interval = number(report.evidence, RUN, "checkpoint.interval_steps")
    return restart(where, gain, numbers, report.run.startup_s, round(interval) if interval else None)


def _compare(
    report: Report, first: Recording, memory: MemoryBudget | None, gain: Gain | None, wanted: DeviceRequest
) -> Comparison:
    here = named(first.device["name"]) if first.device is not None else None
    return compare(report.evidence, report.step, memory, gain, wanted, report.price_per_hour, here)
