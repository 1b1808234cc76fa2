"""The options table: this device as it is and tuned, other cards, and k devices in three ways. What to try, never a
promise."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue import frameworks
from autotune.catalogue.devices import Device
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.model.outlook import Comparison, DeviceSetup, MemoryBudget, ValueRange
from autotune.model.report import STEPS_WITHOUT_LENGTH, Step
from autotune.predict import data_parallel, memory_budget, roofline
from autotune.predict.data_parallel import Devices, DeviceShare, ParallelStrategy
from autotune.predict.gain_inputs import TRAIN, number

GPU_GB_PER_S, HOST_GB_PER_S = 20.0, 1.25
"""Assumed unless told: GPUs of one machine over PCIe 4.0 without NVLink; machines over 10 Gbit/s Ethernet."""

_EFFORT_RAW = "in the script: the wrapper, a DistributedSampler, saves on rank 0"


class DeviceRequest(Struct, frozen=True):
    """How many devices, and which other cards. `gb_per_s` between devices and USD per hour of each are None where they
    are to be assumed."""

    num_devices: int = 1
    gb_per_s: float | None = None
    device_price: float | None = None
    cards: tuple[Device, ...] = ()


class ScaledRun(Struct, frozen=True):
    """What the rows of several devices are made of."""

    devices: Devices
    part: DeviceShare
    micro_batch: int
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
    here: Device | None = None,
) -> Comparison:
    """The table for `wanted`. `gain` is of what leaves training unchanged, `price` USD per hour of this machine, `here`
    the card that the run was measured on: None where it trained on the host, or where the card is not listed.

    Its steps, and `gain`, are of the whole run: with saves and evaluations at their intervals, where these are known.
    """
    if step is None or budget is None:
        return Comparison(why_not="no step or no peak of memory was measured")
    if number(evidence, RUN, "run.world_size") != 1:
        return Comparison(
            why_not="only a run with one process can be scaled; this one has several, or their number is unknown"
        )
    others: tuple[DeviceSetup, ...] = ()
    shared: tuple[DeviceSetup, ...] = ()
    assumptions: list[str] = []
    left_out: list[str] = []
    if wanted.cards and here is None:
        left_out.append(_NO_CARD)
    elif wanted.cards and here is not None:
        others = tuple(_other(card, here, evidence, step, budget) for card in wanted.cards)
        assumptions += _assumptions_of_cards(here, evidence)
    if wanted.num_devices > 1:
        run = _scaled(evidence, step, budget, wanted, price)
        if isinstance(run, str):
            left_out.append(run)
        else:
            shared = tuple(_shared(kind, run) for kind in data_parallel.KINDS)
            assumptions += _assumptions(run, wanted)
    if left_out and not others and not shared:
        return Comparison(why_not="; ".join(left_out))
    return Comparison(
        setups=(*_one_device(step, budget, gain, price), *others, *shared),
        steps=round(number(evidence, RUN, "run.num_planned_steps") or STEPS_WITHOUT_LENGTH),
        assumptions=(*(f"not in the table: {why}" for why in left_out), *assumptions, *_assumptions_of_all(step)),
    )


def _scaled(
    evidence: Evidence, step: Step, budget: MemoryBudget, wanted: DeviceRequest, price: float | None
) -> ScaledRun | str:
    """What the rows of several devices are made of, or why there are none."""
    num_devices = wanted.num_devices
    size, count = number(evidence, TRAIN, "loader.batch_size"), number(evidence, RUN, "train.accumulation_steps")
    if not size or not count or budget.of(memory_budget.GRADIENTS) is None:
        return "the micro-batch, the accumulation steps or the gradients' size is not known"
    part = data_parallel.split_step(round(size), round(count), num_devices)
    if part is None:
        return f"a global batch of {size * count:g} cannot be split evenly over {num_devices} devices"
    gb_per_s = wanted.gb_per_s or (GPU_GB_PER_S if budget.on_device else HOST_GB_PER_S)
    return ScaledRun(
        devices=Devices(num_devices, gb_per_s * 1e9),
        part=part,
        micro_batch=round(size),
        step=replace(step, mean_ms=step.run_ms or step.mean_ms),
        budget=budget,
        fixed_share=number(evidence, RUN, "batch_curve.fixed_share"),
        usd_per_hour=_usd_per_hour(evidence, wanted.device_price, num_devices, price),
        effort=_effort(str(evidence.lookup(RUN, "run.framework"))),
    )


def _kind(evidence: Evidence) -> str | None:
    """The type of the numbers of the products; None where the precision is not known."""
    precision = str(evidence.lookup(RUN, "train.precision")).removesuffix("-mixed")
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(precision)


def _other(card: Device, here: Device, evidence: Evidence, step: Step, budget: MemoryBudget) -> DeviceSetup:
    """The same run on one card of another kind: what the device does is scaled by ratios of peaks, the host stays.

    Where the device's share of the step is not known it may be nothing or all.
    """
    kind, busy, base = _kind(evidence), number(evidence, RUN, "device.busy_share"), step.run_ms or step.mean_ms
    best, worst = roofline.times_as_long(roofline.KINDS if kind is None else (kind,), here, card)
    least, most = (min(1.0, best), max(1.0, worst)) if busy is None else (best, worst)
    scaled = base * (1.0 if busy is None else min(1.0, busy))
    rest = base - scaled
    memory = ValueRange(*memory_budget.card_need(budget), "modelled")
    fits = _fits(memory, card.memory_bytes)
    may_lack = card.bf16 is None and kind in (None, "bfloat16")
    which = "bf16, and the precision of this run is not known" if kind is None else "bf16"
    return DeviceSetup(
        name=f"1, {card.name}",
        num_devices=1,
        memory=memory,
        exposed=ValueRange(0.0, 0.0, "measured"),
        step=ValueRange(rest + scaled * least, rest + scaled * most, "assumed"),
        usd_per_hour=None,
        effort="a machine with that card",
        risk=f"the card has no {which}" if may_lack else "other kernels there",
        fits=None if fits and may_lack else fits,
        limit_bytes=card.memory_bytes,
    )


def _fits(memory: ValueRange | None, limit: int | None) -> bool | None:
    """None between the ends, and where one of the two is not known."""
    if memory is None or limit is None:
        return None
    return True if memory.high <= limit else False if memory.low > limit else None


_NO_CARD = "other cards cannot be compared, as this device is none of the listed ones (fit plans without one)"


def _assumptions_of_cards(here: Device, evidence: Evidence) -> Iterator[str]:
    yield f"other cards by ratios of peaks, rates and bandwidths of {here.title} and theirs, with this host"
    yield "this run reaches the same shares of its peaks on both cards"
    if number(evidence, RUN, "device.busy_share") is None:
        yield "the device's share of the step is not known: other cards may change none or all of it"
    else:
        yield "the device is as busy in saves and evaluations as in the steps between them"


def _assumptions_of_all(step: Step) -> Iterator[str]:
    yield "all rows use the untuned run: tuning comes on top"
    if step.run_ms is None:
        yield "saves and evaluations come as often as in the measured steps"


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
        fits=_fits(memory, limit),
        limit_bytes=limit,
    )


def _usd_per_hour(
    evidence: Evidence, device_price: float | None, num_devices: int, price: float | None
) -> float | None:
    """Of all devices: as told, or this machine's price by its GPUs, but for no less than the machine."""
    if device_price is not None:
        return device_price * num_devices
    num_gpus = number(evidence, RUN, "machine.num_gpus") or 1.0
    return None if price is None else max(price, price * num_devices / num_gpus)


def _assumptions(run: ScaledRun, wanted: DeviceRequest) -> Iterator[str]:
    told = "as told" if wanted.gb_per_s else "assumed; --bandwidth"
    yield f"{run.devices.bytes_per_s / 1e9:g} GB/s between devices, no latency ({told})"
    if run.usd_per_hour is not None:
        told = "as told" if wanted.device_price is not None else "assumed from --price; --device-price"
        yield f"${run.usd_per_hour:,.2f} per hour for all {run.devices.num} ({told})"
    yield f"the global batch stays: {run.part.count} x {run.micro_batch * run.part.of_size:g} samples on each"
    yield "each device has a loader and CPU cores of its own, as this one"
