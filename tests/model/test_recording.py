from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import autotune
from autotune.model import recording as wire

SCHEMA = json.loads((Path(autotune.__file__).parent / "model" / "recording.schema.json").read_text())

SITE = {"file": "/p/train.py", "line": 3, "function": "main", "is_user": True}
ROW = {
    "schema": 1,
    "outcome": "completed",
    "origin_ns": 5,
    "process": {
        "pid": 7, "ppid": 1, "rank": 0, "local_rank": 0, "world_size": 1, "local_world_size": 1, "argv": ["train.py"],
        "executable": "/env/bin/python", "python": [3, 11, 7], "main_file": "/p/train.py", "num_threads": 2,
    },
    "error": None,
    "software": {"torch": "2.13.0"},
    "device": {"type": "cpu", "index": None, "name": None, "capability": None},
    "window": {
        "warmup_steps": 1, "steps": 2, "start_ns": 10, "end_ns": 30, "step_ends_ns": [10, 20, 30],
        "steps_by": "optimizer", "ended_by": "steps",
    },
    "events": [["fetch", 1, 2, 0, 1], ["forward", 2, 3, 0, 3]],
    "fetches": [[0, 7, 1, 4, 3, 2, 1, 8, True]],
    "batches": [
        {"loader": 0, "at_ns": 2, "num_samples": None, "num_bytes": 0, "shapes": []},
        {
            "loader": 0, "at_ns": 3, "num_samples": 2, "num_bytes": 64, "shapes": [[2, 4]], "tokens": 8, "width": 4,
            "useful_tokens": 5, "lengths": [2, 3], "padding": "attention_mask",
        },
    ],
    "samples": [
        {
            "phase": "other", "leaf_file": "/p/x.py", "leaf_function": "f", "user_file": "", "user_line": 0,
            "user_function": "", "count": 3,
        }
    ],
    "sampler_interval_ns": 10_000_000,
    "loaders": [], "optimizers": [], "models": [], "frameworks": {},
    "calls": [{"kind": "gc", "site": SITE, "count": 1, "in_window": 0, "total_ns": 0, "is_library": False}],
    "torch_state": {"autocast": "off"},
    "environment": {}, "memory": {"rss_peak_bytes": 9}, "io": None, "compile": None, "kernels": None,
    "what_ifs": [{"name": "replay", "outcome": "failed", "arguments": {"num_batches": 1}, "result": {}}],
    "side_effects": {"blocked": [], "not_isolated": []},
    "overhead": {"events": 1, "event_ns": 2, "sampler_ns": 3, "setup_ns": 4},
    "losses": [1.5, None, "nan"],
}  # fmt: skip


def test_the_counters_of_a_window_and_of_workers_become_records():
    counters = {"cpu_ns": 9, "process_cpu_ns": 10, "queued_ns": None, "step_cpu_ns": [0, 4, 9]}
    fetches = [[0, 7, 1, 4, 3, 2, 1, 8, False, 5], [0, 7, 1, 4, 3, 2, 1, 8, False, None]]
    one = wire.from_json(with_(window={**ROW["window"], **counters}, fetches=fetches))
    assert one.window == wire.RecordedWindow(
        1, 2, 10, 30, (10, 20, 30), "optimizer", "steps", (), 9, 10, None, (0, 4, 9)
    )
    assert [fetch.queued_ns for fetch in one.fetches] == [5, None]


@pytest.mark.parametrize("marks", [[0], [0, 1], [0, 1, 2, 3]])
def test_cpu_times_of_other_steps_are_no_recording(marks):
    with pytest.raises(ValueError, match="step_cpu_ns"):
        wire.from_json(with_(window={**ROW["window"], "step_cpu_ns": marks}))


def with_(**changes):
    return {**ROW, **changes}


def test_the_json_becomes_records():
    one = wire.from_json(ROW)
    assert one.events == (wire.Event("fetch", 1, 2, 0, 1), wire.Event("forward", 2, 3, 0, 3))
    assert one.fetches == (wire.Fetch(0, 7, 1, 4, 3, 2, 1, 8, True),)
    assert one.window == wire.RecordedWindow(1, 2, 10, 30, (10, 20, 30), "optimizer", "steps")
    assert one.samples == (wire.Sample("other", "/p/x.py", "f", "", 0, "", 3),)
    assert one.what_ifs == (wire.WhatIf("replay", "failed", {"num_batches": 1}, {}),)
    assert one.process["pid"] == 7


def test_what_a_batch_does_not_say_is_unknown_and_never_zero():
    bare, full = wire.from_json(ROW).batches
    assert (bare.num_samples, bare.tokens, bare.useful_tokens, bare.lengths, bare.padding) == (None,) * 5
    assert full == wire.Batch(0, 3, 2, 64, ((2, 4),), 8, 5, 4, (2, 3), "attention_mask")


def test_lengths_that_came_with_the_batch_are_a_way_to_know_them():
    row = with_(batches=[{**ROW["batches"][1], "padding": "counts"}])
    jsonschema.validate(row, SCHEMA)
    assert wire.from_json(row).batches[0].padding == "counts"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"process": {**ROW["process"], "pid": "seven"}}, r"\$\.process\.pid"),
        ({"events": [["fetch", 1, 2, 0, "yes"]]}, r"\$\.events\[0\]\[4\]"),
        ({"torch_state": {"anomaly": "on"}}, r"\$\.torch_state\.anomaly"),
        ({"losses": ["a sample"]}, r"\$\.losses\[0\]"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(change, place):
    with pytest.raises(ValueError, match=place):
        wire.from_json(with_(**change))


def test_keys_that_a_part_may_have_beside_are_left_as_they_are():
    arguments = {"num_workers": 2, "drop_last": True}
    loader = {
        "id": 0, "site": SITE, "arguments": arguments, "given": [], "sampler": "RandomSampler", "num_batches": None,
        "dataset": {"type": "D", "module": "m", "length": None, "map_style": True},
        "wraps": None, "pad_id": None, "path": None, "max_length": None,
    }  # fmt: skip
    jsonschema.validate(with_(loaders=[loader]), SCHEMA)
    assert wire.from_json(with_(loaders=[loader])).loaders[0]["arguments"] == arguments


def test_the_devices_clock_is_read_where_there_is_one():
    assert wire.from_json(ROW).window.device_clock == ()
    row = with_(window={**ROW["window"], "device_clock": [[10, 0], [30, 25]]})
    jsonschema.validate(row, SCHEMA)
    assert wire.from_json(row).window.device_clock == ((10, 0), (30, 25))


KERNELS = {
    "steps": 3, "start_ns": 40, "end_ns": 90,
    "rows": [{"name": "ampere_sgemm_128x64_nn", "operator": "aten::mm", "kind": "kernel"}],
    "launches": [[0, 7, 50, 20]],
    "host_rows": [{"name": "cudaStreamSynchronize", "operator": "aten::item", "kind": "sync"}],
    "host": [[0, 45, 30]],
}  # fmt: skip


def test_kernels_are_a_table_and_nothing_else():
    jsonschema.validate(with_(kernels=KERNELS), SCHEMA)
    read = {**KERNELS, "launches": [(0, 7, 50, 20)], "host": [(0, 45, 30)]}
    assert wire.from_json(with_(kernels=KERNELS)).kernels == read
    row = {**KERNELS["rows"][0], "stack": "train.py"}
    for kernels in ({"busy_share": 0.5}, {**KERNELS, "rows": [row]}, {**KERNELS, "launches": [[1]]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(with_(kernels=kernels), SCHEMA)


def test_losses_are_numbers_or_unknown_and_recordings_from_before_have_none():
    first, unknown, last = wire.from_json(ROW).losses
    assert (first, unknown, str(last)) == (1.5, None, "nan")
    row = {key: value for key, value in ROW.items() if key != "losses"}
    jsonschema.validate(row, SCHEMA)
    assert wire.from_json(row).losses == ()


def test_no_window_is_none():
    assert wire.from_json(with_(window=None)).window is None


@pytest.mark.parametrize("name", sorted(set(ROW) - {"kept_graphs", "losses", "averagings", "lines", "startup"}))
def test_every_part_is_needed(name):
    row = {key: value for key, value in ROW.items() if key != name}
    with pytest.raises(ValueError, match=name):
        wire.from_json(row)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(row, SCHEMA)


@pytest.mark.parametrize("schema", [0, 2, "1", None])
def test_another_schema_is_refused(schema):
    with pytest.raises(ValueError, match="schema"):
        wire.from_json(with_(schema=schema))


def test_the_schema_and_the_records_name_the_same_parts():
    jsonschema.validate(ROW, SCHEMA)
    assert set(wire.Recording.__struct_fields__) | {"schema"} == set(SCHEMA["properties"])
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"]) - {
        "kept_graphs",
        "fit",
        "losses",
        "averagings",
        "lines",
        "startup",
        "trace",
    }


def test_the_schema_and_the_records_know_the_same_events():
    kinds = SCHEMA["$defs"]["Event"]["prefixItems"][0]["enum"]
    assert set(kinds) == set(wire.EVENT_KINDS)


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "won"},
        {"events": [["sleep", 1, 2, 0, 0]]},
        {"events": [["fetch", 1.5, 2, 0, 0]]},
        {"window": {**ROW["window"], "ended_by": "luck"}},
        {"losses": ["a sample"]},
        {"batches": [{**ROW["batches"][0], "text": "a sample"}]},
        {"process": {**ROW["process"], "environ": {}}},
        {"more": 1},
    ],
)
def test_what_is_not_described_is_refused(change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(with_(**change), SCHEMA)
