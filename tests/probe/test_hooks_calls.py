from __future__ import annotations

import gc
import io
import warnings

import pytest
import torch


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


def test_on_a_cpu_run_tensor_methods_are_native(probed):
    if torch.cuda.is_available():
        pytest.skip("reads of device tensors are hooked here")
    assert "_autotune" not in repr(vars(torch.Tensor).get("item", torch.Tensor.item))
    assert torch.Tensor.item is torch._C.TensorBase.item
