"""What a process does until its first step: causes of stacks, times, and what is left of a process that is ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from pathlib import Path

import jsonschema
import pytest
import torch

from autotune.collect import request as requests
from autotune.collect import startup_notes
from autotune.probe import startup


class Frame:
    """As much of a frame as is looked at; `back` is the frame that called."""

    def __init__(self, module, name, /, file=None, line=1, back=None, variables=None, **more):
        path = file or f"/env/site-packages/{module.replace('.', '/')}.py"
        self.f_code = types.SimpleNamespace(co_filename=path, co_name=name)
        self.f_globals = {"__name__": module}
        self.f_locals = {**more, **(variables or {})}
        self.f_lineno = line
        self.f_back = back


def stack(*frames):
    """A stack of frames that are given from the outermost on: (module, function, keywords)."""
    return [Frame(module, function, **given) for module, function, given in reversed(frames)]


def user(function="main", file="/p/train.py", line=5):
    return "__main__", function, {"file": file, "line": line}


def library(module, function, /, **variables):
    return module, function, {"variables": variables}


def importing(name):
    return "importlib._bootstrap", "_find_and_load", {"file": "<frozen importlib._bootstrap>", "name": name}


@pytest.fixture
def made(tmp_path):
    return startup.StartUp(requests.as_json(requests.Request(), tmp_path, None))


def only(made, frame, phase="", has_grad=True):
    """The one row of one sample."""
    made.take(frame, phase, has_grad)
    (row,) = made.row()["rows"]
    return row


@pytest.mark.parametrize(
    ("frames", "cause", "detail", "line"),
    [
        ([user(line=7)], "code", "", 7),
        ([user(line=7), library("json.decoder", "decode")], "code", "json", 7),
        ([user(line=3), importing("torch")], "import", "torch", 3),
        (
            [user(line=3), importing("torch"), library("torch", "<module>"), importing("sympy.core")],
            "import",
            "torch > sympy",
            3,
        ),
        # The body of a module is none of the functions that compile.
        ([user(line=3), importing("torch"), library("torch._inductor.config", "<module>")], "import", "torch", 3),
        # What a module of the user's does while it is imported is the user's code.
        ([user(line=3), importing("data"), user("<module>", "/p/data.py", 20)], "code", "", 20),
        ([user(line=9), library("datasets.arrow_dataset", "map")], "map", "", 9),
        # The function that map calls is the user's, and the time is the map's.
        (
            [user(line=9), library("datasets.arrow_dataset", "map"), user("tokenise", line=2), library("re", "f")],
            "map",
            "",
            9,
        ),
        # The innermost that is known: a download inside what makes a model is a download.
        (
            [user(line=4), library("timm", "create_model"), library("requests.sessions", "send")],
            "download",
            "",
            4,
        ),
        ([user(line=4), library("transformers.modeling_utils", "from_pretrained")], "model", "", 4),
        ([user(line=4), library("torch.nn.modules.linear", "__init__"), library("torch.nn.init", "f")], "model", "", 4),
        ([user(line=4), library("torch.nn.modules.module", "_apply")], "device", "", 4),
        # Modules that only begin with the same letters are others.
        ([user(line=4), library("transformers_extra", "from_pretrained")], "code", "transformers_extra", 4),
        (
            [user(line=4), library("huggingface_hub.utils._http", "http_backoff")],
            "download",
            "waits before another try",
            4,
        ),
        ([library("axolotl.cli.train", "main")], "library", "axolotl", 0),
    ],
)  # fmt: skip
def test_a_stack_tells_its_cause_and_place(made, frames, cause, detail, line):
    row = only(made, stack(*frames))
    assert (row["cause"], row["detail"], row["line"]) == (cause, detail, line)


@pytest.mark.parametrize(
    ("phase", "has_grad", "frames", "cause"),
    [
        ("iter", True, [user()], "workers"),
        # A batch that is loaded from a file is no loading of weights.
        ("fetch", True, [user(), library("torch.serialization", "load")], "batch"),
        ("forward", True, [user()], "step"),
        ("forward", False, [user()], "evaluation"),
        ("backward", True, [user()], "step"),
        ("forward", True, [user(), library("torch._dynamo.convert_frame", "_compile")], "compile"),
        ("evaluation", True, [user(), library("torch.nn.modules.module", "_apply")], "evaluation"),
    ],
)
def test_a_phase_says_what_no_entry_says(made, phase, has_grad, frames, cause):
    assert only(made, stack(*frames), phase, has_grad)["cause"] == cause


def test_the_arguments_of_a_map_are_noted_without_the_data(made):
    data = types.SimpleNamespace(_fingerprint="abc", secret="text")
    given = {"num_proc": None, "load_from_cache_file": False, "function": print, "self": data}
    row = only(made, stack(user(), library("datasets.arrow_dataset", "map", **given)))
    assert row["arguments"] == {"num_proc": None, "load_from_cache_file": False, "self._fingerprint": "abc"}


def test_a_sample_stands_for_the_time_since_the_one_before(made):
    began = time.monotonic_ns()
    made.take(stack(user(line=1)), "", True)
    time.sleep(0.05)
    made.take(stack(user(line=2)), "", True)
    row = made.row()
    times = {one["line"]: one["ns"] for one in row["rows"]}
    assert times[2] >= 50e6
    assert sum(times.values()) == row["sampled_until_ns"] - row["sampled_from_ns"]
    assert row["process_ns"] < began < row["sampled_until_ns"]


def test_a_fork_has_no_start_of_its_own(made, monkeypatch, tmp_path):
    monkeypatch.setattr(startup, "NOTE_S", 0.0)
    with monkeypatch.context() as forked:
        forked.setattr(startup.os, "getpid", lambda: made._pid + 1)
        made.take(stack(user()), "", True)
        assert made.row() is None
    assert made.row()["rows"] == []
    assert startup_notes.read(tmp_path) is None


def test_the_thread_samples_until_it_is_stopped(made):
    made.start()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    made.stop()
    num_rows, until = len(made.row()["rows"]), made.row()["sampled_until_ns"]
    time.sleep(0.1)
    assert num_rows >= 1
    assert made.row()["sampled_until_ns"] == until


def test_the_note_of_a_process_is_read_back(made, tmp_path, monkeypatch):
    monkeypatch.setattr(startup, "NOTE_S", 0.0)
    made.take(stack(user('quote"\\ä\n', line=4)), "", True)
    time.sleep(0.001)
    made.take(stack(user('quote"\\ä\n', line=4)), "", True)
    read = startup_notes.read(tmp_path)
    assert [(row.function, row.line) for row in read.rows] == [('quote"\\ä\n', 4)]
    assert read.unhashed_map is False or "datasets" in sys.modules


def test_of_several_processes_the_one_that_runs_the_users_code_is_read(tmp_path):
    def note(pid, file, ns):
        row = {"cause": "code", "detail": "", "file": file, "line": 1, "function": "f", "ns": ns, "cpu_ns": 0}
        times = {"process_ns": None, "sampled_from_ns": 0, "sampled_until_ns": ns}
        (tmp_path / f"startup-{pid}").write_text(json.dumps({**times, "rows": [row]}))

    assert startup_notes.read(tmp_path) is None
    note(1, "", 9)
    note(2, "/p/train.py", 5)
    (tmp_path / "startup-3").write_text("{")
    assert startup_notes.read(tmp_path).rows[0].file == "/p/train.py"


def test_a_session_samples_until_its_first_step_and_records_it(request_json, attach, tmp_path):
    session = attach(steps=2)
    session.startup = startup.StartUp(session.request)
    session.startup._thread = session.recorder.thread
    model, end = torch.nn.Linear(4, 4), time.monotonic() + 0.2
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    while time.monotonic() < end:
        pass
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    until = session.startup.row()["sampled_until_ns"]
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
    row = session.startup.row()
    assert row["sampled_until_ns"] == until
    assert {one["function"] for one in row["rows"]} >= {"test_a_session_samples_until_its_first_step_and_records_it"}


SCRIPT = """
import time
end = time.monotonic() + 0.5
while time.monotonic() < end:
    pass
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(40):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def test_a_script_is_seen_from_before_the_import_of_torch_on(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    run = tmp_path / "run"
    run.mkdir()
    path = requests.write(requests.Request(steps=5, warmup=1, what_ifs=False, keep_going=True), run, None)
    boot = Path(startup.__file__).parent / "boot"
    environ = {"PYTHONPATH": str(boot), "AUTOTUNE_REQUEST": str(path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environ, check=True, timeout=300)
    (recording,) = run.glob("recording-*.json")
    row = json.loads(recording.read_text())
    schema = Path(requests.__file__).parents[1] / "model" / "recording.schema.json"
    jsonschema.validate(row, json.loads(schema.read_text()))
    found = row["startup"]
    seconds = {}
    for one in found["rows"]:
        key = one["cause"], one["detail"].split(" > ")[0], one["line"]
        seconds[key] = seconds.get(key, 0) + one["ns"] / 1e9
    assert seconds["code", "", 4] + seconds.get(("code", "", 5), 0) > 0.3
    assert seconds["import", "torch", 6] > 0.1
    assert found["process_ns"] < found["sampled_from_ns"] < found["sampled_until_ns"]
    first_step = row["window"]["step_ends_ns"][0]
    assert sum(one["ns"] for one in found["rows"]) == pytest.approx(first_step - found["sampled_from_ns"], abs=0.3e9)
