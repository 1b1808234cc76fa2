from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import autotune
from autotune import probe
from autotune.collect import request
from autotune.collect.request import Override, Request

SCHEMA = json.loads((Path(autotune.__file__).parent / "collect" / "request.schema.json").read_text())
ROOT = Path("/home/me/project")
RUN = ROOT / ".autotune" / "runs" / "20250101-000000-abcdef"
ISOLATE = {
    "layer": "hooks",
    "protected": [str(ROOT)],
    "exempt": [str(RUN)],
    "run_id": RUN.name,
    "run_dir": str(RUN),
    "mount_points": ["/"],
}


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
    row = request.as_json(asked, RUN, ISOLATE)
    jsonschema.validate(row, SCHEMA)
    assert (row["keep_going"], row["what_ifs"]) == (asked.keep_going, asked.what_ifs)
    window = row["window"]
    for name in ("steps", "warmup", "default_steps", "min_s", "multiple", "after", "time_limit_s"):
        assert window[name] == getattr(asked, name)


def test_every_field_is_asked_for_or_the_parents_own():
    row = request.as_json(Request(), RUN, None)
    named = {*row, *row["window"]}
    assert set(Request.__struct_fields__) - named == {"startup_limit_s"}


@pytest.mark.parametrize("name", ["plain", "mit Ümläut", "emoji 🙂", 'quote " and \\ back', "new\nline"])
def test_the_file_reads_back_as_json_and_as_the_probe_reads_it(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    path = request.write(Request(resume_from=name, time_limit_s=1e-7), folder, None)
    expected = request.as_json(Request(resume_from=name, time_limit_s=1e-7), folder, None)
    assert json.loads(path.read_text("utf-8")) == expected
    assert probe._read(str(path)) == expected


@pytest.mark.parametrize("text", ['__import__("os").remove("x")', '{"schema": (1)}', "[", ""])
def test_the_probe_parses_and_never_evaluates(tmp_path, text):
    (tmp_path / "request.json").write_text(text)
    with pytest.raises(ValueError, match="no JSON"):
        probe._read(str(tmp_path / "request.json"))
