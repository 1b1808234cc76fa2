from __future__ import annotations

import pytest
from build import MS, facts_of, fetches, steps, what_if

NAMES = (
    "loader.serial_ms",
    "loader.one_worker_ms",
    "loader.two_workers_ms",
    "loader.handover_ms",
    "loader.start_ms_per_worker",
    "loader.end_ms_per_worker",
)


def train(*tried, **fields):
    return facts_of("loader#train", script=steps(4), what_ifs=tried, **fields)


def alone(workers, ms, start=0, cpu=0.0, outcome="completed", end=0, was_idle=False, ready=()):
    result = {"batch_ns": [each * MS for each in ms], "start_ns": start * MS, "cpu_ns": round(cpu * MS)}
    result |= {"end_ns": end * MS, "was_idle": was_idle, "ready_ns": [each * MS for each in ready]}
    return what_if("loader_alone", {"loader": 0, "num_workers": workers}, outcome, **result)


def test_pace_by_the_number_of_workers():
    facts = train(alone(0, [30, 32]), alone(1, [40, 40]), alone(2, [0, 44, 0]))
    assert [facts[name] for name in NAMES[:3]] == [31, 40, 22]


def test_handing_over_is_the_training_process_own_cpu_time():
    facts = train(alone(0, [30] * 4, cpu=120), alone(1, [40] * 4, cpu=2), alone(2, [20] * 4, cpu=4))
    assert facts["loader.handover_ms"] == pytest.approx((0.5 + 1.0) / 2)


def test_handing_over_is_what_a_ready_batch_takes_where_some_were():
    waited, ready = alone(1, [40] * 4, cpu=2), alone(2, [20] * 4, cpu=4, ready=[3, 9, 2])
    assert train(waited, ready)["loader.handover_ms"] == pytest.approx((0.5 + 3) / 2)


def test_a_start_is_what_comes_on_top_of_the_first_batch_for_each_worker():
    # 100 - 40 ms with one, 160 - 2 x 20 ms with two.
    facts = train(alone(1, [40] * 4, start=100), alone(2, [20] * 4, start=160))
    assert facts["loader.start_ms_per_worker"] == pytest.approx((60 + 120) / 3)
    assert train(alone(1, [40] * 4, start=30))["loader.start_ms_per_worker"] == 0


def test_an_end_is_what_comes_on_top_of_the_batches_under_way():
    # 80 - 1/2 x 40 ms with one, 100 - 2/3 x 40 with two.
    facts = train(alone(1, [40] * 4, end=80), alone(2, [20] * 4, end=100))
    assert facts["loader.end_ms_per_worker"] == pytest.approx((60 + 100 - 80 / 3) / 3)
    assert train(alone(1, [40] * 4, end=10))["loader.end_ms_per_worker"] == 0


def test_idle_workers_have_no_batch_under_way():
    tried = [alone(1, [40] * 4, end=15, was_idle=True), alone(2, [20] * 4, end=25, was_idle=True)]
    assert train(*tried)["loader.end_ms_per_worker"] == pytest.approx((15 + 25) / 3)


def test_how_uneven_batches_are():
    rows = fetches([500, *[10, 30] * 4])
    assert train(alone(1, [40] * 4), fetches=rows)["loader.batch_cv"] == pytest.approx(0.5)
    assert "loader.batch_cv" not in train(alone(1, [40] * 4), fetches=rows[:7])


@pytest.mark.parametrize(
    "tried", [(), (alone(1, [40], outcome="failed"),), (alone(1, []),)], ids=["none", "failed", "no batch came"]
)
def test_a_loader_that_gave_nothing_alone_says_nothing(tried):
    assert not {*NAMES, "loader.batch_cv"} & set(train(*tried, fetches=fetches([10] * 9)))


def test_without_workers_there_is_nothing_to_hand_over():
    facts = train(alone(0, [30] * 4))
    assert [name in facts for name in NAMES] == [True, False, False, False, False, False]


def test_cpus_of_others_are_averaged_over_what_was_tried():
    tried = [alone(0, [30] * 4), alone(1, [30] * 4), alone(2, [30] * 4)]
    for one, cpus in zip(tried, (0.5, 0.1, None), strict=True):
        one.result["other_cpus"] = cpus
    assert facts_of(script=steps(4), what_ifs=tuple(tried))["machine.other_cpus"] == pytest.approx(0.3)
    assert "machine.other_cpus" not in facts_of(script=steps(4), what_ifs=tuple(tried[2:]))
