"""The options table: this device as it is and tuned, and k devices in three ways. What to try, never a promise."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue import frameworks
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.model.outlook import Comparison, DeviceSetup, MemoryBudget, ValueRange
from autotune.model.report import STEPS_WITHOUT_LENGTH, Step
from autotune.predict import data_parallel, memory_budget
from autotune.predict.data_parallel import Devices, DeviceShare, ParallelStrategy
from autotune.predict.gain_inputs import TRAIN, number

GPU_GB_PER_S, HOST_GB_PER_S = 20.0, 1.25
"""Assumed unless told: GPUs of one machine over PCIe 4.0 without NVLink; machines over 10 Gbit/s Ethernet."""

_EFFORT_RAW = "in the script: the wrapper, a DistributedSampler, saves on rank 0"


class DeviceRequest(Struct, frozen=True):
    """How many devices. `gb_per_s` between them and USD per hour of each are None where they are to be assumed."""

    num_devices: int
    gb_per_s: float | None = None
    device_price: float | None = None


class ScaledRun(Struct, frozen=True):
    """What the rows of several devices are made of."""

    devices: Devices
    part: DeviceShare
    step: Step
    budget: MemoryBudget
    fixed_share: float | None
    usd_per_hour: float | None
    effort: str


def compare(
    evidence: Evidence,
    step: Step | None,
    budget: MemoryBudget | None,
    gain: Gain | None,
    wanted: DeviceRequest,
    price: float | None,
) -> Comparison:
    """The table for `wanted`. `gain` is of what leaves training unchanged, `price` USD per hour of this machine.

    Its steps, and `gain`, are of the whole run: with saves and evaluations at their intervals, where these are known.
    """
    if step is None or budget is None:
        return Comparison(why_not="no step or no peak of memory was measured")
    if number(evidence, RUN, "run.world_size") != 1:
        return Comparison(
            why_not="only a run with one process can be scaled; this one has several, or their number is unknown"
        )
    size, count = number(evidence, TRAIN, "loader.batch_size"), number(evidence, RUN, "train.accumulation_steps")
    if not size or not count or budget.of(memory_budget.GRADIENTS) is None:
        return Comparison(why_not="the micro-batch, the accumulation steps or the gradients' size is not known")
    part = data_parallel.split_step(round(size), round(count), wanted.num_devices)
    if part is None:
        why = f"a global batch of {size * count:g} cannot be split evenly over {wanted.num_devices} devices"
        return Comparison(why_not=why)
    gb_per_s = wanted.gb_per_s or (GPU_GB_PER_S if budget.on_device else HOST_GB_PER_S)
    run = ScaledRun(
        devices=Devices(wanted.num_devices, gb_per_s * 1e9),
        part=part,
        step=replace(step, mean_ms=step.run_ms or step.mean_ms),
        budget=budget,
        fixed_share=number(evidence, RUN, "batch_curve.fixed_share"),
        usd_per_hour=_usd_per_hour(evidence, wanted, price),
        effort=_effort(str(evidence.lookup(RUN, "run.framework"))),
    )
    return Comparison(
        setups=(*_one_device(step, budget, gain, price), *(_shared(kind, run) for kind in data_parallel.KINDS)),
        steps=round(number(evidence, RUN, "run.num_planned_steps") or STEPS_WITHOUT_LENGTH),
        assumptions=tuple(_assumptions(run, wanted, gb_per_s, round(size))),
    )


def _effort(name: str) -> str:
    """What the user of a framework does to train on more devices."""
    return next((one.more_devices for one in frameworks.chain(name) if one.more_devices), _EFFORT_RAW)


def _one_device(step: Step, budget: MemoryBudget, gain: Gain | None, price: float | None) -> Iterator[DeviceSetup]:
    ms = step.run_ms or step.mean_ms
    none, now = ValueRange(0.0, 0.0, "measured"), ValueRange(ms, ms, "measured" if ms == step.mean_ms else "modelled")
    memory = ValueRange(budget.peak_bytes, budget.peak_bytes, "measured")
    yield DeviceSetup("1, as it is", 1, memory, none, now, price, "none", "none", fits=True)
    if gain is not None:
        then = ValueRange(ms / gain.high, ms / gain.low, "modelled")
        risk = f"training unchanged{', a best case' if gain.basis == 'bound' else ''}; verify measures it"
        yield DeviceSetup("1, tuned", 1, None, none, then, price, "autotune apply", risk)


def _shared(kind: ParallelStrategy, run: ScaledRun) -> DeviceSetup:
    memory = data_parallel.memory(kind, run.devices, run.part, run.budget)
    exposed = data_parallel.exposed_communication_ms(kind, run.devices, run.part, run.budget, run.step)
    best, worst = data_parallel.computed_ms(kind, run.devices, run.part, run.step, run.fixed_share)
    limit = run.budget.limit_bytes
    return DeviceSetup(
        name=f"{run.devices.num}, {kind.name}",
        num_devices=run.devices.num,
        memory=memory,
        exposed=exposed,
        step=ValueRange(best + exposed.low, worst + exposed.high, "assumed"),
        usd_per_hour=run.usd_per_hour,
        effort=run.effort + kind.effort,
        risk=kind.risk,
        fits=memory.high <= limit if memory and limit else None,
    )


def _usd_per_hour(evidence: Evidence, wanted: DeviceRequest, price: float | None) -> float | None:
    """Of all devices: as told, or this machine's price by its GPUs, but for no less than the machine."""
    if wanted.device_price is not None:
        return wanted.device_price * wanted.num_devices
    num_gpus = number(evidence, RUN, "machine.num_gpus") or 1.0
    return None if price is None else max(price, price * wanted.num_devices / num_gpus)


def _assumptions(run: ScaledRun, wanted: DeviceRequest, gb_per_s: float, size: int) -> Iterator[str]:
    told = "as told" if wanted.gb_per_s else "assumed; --bandwidth"
    yield f"{gb_per_s:g} GB/s between devices, no latency ({told})"
    if run.usd_per_hour is not None:
        told = "as told" if wanted.device_price is not None else "assumed from --price; --device-price"
        yield f"${run.usd_per_hour:,.2f} per hour for all {wanted.num_devices} ({told})"
    yield f"the global batch stays: {run.part.count} x {size * run.part.of_size:g} samples on each"
    yield "each device has a loader and CPU cores of its own, as this one"
    yield "all rows use the untuned run: tuning comes on top"
    if run.step.run_ms is None:
        yield "saves and evaluations come as often as in the measured steps"
