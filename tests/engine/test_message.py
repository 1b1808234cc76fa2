from __future__ import annotations

import pytest

from autotune.engine.message import format_value, mistakes, names, render
from autotune.model.rule import Limit

LIMITS = {
    "min_wait": Limit(0.05, "share", "why"),
    "factor": Limit(1.5, "factor", "why"),
    "v": Limit((4, 42), "version", "why"),
}


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.72, "share", "72 %"),
        (0.0951, "share", "9.5 %"),
        (0.0999, "share", "10 %"),
        (0.05, "share", "5 %"),
        (0.006, "share", "0.6 %"),
        (0.0004, "share", "0.04 %"),
        (0.0000004, "share", "0.001 %"),
        (0.0, "share", "0 %"),
        (1, "share", "100 %"),
        (168.2, "ms", "168 ms"),
        (0.4213, "ms", "0.421 ms"),
        (999.4, "ms", "999 ms"),
        (999.6, "ms", "1 s"),
        (1240.0, "ms", "1.24 s"),
        (0.0312, "s", "31.2 ms"),
        (17.13, "s", "17.1 s"),
        (0.0, "s", "0 s"),
        (2.4 * 2**30, "bytes", "2.4 GiB"),
        (67_108_864, "bytes", "64 MiB"),
        (100 * 2**30, "bytes", "100 GiB"),
        (512, "bytes", "512 bytes"),
        (5000 * 2**40, "bytes", "5,000 TiB"),
        ((4, 41, 2), "version", "4.41.2"),
        (1240.3, "per_s", "1,240/s"),
        (3.14159, "float", "3.14"),
        (12345.6, "float", "12,346"),
        (0.0, "float", "0"),
        (1e-5, "float", "1e-05"),
        (9488, "int", "9,488"),
        (True, "bool", "yes"),
        (False, "bool", "no"),
        ("cuda", "text", "cuda"),
        (0.72, "text", "0.72"),
    ],
)
def test_show(value, kind: str, text: str) -> None:
    assert format_value(value, kind) == text


def test_render_fills_facts_settings_and_limits() -> None:
    values = {"loader.wait_share": 0.72, "loader.num_workers": 1000, "software.torch": (2, 13)}
    template = (
        "{loader.wait_share} ({loader.wait_share:plain}) of {loader.num_workers}, over {limits.min_wait} and "
        "{limits.factor}x since {limits.v} ({limits.min_wait:plain}), torch {software.torch}, {loader.wait_ms}"
    )
    assert render(template, values.get, LIMITS) == (
        "72 % (0.72) of 1,000, over 5 % and 1.5x since 4.42 (0.05), torch 2.13, unknown"
    )


def test_names() -> None:
    assert names("{loader.wait_ms} {limits.x:plain} {} a") == ("loader.wait_ms", "limits.x", "")


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{loader.wait_ms} and {limits.factor}", []),
        ("{loader.wait_mss}", ["unknown fact `loader.wait_mss`; did you mean `loader.wait_ms`?"]),
        ("{limits.nope}", ["unknown limit `limits.nope`"]),
        ("{loader.wait_ms:.2f}", ["`:.2f` in {loader.wait_ms:.2f}: the only style is :plain"]),
        ("{loader.wait_ms", ["a brace without its partner: places are written {fact.name}"]),
        ("loader.wait_ms}", ["a brace without its partner: places are written {fact.name}"]),
        ("{}", ["unknown fact ``: see catalogue/facts.toml"]),
    ],
)
def test_mistakes(template: str, found: list[str]) -> None:
    assert list(mistakes(template, LIMITS)) == found


TEMPLATE = (
    "batches cost {loader.input_share}[ ({loader.wait_share} waiting)]"
    "[; tokenising is {loader.tokenize_share}|decoding is {loader.decode_share}]"
)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "batches cost unknown"),
        ({"loader.input_share": 0.0, "loader.wait_share": 0.0}, "batches cost 0 %"),
        ({"loader.input_share": 0.5, "loader.wait_share": 0.2}, "batches cost 50 % (20 % waiting)"),
        ({"loader.input_share": 0.5, "loader.tokenize_share": 0.9, "loader.decode_share": 0.0},
         "batches cost 50 %; tokenising is 90 %"),
        ({"loader.input_share": 0.5, "loader.tokenize_share": 0.6, "loader.decode_share": 0.3},
         "batches cost 50 %; tokenising is 60 %, decoding is 30 %"),
    ],
)  # fmt: skip
def test_what_is_not_known_or_zero_is_left_out_of_brackets(known, said: str) -> None:
    assert render(TEMPLATE, known.get, {}) == said


def test_a_plain_zero_is_a_number_and_an_empty_text_is_none() -> None:
    known = {"ranks.slowest": 0, "env.cuda_launch_blocking": ""}
    template = "a rank[ ({ranks.slowest:plain})] is late[ {env.cuda_launch_blocking}]"
    assert render(template, known.get, {}) == "a rank (0) is late"


def test_brackets_without_a_place_stay() -> None:
    assert render("x[0] of {limits.few}[1]", {}.get, {"few": Limit(2, "steps", "")}) == "x[0] of 2[1]"
