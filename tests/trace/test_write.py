"""The trace that a diagnosis leaves."""

from __future__ import annotations

import json

from build import Script, fetches, kernels, launches, on_host, recording
from msgspec.structs import replace

from autotune.trace.write import dumps


def written(*recordings):
    rows = json.loads(dumps(recordings))["traceEvents"]
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
    in_worker = tuple(replace(one, in_main=False) for one in fetches([5, 6], pid=77))
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
        "worker 1 of rank 0 / ",
        "device of rank 0: unknown (profiled steps) / stream 7",
    ]
    first = by_thread["rank 0 / steps"][0]
    assert (first["name"], first["ts"], first["dur"]) == ("step 2", 65_000, 65_000)
    assert {row["name"] for row in by_thread["rank 0 / phases"]} >= {"data wait", "forward", "backward", "optimizer"}
    assert by_thread["rank 0 / waits for the device (profiled steps)"][0]["args"] == {"operator": "aten::item"}
    assert [row["dur"] for row in by_thread["worker 1 of rank 0 / "]] == [5_000, 6_000]
    assert by_thread["device of rank 0: unknown (profiled steps) / stream 7"][0]["args"] == {"operator": "aten::mm"}


def test_ranks_are_on_one_clock():
    later = replace(recording(script()), origin_ns=5_000_000)
    later = replace(later, process={**later.process, "rank": 1})
    rows, _, processes = written(recording(script()), later)
    firsts = {processes[row["pid"]]: row["ts"] for row in reversed(rows) if row["ph"] == "X"}
    assert firsts["rank 1"] - firsts["rank 0"] == 5_000
