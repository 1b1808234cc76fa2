from __future__ import annotations

import pytest

from autotune.model.evidence import Evidence, Setting
from autotune.tune.points import batches, loaders, threads

LOADER = {"loader.num_workers", "loader.prefetch_factor", "loader.persistent_workers"}
MACHINE = {"machine.cpus_per_rank": 2.0}


def evidence(run=(), given=(), **loader) -> Evidence:
    """Facts of the run and of the train loader; the loader's settings in `given` stand in the script."""
    facts = {
        "run": {**MACHINE, **dict(run)},
        "loader#train": {f"loader.{name}": value for name, value in loader.items()},
    }
    settings = {
        ("loader#train", name): Setting(name, "loader#train", value, "observed") for name, value in dict(given).items()
    }
    return Evidence(facts, settings)


def curve(**more) -> Evidence:
    return evidence({"train.accumulation_steps": 4, **more}, batch_size=3)


def sizes(known: Evidence) -> list[object]:
    return [point["loader.batch_size"] for point in batches(known, {"loader.batch_size", "train.accumulation_steps"})]


def test_micro_batches_are_the_divisors_of_the_global_batch_of_one_process() -> None:
    points = batches(curve(), {"loader.batch_size", "train.accumulation_steps"})
    assert [tuple(point.values()) for point in points] == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]


def test_micro_batches_stay_while_one_of_the_two_is_fixed_or_unknown() -> None:
    assert batches(curve(), {"loader.batch_size"}) == ()
    assert sizes(evidence(batch_size=4)) == []


def test_a_loader_has_up_to_two_workers_for_each_cpu_and_says_what_is_not_by_default() -> None:
    points = loaders(evidence(num_workers=0), LOADER)
    assert points[0] == {"loader.num_workers": 0}
    assert points[1:3] == ({"loader.num_workers": 1}, {"loader.num_workers": 1, "loader.prefetch_factor": 8})
    assert [point["loader.num_workers"] for point in points if len(point) == 1] == [0, 1, 2, 3, 4]


def test_workers_live_on_where_more_than_one_epoch_starts_them() -> None:
    points = loaders(evidence(num_workers=0, is_iterated_again=True), LOADER)
    assert {"loader.num_workers": 2, "loader.persistent_workers": True} in points
    assert {"loader.num_workers": 0} in points
    assert all(not point.get("loader.persistent_workers") for point in loaders(evidence(num_workers=0), LOADER))


def test_what_a_script_gives_its_workers_stays_or_is_changed_in_words() -> None:
    given = {"loader.num_workers": 2, "loader.prefetch_factor": 4, "loader.persistent_workers": True}
    points = loaders(evidence(given=given), LOADER)
    assert all("loader.prefetch_factor" in point for point in points if point["loader.num_workers"])
    assert {"loader.num_workers": 0, "loader.persistent_workers": False} in points
    assert given in points
    without = loaders(evidence(given={"loader.num_workers": 2, "loader.persistent_workers": True}), LOADER)
    assert without[0] == {"loader.num_workers": 0, "loader.persistent_workers": False}


def test_only_what_may_change_is_in_a_point() -> None:
    assert loaders(evidence(num_workers=0), {"loader.prefetch_factor"}) == ()
    points = loaders(evidence(num_workers=0, pin_memory=False), {"loader.num_workers", "loader.pin_memory"})
    assert points[:2] == (
        {"loader.num_workers": 0, "loader.pin_memory": False},
        {"loader.num_workers": 0, "loader.pin_memory": True},
    )


@pytest.mark.parametrize(
    ("facts", "most"),
    [
        ({"machine.rss_peak_bytes": 100, "machine.memory_available_bytes": 400}, 2),
        ({"machine.shm_free_bytes": 100, "loader.batch_bytes": 6}, 4),
        ({"machine.shm_free_bytes": 100, "loader.batch_bytes": 9}, 2),
        ({"machine.rss_peak_bytes": 100}, 4),
    ],
)
def test_workers_fit_in_memory_and_in_shared_memory(facts, most) -> None:
    points = loaders(evidence(facts, num_workers=0), {"loader.num_workers"})
    assert max(point["loader.num_workers"] for point in points) == most


def test_workers_need_to_know_the_cpus() -> None:
    assert loaders(Evidence({"loader#train": {"loader.num_workers": 0}}), LOADER) == ()


@pytest.mark.parametrize(("cpus", "now", "expected"), [(2.0, 2, [1, 2]), (6.0, 3, [1, 2, 3, 4, 6]), (0.5, 1, [1])])
def test_threads_double_up_to_the_cpus(cpus, now, expected) -> None:
    known = evidence({"machine.cpus_per_rank": cpus, "train.num_threads": now})
    assert [point["train.num_threads"] for point in threads(known, {"train.num_threads"})] == expected
