"""The function that the verdict names: steps of 10 ms fetch, 20 forward, 30 backward, 5 optimizer."""

from __future__ import annotations

import pytest
from build import recording, steps

from autotune.derive import derive
from autotune.derive.recording_view import MS

FILE = "/home/me/train.py"
MAIN = (90, "main", 80)
LOSS = (71, "loss", 70)


def seen(phase, *frames, count=100, module=""):
    frames = [(FILE, *frame) for frame in frames]
    return {"phase": phase, "frames": frames, "callee": "", "module": module, "count": count}


def spread(name="match", module="", first=50):
    """A function under `loss`, whose time is on four lines."""
    return [seen("forward", MAIN, LOSS, (first + n, name, first), count=200, module=module) for n in range(1, 5)]


MODEL = [seen("forward", MAIN, (21, "forward", 20), count=300, module="net")]
OTHERS = [seen("backward", (95, "main", 80)), seen("optimizer", (96, "main", 80)), seen("fetch", MAIN)]


def function(samples, operations=()):
    found = {
        "lines": {
            "steps": 3,
            "wall_ns": 1,
            "count": sum(row["count"] for row in samples),
            "rows": list(samples),
            "modules": [],
            "statements": [],
            "loops": [],
        }
    }
    if operations:
        found["operations"] = {
            "steps": 1,
            "wall_ns": 1,
            "backward_ns": sum(row["backward_ns"] for row in operations),
            "rows": list(operations),
            "modules": [],
            "runs": [],
            "statements": [],
        }
    return derive([recording(script=steps(4), lines=found)]).step.lines.function


def made(line, name, backward_ms):
    row = dict.fromkeys(("ops", "op_ns", "host_ns", "double_ns"), 0)
    nodes = {"backward_ns": backward_ms * MS, "names": []}
    return {"file": FILE, "line": line, "function": name, "module": "", **row, **nodes}


# Of 55 ms that are not fetching: where no operation was recorded, the call of backward has 30 of them.
BACKWARD = [made(21, "forward", 10), made(51, "match", 8), made(52, "match", 8), made(99, "other", 4)]


def test_a_function_whose_lines_cost_little_each_is_named_where_it_is_called():
    found = function([*spread(), *MODEL, *OTHERS], BACKWARD)
    assert (found.file, found.line, found.function) == (FILE, 71, "match")
    # 8 of 11 parts of 20 ms of forward, and the backward passes of its lines.
    assert found.share == pytest.approx((20 * 8 / 11 + 16) / 65)


def test_of_functions_in_each_other_the_innermost_with_most_of_it_is_named():
    """`loss` has the same time as `match`, and no line of its own."""
    inner = [seen("forward", MAIN, LOSS, (51, "match", 50), (31 + n, "giou", 30), count=200) for n in range(4)]
    assert function([*inner, *MODEL, *OTHERS], [*BACKWARD, made(31, "giou", 8)]).function == "giou"
    half = [*inner[:2], *spread()[:2]]
    assert function([*half, *MODEL, *OTHERS], BACKWARD).function == "match"


def test_functions_of_a_model_and_of_the_training_loop_are_not_named():
    assert function([*spread(module="net"), *MODEL, *OTHERS], BACKWARD) is None


def test_where_one_line_costs_more_it_is_named_alone():
    one = [seen("forward", MAIN, LOSS, (51, "match", 50), count=800)]
    assert function([*one, *MODEL, *OTHERS], [made(21, "forward", 30)]) is None
    heavy = [made(21, "forward", 30)]
    assert function([*spread()[:2], *MODEL, *OTHERS], heavy) is None


def test_preparing_batches_is_a_function_like_others():
    """All of `__getitem__` is in one phase: the training loop is not."""
    read = [seen("fetch", MAIN, (11 + n, "__getitem__", 10)) for n in range(8)]
    model = [seen("forward", MAIN, (21 + n, "forward", 20), module="net") for n in range(8)]
    nodes = [made(21 + n, "forward", 1) | {"module": "net"} for n in range(8)]
    found = function([*read, *model, seen("backward", (95, "main", 80)), seen("optimizer", (96, "main", 80))], nodes)
    assert (found.function, found.line) == ("__getitem__", 90)


def test_a_step_whose_model_is_dear_in_the_backward_pass_is_no_function_beside_it():
    """The model has a seventh of the forward pass of `loss`, and most of its nodes."""
    net = [seen("forward", MAIN, LOSS, (72 + n, "net", 72), count=35, module="net") for n in range(4)]
    nodes = [*(made(72 + n, "net", 5) | {"module": "net"} for n in range(4)), made(51, "match", 2)]
    assert function([*spread(), *net, *OTHERS], nodes).function == "match"


def test_what_runs_in_the_backward_pass_or_calls_it_is_not_named():
    own = [seen("backward", (95, "main", 80), (31 + n, "backward", 30)) for n in range(8)]
    assert function([*MODEL, *own, seen("optimizer", (96, "main", 80))], [made(21, "forward", 1)]) is None
    step = [seen("forward", (61 + n, "step", 60), count=200) for n in range(8)]
    assert function([*step, seen("backward", (69, "step", 60)), *OTHERS[1:]], [made(99, "other", 1)]) is None


def test_a_function_that_no_line_leads_to_has_its_own():
    cut = [seen("forward", (51 + n, "match", 50), count=200) for n in range(4)]
    found = function([*cut, *MODEL, *OTHERS], BACKWARD)
    assert (found.line, found.function) == (50, "match")
