from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

import autotune.predict
from autotune.catalogue import what_ifs
from autotune.model.evidence import RUN, Evidence, Setting
from autotune.model.finding import Gain
from autotune.model.rule import GainSpec
from autotune.predict import WHAT_IFS, combine, predict, target

LOADER = "loader#train"
READ = re.compile(r"""arguments(?:\[|\.get\()["'](\w+)|"(\w+)" (?:not )?in arguments""")


def evidence(**facts) -> Evidence:
    """Facts by name with "__" for the dot; those of the loader belong to loader#train."""
    named = {name.replace("__", ".", 1): value for name, value in facts.items() if value is not None}
    of_loader = {name: value for name, value in named.items() if name.startswith("loader.")}
    accumulation = named.pop("train.accumulation_steps", None)
    settings = {}
    if accumulation is not None:
        key = (RUN, "train.accumulation_steps")
        settings[key] = Setting(key[1], RUN, accumulation, "observed")
    return Evidence({RUN: {n: v for n, v in named.items() if n not in of_loader}, LOADER: of_loader}, settings)


def gain(name, arguments, **facts):
    return predict(GainSpec(name, arguments), evidence(**facts), LOADER)


removed = partial(gain, "share_removed")


@pytest.mark.parametrize(
    ("arguments", "facts", "speedup"),
    [
        pytest.param({"share": "step.recompute_share"}, {"step__recompute_share": 0.2}, 1.25, id="a share"),
        pytest.param(
            {"share": "loader.pad_share", "of": "step.compute_share"},
            {"loader__pad_share": 0.5, "step__compute_share": 0.4},
            1.25,
            id="of a part",
        ),
        pytest.param(
            {"share": "loader.pad_share", "left": "loader.dynamic_pad_share"},
            {"loader__pad_share": 0.6, "loader__dynamic_pad_share": 0.2},
            2.0,
            id="padding that stays: 0.4 useful of 1 against 0.8 useful of 1",
        ),
        pytest.param({"share": "step.other_share"}, {}, None, id="unknown"),
        pytest.param(
            {"share": "loader.pad_share", "of": "step.compute_share"},
            {"loader__pad_share": 0.5},
            None,
            id="part unknown",
        ),
        pytest.param({"share": "step.other_share"}, {"step__other_share": 0.0}, None, id="nothing to remove"),
        pytest.param({"share": "step.other_share"}, {"step__other_share": 1.0}, None, id="everything"),
        pytest.param({"share": "step.other_share"}, {"step__other_share": True}, None, id="no number"),
        pytest.param(
            {"share": "loader.pad_share", "left": "loader.dynamic_pad_share"},
            {"loader__pad_share": 0.2, "loader__dynamic_pad_share": 0.3},
            None,
            id="it would get worse",
        ),
    ],
)
def test_share_removed(arguments, facts, speedup):
    found = removed(arguments, **facts)
    assert (found and (found.speedup, found.low, found.high, found.basis)) == (
        speedup and (pytest.approx(speedup), 1.0, pytest.approx(speedup), "bound")
    )


def test_what_goes_away_as_a_whole_is_no_bound():
    found = removed({"share": "step.recompute_share", "all": "true"}, step__recompute_share=0.2)
    assert (found.speedup, found.basis) == (pytest.approx(1.25), "modelled")
    assert found.low < 1.25 < found.high
    noisy = {"step__recompute_share": 0.2, "step__noise_share": 0.2}
    assert removed({"share": "step.recompute_share", "all": "true"}, **noisy).low < found.low


@pytest.mark.parametrize(("planned", "saved"), [(10_000, 200.0), (None, None)])
def test_saved_seconds_need_a_planned_run(planned, saved):
    facts = {"step__recompute_share": 0.2, "run__num_planned_steps": planned, "step__mean_ms": 100.0}
    found = removed({"share": "step.recompute_share"}, **facts)
    assert found.saved_s == (None if saved is None else pytest.approx(saved))


WITH_A_RARE_SAVE = {
    "step__mean_ms": 400.0,
    "step__recompute_share": 0.05,
    "run__num_planned_steps": 1000,
    "run__planned_s": 110.0,
    "checkpoint__cost_share": 10 / 110,
}
"""Steps of 100 ms and a save of 10 s, which comes every 1,000 steps and fell into a window of 33."""


def test_a_share_of_the_window_and_one_of_the_run_save_what_they_are_of():
    recompute = removed({"share": "step.recompute_share"}, **WITH_A_RARE_SAVE)
    assert recompute.saved_s == pytest.approx(20.0)
    saves = gain("amortised", {"cost": "checkpoint", "factor": "2"}, **WITH_A_RARE_SAVE)
    # 105 s do the work of 110.
    assert saves.saved_s == pytest.approx(110 * (1 - (100 / 110) / (10 / 10.5)))
    together = combine([("recompute", recompute), ("checkpoint", saves)], evidence(**WITH_A_RARE_SAVE))
    assert together.saved_s == pytest.approx(recompute.saved_s + saves.saved_s)


def test_rarer_saves_save_nothing_known_of_a_run_of_unknown_time():
    facts = WITH_A_RARE_SAVE | {"run__planned_s": None}
    assert gain("amortised", {"cost": "checkpoint"}, **facts).saved_s is None
    assert removed({"share": "step.recompute_share"}, **facts).saved_s == pytest.approx(20.0)


WAITING = {
    "loader__wait_share": 0.6,
    "step__mean_ms": 100.0,
    "step__noise_share": 0.02,
    "replay__step_ms": 50.0,
    "replay__low_ms": 48.0,
    "replay__high_ms": 52.0,
}
ceiling = partial(gain, "measured_ceiling", {"share": "loader.wait_share"})


def test_a_measured_ceiling():
    found = ceiling(**WAITING)
    assert found.basis == "measured"
    assert (found.speedup, found.low, found.high) == pytest.approx((2.0, 100 / (52 * 1.02), 100 / (48 * 0.98)))


@pytest.mark.parametrize(
    ("changed", "speedup", "high"),
    [
        pytest.param(
            {"replay__step_ms": 30.0, "replay__low_ms": 30.0}, 2.5, 2.5 / 0.98, id="not beyond the wait itself"
        ),
        pytest.param({"step__logging_share": 0.1}, 100 / 60, 100 / (58 * 0.98), id="logging goes on"),
        pytest.param(
            {"step__checkpoint_share": 0.05, "step__evaluation_share": 0.05},
            100 / 60,
            100 / (58 * 0.98),
            id="so do saves",
        ),
    ],
)
def test_what_bounds_the_ceiling(changed, speedup, high):
    found = ceiling(**WAITING | changed)
    assert (found.speedup, found.high, found.basis) == (pytest.approx(speedup), pytest.approx(high), "measured")


def test_a_replay_that_is_no_faster_promises_nothing():
    assert ceiling(**WAITING | {"replay__step_ms": 101.0, "replay__high_ms": 103.0}).speedup < 1
    assert ceiling(**WAITING | {"loader__wait_share": None}) is None


@pytest.mark.parametrize("missing", ["replay__step_ms", "replay__low_ms", "step__noise_share"])
def test_without_a_replay_it_is_a_bound(missing):
    found = ceiling(**WAITING | {missing: None})
    assert (found.speedup, found.low, found.basis) == (pytest.approx(2.5), 1.0, "bound")


@pytest.mark.parametrize(
    ("arguments", "share", "speedup"),
    [
        pytest.param({"cost": "checkpoint"}, 0.109, 0.99 / 0.891, id="down to 1 %"),
        pytest.param({"cost": "checkpoint", "target": "0.02"}, 0.02, None, id="at the target"),
        pytest.param({"cost": "checkpoint", "target": "0.02"}, 0.51, 2.0, id="a target"),
        pytest.param({"cost": "checkpoint", "factor": "4"}, 0.2, 20 / 17, id="4 x 80 + 20: 16 + 1 instead of 16 + 4"),
        pytest.param({"cost": "evaluation"}, None, None, id="unknown"),
    ],
)
def test_amortised(arguments, share, speedup):
    facts = {f"{arguments['cost']}__cost_share": share, "step__noise_share": 0.05}
    found = gain("amortised", arguments, **facts)
    assert (found and (found.speedup, found.basis)) == (speedup and (pytest.approx(speedup), "modelled"))
    assert found is None or 1.0 <= found.low < found.speedup < found.high


def test_a_save_that_takes_longer_than_the_one_that_was_seen():
    found = gain("amortised", {"cost": "checkpoint", "factor": "4"}, checkpoint__cost_share=0.5)
    # Beside a save of 1, steps of 1, of 1.5 and of 0.5: 2 becomes 1.25, 2.5 becomes 1.75, 1.5 becomes 0.75.
    assert (found.speedup, found.low, found.high) == pytest.approx((2 / 1.25, 2.5 / 1.75, 1.5 / 0.75))


CURVE = {
    "step__mean_ms": 400.0,
    "step__optimizer_share": 0.15,
    "step__data_wait_share": 0.05,
    "train__accumulation_steps": 4,
    "batch_curve__fixed_ms": 50.0,
    "batch_curve__per_unit_ms": 5.0,
    "batch_curve__units": 10,
    "batch_curve__error_share": 0.05,
    "loader__doubled_growth_share": 0.0,
}


def test_batch_curve():
    found = gain("batch_curve", {}, **CURVE)
    # Micro-batches are 0.8 of the step, half of that is fixed, and half of it goes; the fit is good to 2 x 0.05.
    assert (found.speedup, found.low, found.high) == pytest.approx((1 / 0.8, 0.75 / 0.84, 1.25 / 0.76))
    assert found.basis == "modelled"


def test_a_micro_batch_four_times_as_large():
    found = gain("batch_curve", {"factor": "4"}, **CURVE)
    # Three of four fixed parts go.
    assert (found.speedup, found.low, found.high) == pytest.approx((1 / 0.7, 0.75 / 0.76, 1.25 / 0.64))
    grown = gain("batch_curve", {"factor": "4"}, **CURVE | {"loader__doubled_growth_share": 0.1})
    assert grown.share == pytest.approx(0.8 * (0.5 * 0.75 - 0.5 * (1.1**2 - 1)))
    assert gain("batch_curve", {"factor": "8"}, **CURVE) is None


def test_the_padding_that_larger_batches_add_is_counted_against_it():
    found = gain("batch_curve", {}, **CURVE | {"loader__doubled_growth_share": 0.2})
    assert found.share == pytest.approx(0.8 * (0.5 * 0.5 - 0.5 * 0.2))


def test_the_noise_of_the_step_counts_too():
    found = gain("batch_curve", {}, **CURVE | {"batch_curve__error_share": 0.0, "step__noise_share": 0.1})
    error = (0.25**2 + 0.1**2) ** 0.5
    assert (found.low, found.high) == pytest.approx(((1 - error) / 0.8, (1 + error) / 0.8))


@pytest.mark.parametrize(
    "changed",
    [
        *({name: None} for name in CURVE if name not in ("step__optimizer_share", "step__data_wait_share")),
        {"train__accumulation_steps": 1},
        pytest.param({"batch_curve__fixed_ms": 0.0, "batch_curve__units": 0}, id="nothing was timed"),
    ],
)
def test_no_batch_curve(changed):
    assert gain("batch_curve", {}, **CURVE | changed) is None


def test_larger_micro_batches_may_gain_nothing():
    assert gain("batch_curve", {}, **CURVE | {"batch_curve__fixed_ms": 0.0}).speedup == 1
    padded = gain("batch_curve", {}, **CURVE | {"loader__doubled_growth_share": 0.51})
    assert padded.low < padded.speedup < 1


def test_a_fit_that_is_all_noise_may_lose():
    found = gain("batch_curve", {}, **CURVE | {"batch_curve__error_share": 0.6})
    assert found.low < 1 < found.speedup
    assert found.high == pytest.approx(1.25 / 0.6)


@pytest.mark.parametrize("name", WHAT_IFS)
def test_without_facts_there_is_no_gain(name):
    arguments = {"share": "loader.wait_share", "left": "loader.dynamic_pad_share", "cost": "checkpoint"}
    assert gain(name, {**arguments, "low": "2", "high": "4", "to": "bf16"}) is None


@pytest.mark.parametrize("name", WHAT_IFS)
def test_a_what_if_reads_the_arguments_that_are_declared_and_no_others(name):
    entry = what_ifs()[name]
    handed_on = name in ("padding", "threads")
    modules = {name, "share_removed"} if handed_on else {name}
    sources = [(Path(autotune.predict.__file__).parent / f"{each}.py").read_text(encoding="utf-8") for each in modules]
    read = {word for source in sources for found in READ.findall(source) for word in found if word}
    declared = {*entry.required, *entry.optional}
    assert declared <= read if handed_on else declared == read


def test_an_unknown_what_if_is_an_error():
    with pytest.raises(KeyError, match="wish"):
        gain("wish", {})


def part(name, share, basis="measured"):
    return name, Gain(1 / (1 - share), 1 / (1 - share / 2), 1 / (1 - share), basis)


@pytest.mark.parametrize(
    ("parts", "compute", "share"),
    [
        pytest.param([("data_wait", 0.3), ("checkpoint", 0.2)], None, 0.5, id="disjoint phases add up"),
        pytest.param([("data_wait", 0.3), ("data_wait", 0.2)], None, 0.3, id="one phase counts once"),
        pytest.param([("compute", 0.4), ("recompute", 0.2)], 0.8, 0.5, id="0.4 + 0.2 less what both would take"),
        pytest.param([("compute", 0.4), ("recompute", 0.2)], None, 0.4, id="unknown overlap: the larger"),
        pytest.param([("compute", 0.4), ("data_wait", 0.2)], 0.8, 0.6, id="compute and waiting are disjoint"),
        pytest.param([("data_wait", 0.7), ("checkpoint", 0.6)], None, 0.99, id="never all of it"),
        pytest.param([("workers", 0.3), ("data_wait", 0.2), ("checkpoint", 0.2)], None, 0.5, id="workers end the wait"),
        pytest.param([("threads", 0.8), ("data_wait", 0.2)], 0.7, 0.84, id="of all that is computed less is left"),
        pytest.param([("cpus", 0.8), ("optimizer", 0.5)], 0.7, 0.9, id="workers and threads shorten each phase"),
    ],
)
def test_combine(parts, compute, share):
    together = combine([part(*each) for each in parts], evidence(step__compute_share=compute))
    assert together.share == pytest.approx(share)
    assert together.low < together.speedup


PACED = {
    "step__mean_ms": 100.0,
    "step__compute_share": 0.9,
    "loader__batches_per_step": 2.0,
    "loader__num_workers": 2,
    "loader__batch_ms": 80.0,
    "loader__alone_batch_ms": 30.0,
}


@pytest.mark.parametrize(
    ("parts", "changed", "share"),
    [
        pytest.param([("compute", 0.5)], {}, 0.5, id="one gain by itself is what it is"),
        pytest.param([("compute", 0.15), ("logging", 0.1)], {}, 0.2, id="2 workers give 2 batches in 80 ms"),
        pytest.param([("compute", 0.15), ("logging", 0.1)], {"loader__num_workers": 0}, 0.25, id="nothing beside"),
        pytest.param([("compute", 0.15), ("logging", 0.1)], {"loader__batch_ms": None}, 0.25, id="pace unknown"),
        pytest.param([("workers", 0.3), ("compute", 0.3)], {}, 0.4, id="more workers: 2 batches in 60 ms"),
        pytest.param([("workers", 0.3), ("data_wait", 0.1), ("compute", 0.3)], {}, 0.6, id="cheaper batches"),
    ],
)
def test_prepared_batches_keep_their_pace(parts, changed, share):
    together = combine([part(*each) for each in parts], evidence(**PACED | changed))
    assert together.share == pytest.approx(share)


def test_the_weakest_basis_holds_and_seconds_follow():
    parts = [part("data_wait", 0.3, "bound"), part("checkpoint", 0.2), part("evaluation", 0.1, "modelled")]
    together = combine(parts, evidence(run__num_planned_steps=1000, step__mean_ms=100.0))
    assert (together.basis, together.saved_s) == ("bound", pytest.approx(60.0))
    assert combine([], evidence()) is None


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("measured_ceiling", {}, "data_wait"),
        ("amortised", {"cost": "evaluation"}, "evaluation"),
        ("workers", {"share": "loader.wait_share"}, "workers"),
        ("batch_curve", {}, "compute"),
        ("padding", {"share": "loader.pad_share", "of": "step.compute_share"}, "compute"),
        ("local_ratio", {"share": "optimizer.step_share"}, "optimizer"),
        ("share_removed", {"share": "loader.pad_share", "of": "step.compute_share"}, "compute"),
        ("share_removed", {"share": "loader.tokenize_share", "of": "loader.wait_share"}, "data_wait"),
        ("share_removed", {"share": "loader.collate_share", "of": "loader.input_share"}, "data_wait"),
        ("share_removed", {"share": "step.recompute_share"}, "recompute"),
        ("share_removed", {"share": "optimizer.step_share"}, "optimizer"),
        ("share_removed", {"share": "device.attention_share", "of": "device.busy_share"}, "compute"),
        ("share_removed", {"share": "calls.gc_share"}, "calls.gc"),
    ],
)
def test_target(name, arguments, expected):
    assert target(GainSpec(name, arguments)) == expected
