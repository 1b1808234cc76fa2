"""Traces as files: the forms that releases of torch wrote, what is no JSON in them, and what is no trace."""

from __future__ import annotations

import gzip
import json

import pytest
from chrome import Chrome, training

from autotune.errors import UsageError
from autotune.trace import read as reading
from autotune.trace.read import Device, read


def test_what_ran_on_device_and_host(tmp_path):
    made = Chrome(distributedInfo={"backend": "nccl", "rank": 3, "world_size": 8})
    made.op("aten::mm", 10, 5, **{"External id": 4})
    made.launch("ampere_sgemm", 11, 20.5, 3.25)
    made.copy("DtoH (Device -> Pageable)", 30, 1, 31, 2)
    trace = read(made.write(tmp_path / "t.json"))
    assert (trace.rank, trace.world_size, trace.has_stacks) == (3, 8, False)
    assert trace.devices == {0: Device("NVIDIA A100-SXM4-80GB", "8.0", 80 << 30)}
    kernel, copy = trace.activities
    assert (kernel.name, kernel.kind, kernel.start_ns, kernel.ns) == ("ampere_sgemm", "kernel", 20_500, 3_250)
    assert (kernel.stream, kernel.device, kernel.correlation) == (7, 0, 1)
    assert copy.kind == "copy"
    operator, launch, _ = trace.host
    assert (operator.kind, operator.identity) == ("operator", 4)
    assert (launch.kind, launch.correlation, launch.thread) == ("runtime", 1, "100/100")


def test_the_names_of_2021(tmp_path):
    """torch 1.8: other categories, ids in lower case, streams as threads, ranges among the operators."""
    events = [
        {"ph": "X", "cat": "Operator", "name": "ProfilerStep#5", "pid": 9, "tid": "9", "ts": 0, "dur": 9},
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 9, "tid": "9", "ts": 1, "dur": 3,
         "args": {"External id": "2", "Call stack": "train.py(5): f"}},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": "9", "ts": 2, "dur": 1,
         "args": {"correlation": 7, "external id": 2}},
        {"ph": "X", "cat": "Kernel", "name": "sgemm", "pid": 0, "tid": "stream 7", "ts": 4, "dur": 2,
         "args": {"correlation": 7, "external id": 2, "device": 0}},
        {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7", "ts": 7, "dur": 1},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Traces", "tid": "p", "ts": 0, "dur": 9},
        {"ph": "i", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1, "args": {"Device Type": 0, "Bytes": 4}},
        {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}},
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(events))  # a list alone is a trace, too
    trace = read(tmp_path / "t.json")
    assert [(one.kind, one.stream, one.operator_id) for one in trace.activities] == [("kernel", 7, 2), ("fill", 7, -1)]
    assert [(event.name, event.kind) for event in trace.host] == [
        ("ProfilerStep#5", "range"),
        ("aten::mm", "operator"),
        ("cudaLaunchKernel", "runtime"),
    ]
    assert trace.has_stacks
    assert trace.host[1].stack == "train.py(5): f"


def test_memory_of_devices(tmp_path):
    made = Chrome()
    made.op("aten::mm", 1, 2)
    sizes = {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Total Allocated": 2048}
    made.events.append({"ph": "i", "name": "[memory]", "ts": 5, "args": sizes})
    made.events.append({"ph": "i", "name": "[memory]", "ts": 6, "args": {**sizes, "Total Reserved": 4096}})
    assert read(made.write(tmp_path / "t.json")).memory == ((5_000, 0, 2048, None), (6_000, 0, 2048, 4096))


def test_compute_capability_is_nvidias(tmp_path):
    device = {"id": 2, "name": "AMD Instinct MI300X", "totalGlobalMem": 1, "computeMajor": 9, "computeMinor": 4}
    made = training(deviceProperties=[device, {"name": "no id"}, 5])
    assert read(made.write(tmp_path / "t.json")).devices == {2: Device("AMD Instinct MI300X", None, 1)}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param('"x": 1}', '"x": nan}', id="nan"),
        pytest.param('"x": 1}', '"x": -inf}', id="infinite"),
        pytest.param('"x": 1}', '"x": 1,}', id="a comma before the brace"),
        pytest.param('"x": 1}', '"x": "C:\\data\\py"}', id="lone backslashes"),
        pytest.param('"x": 1}', '"x": "a\x07b"}', id="a control character"),
        pytest.param('"x": 1}', '"x": "\udcff"}', id="no UTF-8"),
    ],
)
def test_what_kineto_writes_and_json_does_not_allow(tmp_path, right, wrong):
    made = Chrome()
    made.op("aten::mm", 1, 2, x=1)
    text = made.text()
    assert right in text
    (tmp_path / "t.json").write_bytes(text.replace(right, wrong).encode("utf-8", "surrogateescape"))
    assert [event.name for event in read(tmp_path / "t.json").host] == ["aten::mm"]


def test_odd_values_lose_an_event_and_no_trace(tmp_path):
    made = training(distributedInfo={"rank": 0, "world_size": 10**10})
    made.add("kernel", "no time", None, 5, 7)
    made.add("kernel", "no numbers", 1, None, "stream x", "gpu", correlation="what", device=True)
    made.events += [{"ph": "X"}, {"ph": "X", "cat": "kernel", "name": 5, "ts": 1}, {"cat": None, "ph": "B"}]
    trace = read(made.write(tmp_path / "t.json"))
    assert (trace.rank, trace.world_size) == (0, None)
    (odd,) = [one for one in trace.activities if one.name == "no numbers"]
    assert (odd.ns, odd.stream, odd.device, odd.correlation) == (0, 0, 0, -1)
    assert not [one for one in trace.activities if one.name == "no time"]


def test_a_gzipped_trace_whatever_its_name(tmp_path):
    file = tmp_path / "t.json"
    file.write_bytes(gzip.compress(training().text().encode()))
    assert len(read(file).activities) == 4 * 4


def refused(path):
    with pytest.raises(UsageError) as caught:
        read(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b"  \n", "an empty file"),
        ("a.nsys-rep", b"anything", "a report of Nsight Systems"),
        ("a.sqlite", b"SQLite format 3\x00", "a database of SQLite"),
        ("a.json", b"\x80\x04\x95", "a pickle"),
        ("a.pftrace", b"\x0a\x10", "a protobuf trace of Perfetto"),
        ("a.bin", b"\x0a\x10abc", "a protobuf trace of Perfetto"),
        ("a.json", b"PK\x03\x04", "a zip archive"),
        ("a.tar", b"trace.json".ljust(257, b"\x00") + b"ustar", "a tar archive"),
        ("a.json.xz", b"\xfd7zXZ\x00", "compressed by xz"),
        ("a.bz2", b"BZh9", "compressed by bzip2"),
        ("a.zst", b"\x28\xb5\x2f\xfd", "compressed by Zstandard"),
        ("a.qdrep", b"anything", "a report of Nsight Systems"),
        ("a.qdstrm", b"anything", "a report of Nsight Systems"),
        ("host.xplane.pb", b"\x0a\x10", "a profile of XLA"),
        ("a.json", b"<!DOCTYPE html>", "a web page"),
        ("a.json", b"hello", "no JSON"),
        ("a.json", b'{"schema": "1.0.2-chakra.0.0.4", "nodes": []}', "an execution trace of Chakra"),
        ("a.json", b'{"nodes": [], "schema": "1.1.1-chakra.0.0.4"}', "an execution trace of Chakra"),
        ("a.json", b'{"segments": [], "device_traces": []}', "a memory snapshot"),
        ("a.json", b'{"external_annotations": [], "allocator_settings": {}, "segments": []}', "a memory snapshot"),
        ("a.pickle", b"(dp0\n", "a pickle"),
        ("a.json", b"[[1, 2], [3, 4]]", "a list of lists, as export_memory_timeline writes it"),
        ("a.ipynb", b'{"metadata": {}, "cells": []}', "a notebook"),
    ],
)
def test_other_files_are_named_and_how_to_record_one_is_said(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    text = refused(tmp_path / name)
    assert says in text
    assert name in text
    assert "export_chrome_trace" in text


def test_cut_files(tmp_path):
    text = training().text().encode()
    (tmp_path / "a.json").write_bytes(text[: len(text) // 2])
    assert "the file was cut" in refused(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(text[: text.index(b"}", len(text) // 2) + 1])
    assert "the file was cut" in refused(tmp_path / "b.json"), "at the end of an event"
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text)[:300])
    said = refused(tmp_path / "a.json.gz")
    assert "cut or damaged" in said
    assert "export_chrome_trace" in said


def test_json_that_is_no_trace(tmp_path):
    (tmp_path / "a.json").write_text('{"traceEvents": 5}')
    assert "it is JSON, but not a trace" in refused(tmp_path / "a.json")
    (tmp_path / "b.json").write_text('{"learning_rate": 5}')
    assert "it has no event" in refused(tmp_path / "b.json")
    (tmp_path / "c.json").write_text('[{"ph": "X", "cat": "devtools.timeline", "name": "Task", "ts": 1, "dur": 2}]')
    assert "it has no event of torch.profiler" in refused(tmp_path / "c.json")
    assert "it cannot be read" in refused(tmp_path / "missing.json")


def test_what_is_right_stays_right_where_something_else_is_not(tmp_path):
    made = Chrome()
    made.op("aten::mm", 1, 2, x=1, path='C:\\Users\\me \u00e9 "q"')
    text = made.text().replace('"x": 1', '"x": nan')
    (tmp_path / "t.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert [event.name for event in read(tmp_path / "t.json").host] == ["aten::mm"]


@pytest.mark.parametrize("ts", ["1e306", '"nan"', '"inf"', '"1e999"', "-1e300", "9" * 400])
def test_times_that_are_none_lose_their_event(tmp_path, ts):
    text = (
        training()
        .text()
        .replace(
            '"traceEvents": [', f'"traceEvents": [{{"ph": "X", "cat": "kernel", "name": "odd", "ts": {ts}, "dur": 1}}, '
        )
    )
    (tmp_path / "t.json").write_text(text)
    assert len(read(tmp_path / "t.json").activities) == 4 * 4


def test_nesting_without_end(tmp_path):
    (tmp_path / "a.json").write_text("[" * 200_000)
    assert "a.json" in refused(tmp_path / "a.json")


def test_a_file_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b" " * 5000))
    assert "it unpacks to more than" in refused(tmp_path / "a.json.gz")
