"""The trace that a diagnosis leaves."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from build import Script, fetches, kernels, launches, on_host, recording
from msgspec.structs import replace

from autotune.model import recording as wire
from autotune.trace import read
from autotune.trace.recording import recording as recording_of
from autotune.trace.write import dumps

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = sorted((ROOT / "fixtures" / "recordings").glob("[!t]*.json.gz"))
SHARED = sorted((ROOT.parent / "shared" / "traces").glob("*.json.gz"))
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def faults(text):
    """What a reader of Chrome's format refuses, cuts or moves."""
    found: list[str] = []
    rows = json.loads(text, parse_constant=lambda word: found.append(f"{word} is no JSON"))["traceEvents"]
    found += [f"{what}: {row}" for row in rows if (what := fault(row))]
    named = [(row["name"], row["pid"], row["tid"]) for row in rows if row["ph"] == "M"]
    found += [f"named twice: {one}" for one, count in Counter(named).items() if count > 1]
    threads = defaultdict(list)
    for row in rows:
        if row["ph"] == "X" and not fault(row):
            threads[row["pid"], row["tid"]].append((round(1000 * row["ts"]), round(1000 * (row["ts"] + row["dur"]))))
    for pid, tid in threads:
        if ("thread_name", pid, tid) not in named or ("process_name", pid, 0) not in named:
            found.append(f"without a name: {pid} {tid}")
    return [*found, *(f"cut one another: {one}" for slices in threads.values() for one in cuts(slices))]


def fault(row):
    """What is wrong with an event; "" for nothing."""
    if type(row["name"]) is not str or type(row["pid"]) is not int:
        return "no name, or no process"
    if row["ph"] == "M":
        return "" if row["name"] in METADATA and type(row["tid"]) is int else "unknown metadata"
    if row["ph"] not in ("X", "C") or not is_time(row["ts"]):
        return "unknown, or without a time"
    if row["ph"] == "C":
        return "" if all(type(value) in (int, float) for value in row["args"].values()) else "counts nothing"
    return "" if is_time(row["dur"]) and type(row["tid"]) is int else "no slice"


def is_time(value):
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def cuts(slices):
    """The slices of a thread, in ns, that begin in another one and end after it."""
    around: list[tuple[int, int]] = []
    for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
        while around and around[-1][1] <= start:
            around.pop()
        if around and end > around[-1][1]:
            yield around[-1], (start, end)
        around.append((start, end))


def written(*recordings):
    text = dumps(recordings)
    assert faults(text) == []
    rows = json.loads(text)["traceEvents"]
    names = {(row["pid"], row["tid"]): row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    processes = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}
    return rows, names, processes


def script():
    made = Script()
    for _ in range(3):
        made.step()
    return made


def test_steps_phases_workers_and_device():
    host = [
        on_host("aten::linear", 210, 220),
        on_host("cudaStreamSynchronize", 220, 230, "sync", operator="aten::item"),
    ]
    table = kernels(launches("gemm", 20, "aten::mm"), busy=20, start=200, end=260, host=host)
    first, second = (replace(one, in_main=False) for one in fetches([5, 6], pid=77))
    in_worker = (first, replace(second, start_ns=first.start_ns + first.wall_ns))
    rows, threads, processes = written(recording(script(), kernels=table, fetches=in_worker))
    slices = [row for row in rows if row["ph"] == "X"]
    by_thread = {}
    for row in slices:
        place = f"{processes[row['pid']]} / {threads.get((row['pid'], row['tid']), '')}"
        by_thread.setdefault(place, []).append(row)
    assert list(by_thread) == [
        "rank 0 / steps",
        "rank 0 / phases",
        "rank 0 / operators (profiled steps)",
        "rank 0 / waits for the device (profiled steps)",
        "worker 1 of rank 0 / batches",
        "device of rank 0: unknown (profiled steps) / stream 7",
    ]
    first = by_thread["rank 0 / steps"][0]
    assert (first["name"], first["ts"], first["dur"]) == ("step 2", 65_000, 65_000)
    assert {row["name"] for row in by_thread["rank 0 / phases"]} >= {"data wait", "forward", "backward", "optimizer"}
    assert by_thread["rank 0 / waits for the device (profiled steps)"][0]["args"] == {"operator": "aten::item"}
    assert [row["dur"] for row in by_thread["worker 1 of rank 0 / batches"]] == [5_000, 6_000]
    assert by_thread["device of rank 0: unknown (profiled steps) / stream 7"][0]["args"] == {"operator": "aten::mm"}


def test_ranks_are_on_one_clock():
    later = replace(recording(script()), origin_ns=5_000_000)
    later = replace(later, process={**later.process, "rank": 1})
    rows, _, processes = written(recording(script()), later)
    firsts = {processes[row["pid"]]: row["ts"] for row in reversed(rows) if row["ph"] == "X"}
    assert firsts["rank 1"] - firsts["rank 0"] == 5_000


def test_slices_of_two_threads_that_overlap_get_rows_of_their_own():
    host = [
        on_host("forward", 200, 230),
        on_host("aten::linear", 205, 210),
        on_host("backward", 220, 240),
        on_host("aten::add", 240, 241),
    ]
    table = kernels(launches("gemm", 20, "aten::mm"), busy=20, start=200, end=260, host=host)
    two = [(0, 7, 200_000_000, 5_000_000), (0, 7, 204_000_000, 5_000_000), (0, 3, 204_000_000, 5_000_000)]
    rows, threads, _ = written(recording(script(), kernels={**table, "launches": two}))
    of = defaultdict(list)
    for row in rows:
        if row["ph"] == "X":
            of[threads[row["pid"], row["tid"]]].append(row["name"])
    assert of["operators (profiled steps)"] == ["forward", "aten::linear", "aten::add"]
    assert of["operators (profiled steps) (2)"] == ["backward"]
    assert [of[name] for name in ("stream 3", "stream 7", "stream 7 (2)")] == [["gemm"]] * 3


@pytest.mark.parametrize("name", [file.name for file in RECORDINGS])
def test_recordings_of_a_gpu(name):
    text = gzip.decompress((ROOT / "fixtures" / "recordings" / name).read_bytes())
    assert faults(dumps([wire.from_json(json.loads(text))])) == []


@pytest.mark.parametrize("name", [file.name for file in SHARED])
def test_traces_that_others_recorded(name):
    trace = read.read(ROOT.parent / "shared" / "traces" / name)
    assert faults(dumps([recording_of(trace)])) == []


def test_what_the_test_of_files_finds():
    """The rules of `faults` themselves."""
    slices = [(0, 10, "a"), (5, 15, "b")]
    rows = [{"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": end - at} for at, end, name in slices]
    found = faults(json.dumps({"traceEvents": rows}))
    assert [one.partition(":")[0] for one in found] == ["without a name", "cut one another"]
    names = [{"ph": "M", "name": name, "pid": 1, "tid": 1, "args": {"name": "x"}} for name in ("thread_name", "id")]
    found = faults(json.dumps({"traceEvents": [*names, names[0], {**rows[0], "dur": math.nan}, {**rows[0], "ts": -1}]}))
    assert [one.partition(":")[0] for one in found] == [
        "NaN is no JSON",
        "unknown metadata",
        "no slice",
        "unknown, or without a time",
        "named twice",
    ]
