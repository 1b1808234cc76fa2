"""What modules cost that compute attention by separate operations: steps of 65 ms, 20 forward and 30 backward."""

from __future__ import annotations

import pytest
from build import recording, steps

from autotune.derive import derive
from autotune.derive.recording_view import MS

FILE = "/home/me/train.py"
LAYER = "vit.layers.0.attention"
WRITTEN = ("aten::bmm", "aten::mul", "aten::_softmax", "aten::_softmax_backward_data")


def sampled(phase, line, module="", count=100):
    return {"phase": phase, "frames": [(FILE, line, "main", 1)], "callee": "", "module": module, "count": count}


def operations(module, names):
    spent = {"ops": 9, "op_ns": 10 * MS, "backward_ns": 15 * MS, "host_ns": 10 * MS, "double_ns": 0}
    row = {"file": FILE, "line": 72, "function": "main", "module": module, **spent}
    return {**row, "names": [(name, 12, MS) for name in names]}


def share(rows, recorded=True):
    lines = {
        "lines": {
            "steps": 3,
            "wall_ns": 1,
            "count": 300,
            "rows": [sampled("forward", 72, module) for module, _ in rows] + [sampled("backward", 90)],
            "modules": [],
            "statements": [],
            "loops": [],
        },
    }
    if recorded:
        given = {"steps": 1, "wall_ns": 1, "modules": [], "runs": [], "statements": []}
        lines["operations"] = {**given, "backward_ns": 30 * MS, "rows": [operations(*row) for row in rows]}
    derived = derive([recording(script=steps(4), lines=lines)])
    return {fact.name: fact.value for fact in derived.facts}.get("attention.written_out_share")


def test_a_module_with_products_and_a_softmax_costs_its_forward_and_its_backward():
    assert share([(LAYER, WRITTEN), (f"{LAYER}.q_proj", ("aten::addmm",))]) == pytest.approx((10 + 15) / 65)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("aten::_scaled_dot_product_flash_attention_for_cpu",), id="fused"),
        pytest.param(("aten::_softmax", "aten::addmm"), id="a classifier's softmax"),
        pytest.param(("aten::bmm",), id="products alone"),
    ],
)
def test_nothing_else_is_attention_that_is_written_out(names):
    assert share([(LAYER, names), ("head", ("aten::addmm",))]) == 0.0


def test_a_softmax_and_a_product_of_two_modules_are_none():
    assert share([("router", ("aten::_softmax",)), ("experts", ("aten::bmm",))]) == 0.0


def test_it_is_unknown_where_operations_were_not_recorded():
    assert share([(LAYER, WRITTEN)], recorded=False) is None
