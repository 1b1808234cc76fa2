from __future__ import annotations

import math

import pytest
from engine_builders import HERE, change, finding, gain
from msgspec.structs import replace

from autotune.engine.evaluate import evaluate
from autotune.engine.load import load_rules
from autotune.engine.recommend import ranked as in_order
from autotune.engine.recommend import recommend, sort_by_gain
from autotune.model.evidence import RUN, Evidence, Location
from autotune.model.finding import Gain
from autotune.model.rule import Effect, Severity

THERE = Location("train.py", 99)


def ids(recommendations) -> list[list[str]]:
    return [[each.rule.id for each in one.findings] for one in recommendations]


def test_nothing_to_do() -> None:
    assert recommend([]) == ()


def test_numbers_count_from_one_in_order_of_seconds_saved() -> None:
    found = [
        finding("DL001", change("loader.pin_memory"), gain=gain(1.1, 60)),
        finding("DL002", change("loader.num_workers"), gain=gain(1.5, 600)),
        finding("DL003", change("loader.prefetch_factor")),
    ]
    ranked = recommend(found)
    assert ids(ranked) == [["DL002"], ["DL001"], ["DL003"]]
    assert [one.number for one in ranked] == [1, 2, 3]
    assert [one.gain for one in ranked] == [gain(1.5, 600), gain(1.1, 60), None]
    assert [one.after for one in ranked] == [None, None, None]


def ranked_pair(first: dict, second: dict) -> list[str]:
    pair = [
        finding("DL001", change("loader.pin_memory", effect=first.pop("effect", Effect.EXACT)), **first),
        finding("DL002", change("loader.num_workers", effect=second.pop("effect", Effect.EXACT)), **second),
    ]
    return [one.first.rule.id for one in recommend(pair)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"gain": gain(1.1, 60)}, {"gain": gain(1.5, 600)}),
        ({"gain": gain(1.1)}, {"gain": gain(1.5)}),
        ({"gain": gain(1.1, 1)}, {"gain": gain(1.5)}),
        ({}, {"gain": gain(1.05, 1)}),
        ({"gain": gain(1 / 0.981, 1)}, {}),
        ({}, {"gain": gain(1 / 0.979, 1)}),
        ({"severity": Severity.LOW}, {"severity": Severity.MEDIUM}),
        ({"effect": Effect.ALTERING, "gain": gain(2.0, 900)}, {"gain": gain(1.1, 1)}),
        ({"effect": Effect.ALTERING, "gain": gain(2.0, 900)}, {"effect": Effect.EQUIVALENT}),
        ({"gain": gain(2.0, 900)}, {"severity": Severity.CRITICAL}),
        (
            {"effect": Effect.ALTERING, "gain": gain(2.0, 900)},
            {"effect": Effect.ALTERING, "severity": Severity.CRITICAL},
        ),
        ({"effect": Effect.ALTERING, "severity": Severity.CRITICAL}, {"gain": gain(1.1, 1)}),
    ],
    ids=[
        "more seconds",
        "a larger share",
        "a larger share where the seconds of one are not known",
        "a gain before none",
        "none before next to nothing",
        "a small gain before none",
        "graver",
        "training unchanged",
        "training unchanged, without a gain",
        "wrong before slow",
        "wrong before slow among what alters",
        "wrong does not leave its group",
    ],
)
def test_the_second_comes_first(first: dict, second: dict) -> None:
    assert ranked_pair(first, second) == ["DL002", "DL001"]


def test_ties_are_in_order_of_id() -> None:
    found = [
        finding(name, change(setting))
        for name, setting in (("DL009", "loader.pin_memory"), ("DL002", "loader.num_workers"))
    ]
    assert ids(recommend(found)) == [["DL002"], ["DL009"]]


def test_findings_that_make_the_same_change_are_one_recommendation() -> None:
    found = [finding("DL001", change(), gain=gain(1.1, 60)), finding("DL003", change(), gain=gain(1.5, 600))]
    (one,) = recommend(found)
    assert ids([one]) == [["DL003", "DL001"]]
    assert one.changes == (change(),)
    assert one.gain == gain(1.5, 600)


def test_one_call_that_makes_two_loaders_is_one_recommendation() -> None:
    found = [finding("DL001", change(), subject="loader#train"), finding("DL001", change(), subject="loader#1")]
    assert [len(one.findings) for one in recommend(found)] == [2]
    apart = [finding("DL001", change()), finding("DL001", change(location=THERE), subject="loader#1")]
    assert [len(one.findings) for one in recommend(apart)] == [1, 1]


def test_without_a_place_a_setting_belongs_to_its_subject_or_the_run() -> None:
    def pair(setting: str) -> list[int]:
        subjects = ("optimizer#0", "optimizer#1")
        found = [finding("OP001", change(setting, True, location=None), subject=one) for one in subjects]
        return [len(one.findings) for one in recommend(found)]

    assert pair("optimizer.fused") == [1, 1]
    assert pair("train.compile") == [2]


def test_one_rule_at_one_place_is_one_cause_even_without_a_change() -> None:
    found = [finding("DL010", subject=one, location=HERE) for one in ("loader#train", "loader#1")]
    (one,) = recommend(found)
    assert (one.changes, one.effect, len(one.findings)) == ((), Effect.MANUAL, 2)
    other_rule = [finding("DL010", location=HERE), finding("DL009", location=HERE)]
    assert len(recommend(other_rule)) == 2


def test_chains_of_shared_settings_are_one_recommendation() -> None:
    batch, workers = change("loader.batch_size", 16), change("loader.num_workers", 4)
    found = [finding("BA001", batch), finding("DL001", workers), finding("DL002", batch, workers)]
    (one,) = recommend(found)
    assert {each.setting for each in one.changes} == {"loader.batch_size", "loader.num_workers"}


def test_of_two_values_the_larger_gain_wins_and_the_loser_stays_as_a_finding() -> None:
    batch, steps = change("loader.batch_size", 32), change("train.accumulation_steps", 1)
    winner = finding("BA005", change("loader.batch_size", 16), gain=gain(1.5, 600))
    loser = finding("ME002", batch, steps, gain=gain(1.1, 60))
    (one,) = recommend([loser, winner])
    assert ids([one]) == [["BA005", "ME002"]]
    assert one.changes == (change("loader.batch_size", 16),)


def test_the_effect_is_the_gravest_of_the_changes() -> None:
    found = finding("ME002", change(), change("loader.batch_size", 8, effect=Effect.ALTERING))
    assert recommend([found])[0].effect is Effect.ALTERING


def test_after_is_what_each_adds_to_all_earlier_numbers() -> None:
    found = [
        finding("DL001", change("loader.num_workers"), gain=Gain(2.0, 1.8, 2.2, "measured", 500.0)),
        finding("CK001", change("checkpoint.interval_steps", 500), gain=Gain(1.25, 1.2, 1.3, "modelled", 200.0)),
        finding("EN001"),
    ]
    together = {1: Gain(2.0, 1.8, 2.2, "measured", 500.0), 2: Gain(2.5, 2.16, 2.86, "modelled", 600.0)}
    ranked = recommend(found, lambda findings: together[min(2, len(findings))])
    first, second, third = ranked
    assert (first.after, third.after) == (first.gain, None)
    assert second.after is not None
    assert (second.after.saved_s, second.after.basis) == (100.0, "modelled")
    # Of today's step the first removes 1/2 and both 3/5: the second adds 1/10, half of what it removes alone (1/5).
    assert second.after.share == pytest.approx(0.1)
    assert 1 - 1 / second.after.low == pytest.approx((1 - 1 / 1.2) / 2)
    assert 1 - 1 / second.after.high == pytest.approx((1 - 1 / 1.3) / 2)
    assert first.gain.share + second.after.share == pytest.approx(together[2].share)


def test_after_is_none_without_a_common_gain() -> None:
    assert recommend([finding("DL001", change(), gain=gain(2.0))], lambda findings: None)[0].after is None


def test_the_run_length_may_be_unknown() -> None:
    found = [
        finding("DL001", change("loader.num_workers"), gain=gain(2.0)),
        finding("DL004", change("loader.pin_memory"), gain=gain(1.5)),
    ]
    after = recommend(found, lambda findings: gain(1.0 + len(findings)))[1].after
    assert after is not None
    assert after.share == pytest.approx(1 / 2 - 1 / 3)
    assert after.saved_s is None


def test_a_recommendation_about_the_run() -> None:
    (one,) = recommend([finding("PR002", change("train.precision", "bf16-mixed", effect=Effect.ALTERING), subject=RUN)])
    assert one.effect is Effect.ALTERING


def test_padding_in_an_accelerate_loop_is_one_recommendation_with_one_advice() -> None:
    loader = {
        "is_train": True,
        "is_map_style": True,
        "is_static_padding": False,
        "num_lengths": 240,
        "pad_share": 0.5,
        "dynamic_pad_share": 0.5,
        "grouped_pad_share": 0.05,
        "len_p50": 31,
        "len_max": 128,
    }
    facts = {RUN: {"run.framework": "accelerate"}, "loader#train": {f"loader.{name}": v for name, v in loader.items()}}
    rules = [rule for rule in load_rules() if rule.id in ("BA001", "BA002")]
    (one,) = recommend(evaluate(rules, Evidence(facts)).findings)
    assert sorted(each.rule.id for each in one.findings) == ["BA001", "BA002"]
    assert (one.changes, len({text for each in one.findings for text in each.advice})) == ((), 1)


def test_what_costs_something_comes_after_what_is_free_although_it_leaves_training_unchanged() -> None:
    rarer = finding("CK001", change("checkpoint.interval_steps", 500, effect=Effect.EXACT), gain=gain(2.0, 900))
    workers = finding("DL001", change("loader.num_workers", 2, effect=Effect.EXACT), gain=gain(1.1, 60))
    ranked = recommend([rarer, workers])
    assert [(one.first.rule.id, one.is_free) for one in ranked] == [("DL001", True), ("CK001", False)]


def test_what_cannot_be_written_comes_after_what_can_and_adds_to_that() -> None:
    """Once the patch is planned the order is another: the numbers and what each adds are made anew."""
    padding = finding("BA001", change("data.padding", "longest"), gain=gain(3.0, 900))
    workers = finding("DL001", change("loader.num_workers", 2), gain=gain(1.1, 60))
    together = {("BA001",): gain(3.0, 900), ("DL001",): gain(1.1, 60)}

    def gained(findings) -> Gain:
        return together.get(tuple(one.rule.id for one in findings), gain(3.2, 930))

    first, second = recommend([padding, workers], gained)
    assert (first.first.rule.id, first.is_free) == ("BA001", True)
    again = in_order((replace(first, by_hand=("no collator",)), second), gained)
    assert [(one.number, one.first.rule.id, one.is_free) for one in again] == [(1, "DL001", True), (2, "BA001", False)]
    assert [one.after and one.after.saved_s for one in again] == [60, 870]


@pytest.mark.parametrize("before", [0.5, 0.9, 1.5, 40.0])
@pytest.mark.parametrize("after", [0.1, 0.5, 0.99, 1.5, 100.0])
@pytest.mark.parametrize("own", [gain(1.0001), gain(0.2), gain(1.6), Gain(3.0, 0.01, 99.0, "modelled")])
def test_what_one_adds_is_possible_whatever_the_others_bring(before: float, after: float, own: Gain) -> None:
    pair = [finding("DL001", change("loader.pin_memory"), gain=own), finding("DL002", change(), gain=own)]
    totals = iter([gain(before), gain(after)])
    for one in recommend(pair, lambda findings: next(totals)):
        ends = (one.after.low, one.after.speedup, one.after.high)
        assert all(map(math.isfinite, ends))
        assert 0 < one.after.low <= one.after.speedup <= one.after.high


@pytest.mark.parametrize(("saved", "first"), [(1.3, "HS001"), (1.6, "HS001"), (3.0, "CP001")])
def test_what_tunes_a_step_comes_after_what_may_end_its_work(saved, first) -> None:
    tuned = finding("CP001", change("train.num_threads"), gain=gain(saved))
    tuned = replace(tuned, rule=replace(tuned.rule, yields_to=("HS001",)))
    asked = replace(finding("HS001"), asked_share=0.3)
    every = recommend([tuned, asked])
    assert sort_by_gain(every)[0].rule.id == first
    assert sort_by_gain(recommend([tuned]))[0].rule.id == "CP001"
