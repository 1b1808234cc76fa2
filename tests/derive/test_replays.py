from __future__ import annotations

import pytest
from build import MS, Script, facts_of, fetches, loader, steps, what_if
from msgspec.structs import replace


def replay(ms, update=0, name="replay", **arguments):
    return what_if(name, arguments, step_ns=[each * MS for each in ms], update_ns=[update * MS] * len(ms))


def found(*tried, micros=1):
    return facts_of(script=steps(3, micros=micros), what_ifs=tried)


AS_IS = replay([40, 50, 60], 20)


def test_fused_updates_beside_those_of_the_replay():
    facts = found(AS_IS, replay([30, 30], 5, "replay_changed", fused=True))
    assert facts["replay.fused_ratio"] == 4.0


CALM, DISTURBED = (0.9, 1.0, 1.1, 1.0, 0.9, 1.0, 1.0, 1.1), (0.6, 17.0, 41.0, 73.0, 148.0, 0.6, 0.6, 0.7)
"""Milliseconds of updates: on a free machine, and while other programs took the CPUs from some of them."""


def updates(ms, name="replay", **arguments):
    return what_if(name, arguments, step_ns=[100 * MS] * len(ms), update_ns=[each * MS for each in ms])


@pytest.mark.parametrize(
    ("as_is", "fused", "is_known"),
    [(CALM, CALM, True), (CALM, DISTURBED, False), (DISTURBED, CALM, False)],
    ids=["calm: no faster", "the fused ones were disturbed", "those as it is were"],
)
def test_replays_that_leave_a_ratio_open_tell_nothing(as_is, fused, is_known):
    facts = found(updates(as_is), updates(fused, "replay_changed", fused=True))
    assert ("replay.fused_ratio" in facts) is ("replay.fused_spread" in facts) is is_known
    if is_known:
        assert facts["replay.fused_ratio"] == pytest.approx(1.0)
        assert 1.0 < facts["replay.fused_spread"] < 1.3


@pytest.mark.parametrize(
    ("name", "arguments", "fact"),
    [
        ("anomaly", {"anomaly": False}, "replay.anomaly_share"),
        ("determinism", {"deterministic": False}, "replay.determinism_share"),
        ("threads", {"threads": 1}, "replay.threads_share"),
    ],
)
def test_so_do_steps_of_very_unequal_length(name, arguments, fact):
    """A step as it is took 56 to 606 ms, and a changed one 30 to 40."""
    torch_state = {"num_threads": 2}
    as_is, changed = replay([56, 202, 606]), replay([30, 39, 40], 0, "replay_changed", **arguments)
    assert fact not in facts_of(script=steps(3), what_ifs=(as_is, changed), torch_state=torch_state)
    assert fact in facts_of(script=steps(3), what_ifs=(replay([190, 202, 210]), changed), torch_state=torch_state)


def test_one_disturbed_round_of_three_is_none():
    facts = found(AS_IS, *rounds((100, 80), (100, 80), deterministic=False), *disturbed_round(deterministic=False))
    assert facts["replay.determinism_share"] == pytest.approx(0.2)


def disturbed_round(**arguments):
    return [replay([10, 900], 1, "replay_changed"), replay([5, 700], 1, "replay_changed", **arguments)]


def test_what_anomaly_detection_costs():
    facts = found(AS_IS, replay([20], 1, "replay_changed", anomaly=False))
    assert facts["replay.anomaly_share"] == pytest.approx(0.6)
    assert "replay.determinism_share" not in facts


def test_what_the_trainers_tracing_of_memory_costs():
    facts = found(AS_IS, replay([25], 1, "replay_changed", memory_tracing=False))
    assert facts["replay.memory_tracing_share"] == pytest.approx(0.5)


def test_of_a_profiler_that_records_some_steps_the_mean_counts():
    facts = found(replay([10, 10, 70], 1), replay([10, 11, 15], 1, "replay_changed", profiler=False))
    assert facts["replay.profiler_share"] == pytest.approx(1 - 12 / 30)


@pytest.mark.parametrize(("ms", "share"), [(40, 0.2), (60, 0.0)])
def test_what_determinism_costs(ms, share):
    facts = found(AS_IS, replay([ms], 1, "replay_changed", deterministic=False))
    assert facts["replay.determinism_was_tried"] is True
    assert facts["replay.determinism_share"] == pytest.approx(share)


def test_without_a_replay_the_cost_of_determinism_is_not_known():
    facts = found(AS_IS, what_if("replay_changed", {"deterministic": False}, "failed"))
    assert facts["replay.determinism_was_tried"] is False
    assert "replay.determinism_share" not in facts


def test_threads_that_were_tried():
    tried = [replay([ms], 1, "replay_changed", threads=count) for count, ms in ((1, 90), (8, 20))]
    facts = facts_of(script=steps(3), what_ifs=(AS_IS, *tried), torch_state={"num_threads": 4})
    assert facts["replay.one_thread_ms"] == 90
    assert (facts["replay.most_threads"], facts["replay.most_threads_ms"]) == (8, 20)
    assert facts["replay.more_threads_were_tried"] is True


@pytest.mark.parametrize(
    ("now", "share"),
    [
        pytest.param(2, 0.0, id="few: that one saves is not asked"),
        pytest.param(64, 0.1, id="too many: the best of what was tried"),
    ],
)
def test_what_another_number_of_threads_saves(now, share):
    tried = [replay([ms], 1, "replay_changed", threads=count) for count, ms in ((1, 45), (8, 70))]
    facts = facts_of(script=steps(3), what_ifs=(AS_IS, *tried), torch_state={"num_threads": now})
    assert facts["replay.threads_share"] == pytest.approx(share)
    assert facts["replay.more_threads_were_tried"] is (now == 2)


@pytest.mark.parametrize(
    ("changes", "workers", "share"),
    [
        pytest.param({}, 1, 0.5 - 10 / 50, id="a worker: ten of each step's 50 ms"),
        pytest.param({}, 4, 0.5 - 10 / 4 / 50, id="four workers on CPUs of their own"),
        pytest.param({}, 64, 0.5 - 10 / 8 / 50, id="more workers than CPUs"),
        pytest.param({"in_main": True}, 0, 0.5, id="the training process: no step of the replay has it"),
        pytest.param({"loader": 7}, 1, 0.5, id="workers of another loader"),
    ],
)
def test_more_threads_wait_for_what_workers_take_of_the_cpus(changes, workers, share):
    rows = [replace(row, **{"in_main": False} | changes) for row in fetches([9] * 3, cpu_ms=10)]
    fields = {"fetches": tuple(rows), "loaders": (loader(arguments={"num_workers": workers}),)}
    tried = replay([25], 1, "replay_changed", threads=8)
    facts = facts_of(script=steps(3), what_ifs=(AS_IS, tried), torch_state={"num_threads": 1}, **fields)
    assert facts["replay.threads_share"] == pytest.approx(share)


def test_one_thread_is_not_the_most():
    facts = found(AS_IS, replay([90], 1, "replay_changed", threads=1))
    assert facts["replay.more_threads_were_tried"] is False
    assert facts["replay.one_thread_ms"] == 90
    assert not {"replay.most_threads", "replay.most_threads_ms"} & set(facts)


def rounds(*pairs, changed_update=1, **arguments):
    """Replays as the script is, and changed, in turns: ms of each."""
    rows = []
    for as_is, other in pairs:
        rows += [
            replay([as_is] * 2, 10, "replay_changed"),
            replay([other] * 2, changed_update, "replay_changed", **arguments),
        ]
    return rows


def test_of_rounds_the_middle_one_counts_beside_what_was_as_it_is_in_each():
    facts = found(AS_IS, *rounds((100, 80), (200, 190), (50, 10), deterministic=False))
    assert facts["replay.determinism_share"] == pytest.approx(0.2)
    assert facts["replay.determinism_least_share"] == pytest.approx(0.05)


def test_each_round_has_to_show_what_fewer_threads_save():
    turns = rounds((100, 50), (100, 90), (100, 40), threads=1)
    facts = facts_of(script=steps(3), what_ifs=(AS_IS, *turns), torch_state={"num_threads": 2})
    assert facts["replay.threads_share"] == pytest.approx(0.1)
    assert facts["replay.best_threads"] == 1


def test_threads_in_rounds_are_held_beside_the_replay():
    facts = found(AS_IS, *rounds((100, 50), (300, 160), (10, 5), threads=8))
    assert (facts["replay.threads_share"], facts["replay.most_threads_ms"]) == (0.5, 25.0)


def test_fused_updates_in_rounds():
    facts = found(AS_IS, *rounds((100, 90), (100, 90), changed_update=5, fused=True))
    assert facts["replay.fused_ratio"] == 2.0


def test_updates_that_were_not_seen_have_no_ratio():
    unseen = [replay([100] * 2, 0, "replay_changed"), replay([90] * 2, 5, "replay_changed", fused=True)]
    assert "replay.fused_ratio" not in found(AS_IS, *unseen)


def test_a_round_whose_replay_brought_nothing_is_held_beside_the_last_that_did():
    first, second = rounds((100, 80), deterministic=False), rounds((1, 80), deterministic=False)
    nothing = what_if("replay_changed", {}, step_ns=[], update_ns=[])
    assert found(AS_IS, *first, nothing, second[1])["replay.determinism_share"] == pytest.approx(0.2)


@pytest.mark.parametrize(("micros", "ratio"), [(1, 0.5), (2, 1.0)])
def test_half_the_width_beside_the_same_batch_whole(micros, ratio):
    narrow = what_if("narrow_batch", {}, micro_ns=[10 * MS, 15 * MS, 20 * MS])
    assert found(AS_IS, narrow, micros=micros)["batch_curve.narrow_ratio"] == pytest.approx(ratio)


def test_what_comes_once_a_step_is_in_neither_width():
    whole = what_if("replay", {}, step_ns=[100 * MS] * 3, update_ns=[0] * 3, micro_ns=[50 * MS] * 3)
    narrow = what_if("narrow_batch", {}, micro_ns=[25 * MS] * 3)
    assert found(whole, narrow)["batch_curve.narrow_ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "tried",
    [
        what_if("replay_changed", {"fused": True}, "failed"),
        what_if("narrow_batch", {}, micro_ns=[]),
        what_if("replay_changed", {"threads": 1}, step_ns=[], update_ns=[]),
    ],
    ids=["failed", "no batch", "no step"],
)
def test_what_brought_nothing_says_nothing(tried):
    names = {name for name in found(AS_IS, tried) if name.startswith(("replay.", "batch_curve."))}
    assert names == {
        "replay.was_measured",
        "replay.determinism_was_tried",
        "replay.more_threads_were_tried",
        "replay.step_ms",
        "replay.low_ms",
        "replay.high_ms",
        "batch_curve.was_measured",
        "batch_curve.double_was_tried",
        "batch_curve.double_left_out",
    }


def test_without_a_loader_the_changed_steps_are_held_beside_those_of_the_window():
    script = Script()
    for _ in range(4):
        script.forward(20)
        script.run("backward", 60)
        script.update(20)
    tried = (
        replay([50], 5, "replay_changed", threads=1),
        replay([90], 10, "replay_changed", fused=True),
        replay([80], 20, "replay_changed", deterministic=False),
    )
    facts = facts_of(script=script, what_ifs=tried, loaders=())
    assert facts["replay.was_measured"] is False
    assert facts["replay.threads_share"] == pytest.approx(0.5)
    assert facts["replay.fused_ratio"] == pytest.approx(2.0)
    assert facts["replay.determinism_share"] == pytest.approx(0.2)
    assert "replay.step_ms" not in facts


def test_with_a_loader_a_replay_is_needed_to_hold_them_beside():
    facts = found(replay([50], 5, "replay_changed", threads=1))
    assert "replay.threads_share" not in facts


def test_without_a_loader_a_long_evaluation_in_the_window_changes_no_other_step():
    script = Script()
    for number in range(6):
        script.forward(20)
        script.run("backward", 60)
        script.update(20)
        if number == 2:
            script.run("evaluation", 4000)
    facts = facts_of(script=script, what_ifs=(replay([50], 5, "replay_changed", threads=1),), loaders=())
    assert facts["replay.threads_share"] == pytest.approx(0.5)


def test_without_a_loader_two_calm_steps_are_too_few():
    script = Script()
    for _ in range(3):
        script.forward(20)
        script.run("backward", 60)
        script.update(20)
    facts = facts_of(script=script, what_ifs=(replay([50], 5, "replay_changed", threads=1),), loaders=())
    assert "replay.threads_share" not in facts


def test_without_a_loader_what_interrupts_the_window_is_no_gain():
    script = Script()
    for _ in range(4):
        script.forward(20)
        script.run("backward", 60)
        script.update(20)
        script.run("logging", 50)
    tried = (replay([100], 20, "replay_changed", deterministic=False), replay([50], 5, "replay_changed", threads=1))
    facts = facts_of(script=script, what_ifs=tried, loaders=())
    assert facts["replay.determinism_share"] == pytest.approx(0.0, abs=0.01)
    assert facts["replay.threads_share"] == pytest.approx(0.5)


@pytest.mark.parametrize(("one", "now", "best"), [(45, 2, 1), (60, 2, 2), (50, 2, 1)])
def test_the_number_of_threads_with_the_shortest_step(one, now, best):
    tried = replay([one], 1, "replay_changed", threads=1)
    facts = facts_of(script=steps(3), what_ifs=(AS_IS, tried), torch_state={"num_threads": now})
    assert facts["replay.best_threads"] == best


def test_what_other_programs_took_of_the_cpus_meanwhile() -> None:
    tried = [
        what_if(name, {}, step_ns=[MS], update_ns=[0], other_cpus=cpus)
        for name, cpus in (("replay", 0.5), ("replay_changed", None), ("replay_changed", 1.5))
    ]
    assert found(*tried)["replay.other_cpus"] == 1.0
    assert "replay.other_cpus" not in found(AS_IS)
