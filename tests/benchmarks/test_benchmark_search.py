"""The pure parts of benchmarks/search.py and search_grid.py: grids, methods, and what a replay scores."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def search(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    for name in ("search", "search_grid", "measuring"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import search

    return search


@pytest.fixture
def table(search, tmp_path):
    """Every workload's grid: larger batches, more workers, one thread and the fused update each make it faster."""

    def ms(words: str) -> float:
        said = {name: int(value) for name, value in (pair.split("=") for pair in words.split())}
        compute = 40 + 100 / said["batch"] + 10 * said["threads"] - 5 * said.get("fused", 0)
        return compute + 200 / (1 + said["workers"])

    rows = [
        {
            "name": one.name,
            "facts": {},
            "diagnose_s": 6.0,
            "trial_s": 4.0,
            "times_ms": {words: [ms(words)] * 4 for words in search.search_grid.configurations(one.space)},
        }
        for one in search.search_grid.WORKLOADS
    ]
    file = tmp_path / "grid.json"
    file.write_text(json.dumps({"schema": 1, "cpus": 2, "workloads": rows}))
    return search.tables(file)[-1]


def test_grids_have_enough_configurations_that_keep_the_global_batch(search) -> None:
    grid = search.search_grid
    for workload in grid.WORKLOADS:
        every = grid.configurations(workload.space)
        assert len(set(every)) == len(every) >= 40
        assert every[0] == grid.words(workload.space.settings(workload.space.current))
        for point in workload.space.axes[0].points:
            assert point["loader.batch_size"] * point["train.accumulation_steps"] == grid.GLOBAL_BATCH


def test_words_are_those_of_the_script(search) -> None:
    settings = {"loader.batch_size": 4, "loader.num_workers": 2, "optimizer.fused": True}
    assert search.search_grid.words(settings) == "batch=4 workers=2 fused=1"


def test_text_and_paths_of_the_machine_are_not_kept(search) -> None:
    kept = search.search_grid.is_kept
    assert kept("loader.wait_ms", 1.5) and kept("device.type", "cpu")
    assert not kept("loader.data_path", "/home/me/data")


@pytest.mark.parametrize(
    "name", ["autotune", "autotune without forecast", "TPE, all trials", "random", "coordinate descent"]
)
def test_a_method_finds_the_fastest_of_a_simple_grid(search, table, name) -> None:
    run = search.replay(table, name, (0, 1), 0)
    assert run.regrets[0] > search.REGRET
    assert min(run.regrets) == 0
    assert run.before == (1.5 if name in ("autotune", "TPE, all trials") else 0)


@pytest.mark.parametrize("name", ["TPE", "independent TPE", "GP", "TPE without forecast", "GP without forecast"])
def test_a_sampler_of_optuna_ends_by_the_same_rule(search, table, name) -> None:
    run = search.replay(table, name, (0, 1), 0)
    assert search.PATIENCE < len(run.regrets) < search.MOST_TRIALS


def test_a_sampler_of_optuna_begins_with_what_the_forecast_ranks_first(search, table, monkeypatch) -> None:
    fastest = min(table.times_ms, key=lambda one: table.times_ms[one])

    def forecast(settings):
        ms = 1.0 if settings == table.space.settings(fastest) else 2.0
        return search.Forecast(ms, ms, ms, "modelled")

    monkeypatch.setattr(search.Table, "forecast", lambda self, settings: forecast(settings))
    assert search.replay(table, "TPE", (0, 1), 0).regrets[1] == 0


def test_drawn_times_lie_around_the_medians(search, table) -> None:
    run = search.redraw(table, "random", 0)
    assert min(run.regrets) == 0
    assert run.regrets == search.redraw(table, "random", 0).regrets


def test_autotune_needs_fewer_trials_than_it_is_allowed(search, table) -> None:
    run = search.replay(table, "autotune", (0, 1), 0)
    assert run.needed() < 20
    assert len(run.regrets) < search.MOST_TRIALS


def test_doubling_looks_at_the_batch_alone(search, table) -> None:
    assert len(search.replay(table, "doubling", (0, 1), 0).regrets) == len(table.space.axes[0].points)


@pytest.mark.parametrize(
    ("regrets", "needed"), [((0.5, 0.02, 0.0), 2.5), ((0.5, 0.02, 0.04, 0.01), 4.5), ((0.0,), 1.5), ((0.5, 0.1), 40.5)]
)
def test_a_run_is_there_once_its_best_is_good_and_stays_so(search, regrets, needed) -> None:
    assert search.Run("grid", "TPE", regrets, 0.5).needed() == needed


def test_ten_per_cent_are_reached_earlier(search) -> None:
    run = search.Run("grid", "TPE", (0.5, 0.08, 0.02), 0.0)
    assert (run.needed(0.1), run.needed(0.03)) == (2, 3)


def test_a_grid_that_was_recorded_once_is_left_out(search, table, tmp_path) -> None:
    file = tmp_path / "grid.json"
    document = json.loads(file.read_text())
    row = document["workloads"][-1]
    row["times_ms"] = {words: times[:1] for words, times in row["times_ms"].items()}
    file.write_text(json.dumps(document))
    assert table.name not in [one.name for one in search.tables(file)]


def test_a_replay_chooses_and_scores_on_different_rounds(search, table) -> None:
    own = table.space.current
    first = {one: [200.0 if one == own else 1000.0] * 2 for one in table.times_ms}
    times_ms = {one: [*first[one], *times] for one, times in table.times_ms.items()}
    misled = search.replay(replace(table, times_ms=times_ms), "random", (0, 1), 0)
    assert set(misled.regrets) == {table.times_ms[own][0] / min(times[2] for times in table.times_ms.values()) - 1}


def test_the_tables_name_every_method_and_grid(search, table) -> None:
    runs = [search.replay(table, name, (0, 1), 0) for name in search.METHODS]
    assert all(name in search.summary(runs) and name in search.details(runs) for name in search.METHODS)
    assert table.name in search.grids([table])
