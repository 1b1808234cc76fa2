from __future__ import annotations

import json

import pytest

from autotune.collect.stored import load
from autotune.errors import UsageError

WINDOW = {
    "warmup_steps": 1,
    "steps": 2,
    "start_ns": 10,
    "end_ns": 30,
    "step_ends_ns": [10, 20, 30],
    "steps_by": "optimizer",
    "ended_by": "steps",
}
EMPTY = {
    "events": [],
    "fetches": [],
    "batches": [],
    "samples": [],
    "what_ifs": [],
    "loaders": [],
    "optimizers": [],
    "models": [],
    "calls": [],
    **dict.fromkeys(("error", "device", "io", "compile", "kernels")),
    **{name: {} for name in ("software", "frameworks", "torch_state", "environment", "memory", "side_effects")},
    "overhead": {},
}


def row(pid, rank=0, window=WINDOW, models=()):
    process = {"pid": pid, "rank": rank}
    return {
        **EMPTY,
        "schema": 1,
        "outcome": "completed",
        "origin_ns": 5,
        "sampler_interval_ns": 10,
        "process": process,
        "window": window,
        "models": list(models),
    }


@pytest.fixture
def save(tmp_path):
    def write(pid, **fields):
        path = tmp_path / f"recording-{pid}.json"
        path.write_text(json.dumps(row(pid, **fields)))
        return path

    return write


def pids(path):
    return [one.process["pid"] for one in load(path)]


def test_a_run_folder_gives_its_recordings_by_rank(tmp_path, save):
    for pid, rank in ((30, 0), (10, 2), (20, 1)):
        save(pid, rank=rank)
    (tmp_path / "run.json").write_text("{}")
    assert pids(tmp_path) == [30, 20, 10]


def test_one_file_is_one_recording(save):
    path = save(7)
    save(8)
    assert pids(path) == [7]


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ([(1, None, []), (2, WINDOW, [{}])], [2]),
        ([(1, None, []), (2, None, [{}])], [2]),
        ([(1, None, []), (2, None, [])], [1, 2]),
        ([], []),
    ],
)
def test_processes_that_trained_nothing_are_left_out_when_others_did(tmp_path, save, made, kept):
    for pid, window, models in made:
        save(pid, window=window, models=models)
    assert pids(tmp_path) == kept


def without(name):
    data = row(1)
    del data[name]
    return data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (without("events"), "KeyError: 'events'"),
        (without("schema"), "KeyError: 'schema'"),
        ({**row(1), "schema": 2}, "schema 2 is not 1"),
        ({**row(1), "events": [["forward"]]}, "TypeError"),
        ({**row(1), "window": {"steps": 3}}, "KeyError: 'step_ends_ns'"),
        ([], "TypeError"),
        (None, "TypeError"),
    ],
)
def test_what_is_no_recording_is_refused_by_name(tmp_path, data, said):
    path = tmp_path / "recording-1.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=said) as caught:
        load(path)
    assert caught.value.where == str(path)
    assert "autotune diagnose" in caught.value.to_do


def test_a_damaged_file_is_refused_with_its_place(tmp_path):
    path = tmp_path / "recording-1.json"
    path.write_text('{"schema": 1,\n "outcome"')
    with pytest.raises(UsageError, match="not JSON") as caught:
        load(path)
    assert caught.value.where == f"{path}:2:11"
