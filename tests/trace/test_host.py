"""The host's side: who launched what, who waits, and where the user's code is."""

from __future__ import annotations

from chrome import BACKWARD_TID, Chrome

from autotune.trace.host import host_of
from autotune.trace.read import read


def host(made, tmp_path):
    trace = read(made.write(tmp_path / "t.json"))
    return trace, host_of(trace.host)


def test_a_kernel_belongs_to_the_innermost_operator_of_torch(tmp_path):
    made = Chrome()
    made.op("my::fused", 0, 100)
    made.op("aten::linear", 10, 50)
    made.op("aten::addmm", 20, 30)
    made.launch("gemm", 25, 200, 9)
    made.launch("mine", 70, 210, 9)
    made.launch("compiled", 300, 310, 9)
    trace, found = host(made, tmp_path)
    assert [found.operator_of(one) for one in trace.activities] == ["aten::addmm", "", ""]
    assert [node.event.name for node in found.operators] == ["my::fused"], "the outermost ones"


def test_without_the_call_the_kernels_own_id_tells_its_operator(tmp_path):
    made = Chrome()
    made.op("aten::mm", 0, 9, **{"External id": 5})
    made.op("ProfilerThing", 20, 9, **{"External id": 6})
    for identity in (5, 6, 77):
        made.add("kernel", "gemm", 40, 5, 7, 0, device=0, stream=7, **{"External id": identity})
    trace, found = host(made, tmp_path)
    assert [found.operator_of(one) for one in trace.activities] == ["aten::mm", "", ""]


def test_calls_that_wait(tmp_path):
    made = Chrome()
    made.frame("train.py(12): step", 0, 900)
    made.frame("torch/_tensor.py(5): item", 5, 200)
    made.op("aten::item", 10, 100)
    made.op("aten::_local_scalar_dense", 12, 90)
    made.call("cudaStreamSynchronize", 15, 80)
    made.call("hipDeviceSynchronize", 300, 10)
    made.op("aten::copy_", 400, 90)
    made.copy("HtoD (Pinned -> Device)", 410, 20, 430, 10)
    made.frame("other.py(3): main", 1000, 900)
    made.op("aten::to", 1010, 700)
    made.op("aten::copy_", 1011, 690)
    made.copy("DtoH (Device -> Pageable)", 1020, 600, 1600, 5)
    _, found = host(made, tmp_path)
    assert [(node.event.name, node.operator, node.place) for node in found.syncs] == [
        ("cudaStreamSynchronize", "aten::_local_scalar_dense", "train.py:12 (step)"),
        ("hipDeviceSynchronize", "", "train.py:12 (step)"),
        ("cudaMemcpyAsync", "aten::copy_", "other.py:3 (main)"),
    ], "a copy that was only queued waits for nothing"


def test_ranges_of_the_script_stand_where_no_stack_does(tmp_path):
    made = Chrome()
    made.mark("ProfilerStep#1", 0, 900)
    made.mark("## sparse_data_dist ##", 10, 500)
    made.op("aten::item", 20, 100)
    made.call("cudaStreamSynchronize", 30, 80)
    made.mark("Optimizer.step#SGD.step", 600, 100)
    made.op("aten::add_", 610, 20)
    _, found = host(made, tmp_path)
    assert [node.place for node in (*found.syncs, *found.operators)] == ["range sparse_data_dist"] * 2 + [""]
    assert found.lines == ((10_000, 500_000, "range sparse_data_dist"),)


def test_a_call_stack_names_the_line(tmp_path):
    made = Chrome()
    made.op("aten::item", 20, 100, **{"Call stack": "torch/_tensor.py(1): item;train.py(44): main"})
    made.call("cudaStreamSynchronize", 30, 80)
    _, found = host(made, tmp_path)
    assert found.syncs[0].place == "train.py:44 (main)"


def test_nodes_of_the_backward_pass_of_all_releases(tmp_path):
    made = Chrome()
    names = ["autograd::engine::evaluate_function: MmBackward0", "CudnnBatchNormBackward", "ReluBackward1"]
    for number, name in enumerate([*names, "torch::autograd::AccumulateGrad", "aten::threshold_backward"]):
        made.op(name, 10 * number, 5, BACKWARD_TID)
    _, found = host(made, tmp_path)
    assert [event.name for event in found.backwards] == [*names, "torch::autograd::AccumulateGrad"]


def test_what_checkpointing_computes_again(tmp_path):
    made = Chrome()
    made.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 0, 90, BACKWARD_TID)
    made.op("CheckpointFunctionBackward", 1, 88, BACKWARD_TID)
    made.op("aten::linear", 5, 20, BACKWARD_TID)
    made.op("autograd::engine::evaluate_function: AddmmBackward0", 40, 30, BACKWARD_TID)
    made.add("python_function", "torch/utils/checkpoint.py(1500): recompute_fn", 200, 30, BACKWARD_TID)
    made.op("CheckpointFunctionBackward", 300, 20, BACKWARD_TID)
    _, found = host(made, tmp_path)
    assert found.recomputes == ((1_000, 40_000), (200_000, 230_000), (300_000, 320_000))
