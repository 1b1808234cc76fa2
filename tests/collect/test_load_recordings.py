from __future__ import annotations

import json

import pytest

from autotune.collect.load_recordings import load
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
    **{name: {} for name in ("software", "frameworks", "torch_state", "environment", "memory")},
    "side_effects": {"blocked": [], "not_isolated": []},
    "overhead": dict.fromkeys(("events", "event_ns", "sampler_ns", "setup_ns"), 0),
}
PROCESS = {
    "ppid": 1,
    "local_rank": 0,
    "world_size": 1,
    "local_world_size": 1,
    "argv": ["train.py"],
    "executable": "python",
}
PROCESS |= {"python": [3, 11, 7], "main_file": None, "num_threads": None}
MODEL = {
    "id": 0,
    "type": "Linear",
    "module": "torch",
    "num_params": 1,
    "num_trainable": 1,
    "param_bytes": 4,
    "dtypes": {},
}
MODEL |= {"num_batchnorm": 0, "checkpointing": False, "compiled": False, "parallel": None}
MODEL |= {"site": {"file": "train.py", "line": 1, "function": "main", "is_user": True}}


def row(pid, rank=0, window=WINDOW, models=()):
    process = {**PROCESS, "pid": pid, "rank": rank}
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
        ([(1, None, []), (2, WINDOW, [MODEL])], [2]),
        ([(1, None, []), (2, None, [MODEL])], [2]),
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
        (without("events"), "missing required field `events`"),
        (without("schema"), "schema None is not 1"),
        ({**row(1), "schema": 2}, "schema 2 is not 1"),
        ({**row(1), "events": [["forward"]]}, r"Expected `array` of at least length 3, got 1 - at `\$\.events\[0\]`"),
        ({**row(1), "window": {**WINDOW, "steps": 3}}, "3 step_ends_ns are no 1 steps of warm-up and 3 after them"),
        ({**row(1), "torch_state": {"anomaly": "on"}}, r"Expected `bool`, got `str` - at `\$\.torch_state\.anomaly`"),
        ([], "it is no object"),
        (None, "it is no object"),
    ],
)
def test_what_is_no_recording_is_refused_by_name(tmp_path, data, said):
    path = tmp_path / "recording-1.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=said) as caught:
        load(path)
    assert caught.value.where == str(path)
    assert "autotune diagnose" in caught.value.to_do


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "1" * 30, "1" * 5000])
def test_a_number_without_an_end_is_refused(tmp_path, number):
    path = tmp_path / "recording-1.json"
    path.write_text(json.dumps(row(1)).replace('"origin_ns": 5', f'"origin_ns": {number}'))
    with pytest.raises(UsageError, match="is not a supported number"):
        load(path)


def test_what_is_too_deep_is_refused(tmp_path):
    (tmp_path / "recording-1.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match="too deep"):
        load(tmp_path / "recording-1.json")


def test_a_damaged_file_is_refused_with_its_place(tmp_path):
    path = tmp_path / "recording-1.json"
    path.write_text('{"schema": 1,\n "outcome"')
    with pytest.raises(UsageError, match="not JSON") as caught:
        load(path)
    assert caught.value.where == f"{path}:2:11"
