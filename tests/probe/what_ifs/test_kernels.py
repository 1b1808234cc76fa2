"""The profiled steps: against torch's own profiler on a CPU, and against events as Kineto gives them on CUDA."""

from __future__ import annotations

import json
import sys
import warnings

import jsonschema
import pytest
import torch
from kineto_builders import CPU, CUDA, Event
from test_snapshot import SCHEMA
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe import profiling, snapshot
from autotune.probe.what_ifs import kernels, schedule

SGEMM = "ampere_sgemm_128x64_nn"


def test_the_fake_event_asks_nothing_that_torchs_own_lacks():
    assert set(vars(Event("", 0, 0))) <= set(dir(torch._C._autograd._KinetoEvent))
    assert CUDA.name == "CUDA"


# A step of 1000 ns from 5000 on: an operator launches two kernels on two streams, copies surround them.
EVENTS = [
    Event("aten::matmul", 4995, 100, CPU, identity=3, resource=100),
    Event("aten::linear", 5001, 98, CPU, identity=4, resource=100),
    Event("aten::mm", 5002, 90, CPU, identity=1, resource=100),
    Event("cudaLaunchKernel", 5010, 5, CPU, identity=77, linked=1, resource=100),
    Event("my secret phase", 5100, 300, CPU, identity=2, annotation=True, resource=100),
    Event(SGEMM, 5100, 200, identity=77, linked=1),
    Event(SGEMM, 5200, 300, identity=78, linked=1, resource=8),
    Event("triton_poi_fused_add_0", 5700, 400, identity=79, linked=2),
    Event("my secret phase", 5100, 700, identity=2, linked=2, annotation=True),
    Event("Memcpy HtoD (Pageable -> Device)", 5500, 40, identity=80),
    Event("Memset (Device)", 5600, 10, identity=81),
    Event(SGEMM, 4000, 100, identity=70, linked=1),
    Event("aten::item", 5800, 150, CPU, identity=5, resource=100),
    Event("aten::_local_scalar_dense", 5801, 149, CPU, identity=6, resource=100),
    Event("cudaStreamSynchronize", 5810, 140, CPU, identity=90, resource=100),
    Event("MulBackward0", 5805, 10, CPU, identity=7, resource=200),
    Event("autograd::engine::evaluate_function: MulBackward0", 5804, 12, CPU, identity=7, resource=200),
    Event("cudaDeviceSynchronize", 5960, 30, CPU, identity=91, resource=100),
]


def test_events_become_rows_and_launches():
    table = kernels.tabulate(EVENTS, (5000, 6000), 1000)
    assert table["rows"] == [
        {"name": SGEMM, "operator": "aten::mm", "kind": "kernel"},
        {"name": "Memcpy HtoD (Pageable -> Device)", "operator": "", "kind": "copy"},
        {"name": "Memset (Device)", "operator": "", "kind": "fill"},
        {"name": "triton_poi_fused_add_0", "operator": "", "kind": "kernel"},
    ]
    assert (table["start_ns"], table["end_ns"]) == (4000, 5000)
    assert table["launches"] == [
        (0, 7, 4100, 200),
        (0, 8, 4200, 300),
        (1, 7, 4500, 40),
        (2, 7, 4600, 10),
        (3, 7, 4700, 300),
    ], "the last one ends with the span"
    assert "secret" not in json.dumps(table)


def test_the_host_is_told_by_outermost_operators_and_by_calls_that_wait():
    table = kernels.tabulate(EVENTS, (5000, 6000), 1000)
    named = [(table["host_rows"][row], start, ns) for row, start, ns in table["host"]]
    assert named == [
        ({"name": "aten::linear", "operator": "", "kind": "operator"}, 4001, 98),
        ({"name": "aten::item", "operator": "", "kind": "operator"}, 4800, 150),
        ({"name": "autograd::engine::evaluate_function: MulBackward0", "operator": "", "kind": "operator"}, 4804, 12),
        ({"name": "cudaStreamSynchronize", "operator": "aten::_local_scalar_dense", "kind": "sync"}, 4810, 140),
        ({"name": "cudaDeviceSynchronize", "operator": "", "kind": "sync"}, 4960, 30),
    ]


def test_only_the_longest_of_the_host_are_kept_in_the_order_of_time(monkeypatch):
    monkeypatch.setattr(kernels, "MOST_HOST", 2)
    assert [start for _, start, _ in kernels.tabulate(EVENTS, (5000, 6000), 0)["host"]] == [5800, 5810]


def test_long_names_are_cut_and_become_one_row():
    events = [Event("void k<" + "x" * 300 + end, 10, 5) for end in ("a", "b")]
    table = kernels.tabulate(events, (0, 100), 0)
    (row,) = table["rows"]
    assert (len(row["name"]), len(table["launches"])) == (kernels.MOST_CHARACTERS, 2)


@pytest.fixture
def waits(monkeypatch):
    """How often the fake device was waited for."""
    counted = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: counted.append(1))
    return counted


@pytest.fixture
def cpu_profiler(monkeypatch):
    """torch's own profiler; without a GPU it says so in a warning."""
    native = profiling.start

    def started(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return native(**options)

    monkeypatch.setattr(profiling, "start", started)


@pytest.fixture
def products(cpu_profiler, monkeypatch):
    """Takes the matrix products of the CPU for kernels of a device."""
    monkeypatch.setattr(kernels, "_is_device", lambda event: event.name() in ("aten::mm", "aten::addmm"))


def profiled(profile, steps):
    """Makes steps of one matrix product; what `on_step` said after each."""
    said = []
    for _ in range(steps):
        torch.ones(8, 8) @ torch.ones(8, 8)
        said.append(profile.on_step())
    return said


def test_torchs_profiler_is_asked_as_it_wants_to_be(waits, products):
    profile = kernels.KernelProfile(2, 0)
    assert profiled(profile, 3) == [False, False, True]
    table = profile.table()
    assert len(waits) == 2
    (row,) = table["rows"]
    assert (table["steps"], row["name"], row["kind"]) == (2, "aten::mm", "kernel")
    assert len(table["launches"]) == 2
    assert all(table["start_ns"] <= start and start + ns <= table["end_ns"] for _, _, start, ns in table["launches"])
    assert not torch.autograd._profiler_enabled()


def test_a_profiler_that_sees_no_device_leaves_the_kernels_unknown(waits, cpu_profiler):
    profile = kernels.KernelProfile(1, 0)
    profiled(profile, 2)
    assert profile.table() is None


def test_operators_are_found_among_torchs_events(cpu_profiler):
    profiler = profiling.start(cuda=True, shapes=False)
    torch.ones(8, 8) @ torch.ones(8, 8)
    profiler.stop()
    events = profiler.profiler.kineto_results.events()
    (product,) = [event for event in events if event.name() == "aten::mm"]
    kernel = Event(SGEMM, product.start_ns(), 50, linked=product.correlation_id())
    span = (product.start_ns(), product.start_ns() + 100)
    (row,) = kernels.tabulate([*events, kernel], span, 0)["rows"]
    assert row["operator"] == "aten::mm"


def test_a_profile_without_a_whole_step_is_none_and_stops_the_profiler(waits, products):
    profile = kernels.KernelProfile(2, 0)
    profiled(profile, 1)
    assert profile.table() is None
    assert not torch.autograd._profiler_enabled()


def refuse(*args, **kwargs):
    raise RuntimeError("CUPTI_ERROR_NOT_INITIALIZED")


@pytest.mark.parametrize("place", ["start", "wait", "read"])
def test_what_the_profiler_refuses_does_not_reach_the_script(waits, products, monkeypatch, place):
    if place == "start":
        monkeypatch.setattr(profiling, "start", refuse)
    if place == "wait":
        monkeypatch.setattr(torch.cuda, "synchronize", refuse)
    if place == "read":
        monkeypatch.setattr(kernels, "tabulate", refuse)
    profile = kernels.KernelProfile(2, 0)
    assert profiled(profile, 3)[-1] is True
    assert profile.table() is None
    assert not torch.autograd._profiler_enabled()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.seen = []

    def forward(self, x):
        self.seen.append(int(x[0, 0]))
        return self.layer(x)


@pytest.fixture
def run(attach, left, monkeypatch, waits, products):
    """run(number of batches, cuda=.., **request): trains until the probe leaves; (session, numbers of the batches)."""
    monkeypatch.setattr(kernels, "LEAST_S", 0.0)
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def train(batches, cuda=True, **fields):
        session = attach(steps=4, warmup=1, **fields)
        session.wait_share = lambda: 0.0
        session.trains_on_cuda = lambda: cuda
        monkeypatch.setattr(snapshot.describe, "cuda_memory", dict)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        numbers = torch.arange(batches).float()[:, None].expand(batches, 2)
        with pytest.raises(left):
            for (x,) in DataLoader(TensorDataset(numbers)):
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            raise AssertionError("the data ended before the probe left")
        return session, model.seen

    return train


def names(session):
    return [row["name"] for row in session.what_ifs]


REST = ["replay", "serialise", "watch", *4 * schedule.MOST_ROUNDS * ["micro_batch"]]


def test_on_cuda_live_steps_are_profiled_before_the_what_ifs(run):
    session, seen = run(4096)
    assert session.kernels["steps"] == kernels.STEPS
    assert seen[:9] == list(range(9)), "the script's own batches go on: one to warm up, three to profile"
    assert set(seen[9:]) <= set(range(9))
    assert names(session) == REST, "the profile is no what-if"
    row = json.loads(json.dumps(snapshot.recording(session, "completed"), allow_nan=False))
    jsonschema.validate(row, SCHEMA)
    assert row["kernels"]["steps"] == kernels.STEPS
    assert row["window"]["end_ns"] <= row["kernels"]["start_ns"] < row["kernels"]["end_ns"]


def test_on_a_cpu_run_nothing_is_profiled(run, waits):
    session, seen = run(4096, cuda=False)
    assert session.kernels is None
    assert seen[5:] != list(range(5, len(seen)))
    assert [name for name in names(session) if name != "replay_changed"] == REST
    assert waits == []
    assert "device_clock" not in snapshot.recording(session, "completed")["window"]


def test_an_epoch_that_ends_inside_the_profile_leaves_what_was_profiled(run):
    session, seen = run(7)
    assert seen[:7] == list(range(7))
    assert session.kernels["steps"] == 1
    assert names(session) == REST


def test_an_epoch_that_ends_before_a_whole_step_leaves_nothing(run):
    session, _ = run(5)
    assert session.kernels is None
    assert names(session) == REST


def test_nothing_is_profiled_when_no_what_ifs_are_asked(run):
    session, seen = run(4096, what_ifs=False)
    assert (session.kernels, len(seen)) == (None, 5)


def test_slow_steps_are_profiled_one_at_a_time(attach):
    session = attach(steps=4, warmup=1)
    session.window.start, session.window.end = 0, 80 * 10**9
    session.window.step_ends, session.window.warmup = [0] * 5, 1
    assert session.plan._profiled_steps() == 1
    session.window.end = 4 * 10**9
    assert session.plan._profiled_steps() == kernels.STEPS


def test_a_script_that_ends_inside_the_profile_leaves_what_was_profiled(attach, waits, products, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    session = attach(steps=2, warmup=1)
    session.trains_on_cuda = lambda: True
    monkeypatch.setattr(snapshot.describe, "cuda_memory", dict)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for _ in range(5):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    session.plan.abandon()
    assert session.kernels["steps"] == 1
    assert names(session) == []


def test_a_failure_inside_the_profile_is_no_what_if(attach, left, waits, products, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    session = attach(steps=2, warmup=1)
    session.trains_on_cuda = lambda: True
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    with pytest.raises(left):
        model("no tensor")
    assert (names(session), session.kernels) == ([], None)
