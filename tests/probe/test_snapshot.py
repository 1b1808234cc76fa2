from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import jsonschema
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import autotune
from autotune.model import recording as wire
from autotune.probe import snapshot

SCHEMA = json.loads((Path(autotune.__file__).parent / "model" / "recording.schema.json").read_text())


@pytest.fixture
def trained(probed):
    """A session after three steps over a loader, with its window closed."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(12, 2)), batch_size=4)
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    probed.window.close(probed.window.step_ends[-1], "script_ended")
    return probed


def recorded(session, outcome="ended_early"):
    """The Recording as another process reads it."""
    return json.loads(json.dumps(snapshot.recording(session, outcome), allow_nan=False))


def test_a_recording_is_as_the_schema_says_and_reads_back(trained):
    row = recorded(trained)
    jsonschema.validate(row, SCHEMA)
    read = wire.from_json(row)
    assert read.outcome == "ended_early"
    assert read.window.steps == 2
    assert [event.kind for event in read.events[:5]] == ["iter", "fetch", "forward", "backward", "optimizer"]
    assert [batch.num_samples for batch in read.batches] == [4, 4, 4]
    assert [fetch.num_samples for fetch in read.fetches] == [4, 4, 4]
    assert all(fetch.in_main for fetch in read.fetches)
    assert read.software["torch"] == torch.__version__


def test_times_count_from_the_origin(trained):
    row = recorded(trained)
    assert row["origin_ns"] == trained.recorder.origin
    starts = [event[1] for event in row["events"]] + [fetch[2] for fetch in row["fetches"]]
    assert all(0 <= start < 60e9 for start in starts)
    assert row["window"]["end_ns"] == row["window"]["step_ends_ns"][-1]


def test_two_threads_write_one_after_the_other(trained, monkeypatch):
    """The sampler's thread ends an overdue process while the training thread writes the result of a what-if."""
    real, errors = json.dump, []

    def slow(*args, **keywords):
        real(*args, **keywords)
        time.sleep(0.02)

    def write():
        try:
            trained.write("completed")
        except OSError as error:
            errors.append(error)

    monkeypatch.setattr(snapshot.json, "dump", slow)
    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("outcome", ["completed", "ended_early", "no_step"])
def test_an_error_belongs_to_the_outcomes_that_have_one(trained, monkeypatch, outcome):
    monkeypatch.setattr(sys, "last_value", ValueError("x"), raising=False)
    assert recorded(trained, outcome)["error"] is None


@pytest.mark.parametrize(
    ("error", "outcome", "message"),
    [
        (ValueError("sample 'my private text' is bad"), "raised", ""),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory", "CUDA out of memory. Tried to"),
    ],
)
def test_an_errors_message_is_kept_only_when_torch_worded_it(trained, monkeypatch, error, outcome, message):
    try:
        raise error
    except Exception as caught:
        monkeypatch.setattr(sys, "last_value", caught, raising=False)
    trained.recorder.failed_phase = "forward"
    row = recorded(trained, outcome)["error"]
    assert row["type"] == type(error).__name__
    assert row["message"].startswith(message)
    assert bool(row["message"]) is bool(message)
    assert row["phase"] == "forward"
    assert row["traceback"][-1].startswith(f"{__file__}:")


def test_the_environment_is_an_allowlist(trained, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "planted-secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    row = recorded(trained)
    assert row["environment"]["OMP_NUM_THREADS"] == "3"
    assert set(row["environment"]) == set(snapshot.ENVIRONMENT)
    assert "planted-secret" not in json.dumps(row)


def test_what_changes_how_torch_trains_is_recorded_and_nothing_like_it(trained, monkeypatch):
    said = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "NCCL_P2P_DISABLE": "1",
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_DATASETS_OFFLINE": "1",
    }
    private = ("HF_ENDPOINT", "NCCL_CONF_FILE", "TORCHINDUCTOR_REDIS_URL", "OMP_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    for name, value in {**said, **dict.fromkeys(private, "https://me:planted-secret@host")}.items():
        monkeypatch.setenv(name, value)
    row = recorded(trained)
    assert {name: value for name, value in row["environment"].items() if name in said} == said
    assert "planted-secret" not in json.dumps(row)


def test_no_recorded_variable_holds_a_path_a_url_or_a_secret_by_its_name():
    parts = {part for name in snapshot.ENVIRONMENT for part in name.split("_")}
    assert not parts & {"TOKEN", "KEY", "SECRET", "PASSWORD", "URL", "ENDPOINT", "HOME", "DIR", "FILE", "PROXY"}
    assert len(set(snapshot.ENVIRONMENT)) == len(snapshot.ENVIRONMENT)


def test_calls_are_counted_and_timed_inside_the_window(attach, monkeypatch):
    import gc

    session = attach(steps=2, warmup=1, what_ifs=False, keep_going=True)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        gc.collect()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    (row,) = recorded(session, "completed")["calls"]
    assert (row["kind"], row["count"], row["in_window"], row["is_library"]) == ("gc", 3, 2, False)
    assert row["total_ns"] > 0


def test_a_torn_last_row_of_a_workers_file_is_left_out(trained, tmp_path):
    from autotune.probe.hooks import fetches

    whole = fetches.ROW.pack(0, 77, trained.recorder.origin + 5, 10, 9, 3, 2, 4, 1)
    (tmp_path / f"fetches-{trained.recorder.pid}").write_bytes(whole + whole[:20])
    rows = wire.from_json(recorded(trained)).fetches
    (row,) = [row for row in rows if not row.in_main]
    assert (row.loader, row.pid, row.start_ns, row.wall_ns, row.num_samples, row.queued_ns) == (0, 77, 5, 10, 4, 1)


def test_a_recording_replaces_an_earlier_one_whole(trained, tmp_path):
    snapshot.write(trained, "ended_early")
    snapshot.write(trained, "completed")
    (path,) = tmp_path.glob("recording-*")
    assert json.loads(path.read_text())["outcome"] == "completed"


def test_torchs_state_is_that_of_the_windows_end(attach, monkeypatch):
    session = attach()
    before = torch.get_num_threads()
    session.window.close(session.recorder.origin, "script_ended")
    monkeypatch.setattr(torch, "get_num_threads", lambda: before + 7)
    assert snapshot.recording(session, "completed")["torch_state"]["num_threads"] == before


def test_of_a_window_that_has_not_ended_it_is_as_it_is_now(attach, monkeypatch):
    session = attach()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 93)
    assert snapshot.recording(session, "raised")["torch_state"]["num_threads"] == 93
