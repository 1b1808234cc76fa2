from __future__ import annotations

import gc
import io
import time
import warnings

import pytest
import torch

from autotune.probe import call_sites
from autotune.probe.hooks.calls import _install_cuda, timed_copy, timed_read
from autotune.probe.recorder import Recorder


def test_a_save_to_a_file_is_a_checkpoint_and_a_copy_in_memory_is_none(probed, kinds, tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "a.pt")
    torch.save({"x": torch.ones(2)}, io.BytesIO())
    with open(tmp_path / "b.pt", "wb") as file:
        torch.save({"x": torch.ones(2)}, file)
    assert kinds() == ["checkpoint", "checkpoint"]
    assert probed.has_saved() is True
    assert torch.equal(torch.load(tmp_path / "a.pt")["x"], torch.ones(2))


def test_a_failing_save_names_its_phase(probed, tmp_path):
    with pytest.raises((OSError, RuntimeError)):
        torch.save({}, tmp_path / "missing" / "a.pt")
    assert probed.recorder.failed_phase == "checkpoint"


@pytest.mark.parametrize(("call", "kind"), [(gc.collect, "gc"), (torch.cuda.empty_cache, "empty_cache")])
def test_housekeeping_is_counted_by_call_site(attach, call, kind):
    module, name = (gc, "collect") if kind == "gc" else (torch.cuda, "empty_cache")
    session = attach()
    for _ in range(3):
        getattr(module, name)()
    getattr(module, name)()
    (first, second) = session.recorder.calls
    assert (first["kind"], second["kind"]) == (kind, kind)
    assert first["site"]["file"] == __file__
    assert second["site"]["line"] == first["site"]["line"] + 1
    assert [event[3] for event in session.recorder.events] == [0, 0, 0, 1]


def test_a_library_that_collects_is_named_itself(probed):
    library = "/env/lib/python3.11/site-packages/accelerate/utils/memory.py"
    exec(compile("gc.collect()", library, "exec"), {"gc": gc})
    (row,) = probed.recorder.calls
    assert (row["site"]["file"], row["site"]["is_user"]) == (library, False)


@pytest.mark.parametrize("name", ["autocast", "GradScaler"])
def test_the_deprecated_amp_classes_are_noticed_when_the_user_makes_one(probed, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(torch.cuda.amp, name)(enabled=False)
    assert probed.torch_state["legacy_amp"] is True


def test_the_new_amp_classes_are_not_the_deprecated_ones(probed):
    with torch.amp.autocast("cpu"):
        torch.amp.GradScaler("cpu")
    assert "legacy_amp" not in probed.torch_state


def test_under_a_build_for_cpus_tensor_methods_are_native(probed):
    if torch.version.cuda or torch.version.hip:
        pytest.skip("reads of device tensors are hooked here")
    assert "_autotune" not in repr(vars(torch.Tensor).get("item", torch.Tensor.item))
    assert torch.Tensor.item is torch._C.TensorBase.item


@pytest.mark.parametrize(("cuda", "hip", "hooked"), [(None, None, False), ("12.6", None, True), (None, "6.4", True)])
def test_a_build_for_nvidia_or_amd_has_its_reads_watched(attach, monkeypatch, cuda, hip, hooked):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    attach()
    assert ("_autotune_item" in vars(torch.Tensor)) is hooked


class OnDevice:
    """A tensor as far as the hooks of a CUDA build look at it."""

    is_cuda = True


class OnHost:
    is_cuda = False


@pytest.fixture
def recorder():
    return Recorder(lambda error: None)


def test_reads_of_a_device_tensor_and_copies_to_the_device_are_recorded(recorder):
    read = timed_read(recorder, lambda tensor: 7)
    copy = timed_copy(recorder, lambda tensor: OnDevice())
    assert (read(OnDevice()), read(OnHost())) == (7, 7)
    assert copy(OnHost()).is_cuda
    assert [event[0] for event in recorder.events] == ["sync", "h2d"]
    assert recorder.calls[0]["site"]["file"] == __file__


@pytest.mark.parametrize(
    ("stack", "counts"),
    [
        (["optimizer"], False),
        (["optimizer", "closure"], True),
        (["optimizer", "closure", "forward"], True),
        (["forward"], True),
    ],
)
def test_an_optimizers_own_reads_are_its_cost_and_those_of_a_closure_are_the_scripts(recorder, stack, counts):
    recorder.stack = stack
    timed_read(recorder, lambda tensor: 7)(OnDevice())
    assert [event[0] for event in recorder.events] == (["sync"] if counts else [])


def test_while_dynamo_traces_the_hooks_look_at_nothing(recorder, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    read = timed_read(recorder, lambda tensor: 7)
    copy = timed_copy(recorder, lambda tensor: tensor)
    nothing = object()
    assert (read(nothing), copy(nothing)) == (7, nothing)
    assert recorder.events == []


@pytest.fixture
def fresh_dynamo():
    """As in a probed script: dynamo first looks when the hooks are there. It counts nothing for the tests to come."""
    torch.compiler.reset()
    torch._dynamo.trace_rules.get_tensor_method.cache_clear()
    yield
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()


def _bound_to(x):
    return x.to(torch.float64) + 1


def _unbound_to(x):
    return torch.Tensor.to(x, torch.float64)


def _mapped_cpu(x):
    return next(iter(map(torch.Tensor.cpu, [x])))


def _unbound_item(x):
    return torch.Tensor.item(x.sum()) + x


@pytest.mark.parametrize("function", [_bound_to, _unbound_to, _mapped_cpu, _unbound_item])
def test_what_compiles_whole_natively_compiles_whole_under_the_hooks_of_a_cuda_build(fresh_dynamo, probed, function):
    _install_cuda(probed)
    assert torch.Tensor.to is not torch._C.TensorBase.to
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        x = torch.ones(3)
        assert torch.equal(torch.compile(function, backend="eager", fullgraph=True)(x), function(x))


def test_the_probes_own_time_holds_the_look_for_the_call_site_and_not_the_call(probed, monkeypatch):
    site = call_sites.caller()

    def slow_look():
        time.sleep(0.02)
        return site

    monkeypatch.setattr(call_sites, "caller", slow_look)
    read = timed_read(probed.recorder, lambda tensor: time.sleep(0.2))
    probed.overhead.start()
    read(OnDevice())
    probed.overhead.stop()
    row = probed.overhead.row()
    assert row["events"] == 1
    assert 0.02e9 <= row["event_ns"] < 0.2e9


def test_a_phase_counts_what_the_hook_does_around_it(probed, monkeypatch):
    monkeypatch.setattr(probed.window, "on_backward", lambda has_optimizer: time.sleep(0.02))
    model = torch.nn.Linear(4, 4)
    before = probed.recorder.own_ns
    model(torch.ones(1, 4)).sum().backward()
    assert probed.recorder.own_ns - before >= 0.02e9
