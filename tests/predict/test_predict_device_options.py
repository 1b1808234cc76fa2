"""The options table from facts: its rows, what it assumes, and when there is none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune.catalogue.devices import CUDA_CONTEXT, Device, asked
from autotune.fit.budget import MeasuredBudget, need
from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.finding import Gain
from autotune.model.outlook import Comparison, MemoryBudget, MemoryPart, ValueRange
from autotune.model.report import Step
from autotune.predict import memory_budget as of
from autotune.predict.device_options import DeviceRequest, compare

MB = 10**6
SIZES = {of.WEIGHTS: 100, of.GRADIENTS: 100, of.OPTIMIZER: 200, of.ACTIVATIONS: 500, of.CACHE: 0, of.HEADROOM: 100}
BUDGET = MemoryBudget(
    tuple(MemoryPart(name, mb * MB, "modelled", "") for name, mb in SIZES.items()), 900 * MB, 1000 * MB, True
)
STEP = Step(30, 120.0, 120.0, 130.0, {"forward": 40.0, "backward": 80.0})
H100 = asked("h100-80")
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
    here: Device | None = H100,
) -> Comparison:
    known = Evidence({RUN: FACTS | (facts or {}), "loader#train": {"loader.batch_size": 2}})
    return compare(known, step, budget, gain, wanted or DeviceRequest(2), price, here)


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


IN_BF16: dict[str, Value] = {"train.precision": "bf16-mixed", "device.busy_share": 0.75}
A100 = DeviceRequest(cards=(asked("a100-80"),))


def test_one_card_of_another_kind_takes_the_share_of_the_device_longer() -> None:
    found = table(IN_BF16, wanted=A100)
    assert [row.name for row in found.setups] == ["1, as it is", "1, tuned", "1, a100-80"]
    row = found.setups[2]
    # 90 of 120 ms are the device's: by the bandwidths and by the rates of bf16.
    assert row.step == ValueRange(pytest.approx(30 + 90 * 3350 / 2039), pytest.approx(30 + 90 * 989.4 / 312), "assumed")
    assert row.memory == ValueRange(900 * MB + CUDA_CONTEXT[0], 900 * MB + CUDA_CONTEXT[1], "modelled")
    assert (row.fits, row.usd_per_hour) == (True, None)
    assert any("ratios of peaks, rates and bandwidths of H100" in text for text in found.assumptions)
    assert "this run reaches the same shares of its peaks on both cards" in found.assumptions


def test_what_the_device_does_not_do_stays_on_another_card() -> None:
    step = replace(STEP, run_ms=130.0)
    (row,) = table(IN_BF16 | {"device.busy_share": 0.0}, gain=None, wanted=A100, step=step).setups[1:]
    assert row.step == ValueRange(130.0, 130.0, "assumed")


def test_steps_of_the_whole_run_are_scaled_where_the_window_had_a_rare_evaluation() -> None:
    """120 of the window's 200 ms are an evaluation that is rare: a step of the whole run takes 81 ms."""
    step = replace(STEP, mean_ms=200.0, run_ms=81.0)
    facts = IN_BF16 | {"device.busy_share": 0.9}
    found = table(facts, gain=None, wanted=DeviceRequest(cards=(H100,)), step=step, here=A100.cards[0])
    row = found.setups[1].step
    assert (row.low, row.high) == (pytest.approx(8.1 + 72.9 * 312 / 989.4), pytest.approx(8.1 + 72.9 * 2039 / 3350))
    assert "the device is as busy in saves and evaluations as in the steps between them" in found.assumptions


def test_without_the_share_of_the_device_it_may_be_nothing_or_all() -> None:
    known: dict[str, Value] = {"train.precision": "bf16-mixed"}
    found = table(known, gain=None, wanted=A100)
    assert found.setups[1].step == ValueRange(120.0, pytest.approx(120 * 989.4 / 312), "assumed")
    assert any("share of the step is not known" in text for text in found.assumptions)


T4 = DeviceRequest(cards=(asked("t4"),))
IN_FP16 = IN_BF16 | {"train.precision": "fp16-mixed"}


def reserved(gib: float, cache_gib: float = 0.0) -> MemoryBudget:
    """A peak of so much reserved memory, of which `cache_gib` were in use by nothing."""
    of_cache = MemoryPart(of.CACHE, int(cache_gib * 2**30), "measured", "")
    rest = tuple(part for part in BUDGET.parts if part.name != of.CACHE)
    return MemoryBudget((*rest, of_cache), int(gib * 2**30), 80 * 2**30, True)


@pytest.mark.parametrize(
    ("peak_gib", "cache_gib", "fits"), [(13, 0, True), (13.5, 0, None), (15, 0, False), (15, 2, None), (17, 2, False)]
)
def test_a_card_holds_the_peak_and_the_context(peak_gib: float, cache_gib: float, fits: bool | None) -> None:
    row = table(IN_FP16, gain=None, wanted=T4, budget=reserved(peak_gib, cache_gib)).setups[1]
    assert (row.fits, row.limit_bytes) == (fits, asked("t4").memory_bytes)


def test_what_a_card_needs_is_what_fit_says_of_the_same_run() -> None:
    budget = reserved(15, 2)
    row = table(IN_FP16, gain=None, wanted=T4, budget=budget).setups[1]
    assert row.memory == ValueRange(*of.card_need(budget), "modelled")
    of_fit = need(MeasuredBudget((), budget, 4, ()), 4)
    assert of.card_need(budget) == (of_fit.low, of_fit.high)


def test_an_unknown_precision_may_be_one_that_the_card_does_not_have() -> None:
    known: dict[str, Value] = {"device.busy_share": 0.75}
    row = table(known, gain=None, wanted=T4).setups[1]
    assert (row.fits, row.risk) == (None, "the card has no bf16, and the precision of this run is not known")
    assert table(known, gain=None, wanted=T4, budget=reserved(17)).setups[1].fits is False
    assert table(known, gain=None, wanted=A100).setups[1].fits is True


def test_rows_of_cards_stay_where_the_batch_cannot_be_split() -> None:
    found = table(IN_BF16, gain=None, wanted=DeviceRequest(3, cards=A100.cards))
    assert [row.name for row in found.setups] == ["1, as it is", "1, a100-80"]
    assert found.assumptions[0] == "not in the table: a global batch of 8 cannot be split evenly over 3 devices"
    neither = table(wanted=DeviceRequest(3, cards=A100.cards), here=None).why_not
    assert "none of the listed ones" in neither and "cannot be split" in neither


def test_bf16_is_not_said_to_fit_on_a_card_without_it() -> None:
    row = table(IN_BF16, gain=None, wanted=DeviceRequest(cards=(asked("t4"),))).setups[1]
    assert (row.fits, row.risk) == (None, "the card has no bf16")


def test_other_cards_stand_beside_several_devices() -> None:
    found = table(IN_BF16, gain=None, wanted=DeviceRequest(2, cards=A100.cards))
    assert [row.num_devices for row in found.setups] == [1, 1, 2, 2, 2]
    assert found.setups[2:] == table(IN_BF16, gain=None).setups[1:]


def test_from_a_device_that_is_not_listed_no_card_is_compared() -> None:
    assert "this device is none of the listed ones" in table(wanted=A100, here=None).why_not
    both = table(gain=None, wanted=DeviceRequest(2, cards=A100.cards), here=None)
    assert [row.num_devices for row in both.setups] == [1, 2, 2, 2]
    assert any("this device is none of the listed ones" in text for text in both.assumptions)
