"""Steps of 10 ms fetch, 20 forward, 30 backward, 5 optimizer; what fills them is said by samples and operations."""

from __future__ import annotations

import pytest
from build import Script, model, recording, sample, steps
from msgspec.structs import replace

from autotune import catalogue
from autotune.derive import derive, line_facts
from autotune.derive.lines import collapsed
from autotune.derive.recording_view import MS

FILE = "/home/me/train.py"


def seen(phase, *frames, count=100, callee="", module="", root=None):
    """Fine samples; a frame is a line, or (line, function, first line)."""
    rows = [(FILE, *(frame if isinstance(frame, tuple) else (frame, "main", 1))) for frame in frames]
    frames = [(file, line, function, first) for file, line, function, first in rows]
    row = {"phase": phase, "frames": frames, "callee": callee, "module": module, "count": count}
    return row if root is None else row | {"root": root}


def operation(line, ms, backward_ms=0, ops=1, host_ms=None, module="", names=(), double_ms=0, device_ms=None, cpu_ms=0):
    return {
        "file": FILE,
        "line": line,
        "function": "main",
        "module": module,
        "ops": ops,
        "op_ns": ms * MS,
        "backward_ns": backward_ms * MS,
        "host_ns": (ms if host_ms is None else host_ms) * MS,
        "double_ns": double_ms * MS,
        "cpu_ns": cpu_ms * MS,
        "device_ns": {kind: ms * MS for kind, ms in (device_ms or {}).items()},
        "names": [(name, 1, part * MS) for name, part in names],
    }


def lines(samples=(), operations=(), runs=(), backward_ms=0, statements=(), loops=(), results=None, modules=()):
    found = {
        "lines": {
            "steps": 3,
            "wall_ns": 1,
            "count": sum(row["count"] for row in samples),
            "rows": list(samples),
            "modules": [
                {"name": name, "type": kind, "is_frozen": frozen, "is_trained": not frozen}
                for name, kind, frozen in modules
            ],
            "statements": [(FILE, *span) for span in statements],
            "loops": list(loops),
        }
    }
    if operations:
        found["operations"] = {
            "steps": 1,
            "wall_ns": 1,
            "backward_ns": backward_ms * MS,
            "rows": list(operations),
            "modules": [],
            "runs": [{"file": FILE, "line": line, "function": "main", "count": count} for line, count in runs],
            "statements": [],
        }
    if results is not None:
        found["results"] = {"steps": 4, "rows": list(results)}
    return found


def table(found=None, micros=1, **fields):
    step = derive([recording(script=steps(4, micros), lines=found, **fields)]).step
    assert step is not None
    return step.lines


def facts(found, subject):
    derived = derive([recording(script=steps(4), lines=found)])
    return {fact.name: fact.value for fact in derived.facts if fact.subject == subject}


FOUR = [seen("fetch", 5), seen("forward", 6, 20, count=300), seen("forward", 6, 21), seen("backward", 7)]


def by_line(found):
    return {line.line: line for line in found.lines}


def test_without_samples_there_is_no_table():
    assert table() is None


def test_a_phase_is_divided_among_the_innermost_lines_of_its_samples():
    found = by_line(table(lines([*FOUR, seen("optimizer", 8)])))
    assert {number: line.share for number, line in found.items()} == pytest.approx(
        {5: 10 / 65, 20: 15 / 65, 21: 5 / 65, 7: 30 / 65, 8: 5 / 65}
    )
    assert found[20].phase_ms == pytest.approx({"forward": 15})
    assert table(lines([*FOUR, seen("optimizer", 8)])).known_share == pytest.approx(1.0)


def test_backward_goes_to_the_lines_whose_operations_made_its_nodes():
    operations = [operation(20, 10, backward_ms=8), operation(21, 5, backward_ms=1), operation(7, 0, backward_ms=1)]
    found = by_line(table(lines(FOUR, operations, backward_ms=20)))
    # Of 20 ms of nodes 10 are known; what nobody made stays at the call of backward.
    assert found[20].backward_ms == pytest.approx(30 * 8 / 20)
    assert found[21].backward_ms == pytest.approx(30 * 1 / 20)
    assert found[7].share == pytest.approx((30 * 10 / 20 + 30 * 1 / 20) / 65)
    assert sum(line.share for line in found.values()) == pytest.approx(60 / 65)


def two_models(samples, within=None, evaluates=False):
    """Steps in which a model takes 16 ms of forward, and another one 4; lines' milliseconds of forward."""
    script = Script()
    for _ in range(4):
        script.fetch(10)
        with script.inside("forward", 0, 3):
            script.run(within or "gc", 6)
            script.idle(10)
        script.forward(4, model=1)
        script.run("backward", 30)
        script.update()
        if evaluates:
            script.evaluate()
    step = derive([recording(script=script, lines=lines(samples), models=(model(0), model(1)))]).step
    return {number: line.phase_ms["forward"] for number, line in by_line(step.lines).items() if line.phase_ms}


@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("within", ["sync", "h2d"])
def test_the_time_of_forward_is_divided_by_the_calls_of_each_root_model(within, evaluates):
    """Also where both share the module that runs. A read within a call is part of it, a copy to the device is not."""
    samples = [
        seen("forward", 20, count=60, module="trunk", root=0),
        seen("forward", 21, count=40, module="trunk", root=1),
    ]
    encoder_ms = 16 if within == "sync" else 10
    assert two_models(samples, within, evaluates) == pytest.approx({20: encoder_ms, 21: 4})


@pytest.mark.parametrize(("root", "count"), [(1, 9), (7, 40), (-1, 40), (None, 40)])
def test_where_a_root_model_has_few_samples_or_is_not_told_all_of_forward_is_divided(root, count):
    samples = [seen("forward", 20, count=60, root=0), seen("forward", 21, count=count, root=root)]
    assert two_models(samples)[20] == pytest.approx(20 * 60 / (60 + count))


def on_device(found):
    """The table where the device's clock reads what the host's does."""
    one = recording(script=steps(4, 1), lines=found)
    edges = one.window.start_ns - MS, one.window.end_ns + MS
    window = replace(one.window, device_clock=tuple((edge, edge) for edge in edges))
    return by_line(derive([replace(one, window=window)]).step.lines)


def test_on_cuda_kernels_are_charged_to_the_lines_that_launched_them_and_the_rest_to_where_the_host_was():
    # Of 20 ms of forward the device works for 16; the host spends its time at line 20.
    operations = [
        operation(20, 10, backward_ms=1, device_ms={"forward": 4, "nodes": 6}),
        operation(21, 1, backward_ms=1, device_ms={"forward": 12, "nodes": 15}),
    ]
    samples = [*FOUR[:1], seen("forward", 6, 20, count=300), FOUR[3]]
    found = on_device(lines(samples, operations, backward_ms=2))
    assert found[20].phase_ms == pytest.approx({"forward": 4 + 4})
    assert found[21].phase_ms == pytest.approx({"forward": 12})
    # 21 of 30 ms of backward are kernels; the rest is the host's, by nodes.
    assert found[20].backward_ms == pytest.approx(6 + 9 / 2)
    assert found[21].backward_ms == pytest.approx(15 + 9 / 2)
    assert (found[20].device_ms, found[21].device_ms) == pytest.approx((10, 27))
    assert found[20].callers[0].line == 6, "the samples of a line tell who calls its function"


def test_kernels_take_no_more_than_their_phase():
    operations = [operation(20, 10, device_ms={"forward": 30}), operation(21, 1, device_ms={"forward": 10})]
    found = on_device(lines(FOUR, operations))
    assert (found[20].phase_ms["forward"], found[21].phase_ms["forward"]) == pytest.approx((15, 5))


def test_time_in_kernels_is_time_in_torch():
    operations = [operation(20, 1, host_ms=2, ops=1, device_ms={"forward": 15})]
    line = on_device(lines([*FOUR[:1], seen("forward", 6, 20), FOUR[3]], operations))[20]
    assert line.torch_share == pytest.approx((15 + 5 * 0.5) / 20)


def test_operations_of_tensors_on_the_cpu_are_told_where_training_is_on_cuda():
    samples = [*FOUR[:1], seen("forward", 6, 20), FOUR[3]]
    of_cpu = operation(
        20, 10, ops=2, names=[("aten::index", 9), ("aten::copy_", 1)], device_ms={"forward": 1}, cpu_ms=9
    )
    line = on_device(lines(samples, [of_cpu]))[20]
    assert line.cpu_share == pytest.approx(0.9)
    assert line_facts.spends(line) == "operations of torch on tensors of the CPU"
    busy = of_cpu | {"device_ns": {"forward": 15 * MS}}
    assert line_facts.spends(on_device(lines(samples, [busy]))[20]) == "torch.index", "the device works meanwhile"
    older = {key: value for key, value in of_cpu.items() if key != "cpu_ns"}
    assert on_device(lines(samples, [older]))[20].cpu_share is None
    without = operation(20, 10, ops=2, names=[("aten::index", 9), ("aten::copy_", 1)], cpu_ms=10)
    line = by_line(table(lines(samples, [without])))[20]
    assert (line.cpu_share, line_facts.spends(line)) == (None, "torch.index"), "a training on the CPU"


def test_phases_by_the_hosts_clock_are_not_those_of_kernels():
    operations = [operation(20, 10, device_ms={"forward": 4})]
    found = by_line(table(lines(FOUR, operations)))
    assert found[20].phase_ms == pytest.approx({"forward": 15})
    assert found[20].device_ms is None


def test_a_frame_of_the_users_inside_backward_keeps_its_own_time():
    samples = [*FOUR[:3], seen("backward", 7, count=90), seen("backward", 7, (40, "backward", 38), count=10)]
    operations = [operation(20, 10, backward_ms=20)]
    found = by_line(table(lines(samples, operations, backward_ms=20)))
    assert found[40].share == pytest.approx(3 / 65)
    assert found[20].backward_ms == pytest.approx(27)


def test_few_fine_samples_are_joined_by_those_of_the_window():
    samples = (sample("forward", 29, user=FILE, line=30),)
    few = by_line(table(lines([seen("forward", 6, count=1)]), samples=samples))
    assert few[30].share == pytest.approx(20 * 29 / 30 / 65)
    enough = by_line(table(lines([seen("forward", 6, count=30)]), samples=samples))
    assert 30 not in enough


def test_fetches_of_the_probes_own_batches_are_not_the_scripts():
    samples = (sample("fetch", 40, user=FILE, line=30),)
    found = by_line(table(lines([seen("fetch", 5), seen("kept", 5), seen("forward", 6)]), samples=samples))
    assert found[30].share == pytest.approx(10 / 65)
    assert 5 not in found


def test_lines_of_one_statement_are_one():
    found = by_line(table(lines([seen("forward", 6), seen("forward", 8)], statements=[(6, 8)])))
    assert (found[6].share, found[6].end_line) == (pytest.approx(20 / 65), 8)


def test_what_the_trace_says_of_a_line():
    names = [("aten::mm", 3), ("aten::copy_", 1)]
    operations = [operation(20, 4, ops=8, host_ms=16, names=names, double_ms=1)]
    line = by_line(table(lines(FOUR, operations, runs=[(20, 40)], backward_ms=0)))[20]
    assert (line.runs, line.ops, line.op_us) == (40, 8, 500)
    # The operations take 4 ms of the 15 ms that the samples give to the line, 1/4 of what the trace does.
    assert (line.torch_share, line.double_share) == (pytest.approx(4 / 15), 0.25)
    assert line.operations == (("aten::mm", 0.75), ("aten::copy_", 0.25))


def test_the_least_count_of_its_lines_is_the_statements():
    runs = [(6, 3), (7, 1), (8, 1)]
    found = lines([seen("forward", 6)], [operation(6, 1)], runs=runs, statements=[(6, 8)])
    assert by_line(table(found))[6].runs == 1


def test_the_callee_is_named_where_it_fills_most_of_the_line():
    rows = [seen("other", 6, callee="copy.deepcopy", count=60), seen("other", 6, count=40)]
    script = steps(4)
    script.idle(10)
    script.step()
    step = derive([recording(script=script, lines=lines(rows))]).step
    assert by_line(step.lines)[6].callee == "copy.deepcopy"


def test_the_call_of_a_module_is_named_by_the_module():
    rows = [seen("forward", 6, callee="torch.nn.modules.module.Module._wrapped_call_impl", module="layers.3.norm")]
    found = table(lines(rows, modules=[("layers.3.norm", "LayerNorm", False)]))
    assert (found.lines[0].callee, found.lines[0].modules) == ("", ("layers.*.norm",))
    assert [(one.name, one.type, one.share) for one in found.modules] == [
        ("layers.*.norm", "LayerNorm", pytest.approx(20 / 65))
    ]


@pytest.mark.parametrize(
    ("name", "one"),
    [("encoder.layers.3.norm", "encoder.layers.*.norm"), ("0", "*"), ("net.0.1", "net.*.*"), ("v2.head", "v2.head")],
)
def test_the_modules_of_a_list_are_one(name, one):
    assert collapsed(name) == one


# Facts


def loop(first, last, body, kind="for", carried=(), fed_back=()):
    row = {"file": FILE, "line": first, "last": last, "body": body, "kind": kind}
    return {**row, "carried": list(carried), "fed_back": list(fed_back)}


def looped(**fields):
    """A loop over lines 10 to 12 in forward, run 40 times in a step; its body calls a function at line 30."""
    samples = [
        seen("forward", 6, 11, count=50),
        seen("forward", 6, 12, (30, "gate", 29), count=100, module=fields.pop("module", "cell")),
        seen("forward", 6, 14, count=50),
    ]
    operations = [operation(11, 1, ops=80, backward_ms=5), operation(30, 3, ops=120), operation(14, 9, backward_ms=5)]
    runs = [(11, 40), (12, 40), (30, 40), (14, 1)]
    row = loop(10, 12, 11, **fields)
    return lines(samples, operations, runs, 10, loops=[row], modules=[("cell", "LSTMCell", False)])


def test_a_loop_holds_what_its_functions_cost_and_the_backward_of_its_lines():
    found = facts(looped(), "loop#1")
    # 15 of 20 ms of forward; there is no sample of backward, so none of it is charged.
    assert found["loop.share"] == pytest.approx(15 / 65)
    assert (found["loop.runs"], found["loop.ops"], found["loop.op_us"]) == (40, 200, pytest.approx(20))
    assert (found["loop.phase"], found["loop.cell"], found["loop.where"]) == ("forward", "LSTMCell", "train.py:10")
    assert not found["loop.is_carried"] and not found["loop.feeds_back"] and not found["loop.is_over_modules"]


def test_a_line_says_which_loop_it_is_part_of():
    found = looped()
    inside = {number: facts(found, f"line#{number}") for number in (1, 2, 3)}
    assert {row["line.where"]: row["line.inside"] for row in inside.values()} == {
        "gate (train.py:30)": "loop#1",
        "main (train.py:11)": "loop#1",
        "main (train.py:14)": "",
    }


def test_what_is_carried_and_fed_back_is_said():
    found = facts(looped(carried=["hidden"], fed_back=["hidden"]), "loop#1")
    assert (found["loop.carried"], found["loop.is_carried"], found["loop.feeds_back"]) == ("hidden", True, True)


def test_a_loop_of_one_iteration_is_none():
    found = looped()
    found["operations"]["runs"] = [{"file": FILE, "line": 11, "function": "main", "count": 1}]
    assert facts(found, "loop#1") == {}
    assert facts(found, "run")["loop.num_seen"] == 0


def test_a_loop_over_layers_runs_another_module_each_time():
    samples = [seen("forward", 6, 11, count=25, module=f"layers.{n}") for n in range(4)]
    found = lines(samples, [operation(11, 4, ops=8)], [(11, 4)], loops=[loop(10, 11, 11)])
    assert facts(found, "loop#1")["loop.is_over_modules"]


def result(line, kind="line", share=0.3, calls=1.0, again=1, distinct=1.0):
    row = {"file": FILE, "line": line, "function": "main", "kind": kind, "calls": calls, "again": again}
    return {**row, "distinct": distinct, "bytes": 64, "share": share}


@pytest.mark.parametrize(
    ("row", "constant"),
    [
        (result(20), True),
        (result(20, calls=6.0, again=6), True),
        (result(20, calls=6.0, again=0, distinct=1.0), False),
        (result(20, calls=6.0, again=2, distinct=4.0), None),
        (result(20, again=0), None),
        (result(20, share=0.02), None),
    ],
)
def test_what_gave_the_same_again(row, constant):
    assert facts(lines(FOUR, results=[row]), "result#1").get("result.is_constant") is constant
    assert facts(lines(FOUR, results=[row]), "run")["result.num_seen"] == (0 if constant is None else 1)


def test_repetitions_within_a_step_save_all_but_one():
    found = facts(lines(FOUR, results=[result(20, calls=4.0, again=0)]), "result#1")
    # The share is that of the window's step, not the one of the live steps in the row.
    share = found["result.share"]
    assert share == pytest.approx(15 / 65)
    assert found["result.saved_share"] == pytest.approx(0.75 * share)


def frozen(name, *, is_same=True, needs_grad=False):
    return {"name": name, "is_same": is_same, "needs_grad": needs_grad, "bytes": 64}


def cacheable(*rows, same_batches=True, samples=None):
    """The facts of frozen modules, and the place of their share."""
    samples = samples or [
        seen("forward", 6, 11, count=20, module="encoder.0"),
        seen("forward", 6, 12, count=10, module="encoder.1"),
        seen("forward", 7, count=10, module="head"),
    ]
    every = {**lines(samples), "frozen": {"steps": 3, "rows": list(rows), "are_same_batches": same_batches}}
    derived = derive([recording(script=steps(4), lines=every)])
    found = {fact.name: fact for fact in derived.facts if fact.name.startswith("frozen.")}
    return {name: fact.value for name, fact in found.items()}, found["frozen.cacheable_share"].places


def test_a_frozen_module_that_gives_the_same_again_has_the_line_of_its_call():
    values, places = cacheable(frozen("encoder"))
    assert values["frozen.cacheable_share"] == pytest.approx(20 * 30 / 40 / 65)
    assert (values["frozen.cacheable_module"], values["frozen.are_same_batches"]) == ("encoder", True)
    assert [(place.file, place.line) for place in places] == [(FILE, 6)]


@pytest.mark.parametrize("row", [frozen("encoder", is_same=False), frozen("encoder", needs_grad=True)])
def test_one_that_changes_or_has_gradients_through_it_does_not_count(row):
    values, places = cacheable(row)
    assert values["frozen.cacheable_share"] == 0.0
    assert places == ()
    assert "frozen.cacheable_module" not in values


def test_batches_that_nobody_asked_again_are_not_known():
    values, _ = cacheable(frozen("encoder"), same_batches=None)
    assert "frozen.are_same_batches" not in values


def test_every_catalogued_fact_of_lines_is_stated_and_no_other():
    found = [result(20, calls=6.0, again=6)]
    every = {
        **looped(),
        "results": {"steps": 4, "rows": found},
        "frozen": {"steps": 3, "rows": [frozen("cell")], "are_same_batches": True},
    }
    every["lines"]["modules"] = [{"name": "cell", "type": "LSTMCell", "is_frozen": True, "is_trained": False}]
    every["operations"]["rows"][0]["names"] = [("aten::mm", 1, MS)]
    derived = derive([recording(script=steps(4), lines=every)])
    stated = {fact.name for fact in derived.facts if fact.name.split(".")[0] in ("line", "loop", "result", "frozen")}
    assert stated == {name for name, row in catalogue.facts().items() if row.supplier == "derive.line_facts"}


def test_of_a_call_and_what_it_calls_the_larger_is_named():
    rows = [result(6, share=0.5), result(20, share=0.4)]
    found = facts(lines(FOUR, results=rows), "run")
    assert found["result.num_seen"] == 1
    assert facts(lines(FOUR, results=rows), "result#1")["result.share"] == pytest.approx(20 / 65)


def test_modules_that_are_not_trained():
    samples = [
        seen("forward", 6, module="encoder.layers.0", count=150),
        seen("forward", 6, module="head", count=50),
    ]
    names = [("encoder", "Encoder", True), ("encoder.layers.0", "Linear", True), ("head", "Linear", False)]
    found = facts(lines(samples, modules=names), "run")
    assert (found["frozen.share"], found["frozen.module"]) == (pytest.approx(15 / 65), "encoder")


def test_a_function_of_the_users_that_the_engine_calls_keeps_its_time_however_long_it_is():
    samples = [*FOUR[:3], seen("backward", 7, count=50), seen("backward", 7, (40, "backward", 38), count=50)]
    operations = [operation(20, 10, backward_ms=20)]
    found = by_line(table(lines(samples, operations, backward_ms=20)))
    assert found[40].share == pytest.approx(15 / 65)
    assert found[20].backward_ms == pytest.approx(15)


def training_loop(*phases):
    samples = [seen("forward", 12, count=30), *(seen(phase, 12, count=3) for phase in phases)]
    return lines(samples, [operation(12, 4, ops=80)], [(12, 8)], loops=[loop(10, 14, 12)])


@pytest.mark.parametrize("phases", [("fetch",), ("optimizer",), ("fetch", "backward")])
def test_a_loop_that_fetches_batches_or_updates_weights_is_a_training_loop(phases):
    assert facts(training_loop(*phases), "loop#1") == {}


@pytest.mark.parametrize("phases", [(), ("backward",)])
def test_one_that_does_neither_is_a_loop(phases):
    assert facts(training_loop(*phases), "loop#1")["loop.runs"] == 8


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("aten::addmm", True),
        ("aten::native_layer_norm", True),
        ("aten::max_pool2d_with_indices", True),
        ("aten::_fused_adamw_", True),
        ("AddmmBackward0", True),
        ("aten::embedding_dense_backward", True),
        ("aten::mul", True),
        ("aten::multinomial", False),
        ("aten::nonzero", False),
        ("aten::index_add_", False),
        ("aten::cumsum", False),
        ("aten::matrix_exp", False),
        ("aten::linalg_svd", False),
        ("aten::copy_", False),
    ],
)
def test_which_operations_a_model_is_expected_to_be_made_of(operation, expected):
    assert line_facts.is_expected(operation) is expected


def test_what_a_line_spends_is_said_only_of_the_larger_part():
    names = [("aten::sort", 2), ("aten::mm", 3)]
    assert facts(lines(FOUR, [operation(20, 5, names=names)]), "line#2")["line.spends"] == "torch.mm"
    names = [("aten::sort", 2), ("aten::mm", 2), ("aten::cat", 1)]
    assert facts(lines(FOUR, [operation(20, 5, names=names)]), "line#2")["line.spends"] == ""


@pytest.mark.parametrize(
    ("names", "callee", "expected"),
    [
        (["aten::lift_fresh", "aten::detach_"], "", True),
        (["aten::empty"], "", False),
        (["aten::lift_fresh"], "lib.simulate", False),
    ],
)
def test_tensors_of_python_values_are_made_by_no_function_of_a_library(names, callee, expected):
    samples = [seen("forward", 20, callee=callee, count=100)]
    found = lines(samples, [operation(20, 1, host_ms=50, names=[(name, 1) for name in names])])
    assert facts(found, "line#1")["line.makes_tensors"] is expected


@pytest.mark.parametrize(
    ("kind", "header", "length"), [("for", 44, 10), ("for", 41, 40), ("comprehension", 4, 10), ("comprehension", 1, 40)]
)
def test_how_many_iterations_a_loop_makes_each_time_that_it_is_entered(kind, header, length):
    body = 10 if kind == "comprehension" else 12
    runs = [(10, header), (12, 40)] if kind == "for" else [(10, header)]
    found = lines(
        [seen("forward", body, count=30)], [operation(body, 4, ops=80)], runs, loops=[loop(10, 14, body, kind)]
    )
    if kind == "comprehension":
        found["operations"]["runs"].append({"file": FILE, "line": 10, "function": "<listcomp>", "count": 40})
    values = facts(found, "loop#1")
    assert (values["loop.runs"], values["loop.length"]) == (40, length)


def test_the_lines_that_a_function_is_called_from():
    top = (1, "<module>", 1)
    samples = [seen("forward", top, 6, 20, count=300), seen("forward", top, 8, 20, count=100), seen("other", top, 9)]
    found = by_line(table(lines(samples)))
    assert [(one.line, one.share) for one in found[20].callers] == [(6, 0.75), (8, 0.25)]


def test_the_top_level_of_a_script_is_no_caller():
    found = by_line(table(lines([seen("forward", (1, "<module>", 1), 6, count=300)])))
    assert found[6].callers == ()


def led_by(samples, runs):
    found = by_line(table(lines(samples, [operation(42, 1)], runs)))[42].repeated_by
    return None if found is None else (found.line, found.runs)


TOP, STEP, TIMES, STAGES = (1, "<module>", 1), 9, 75, 48


def test_the_outermost_line_that_leads_to_a_costly_one_several_times():
    """An integration from time 0 for each of four times: 10 steps each, of 4 stages."""
    samples = [seen("forward", TOP, STEP, TIMES, STAGES, 42)]
    assert led_by(samples, [(STEP, 1), (TIMES, 4), (STAGES, 40), (42, 160)]) == (TIMES, 4)


def test_a_line_that_runs_once_for_each_micro_batch_repeats_nothing():
    samples = [seen("forward", TOP, STEP, TIMES, 42)]
    found = lines(samples, [operation(42, 1)], [(STEP, 4), (TIMES, 4), (42, 16)])
    leads = {fetches: by_line(table(found, micros=fetches))[42].repeated_by for fetches in (1, 4)}
    assert leads[1].line == STEP
    assert leads[4] is None


def test_of_accumulated_batches_it_says_the_runs_for_each():
    samples = [seen("forward", TOP, STEP, TIMES, 42)]
    found = lines(samples, [operation(42, 1)], [(STEP, 2), (TIMES, 8), (42, 8)])
    by = by_line(table(found, micros=2))[42].repeated_by
    assert (by.line, by.runs) == (TIMES, 4)


def test_of_several_steps_with_one_batch_too():
    """A critic makes five steps with each batch, and each encodes it anew."""
    samples = [seen("forward", TOP, TIMES, 42)]
    found = lines(samples, [operation(42, 1)], [(TIMES, 1), (42, 1)])
    script = Script()
    for _ in range(4):
        script.fetch(10)
        for _ in range(5):
            script.forward(20)
            script.run("backward", 30)
            script.update()
    step = derive([recording(script=script, lines=found)]).step
    by = by_line(step.lines)[42].repeated_by
    assert (by.line, by.runs) == (TIMES, pytest.approx(5, rel=0.3))  # the window begins within a batch


def test_of_several_lines_that_lead_to_it_the_one_with_most():
    samples = [
        seen("forward", TOP, 80, 42, count=50),
        seen("forward", TOP, 81, 42, count=40),
        seen("forward", TOP, 90, 42, count=10),
    ]
    assert led_by(samples, [(80, 5), (81, 5), (90, 1), (42, 11)]) == (80, 5)


def test_what_a_for_loop_goes_over_is_called_once():
    """for name, value in metrics(scores).items(): the line runs for each value."""
    samples = [seen("forward", TOP, STEP, TIMES, 42)]
    runs = [(STEP, 1), (TIMES, 4), (42, 1)]
    loops = [loop(TIMES, 77, 76, "for")]
    assert by_line(table(lines(samples, [operation(42, 1)], runs, loops=loops)))[42].repeated_by is None


def test_a_line_most_of_which_is_reached_once_is_led_to_by_none():
    samples = [seen("forward", TOP, STEP, 80, 42, count=49), seen("forward", TOP, STEP, 90, 42, count=51)]
    assert led_by(samples, [(STEP, 1), (80, 5), (90, 1), (42, 6)]) is None


def test_without_frozen_modules_nothing_can_be_kept():
    found = facts(lines(FOUR, modules=[("head", "Linear", False)]), "run")
    assert (found["frozen.share"], found["frozen.cacheable_share"]) == (0.0, 0.0)


def test_frozen_modules_that_were_not_compared_are_not_known():
    samples = [seen("forward", 6, 11, count=20, module="encoder"), seen("forward", 7, count=20, module="head")]
    found = facts(lines(samples, modules=[("encoder", "Encoder", True)]), "run")
    assert "frozen.cacheable_share" not in found


def test_frozen_modules_that_did_not_run_meanwhile_are_not_known():
    samples = [seen("forward", 6, 11, count=20, module="encoder"), seen("forward", 7, count=20, module="head")]
    every = {**lines(samples, modules=[("encoder", "Encoder", True)]), "frozen": {"steps": 3, "rows": []}}
    assert "frozen.cacheable_share" not in facts(every, "run")


def with_rows(*rows, samples=(), operations=()):
    found = lines(samples, operations)
    found["rows"] = {"steps": 3, "rows": [{"name": name, "unused": unused, "repeated": n} for name, unused, n in rows]}
    return derive([recording(script=steps(4), lines=found)])


def stated(derived, start):
    return {fact.name.removeprefix(start): fact for fact in derived.facts if fact.name.startswith(start)}


ACTOR = [
    seen("forward", 9, (40, "update", 38), (5, "forward", 4), module="actor.0", count=300),
    seen("forward", 9, (41, "update", 38), (8, "value", 7), module="critic.0", count=100),
]


def test_rows_that_nobody_uses_cost_what_their_modules_do():
    """Of 20 ms of forward 15 are in the actor, three quarters of whose rows are unused; update picks them."""
    picked = operation(42, 1, names=[("aten::index", 1)]) | {"function": "update"}
    found = stated(
        with_rows(("actor.0", 0.75, 0.0), ("critic.0", 0.0, 0.0), samples=ACTOR, operations=[picked]), "discarded."
    )
    assert found["share"].value == pytest.approx(0.75 * 15 / 65)
    assert found["model_share"].value == pytest.approx(0.75 * 15 / 20)
    assert found["row_share"].value == 0.75
    assert [place.line for place in found["share"].places] == [40]


def test_rows_of_a_product_that_no_module_makes_cost_what_its_line_does():
    """Of 20 ms of forward 15 are the line's."""
    samples = [seen("forward", 9, 20, module="net", count=300), seen("forward", 9, 21, module="net.0", count=100)]
    found = lines(samples)
    rows = [{"name": "", "place": (FILE, 20), "unused": 0.9, "repeated": None}]
    found["rows"] = {"steps": 3, "rows": [*rows, {"name": "net.0", "unused": 0.0, "repeated": 0.0}]}
    derived = derive([recording(script=steps(4), lines=found)])
    said = stated(derived, "discarded.")
    assert said["share"].value == pytest.approx(0.9 * 15 / 65)
    assert said["model_share"].value == pytest.approx(0.9 * 15 / 20)
    assert [place.line for place in said["share"].places] == [20]


def test_of_the_line_of_a_product_its_products_alone_count():
    """A norm with rows of its own is called on the line, which also computes a loss: half of its own time."""
    samples = [seen("forward", 9, 20, module="net", count=200), seen("forward", 9, 20, module="net.norm", count=200)]
    operations = [operation(20, 4, names=[("aten::mm", 2), ("aten::_log_softmax", 2)])]
    found = lines(samples, operations)
    rows = [{"name": "", "place": (FILE, 20), "unused": 1.0, "repeated": None}]
    found["rows"] = {"steps": 3, "rows": [*rows, {"name": "net.norm", "unused": 0.0, "repeated": 0.0}]}
    said = stated(derive([recording(script=steps(4), lines=found)]), "discarded.")
    assert said["share"].value == pytest.approx(0.5 * 10 / 65)
    assert said["model_share"].value == pytest.approx(5 / 15)


def test_rows_that_are_picked_by_their_values_are_not_known_before():
    picked = operation(42, 1, names=[("aten::index", 1)]) | {"function": "update"}
    found = lines(ACTOR, [picked])
    found["operations"]["selected_by_value"] = [[picked["file"], 42]]
    found["rows"] = {"steps": 3, "rows": [{"name": "actor.0", "unused": 0.75, "repeated": 0.0}]}
    said = stated(derive([recording(script=steps(4), lines=found)]), "discarded.")
    assert (said["share"].value, said["model_share"].value) == (0.0, 0.0)
    assert "row_share" not in said


def test_methods_of_one_name_are_told_apart_by_where_they_begin():
    """The outer forward picks; the encoder's, whose samples these are, does not."""
    samples = [seen("forward", 9, (52, "forward", 45), (32, "forward", 30), module="encoder.0", count=300)]
    picked = operation(57, 1, names=[("aten::index", 1)]) | {"function": "forward"}
    found = stated(with_rows(("encoder.0", 0.9, 0.0), samples=samples, operations=[picked]), "discarded.")
    assert [place.line for place in found["share"].places] == [52]


def test_rows_are_repeated_before_the_module_that_gets_them():
    samples = [seen("forward", 9, (75, "encode", 74), (64, "forward", 60), module="encoder.0", count=300)]
    looked_up = operation(63, 5, names=[("aten::index_select", 5)]) | {"function": "forward"}
    indexed = operation(75, 1, names=[("aten::index", 1)]) | {"function": "encode"}
    found = stated(with_rows(("encoder", None, 0.8), samples=samples, operations=[looked_up, indexed]), "repeated.")
    assert [place.line for place in found["share"].places] == [75]


def test_rows_that_come_several_times_cost_their_repetitions():
    repeated = operation(39, 2, names=[("aten::repeat_interleave", 2)]) | {"function": "update"}
    found = stated(
        with_rows(("actor", None, 0.8), ("critic", None, 0.5), samples=ACTOR, operations=[repeated]), "repeated."
    )
    assert found["share"].value == pytest.approx(15 / 65 * 0.8)
    assert (found["module"].value, found["row_share"].value) == ("actor", 0.8)
    assert [place.line for place in found["share"].places] == [39]


def grown(*rows):
    found = lines([seen("forward", 67, (40, "reward", 38), count=100), seen("forward", 30, count=100)])
    given = [{"file": FILE, "line": line, "function": name, "elements": n, "needed": m} for line, name, n, m in rows]
    found["rows"] = {"steps": 3, "rows": [], "growing": given}
    return stated(derive([recording(script=steps(4), lines=found)]), "growing.")


def test_what_a_model_generates_without_a_cache_costs_what_it_had_computed_before():
    found = grown((67, "rollout", 100, 10), (90, "probe", 64, 16))
    whole = grown((67, "rollout", 10**9, 1))["share"].value
    assert whole == pytest.approx(20 / 65 / 2)
    assert found["share"].value == pytest.approx(0.9 * whole)
    assert found["where"].value == "rollout (train.py:67)"
    assert found["again"].value == 10.0
    assert [place.line for place in found["share"].places] == [67, 90]


def test_of_two_lines_of_one_stack_the_inner_one_has_the_time():
    """forward:67 calls forward:40 in `grown`."""
    found = grown((67, "rollout", 10**9, 1), (40, "reward", 10**9, 1))
    assert found["share"].value == pytest.approx(20 / 65 / 2)
    assert [place.line for place in found["share"].places] == [40, 67]


def test_a_model_that_generates_nothing_or_was_not_looked_at_for_that():
    assert {name: fact.value for name, fact in grown().items()} == {"share": 0.0}
    assert not stated(with_rows(("actor.0", 0.0, 0.0), samples=ACTOR), "growing.")


def test_rows_that_were_compared_and_are_all_used():
    derived = with_rows(("actor.0", 0.0, 0.0), samples=ACTOR)
    assert stated(derived, "discarded.")["share"].value == 0.0
    assert stated(derived, "repeated.")["share"].value == 0.0
    assert "row_share" not in stated(derived, "discarded.")


def test_rows_that_were_not_compared_are_not_known():
    assert not stated(derive([recording(script=steps(4), lines=lines(ACTOR))]), "discarded.")


def test_a_function_that_gives_few_results_in_many_calls_has_the_line_that_calls_it():
    samples = [
        seen("forward", 9, (20, "partial", 18), (5, "forward", 4)),
        seen("forward", 9, (5, "forward", 4), count=5),
    ]
    row = result(4, kind="function", share=0.4, calls=14.0, again=0, distinct=2.0)
    derived = derive([recording(script=steps(4), lines=lines(samples, results=[row]))])
    (found,) = [fact for fact in derived.facts if fact.name == "result.saved_share"]
    assert found.value == pytest.approx(20 / 65 * (1 - 2 / 14), rel=0.01)
    assert [place.line for place in found.places] == [20]


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ([("aten::fill_", 12), ("aten::embedding_dense_backward", 4), ("aten::index_select", 4)], 0.8),
        ([("aten::fill_", 2), ("aten::embedding_dense_backward", 18)], 0.0),
        ([("aten::fill_", 20)], 0.0),
    ],
    ids=["mostly cleared", "mostly used", "no table"],
)
def test_the_dense_gradients_of_tables(names, part):
    """The line has 15 ms of forward, two thirds of it inside torch, and 15 ms of the backward pass."""
    found = facts(lines(FOUR, [operation(20, 10, names=names, backward_ms=10, host_ms=20)], backward_ms=20), "line#1")
    assert found["line.dense_table_share"] == pytest.approx(part * (10 + 15) / 65, rel=0.02)


@pytest.mark.parametrize(
    ("module", "names", "part"),
    [
        ("NCC", [("aten::mkldnn_convolution", 16), ("aten::mul", 4)], 0.8),
        ("", [("aten::bmm", 20)], 1.0),
        ("head", [("aten::addmm", 20)], 0.0),
        ("", [("aten::mul", 20)], 0.0),
        ("", [("aten::linalg_matmul", 20)], 0.0),
    ],
    ids=["a loss", "a function", "the model", "no product", "asked about already"],
)
def test_products_outside_of_every_trained_model(module, names, part):
    """The line has 10 ms of forward, all inside torch, and 15 ms of the backward pass."""
    modules = [("NCC", "NCC", True), ("head", "Linear", False)]
    samples = [seen("forward", 20, module=module), seen("forward", 21), seen("backward", 7)]
    rows = [operation(20, 10, names=names, backward_ms=10, module=module)]
    found = facts(lines(samples, rows, backward_ms=20, modules=modules), "line#1")
    assert found["line.product_share"] == pytest.approx(part * 25 / 65, rel=0.02)


def test_where_it_was_not_noted_what_is_trained_products_are_not_known():
    every = lines(FOUR, [operation(20, 10, names=[("aten::mm", 10)])], modules=[("head", "Linear", False)])
    del every["lines"]["modules"][0]["is_trained"]
    assert "line.product_share" not in facts(every, "line#1")


SMALL = "line.small_ops_share"


@pytest.mark.parametrize(
    ("ops", "runs", "us", "backward_ms", "is_small"),
    [
        (500, 1, 20, 0, True),
        (499, 1, 20, 0, False),
        (900, 2, 10, 0, False),
        (500, 1, 31, 0, False),
        (500, 1, 20, 10, False),
    ],
    ids=["on the limit", "fewer", "a line that runs twice", "longer ones", "trained through"],
)
def test_many_short_operations_that_nobody_trains_through(ops, runs, us, backward_ms, is_small):
    row = operation(20, ops * us / 1e3, backward_ms=backward_ms, ops=ops, names=[("aten::copy_", 1)])
    found = lines([seen("forward", 20), seen("backward", 7)], [row], runs=[(20, runs)], backward_ms=20)
    (small,) = [fact for fact in derive([recording(script=steps(4), lines=found)]).facts if fact.name == SMALL]
    assert small.value == (pytest.approx(20 / 65) if is_small else 0.0)


def test_repetitions_that_dropout_tells_apart_are_another_fact():
    found = lines(ACTOR)
    row = {"name": "actor", "unused": None, "repeated": 0.0, "repeated_in_dropout": 0.8}
    found["rows"] = {"steps": 3, "rows": [row, row | {"name": "critic", "repeated_in_dropout": None}]}
    derived = derive([recording(script=steps(4), lines=found)])
    assert stated(derived, "repeated.")["share"].value == 0.0
    share = stated(derived, "repeated_in_dropout.")["share"]
    assert (share.value, stated(derived, "repeated_in_dropout.")["module"].value) == (
        pytest.approx(15 / 65 * 0.8),
        "actor",
    )
    assert not stated(with_rows(("actor", None, 0.8), samples=ACTOR), "repeated_in_dropout.")


def test_of_modules_in_each_other_the_outermost_is_named_and_who_calls_it():
    """encoder(query) at line 71 of the model's forward runs encoder.layers at line 62 of its own."""
    samples = [seen("forward", 9, (71, "forward", 70), (62, "forward", 60), module="encoder.layers.0", count=300)]
    derived = with_rows(("encoder", None, 0.8), ("encoder.layers", None, 0.8), samples=samples)
    found = stated(derived, "repeated.")
    assert (found["module"].value, [place.line for place in found["share"].places]) == ("encoder", [71])
