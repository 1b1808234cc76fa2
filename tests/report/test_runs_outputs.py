"""One line for each job: what is not known is empty in every output, and never 0."""

from __future__ import annotations

import csv
import io
import json
from importlib.resources import files

import jsonschema
from job_builders import found, job, unknown

from autotune.report import render

SCHEMA = json.loads((files("autotune.report.json") / "runs.schema.json").read_text(encoding="utf-8"))


def test_the_object_is_what_the_schema_says() -> None:
    document = json.loads(render("runs", found(job(), unknown(), unreadable=(("/a", "why"),)), "json"))
    jsonschema.validate(document, SCHEMA)
    assert list(document) == list(SCHEMA["properties"])
    full, nothing = document["jobs"]
    assert (full["bound"], full["ranks"], full["first_fix"]) == ("data_wait", 8, "DL001")
    assert (full["lost_share"], full["hours_lost"]) == (0.48, 2.25)
    assert {name for name, value in nothing.items() if value is None} >= {
        "step_ms",
        "lost_share",
        "hours_lost",
        "wait_share",
        "ranks",
    }
    assert document["unreadable"] == [{"folder": "/a", "reason": "why"}]


def test_an_unknown_value_is_an_empty_cell() -> None:
    rows = list(csv.DictReader(io.StringIO(render("runs", found(job(missing_ranks=(4, 5)), unknown()), "csv"))))
    assert (rows[0]["step_ms"], rows[0]["hosts"], rows[0]["num_hosts"]) == ("412.5", "node1 node2", "2")
    assert rows[0]["missing_ranks"] == "4 5"
    empty = {name for name, value in rows[1].items() if value == ""}
    assert empty >= {
        "began",
        "hosts",
        "num_hosts",
        "ranks",
        "step_ms",
        "wait_share",
        "lost_share",
        "hours_lost",
        "first_fix",
    }
    assert "0" not in rows[1].values()


def test_a_measured_zero_is_no_empty_cell() -> None:
    (row,) = csv.DictReader(io.StringIO(render("runs", found(job(hours_lost=0.0, wait_share=0.0)), "csv")))
    assert (row["hours_lost"], row["wait_share"]) == ("0", "0")


def test_a_command_is_no_formula_of_a_spreadsheet() -> None:
    (row,) = csv.DictReader(io.StringIO(render("runs", found(job(command=("=1+1",), device="@x")), "csv")))
    assert (row["command"], row["device"]) == ("'=1+1", "'@x")


def test_a_sample_is_missing_where_nothing_is_known() -> None:
    text = render("runs", found(job(run="a", folder="/p"), unknown(run="b", folder="/q")), "prometheus")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert 'autotune_step_seconds{run="a",folder="/p"} 0.4125' in samples
    assert 'autotune_lost_seconds{run="a",folder="/p"} 8100' in samples
    assert 'autotune_lost_ratio{run="a",folder="/p"} 0.48' in samples
    assert 'autotune_missing_ranks{run="a",folder="/p"} 0' in samples  # all of eight ranks: a counted zero
    of_b = [line for line in samples if 'run="b"' in line]
    assert of_b == ['autotune_run_info{run="b",folder="/q",outcome="no_step"} 1']


def test_runs_of_one_name_in_two_folders_are_two_series() -> None:
    lines = render("runs", found(job(folder="/p"), job(folder="/q")), "prometheus").splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))


def test_labels_are_escaped() -> None:
    text = render("runs", found(job(command=("a", 'x "\\\n y'))), "prometheus")
    line = next(line for line in text.splitlines() if line.startswith("autotune_run_info{"))
    assert r"command=\"" not in line
    assert r"'x \"\\ y'" in line


def test_every_metric_has_its_head_once() -> None:
    lines = render("runs", found(job(run="a"), job(run="b")), "prometheus").splitlines()
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) and "autotune_device_busy_ratio" in types


def test_the_table_marks_what_is_unknown_and_what_is_missing() -> None:
    text = render("runs", found(job(missing_ranks=(4, 5)), unknown()), "table", width=160)
    head, first, second = text.splitlines()
    assert head.split()[0] == "when"
    assert (
        "8 (2 missing)" in first
        and "data wait 61 %" in first
        and "64 %" in first
        and "48 %" in first
        and "2.2" in first
    )
    assert "torchrun train.py" in first and "node1 +1" in first
    assert " - " in second and "no step" in second and " 0 " not in second
