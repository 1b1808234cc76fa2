"""A trace as a Recording, and the facts that derive makes of it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import jsonschema
import pytest
from chrome import BACKWARD_TID, Chrome, training
from msgspec import to_builtins

from autotune import model
from autotune.derive import derive
from autotune.model.recording import SCHEMA, from_json
from autotune.trace.read import read
from autotune.trace.recording import recording, steps

US = 1000
RECORDING_SCHEMA = json.loads((Path(model.__file__).parent / "recording.schema.json").read_text(encoding="utf-8"))


def recorded(made, tmp_path):
    return recording(read(made.write(tmp_path / "t.json")))


def facts_of(*recordings):
    return {(fact.name, fact.subject): fact.value for fact in derive(recordings).facts}


def test_it_is_a_recording_like_any_other(tmp_path):
    one = recorded(training(), tmp_path)
    row = json.loads(json.dumps({"schema": SCHEMA, **to_builtins(one)}))
    jsonschema.validate(row, RECORDING_SCHEMA)
    assert from_json(row) == one


@pytest.mark.parametrize(
    ("count", "marked", "edges"),
    [
        (4, True, (1000, 2000, 3000, 4000)),
        (2, True, (0, 1000, 2000)),
        (1, True, (0, 1000)),
        (4, False, (650, 1650, 2650, 3650)),
    ],
    ids=["the first of several is left out", "not of two", "one", "by the optimizer where none is marked"],
)
def test_the_steps(tmp_path, count, marked, edges):
    found = steps(read(training(count, marked).write(tmp_path / "t.json")))
    assert found.edges_ns == tuple(US * edge for edge in edges)
    assert found.are_marked


@pytest.mark.parametrize(
    ("lengths", "kept", "warm_up"),
    [
        ((9000, 5000, 3000, 1000, 1000, 1000), (1000, 1000, 1000), 2),
        ((9000, 1900, 1000, 1000), (1900, 1000, 1000), 0),
        ((9000, 1000, 3000, 1000), (1000, 3000, 1000), 0),
        ((2000, 10), (2000, 10), 0),
        ((1000,), (1000,), 0),
    ],
    ids=["compiles twice", "not twice as long", "a slow one later", "not of two", "one"],
)
def test_steps_at_the_start_that_take_much_longer_are_left_out(tmp_path, lengths, kept, warm_up):
    made, at = Chrome(), 0
    for number, length in enumerate(lengths):
        made.mark(f"ProfilerStep#{number}", at, length)
        made.op("aten::mm", at + 10, 100)
        made.launch("gemm", at + 20, at + 30, 100)
        at += length
    found = steps(read(made.write(tmp_path / "t.json")))
    edges = found.edges_ns
    assert tuple((b - a) // US for a, b in itertools.pairwise(edges)) == kept
    assert found.warm_up == warm_up
    assert recorded(made, tmp_path).trace["warm_up_steps"] == warm_up


def test_compiling_within_the_steps_is_told(tmp_path):
    made = training()
    assert recorded(made, tmp_path).trace["compiles"] is False
    made.mark("compile_fx_inner (dynamo_timed)", 20, 100)
    assert recorded(made, tmp_path).trace["compiles"] is False, "the first step is left out"
    made.mark("compile_fx_inner (dynamo_timed)", 1020, 100)
    assert recorded(made, tmp_path).trace["compiles"] is True


def test_without_marks_and_optimizer_the_whole_device_time_is_one_step(tmp_path):
    made = training(1, marked=False)
    found = steps(read(made.write(tmp_path / "t.json")))
    assert (found.edges_ns, found.are_marked, found.count) == ((320 * US, 900 * US), False, 1)
    facts = facts_of(recorded(made, tmp_path))
    assert ("step.mean_ms", "run") not in facts, "what is of a step is not known"
    assert facts["device.busy_share", "run"] == pytest.approx((280 + 180) / 580)


def test_phases_and_the_devices_clock(tmp_path):
    one = recorded(training(), tmp_path)
    spans = [(event.kind, event.start_ns // US, event.end_ns // US) for event in one.events if event.end_ns < 2000 * US]
    assert spans == [
        ("fetch", 1002, 1300),
        ("forward", 1310, 1450),
        ("h2d", 1310, 1340),
        ("backward", 1450, 1550),
        ("optimizer", 1600, 1650),
        ("sync", 1710, 1905),
    ]
    marks = {host // US: device // US for host, device in one.window.device_clock}
    # At 1550 the backward's last kernel on the main stream was queued, which ends at 1900; the clock starts at 1000.
    assert marks[1550] == 900
    assert marks[1300] == 300


def test_facts_of_the_device_and_the_loader(tmp_path):
    facts = facts_of(recorded(training(distributedInfo={"rank": 0, "world_size": 4}), tmp_path))
    run = {name: value for (name, subject), value in facts.items() if subject == "run"}
    assert run["step.mean_ms"] == pytest.approx(1.0)
    assert run["device.busy_share"] == pytest.approx(0.46)
    assert run["device.communication_share"] == pytest.approx(0.06)
    assert run["device.pageable_share"] == pytest.approx(0.02)
    assert run["run.world_size"] == 4
    assert run["run.compiled"] is False
    assert run["run.is_traced"] is True
    # Idle: 0..420, 700..720 and 900..1000; of it 298 are data wait, 20 a copy, and 100 follow the read of a value.
    assert facts["loader.wait_share", "loader#train"] == pytest.approx(0.298, abs=0.01)
    assert run["device.launch_idle_share"] == pytest.approx(0.111, abs=0.002)
    # What follows a read of the user's own is SY001's: nothing is left of it.
    assert run["device.other_sync_idle_share"] == 0.0


def test_what_only_the_probe_sees_is_not_claimed(tmp_path):
    names = {name for name, _ in facts_of(recorded(training(), tmp_path))}
    assert not {name for name in names if name.startswith(("calls.gc", "calls.empty", "checkpoint.", "evaluation."))}
    assert not names & {"run.framework", "run.world_size", "loader.is_map_style", "memory.ran_out"}


def test_the_loaders_arguments_are_what_names_and_copies_prove(tmp_path):
    made = training()
    assert recorded(made, tmp_path).loaders[0]["arguments"] == {"num_workers": 0, "pin_memory": False}
    for event in made.events:
        event["name"] = event["name"].replace("_SingleProcess", "_MultiProcessing").replace("Pageable", "Pinned")
    assert recorded(made, tmp_path).loaders[0]["arguments"] == {"pin_memory": True}
    made.copy("HtoD (Pageable -> Device)", 3990, 1, 3991, 1)
    assert recorded(made, tmp_path).loaders[0]["arguments"] == {}


def test_several_backwards_of_a_step(tmp_path):
    made = Chrome()
    for number in range(3):
        made.mark(f"ProfilerStep#{number}", 1000 * number, 1000)
        for micro in (0, 400):
            at = 1000 * number + micro
            made.op("aten::linear", at + 10, 50)
            made.launch("gemm", at + 20, at + 30, 40)
            made.op("autograd::engine::evaluate_function: A", at + 100, 50, BACKWARD_TID)
            made.op("autograd::engine::evaluate_function: B", at + 160, 50, BACKWARD_TID)
            made.launch("gemm", at + 110, at + 120, 40, BACKWARD_TID)
    assert facts_of(recorded(made, tmp_path))["step.num_micro_batches", "run"] == 2


def test_the_device_that_works_most_is_the_processs_own(tmp_path):
    made = training()
    made.add("kernel", "peer", 1500, 5, 7, 3, device=3, stream=7)
    one = recorded(made, tmp_path)
    assert one.device["index"] == 0
    assert "peer" not in {row["name"] for row in one.kernels["rows"]}


def test_a_function_with_a_colon_in_its_name_is_no_place_of_its_own(tmp_path):
    made = Chrome()
    made.mark("ProfilerStep#1", 0, 900)
    made.frame("train.py(12): <lambda: x::y>", 0, 900)
    made.op("aten::item", 10, 100)
    made.call("cudaStreamSynchronize", 15, 80)
    made.launch("gemm", 200, 300, 50)
    (call,) = recorded(made, tmp_path).calls
    assert (call["site"]["file"], call["site"]["line"], call["site"]["function"]) == ("train.py", 12, "<lambda: x::y>")


def test_of_several_optimizers_the_first_counts_the_steps(tmp_path):
    made = Chrome()
    for number in range(4):
        at = 1000 * number
        made.mark("Optimizer.step#Adam.step", at + 100, 50)
        made.mark("Optimizer.step#SGD.step", at + 600, 50)
        made.op("aten::mm", at + 300, 50)
        made.launch("gemm", at + 310, at + 320, 40)
    found = steps(read(made.write(tmp_path / "t.json")))
    assert found.edges_ns == tuple(US * edge for edge in (150, 1150, 2150, 3150))


def test_an_event_without_length_is_no_span_to_divide_by(tmp_path):
    made = Chrome()
    made.launch("gemm", 1, 5, 0)
    derive([recorded(made, tmp_path)])


def device(made, tmp_path):
    (found,) = derive([recorded(made, tmp_path)]).devices
    kinds = {}
    for part in found.idle:
        kinds[part.kind] = kinds.get(part.kind, 0.0) + part.share
    return kinds


def test_a_queue_that_is_full_is_not_waited_for(tmp_path):
    """The host reads a value while kernels of 15 us are queued 1.5 us apart; it queues the next ones in time."""
    made = Chrome()
    for number in range(3):
        at = 1000 * number
        made.mark(f"ProfilerStep#{number}", at, 1000)
        for kernel in range(60):
            made.op("aten::mm", at + kernel, 0.5)
            made.launch("gemm", at + kernel + 0.1, at + 16.5 * kernel, 15)
        made.op("aten::item", at + 100, 870)
        made.call("cudaStreamSynchronize", at + 110, 850)
    found = device(made, tmp_path)
    assert found["device"] == pytest.approx(0.08, abs=0.01)
    assert found.get("sync", 0.0) < 0.02


def test_a_library_that_waits_on_a_thread_of_its_own_hides_nothing(tmp_path):
    made = Chrome()
    for number in range(3):
        at = 1000 * number
        made.mark(f"ProfilerStep#{number}", at, 1000)
        made.call("cudaEventSynchronize", at + 1, 990, tid=777)
        for kernel in range(5):
            made.op("aten::mm", at + 200 * kernel, 150)
            made.launch("gemm", at + 200 * kernel + 140, at + 200 * kernel + 150, 20)
    found = device(made, tmp_path)
    assert found.get("sync", 0.0) == 0.0
    assert found["operator"] > 0.5


def test_what_checkpointing_computes_again_is_a_phase_of_the_backward_pass_alone(tmp_path):
    made = training(4)
    for number in range(4):
        frame = "torch/utils/checkpoint.py(1500): recompute_fn"
        made.add("python_function", frame, 1000 * number + 452, 30, BACKWARD_TID)
        made.add("python_function", frame, 1000 * number + 950, 10, BACKWARD_TID)
    one = recorded(made, tmp_path)
    again = [event.start_ns for event in one.events if event.kind == "recompute"]
    assert again == [US * at for at in (1452, 2452, 3452)]
    facts = facts_of(one)
    assert facts["step.recompute_share", "run"] > 0
    assert facts["step.recompute_share", "run"] + facts["step.backward_share", "run"] < 1


def test_whose_communication_a_kernel_is(tmp_path):
    """NCCL sends all-to-all by kernels named SendRecv: the call of the process group tells, else the kernel's own
    arguments, else its name."""
    made = Chrome()
    for number in range(3):
        at = 1000 * number
        made.mark(f"ProfilerStep#{number}", at, 1000)
        made.op("aten::mm", at + 1, 30)
        made.launch("gemm", at + 10, at + 50, 100)
        made.op("record_param_comms", at + 100, 40)
        made.mark("nccl:all_to_all", at + 110, 20)
        made.launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", at + 115, at + 200, 300, stream=20)
        made.launch("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", at + 150, at + 500, 200, stream=20)
        made.events[-1]["args"]["Collective name"] = "_allgather_base"
        made.launch("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", at + 160, at + 700, 100, stream=20)
        made.launch("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", at + 170, at + 800, 50, stream=20)
    derived = derive([recorded(made, tmp_path)])
    shares = {one.kind: one.exposed_share for one in derived.devices[0].collectives}
    assert shares == {"all-to-all": 0.3, "all-gather": 0.2, "reduce-scatter": 0.1, "other": 0.05}
    assert list(shares) == ["all-to-all", "all-gather", "reduce-scatter", "other"]
    assert derived.devices[0].exposed_share == pytest.approx(0.65)
    facts = {fact.name: fact.value for fact in derived.facts}
    assert facts["device.exposed_collective"] == "all-to-all"


def test_memory_where_it_is_recorded(tmp_path):
    made = training()
    assert "memory.peak_bytes" not in {name for name, _ in facts_of(recorded(made, tmp_path))}
    for at, allocated, reserved, number in ((1100, 3 << 30, 5 << 30, 0), (1200, 4 << 30, 5 << 30, 0), (1, 9, 9, 1)):
        sizes = {"Device Type": 1, "Device Id": number, "Total Allocated": allocated, "Total Reserved": reserved}
        made.events.append({"ph": "i", "name": "[memory]", "ts": at, "args": sizes})
    facts = facts_of(recorded(made, tmp_path))
    assert facts["memory.peak_bytes", "run"] == 5 << 30
    assert facts["memory.used_share", "run"] == pytest.approx(5 / 80)
    assert facts["memory.fragmented_share", "run"] == pytest.approx(0.2)
