"""The options table from facts: its rows, what it assumes, and when there is none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.finding import Gain
from autotune.model.outlook import Comparison, MemoryBudget, MemoryPart, ValueRange
from autotune.model.report import Step
from autotune.predict import memory_budget as of
from autotune.predict.device_options import DeviceRequest, compare

MB = 10**6
SIZES = {of.WEIGHTS: 100, of.GRADIENTS: 100, of.OPTIMIZER: 200, of.ACTIVATIONS: 500, of.HEADROOM: 100}
BUDGET = MemoryBudget(
    tuple(MemoryPart(name, mb * MB, "modelled", "") for name, mb in SIZES.items()), 900 * MB, 1000 * MB, True
)
STEP = Step(30, 120.0, 120.0, 130.0, {"forward": 40.0, "backward": 80.0})
GAIN = Gain(1.5, 1.2, 2.0, "modelled")
FACTS: dict[str, Value] = {
    "run.world_size": 1,
    "train.accumulation_steps": 4,
    "run.framework": "hf_trainer",
    "run.num_planned_steps": 5000,
    "batch_curve.fixed_share": 0.1,
}


def table(
    facts: dict[str, Value] | None = None,
    gain: Gain | None = GAIN,
    wanted: DeviceRequest | None = None,
    price: float | None = 3.0,
    budget: MemoryBudget | None = BUDGET,
    step: Step = STEP,
) -> Comparison:
    known = Evidence({RUN: FACTS | (facts or {}), "loader#train": {"loader.batch_size": 2}})
    return compare(known, step, budget, gain, wanted or DeviceRequest(2), price)


def test_the_rows() -> None:
    found = table()
    assert [row.name for row in found.setups] == ["1, as it is", "1, tuned", "2, DDP", "2, ZeRO-2", "2, FSDP (ZeRO-3)"]
    assert found.steps == 5000
    now, tuned, ddp, *_ = found.setups
    assert (now.step, now.memory, now.exposed) == (
        ValueRange(120.0, 120.0, "measured"),
        ValueRange(900 * MB, 900 * MB, "measured"),
        ValueRange(0.0, 0.0, "measured"),
    )
    assert tuned.step == ValueRange(60.0, 100.0, "modelled")
    assert tuned.memory is None
    assert ddp.exposed is not None
    assert ddp.step == ValueRange(60 + ddp.exposed.low, 60 + ddp.exposed.high, "assumed")
    assert ddp.effort == "start it with torchrun"


@pytest.mark.parametrize(("run_ms", "basis"), [(120.0, "measured"), (126.0, "modelled")])
def test_steps_are_those_of_the_whole_run(run_ms: float, basis: str) -> None:
    now, tuned, ddp, *_ = table(step=replace(STEP, run_ms=run_ms)).setups
    assert (now.step, now.step.basis) == (ValueRange(run_ms, run_ms, basis), basis)
    assert tuned.step == ValueRange(run_ms / 2, run_ms / 1.2, "modelled")
    assert ddp.exposed is not None
    assert ddp.step.low == pytest.approx(run_ms - 60 + ddp.exposed.low)


def test_where_saves_are_as_in_the_window_it_is_an_assumption() -> None:
    said = "saves and evaluations come as often as in the measured steps"
    assert said in table().assumptions
    assert said not in table(step=replace(STEP, run_ms=120.0)).assumptions


def test_a_bound_is_told_as_a_best_case() -> None:
    assert table(gain=Gain(1.5, 1.0, 1.5, "bound")).setups[1].risk == (
        "training unchanged, a best case; verify measures it"
    )
    assert table().setups[1].risk == "training unchanged; verify measures it"


def test_without_a_gain_there_is_no_tuned_row() -> None:
    assert [row.num_devices for row in table(gain=None).setups] == [1, 2, 2, 2]


def test_what_does_not_fit_is_told() -> None:
    """DDP's buckets hold the gradients once more; whatever is sharded fits."""
    assert [row.fits for row in table().setups] == [True, None, True, True, True]
    small = MemoryBudget(BUDGET.parts, BUDGET.peak_bytes, 950 * MB, True)
    assert [row.fits for row in table(budget=small).setups][2:] == [False, True, True]


def test_every_assumption_is_printed_and_can_be_told() -> None:
    assumed, told = table(), table(wanted=DeviceRequest(2, 100.0, 4.0))
    assert assumed.assumptions[:3] == (
        "20 GB/s between devices, no latency (assumed; --bandwidth)",
        "$6.00 per hour for all 2 (assumed from --price; --device-price)",
        "the global batch stays: 2 x 2 samples on each",
    )
    assert told.assumptions[:2] == (
        "100 GB/s between devices, no latency (as told)",
        "$8.00 per hour for all 2 (as told)",
    )
    slow, fast = assumed.setups[2].exposed, told.setups[2].exposed
    assert slow and fast
    assert slow.high == pytest.approx(5 * fast.high)


@pytest.mark.parametrize(("num_gpus", "price"), [(1, 6.0), (2, 3.0), (8, 3.0)])
def test_a_machine_that_has_the_devices_costs_no_more(num_gpus: int, price: float) -> None:
    assert table({"machine.num_gpus": num_gpus}).setups[2].usd_per_hour == price


def test_without_a_price_there_is_no_cost() -> None:
    found = table(price=None)
    assert {row.usd_per_hour for row in found.setups} == {None}
    assert not any("$" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("facts", "wanted", "why"),
    [
        ({"run.world_size": 2}, DeviceRequest(2), "only a run with one process can be scaled"),
        ({}, DeviceRequest(3), "a global batch of 8 cannot be split evenly over 3 devices"),
        ({"train.accumulation_steps": 0}, DeviceRequest(2), "not known"),
    ],
)
def test_why_there_is_none(facts: dict[str, Value], wanted: DeviceRequest, why: str) -> None:
    found = table(facts, wanted=wanted)
    assert not found.setups
    assert why in found.why_not


def test_without_memory_there_is_none() -> None:
    assert table(budget=None).why_not
