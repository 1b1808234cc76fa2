"""Collectives of the script and of libraries are events with their line; torch's own are none."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from autotune.probe.hooks import collectives


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def rows(session):
    return [(row["name"], row["site"]["function"], row["bytes"]) for row in session.recorder.calls]


def test_each_call_is_an_event_of_its_line(group, probed, kinds):
    for size in (2, 3):
        dist.all_reduce(torch.ones(size))
    dist.barrier()
    assert kinds() == ["collective"] * 3
    assert [event[3] for event in probed.recorder.events] == [0, 0, 1]
    here = "test_each_call_is_an_event_of_its_line"
    assert rows(probed) == [("all_reduce", here, 20), ("barrier", here, 0)]
    assert probed.recorder.calls[0]["site"]["file"] == __file__
    assert probed.recorder.stack == []


def test_the_result_is_torchs_and_detach_leaves_torch_as_it_was(group, attach):
    native = {name: getattr(dist, name) for name in collectives.NAMES if hasattr(dist, name)}
    wait = dist.Work.wait
    session = attach()
    parts = [torch.zeros(2)]
    dist.all_gather(parts, torch.ones(2))
    assert parts[0].tolist() == [1.0, 1.0]
    session.detach()
    assert {name: getattr(dist, name) for name in native} == native
    assert dist.Work.wait is wait


def test_a_collective_of_objects_is_one_event_though_it_issues_several(group, probed, kinds):
    got = [None]
    dist.all_gather_object(got, {"loss": 1.0})
    assert got == [{"loss": 1.0}] and kinds() == ["collective"]
    assert rows(probed)[0][0] == "all_gather_object"


def test_the_wait_for_an_asynchronous_one_is_told_beside_it(group, probed):
    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    assert [row[0] for row in rows(probed)] == ["all_reduce", "wait"]


def test_a_list_of_tensors_is_weighed(group, probed):
    dist.all_gather([torch.zeros(5)], torch.zeros(5))
    assert rows(probed)[0][2] == 20


def test_a_librarys_collective_is_told_at_the_users_line(group, probed):
    library = "/env/lib/python3.11/site-packages/accelerate/utils/operations.py"
    names = {"dist": dist, "torch": torch}
    exec(compile("def gather():\n    dist.all_reduce(torch.ones(1))", library, "exec"), names)
    names["gather"]()
    (row,) = probed.recorder.calls
    assert (row["site"]["file"], row["site"]["is_user"]) == (__file__, True)


@pytest.mark.parametrize("package", ["torch/nn/parallel", "torch/distributed/fsdp", "deepspeed/runtime"])
def test_those_of_torchs_wrappers_and_of_engines_are_not_the_scripts(group, probed, kinds, package):
    library = f"/env/lib/python3.11/site-packages/{package}/own.py"
    exec(compile("dist.all_reduce(torch.ones(1))", library, "exec"), {"dist": dist, "torch": torch})
    assert kinds() == []


def test_ddps_own_averaging_is_no_collective_of_the_script(group, probed, kinds):
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    assert kinds() == ["forward", "backward"]


def test_a_failure_names_its_phase(group, probed):
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        dist.all_reduce("no tensor")
    assert probed.recorder.failed_phase == "collective" and probed.recorder.stack == []


@pytest.fixture
def nothing_compiled():
    """Later sessions ask dynamo what it has compiled."""
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def test_compiled_code_sees_the_native_collective(group, probed, kinds, nothing_compiled):
    @torch.compile(backend="eager", fullgraph=True)
    def doubled(x):
        dist.all_reduce(x)
        return x * 2

    assert doubled(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert kinds("collective") == []
