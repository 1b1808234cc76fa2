from __future__ import annotations

import json
import tempfile
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest

import autotune
from autotune.collect import request
from autotune.collect.request import Override, Request

SCHEMA = json.loads((Path(autotune.__file__).parent / "collect" / "request.schema.json").read_text())
ROOT = Path("/home/me/project")
IN_HOME = ["/home/me/.triton", "/home/me/.nv"]
RUN = ROOT / ".autotune" / "runs" / "20250101-000000-abcdef"


@pytest.mark.parametrize(
    "asked",
    [
        Request(),
        Request(steps=5, warmup=2, after=100, what_ifs=False),
        Request(keep_going=True, time_limit_s=1.5),
        Request(default_steps=10, min_s=1.0, multiple=24),
        Request(overrides=(Override("loader", "/p/train.py", 3, 5, {"num_workers": 2, "pin_memory": True}),)),
    ],
)
def test_it_is_as_the_schema_says(asked):
    row = request.as_json(asked, RUN, (ROOT,), {"HOME": "/home/me"})
    jsonschema.validate(row, SCHEMA)
    assert (row["keep_going"], row["what_ifs"]) == (asked.keep_going, asked.what_ifs)
    window = row["window"]
    for name in ("steps", "warmup", "default_steps", "min_s", "multiple", "after", "time_limit_s"):
        assert window[name] == getattr(asked, name)


def test_every_field_is_asked_for_or_the_parents_own():
    row = request.as_json(Request(), RUN, (ROOT,), {})
    named = {*row, *row["window"]}
    assert {field.name for field in fields(Request)} - named == {"startup_limit_s"}


def test_training_that_goes_on_is_not_isolated():
    assert request.as_json(Request(keep_going=True), RUN, (ROOT,), {})["isolate"] is None


@pytest.mark.parametrize(
    ("environ", "exempt"),
    [
        ({}, ["/home/me/.cache", *IN_HOME]),
        ({"XDG_CACHE_HOME": "/cache"}, ["/cache", *IN_HOME]),
        ({"HF_HOME": "/hf", "TORCH_HOME": ""}, ["/home/me/.cache", *IN_HOME, "/hf"]),
        *(({name: "/of/its/own"}, ["/home/me/.cache", *IN_HOME, "/of/its/own"]) for name in request.CACHES),
    ],
)
def test_caches_and_the_run_folder_may_be_written_and_the_project_may_not(environ, exempt):
    isolate = request.as_json(Request(), RUN, (ROOT, Path("/data")), {"HOME": "/home/me", **environ})["isolate"]
    assert isolate == {
        "protected": ["/home/me/project", "/data"],
        "exempt": [str(RUN), tempfile.gettempdir(), *exempt],
        "run_id": RUN.name,
        "run_dir": str(RUN),
    }


@pytest.mark.parametrize("name", ["plain", "mit Ümläut", "emoji 🙂", 'quote " and \\ back', "new\nline"])
def test_the_file_reads_back_as_json_and_as_the_probe_reads_it(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    path = request.write(Request(keep_going=True), folder, (tmp_path,), {})
    expected = request.as_json(Request(keep_going=True), folder, (tmp_path,), {})
    assert json.loads(path.read_text("utf-8")) == expected
    names = {"__builtins__": {}, "true": True, "false": False, "null": None}
    assert eval(path.read_text("utf-8"), names) == expected
