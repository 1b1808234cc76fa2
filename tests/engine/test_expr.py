from __future__ import annotations

import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.engine.expr import compile_expression
from autotune.errors import RuleError
from autotune.model.rule import Limit

LIMITS = {
    "share": Limit(0.05, "share", "why"),
    "count": Limit(4, "workers", "why"),
    "first": Limit((4, 41), "version", "why"),
    "word": Limit("cuda", "text", "why"),
}

KNOWN = {
    "loader.is_train": True,
    "loader.is_map_style": False,
    "loader.num_workers": 0,
    "loader.wait_share": 0.72,
    "loader.wait_ms": 168.0,
    "loader.batch_ms": 10.0,
    "device.type": "cuda",
    "software.transformers": (4, 41),
    "step.mean_ms": 0.0,
}


def evaluate(text: str, values=KNOWN):
    return compile_expression(text, LIMITS).evaluate(values.get)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("loader.is_train", True),
        ("not loader.is_train", False),
        ("loader.num_workers == 0", True),
        ("loader.num_workers != 0", False),
        ("0 < loader.wait_share <= 1", True),
        ("1 < loader.wait_ms < 1 + 1", False),
        ("loader.wait_share >= limits.share", True),
        ("loader.num_workers + 1 == 1", True),
        ("loader.wait_ms - loader.batch_ms", 158.0),
        ("loader.wait_ms * 1", 168.0),
        ("loader.wait_ms / loader.batch_ms", 16.8),
        ("loader.wait_ms // loader.batch_ms", 16.0),
        ("loader.wait_ms % loader.batch_ms", 8.0),
        ("min(limits.count, ceil(loader.wait_ms / loader.batch_ms))", 4),
        ("max(limits.count, ceil(loader.wait_ms / loader.batch_ms), 1)", 17),
        ("floor(loader.wait_ms / loader.batch_ms)", 16),
        ("round(loader.wait_ms / loader.batch_ms)", 17),
        ('device.type == "cuda"', True),
        ("device.type == limits.word", True),
        ('device.type in ["cpu", "mps"]', False),
        ('device.type in ("cuda",)', True),
        ('device.type not in ["cpu", "mps"]', True),
        ("loader.is_train == true", True),
        ("false", False),
        ("loader.is_train and not false\n  # a remark\n  or loader.is_map_style", True),
    ],
)
def test_values(text: str, value: object) -> None:
    assert evaluate(text) == (value, ())


@pytest.mark.parametrize(
    ("values", "answer"),
    [({}, (True, ())), ({"loader.is_train": False}, (True, ())), ({"loader.is_train": True}, (False, ()))],
)
def test_surely_is_false_while_its_argument_is_unknown(values: dict, answer: object) -> None:
    assert evaluate("not surely(loader.is_train)", values) == answer


@pytest.mark.parametrize("text", ["surely()", "surely(true, true)", "surely(step.mean_ms)", "surely(x=true)"])
def test_surely_takes_one_condition(text: str) -> None:
    with pytest.raises(RuleError):
        compile_expression(text)


@pytest.mark.parametrize(
    ("installed", "is_before"),
    [((4, 40, 2), True), ((4, 41), False), ((4, 41, 0), False), ((4, 41, 1), False), ((5,), False), ((4,), True)],
)
def test_versions_compare_part_by_part_and_missing_parts_are_zero(installed: tuple, is_before: bool) -> None:
    values = {"software.transformers": installed}
    assert evaluate("software.transformers < limits.first", values) == (is_before, ())
    assert evaluate("software.transformers >= limits.first", values) == (not is_before, ())


def test_a_version_equals_itself_with_zeros() -> None:
    assert evaluate("software.transformers == limits.first", {"software.transformers": (4, 41, 0)}) == (True, ())


T, F, U = True, False, None
AND = {(T, T): T, (T, F): F, (T, U): U, (F, F): F, (F, U): F, (U, U): U}
OR = {(T, T): T, (T, F): T, (T, U): T, (F, F): F, (F, U): U, (U, U): U}
A, B = "loader.is_train", "loader.is_map_style"


@pytest.mark.parametrize("left", [T, F, U])
@pytest.mark.parametrize("right", [T, F, U])
def test_kleene_tables_whatever_the_order(left: bool | None, right: bool | None) -> None:
    values = {A: left, B: right}
    for word, table in (("and", AND), ("or", OR)):
        expected = table.get((left, right), table.get((right, left)))
        missing = tuple(name for name in (A, B) if expected is None and values[name] is None)
        assert evaluate(f"{A} {word} {B}", values) == (expected, missing)
        value, names = evaluate(f"{B} {word} {A}", values)
        assert (value, set(names)) == (expected, set(missing))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("loader.len_cv > 0", ("loader.len_cv",)),
        ("not loader.is_static_padding", ("loader.is_static_padding",)),
        ("loader.len_cv * 0 == 0", ("loader.len_cv",)),
        ("loader.len_cv > loader.len_p50", ("loader.len_cv", "loader.len_p50")),
        ("min(loader.len_p50, 0) > 0", ("loader.len_p50",)),
        ("(loader.is_map_style and loader.len_cv > 0) or loader.pad_share > 0", ("loader.pad_share",)),
        ("loader.is_train and (loader.len_cv > 0 or loader.len_cv > 1)", ("loader.len_cv",)),
        ("0 < loader.len_cv < loader.len_p50", ("loader.len_cv", "loader.len_p50")),
        ("1 > loader.wait_ms > loader.len_p50", None),
        ('model.dtype in ["float32"]', ("model.dtype",)),
        ("loader.wait_ms / step.mean_ms > 1", ("step.mean_ms",)),
        ("loader.wait_ms % step.mean_ms > 1", ("step.mean_ms",)),
        ("loader.wait_ms // (step.mean_ms * loader.batch_ms) > 1", ("step.mean_ms", "loader.batch_ms")),
    ],
)
def test_missing_names_what_could_change_the_answer(text: str, missing: tuple[str, ...] | None) -> None:
    assert evaluate(text) == ((False, ()) if missing is None else (None, missing))


NAMES = ("loader.is_train", "loader.is_map_style", "loader.storage_is_network", "loader.is_static_padding")
CONDITIONS = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: st.one_of(
        inner.map(lambda text: f"(not {text})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})"),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(CONDITIONS, st.dictionaries(st.sampled_from(NAMES), st.booleans()))
def test_a_decided_answer_survives_every_value_of_what_was_unknown(text: str, known: dict[str, bool]) -> None:
    expression = compile_expression(text)
    value, missing = expression.evaluate(known.get)
    unknown = [name for name in NAMES if name not in known]
    full = [dict(zip(unknown, row, strict=True)) | known for row in product([True, False], repeat=len(unknown))]
    answers = {expression.evaluate(values.get) for values in full}
    if value is None:
        assert missing
        assert set(missing) <= set(unknown) & set(expression.names)
        filled = known | dict.fromkeys(missing, True)
        assert expression.evaluate(filled.get)[0] is not None
    else:
        assert answers == {(value, ())}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "loader.__class__",
        "loader.wait_ms.__class__.__base__",
        "().__class__",
        "[x for x in [0]]",
        "(lambda: 0)()",
        "9**9**9",
        "1 << 1",
        "-1",
        "loader['wait_ms']",
        "x := 1",
        "true if true else false",
        "f'{loader.is_train}' == 'a'",
        "loader.is_train is true",
        "max(*[0, 1])",
        "min(0, 1, key=0)",
        "print(0)",
        "loader.is_train, loader.is_map_style",
        "(await 1)",
        "b'a' == b'a'",
        "...",
        "None",
        "1j",
        "",
        "   ",
        "loader.is_train and",
        "loader.is_train)",
        "loader.is_train\nloader.is_map_style",
        "loader.is_train; 1",
        "\0",
        "loader.is_train \0",
        "(" * 1000 + "1",
        "(" * 150 + "1" + ")" * 150 + " + 0" * 60,
        "not " * 900 + "true",
        "0" + " + 0" * 900,
        "-" * 3000 + "1",
        "0 < 1 and " * 2000 + "true",
        "9" * 3999,
        "\ud800",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_everything_outside_the_language_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        compile_expression(text, LIMITS)


def test_a_refused_expression_did_not_run(capfd) -> None:
    with pytest.raises(RuleError):
        compile_expression("print(__import__('antigravity'))")
    assert "antigravity" not in sys.modules
    assert capfd.readouterr().out == ""


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="loader.is_tn()<>=&|+-*/%'\"[]{}01: \n#\\", max_size=60))
def test_any_text_is_an_expression_or_a_rule_error(text: str) -> None:
    try:
        compile_expression(text, LIMITS)
    except RuleError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("loader.is_trian", "unknown fact `loader.is_trian`; did you mean `loader.is_train`?"),
        ("zzz", "unknown fact `zzz`: see catalogue/facts.toml"),
        ("limits.nope > 0", "unknown limit limits.nope: write it under [limits.nope]"),
        ("loader.num_workers > 5", "bare value 5: name it under [limits] with its unit and why"),
        ("loader.wait_share > 0.5", "bare value 0.5: name it under [limits] with its unit and why"),
        ("loader.is_train == True", "bare value True: name it under [limits] with its unit and why"),
        ("device.type < loader.wait_ms", "`device.type < loader.wait_ms` compares a text with a value in ms"),
        (
            "loader.wait_ms > loader.wait_share",
            "`loader.wait_ms > loader.wait_share` compares a value in ms with a share",
        ),
        ("loader.wait_ms > limits.share", "`loader.wait_ms > limits.share` compares a value in ms with a share"),
        ("software.torch >= 1", "`software.torch >= 1` compares a version with a number"),
        ("software.torch >= '2'", "`software.torch >= '2'` compares a version with a text"),
        ("loader.is_train > loader.is_map_style", "has no order; use == or !="),
        ('device.type < "cuda"', "has no order; use == or !="),
        (
            "loader.wait_ms and loader.is_train",
            "`loader.wait_ms` is a value in ms, but a yes-or-no value is needed here",
        ),
        ("not loader.wait_ms", "`loader.wait_ms` is a value in ms, but a yes-or-no value is needed here"),
        ("loader.is_train + 1", "`loader.is_train` is a yes-or-no value, but arithmetic needs numbers"),
        ("device.type * 1", "`device.type` is a text, but arithmetic needs numbers"),
        ("loader.wait_ms + loader.batch_bytes", "adds a value in ms and a value in bytes"),
        ("loader.num_workers in ['a']", "`loader.num_workers` is a number, but a text is needed here"),
        ("device.type in model.dtype", "must be a list of strings"),
        ("device.type in [model.dtype]", "`model.dtype` must be a string"),
        ("min(loader.wait_ms)", "min and max take two numbers or more, the others one"),
        ("ceil(loader.wait_ms, 1)", "min and max take two numbers or more, the others one"),
    ],
)
def test_errors_say_what_is_wrong(text: str, what: str) -> None:
    with pytest.raises(RuleError) as raised:
        compile_expression(text, LIMITS)
    assert what in raised.value.what


def test_a_shown_piece_is_short() -> None:
    with pytest.raises(RuleError) as raised:
        compile_expression("x" + ".y" * 30 + "[0]")
    assert len(raised.value.what) < 100


def test_names_and_limits_are_listed_once_in_order() -> None:
    text = "loader.wait_ms > 0 and loader.num_workers < limits.count and loader.wait_ms < limits.count * 1"
    expression = compile_expression(text, LIMITS)
    assert expression.names == ("loader.wait_ms", "loader.num_workers")
    assert expression.limits == ("count",)
    assert expression.kind == "bool"


def test_compiled_once_for_the_same_text_and_limits() -> None:
    text = "loader.wait_share >= limits.share"
    assert compile_expression(text, LIMITS) is compile_expression(text, dict(LIMITS))
    other = {**LIMITS, "share": Limit(0.8, "share", "why")}
    assert compile_expression(text, other).evaluate(KNOWN.get) == (False, ())


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_rounding_what_is_not_finite_does_not_fail(number: float) -> None:
    assert evaluate("ceil(loader.len_cv) > 0", {"loader.len_cv": number})[0] is (number > 0)
