"""What fewer threads bring rests on replays, and is not known where other programs worked on the same CPUs."""

from __future__ import annotations

import pytest

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.threads import OF_OTHERS, is_crowded, threads, undisturbed

ARGUMENTS = {"share": "replay.threads_share", "of": "step.compute_share"}
FACTS = {
    "step.mean_ms": 100.0,
    "step.optimizer_share": 0.2,
    "step.compute_share": 1.0,
    "device.type": "cpu",
    "run.num_threads": 2,
    "train.num_threads": 2,
    "machine.cpus_per_rank": 2.0,
    "machine.cpu_quota": 2.0,
    "machine.host_cpus": 2,
    "replay.step_ms": 90.0,
    "replay.one_thread_ms": 5.0,
    "replay.best_threads": 1,
    "replay.threads_share": 0.94,
}


def predicted(**more: object) -> Gain | None:
    return threads(ARGUMENTS, undisturbed(known(**more)), RUN)


def known(**more: object) -> Evidence:
    return Evidence({RUN: {**FACTS, **{name.replace("__", "."): value for name, value in more.items()}}}, {})


def test_on_a_free_machine_the_replays_say_how_much() -> None:
    found = predicted(replay__other_cpus=0.1)
    assert found is not None
    assert found.speedup == pytest.approx(1 / 0.06)


def test_beside_other_work_nothing_is_predicted() -> None:
    assert predicted(replay__other_cpus=1.5) is None
    assert predicted(replay__other_cpus=1.5, replay__best_threads=2) is None


def test_what_was_tried_beside_other_work_is_not_known() -> None:
    busy = undisturbed(known(replay__other_cpus=1.5, replay__most_threads=2))
    assert not {*OF_OTHERS} & {*busy.facts[RUN]}
    assert busy.lookup(RUN, "replay.is_crowded") is True
    assert busy.lookup(RUN, "replay.step_ms") == 90.0


def test_on_a_free_machine_and_where_nothing_was_tried_all_is_as_it_was() -> None:
    free = known(replay__other_cpus=0.1)
    assert undisturbed(free) is free
    loaded = known(machine__load=9.0).facts[RUN]
    untried = Evidence({RUN: {name: value for name, value in loaded.items() if name not in OF_OTHERS}}, {})
    assert undisturbed(untried) is untried


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"replay__other_cpus": 0.2}, False),
        ({"replay__other_cpus": 0.3}, True),
        ({"replay__other_cpus": 1.5, "run__num_threads": 1}, True),
        ({"replay__other_cpus": 0.9, "run__num_threads": 1}, False),
        ({"replay__other_cpus": 0.2, "run__num_threads": 64}, False),
        ({"replay__other_cpus": 6.0, "machine__host_cpus": 8}, False),
        ({"replay__other_cpus": 2.0, "run__local_world_size": 2}, False),
        ({"machine__load": 4.0}, True),
        ({}, False),
    ],
)
def test_other_programs_crowd_where_they_and_the_threads_want_more_than_there_is(
    more: dict[str, object], expected: bool
) -> None:
    assert is_crowded(known(**more)) is expected
