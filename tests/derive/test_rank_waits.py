"""What ranks wait for each other: in the script's collectives, in DDP's averaging, and because a batch is larger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from build import MS, USER, Script, derive, facts, model, recording, sample

from autotune.derive import rank_waits, recording_view
from autotune.model.derived import Derived
from autotune.model.recording import Averaging, Batch, Recording

NUM_STEPS = 12


@dataclass
class Work:
    """One step of a rank: ms of its phases, of its collectives in turn, what DDP exposes, and its batch in tokens."""

    other: int = 0
    fetch: int = 10
    forward: int = 20
    compute: int = 40
    exposed: int = 0
    collectives: tuple[int, ...] = ()
    tokens: int | None = None


def rank(number: int, works: list[Work], of: int = 2, **changes: Any) -> Recording:
    """Its steps, after one of warm-up that is like the first; each collective comes from line 7 of train.py."""
    script, averagings, batches = Script(), [], []
    for work in [works[0], *works]:
        script.fetch(work.fetch)
        if work.tokens is not None:
            size = ((1, work.tokens),)
            batches.append(Batch(0, script.now * MS, 1, work.tokens * 8, size, work.tokens, work.tokens, work.tokens))
        script.forward(work.forward)
        script.idle(work.other)
        script.run("backward", work.compute + work.exposed)
        averagings.append(Averaging(script.now * MS, work.exposed * MS, work.compute * MS))
        for ms in work.collectives:
            script.run("collective", ms, 0)
        script.update()
    call = {"kind": "collective", "name": "all_reduce", "site": USER, "count": 10, "bytes": 40, "in_window": 10}
    fields: dict[str, Any] = {
        "averagings": tuple(averagings[1:-1]),
        "calls": (call,),
        "batches": tuple(batches),
        "models": (model(parallel="DistributedDataParallel"),),
        "process": {"rank": number, "world_size": of, "local_world_size": of},
    }
    return recording(script, **(fields | changes))


def alike(number: int, work: Work, **changes: Any) -> Recording:
    return rank(number, [work] * NUM_STEPS, **changes)


def breakdown(derived: Derived) -> dict[str, float | None]:
    assert derived.step is not None
    return dict(derived.step.breakdown_ms)


def test_a_longer_backward_of_its_own_is_work_and_the_others_wait_for_all_of_it():
    """By the difference of backwards alone the quick rank would wait 20 ms, and not 60."""
    quick, slow = Work(exposed=65), Work(forward=40, compute=80, exposed=5)
    derived = derive([alike(0, quick), alike(1, slow)])
    found, parts = facts(derived), breakdown(derived)
    assert (found["ranks.slowest"], found["ranks.slowest_phase"]) == (1, "backward")
    assert (found["ranks.spread_ms"], found["ranks.spread_share"]) == (60.0, 60 / 135)
    assert found["ranks.late_share"] == 60 / 140
    assert (parts["backward"], parts["rank_wait"]) == (45.0, 60.0)
    first, last = derived.ranks
    assert (first.own_ms, first.wait_ms, first.averaging_ms) == (75.0, 60.0, 5.0)
    assert (last.own_ms, last.wait_ms, last.averaging_ms) == (135.0, 0.0, 5.0)
    assert first.late is None and last.late is not None and last.late.ms == 60.0
    assert first.own_is == "whole" and first.own_ms + 60.0 + 5.0 == first.step_ms


def test_collectives_cost_what_the_last_rank_is_in_them_and_the_rest_is_waiting():
    quick, slow = Work(collectives=(32, 2)), Work(other=30, collectives=(2, 2))
    samples = (sample("other", 40),)
    derived = derive([alike(0, quick), alike(1, slow, samples=samples)])
    found, parts = facts(derived), breakdown(derived)
    assert (parts["communication"], parts["rank_wait"]) == (4.0, 30.0)
    assert found["collectives.per_step"] == 2.0
    assert found["collectives.cost_share"] == pytest.approx(4 / 109)
    assert found["collectives.line"] == "all_reduce in main (train.py:7)"
    assert (found["ranks.slowest_phase"], found["ranks.slowest_line"]) == ("other", "work (train.py:3)")
    (row,) = derived.collectives
    assert (row.calls, row.ms, row.wait_ms) == (2.0, 34.0, 30.0)
    assert [each.collective_ms for each in derived.ranks] == [4.0, 4.0]


def test_ranks_that_take_turns_in_being_late_wait_though_their_means_are_alike():
    short, long = Work(exposed=45), Work(forward=35, compute=70, exposed=0)
    turns = [[short, long] * 6, [long, short] * 6]
    derived = derive([rank(number, works) for number, works in enumerate(turns)])
    assert facts(derived)["ranks.spread_share"] < 0.1
    # The last step's backward is not told: the mean is over the eleven others.
    assert breakdown(derived)["rank_wait"] == pytest.approx(45 * 6 / 11)


def test_one_or_two_samples_name_no_line():
    slow = alike(1, Work(other=30), samples=(sample("other", 2),))
    found = facts(derive([alike(0, Work(exposed=30)), slow]))
    assert found["ranks.slowest_phase"] == "other" and "ranks.slowest_line" not in found


def test_ranks_that_tell_other_calls_leave_the_waits_unknown():
    """Rank 1 calls one collective less: of another group, or of a line that rank 0 alone passes."""
    derived = derive([alike(0, Work(collectives=(9, 9))), alike(1, Work(collectives=(9,)))])
    assert not [name for name in facts(derived) if name.startswith("collectives.")]
    assert breakdown(derived)["communication"] == 18.0
    (row,) = derived.collectives
    assert row.wait_ms is None and derived.ranks[0].own_is == "before_communication"


def test_ddp_that_tells_nothing_leaves_the_time_before_communication():
    device = {"type": "cuda", "name": None, "capability": None, "index": 0}
    both = [alike(0, Work(exposed=40), averagings=(), device=device), alike(1, Work(fetch=50), averagings=())]
    derived = derive(both)
    assert {each.own_is for each in derived.ranks} == {"before_communication"}
    assert (facts(derived)["ranks.slowest_phase"], breakdown(derived)["rank_wait"]) == ("data wait", 40.0)


def test_without_a_parallel_model_the_collectives_are_all_that_ranks_wait_in():
    """Gradients that are averaged by hand."""
    plain = {"averagings": (), "models": (model(),)}
    both = [alike(0, Work(collectives=(42,)), **plain), alike(1, Work(other=40, collectives=(2,)), **plain)]
    derived = derive(both)
    assert [each.own_ms for each in derived.ranks] == [75.0, 115.0]
    assert breakdown(derived)["rank_wait"] == 40.0


def test_an_older_recording_is_compared_as_before():
    views = [recording_view.view_of(alike(number, Work(), averagings=None)) for number in (0, 1)]
    assert rank_waits.compare(views) == {}


@pytest.mark.parametrize(("num_bytes", "averages"), [(20, False), (10 * 4 * 50_000_000, True)])
def test_a_line_that_sends_all_gradients_averages_them_by_hand(num_bytes: int, averages: bool):
    call = {"kind": "collective", "name": "all_reduce", "site": USER, "count": 10, "bytes": num_bytes, "in_window": 10}
    weights = model(parallel=None, num_params=100_000_000, num_trainable=50_000_000, param_bytes=400_000_000)
    both = [alike(number, Work(collectives=(9,)), calls=(call,), models=(weights,), averagings=()) for number in (0, 1)]
    assert facts(derive(both))["collectives.averages_gradients"] is averages


# Batches of different size


def batch(tokens: int, largest: int) -> Work:
    """1 ms for each 10 tokens, a third of it in forward; it waits until the largest batch of the step is done."""
    return Work(
        forward=tokens // 30,
        compute=2 * tokens // 30,
        exposed=(largest - tokens) // 10,
        tokens=tokens,
    )


def drawn(pairs: list[tuple[int, int]]) -> list[Recording]:
    return [rank(number, [batch(pair[number], max(pair)) for pair in pairs]) for number in (0, 1)]


def test_uneven_batches_explain_the_wait():
    found = facts(derive(drawn([(300, 900), (900, 300), (600, 1200), (300, 300)] * 3)))
    # Means of the largest and of the mean batch: (900 + 900 + 1200 + 300) / 4 and (600 + 600 + 900 + 300) / 4.
    assert found["ranks.batch_spread_share"] == pytest.approx(1 - 600 / 825)
    assert found["ranks.batch_correlation"] == pytest.approx(1.0)
    # 225 tokens take 22.5 ms of a step of 15 + 82.5.
    assert found["ranks.uneven_share"] == pytest.approx(22.5 / 97.5, rel=0.1)


def test_a_batch_that_is_fetched_one_step_ahead_explains_the_next_step():
    pairs = [(300, 900), (900, 300), (600, 1200), (1200, 300)] * 3
    ahead = [*pairs[1:], pairs[0]]
    both = []
    for number in (0, 1):
        works = [batch(pair[number], max(pair)) for pair in pairs]
        for work, pair in zip(works, ahead, strict=True):
            work.tokens = pair[number]
        both.append(rank(number, works))
    assert facts(derive(both))["ranks.batch_correlation"] > 0.9


def test_equal_batches_explain_nothing():
    found = facts(derive([alike(0, Work(exposed=40, tokens=300)), alike(1, Work(other=40, tokens=300))]))
    assert found["ranks.batch_spread_share"] == 0.0
    assert "ranks.uneven_share" not in found and "ranks.batch_correlation" not in found


def test_a_late_rank_with_the_smaller_batches_is_late_for_another_reason():
    pairs = [(900, 300), (600, 200)] * 6
    quick = [Work(exposed=60, tokens=pair[0]) for pair in pairs]
    slow = [Work(other=60 + pair[1] % 7, tokens=pair[1]) for pair in pairs]
    found = facts(derive([rank(0, quick), rank(1, slow)]))
    assert found["ranks.batch_correlation"] < 0
    assert found["ranks.uneven_share"] == 0.0


def test_few_steps_and_batches_that_were_not_all_looked_at_tell_nothing():
    pairs = [(300, 900), (900, 300)] * 6
    few = [rank(number, [batch(pair[number], max(pair)) for pair in pairs[:6]]) for number in (0, 1)]
    assert "ranks.batch_spread_share" not in facts(derive(few))
    unseen = [rank(number, [batch(pair[number], max(pair)) for pair in pairs], batches=()) for number in (0, 1)]
    assert "ranks.batch_spread_share" not in facts(derive(unseen))


def test_on_cuda_the_forward_shows_who_is_late_and_the_sizes_bound_the_wait():
    device = {"type": "cuda", "name": None, "capability": None, "index": 0}
    pairs = [(300, 900), (900, 300), (600, 1200), (300, 300)] * 3
    both = [
        rank(number, [batch(pair[number], max(pair)) for pair in pairs], averagings=(), device=device)
        for number in (0, 1)
    ]
    found = facts(derive(both))
    assert found["ranks.batch_correlation"] == pytest.approx(1.0)
    share = found["ranks.batch_spread_share"]
    assert 0.5 * share < found["ranks.uneven_share"] <= share
