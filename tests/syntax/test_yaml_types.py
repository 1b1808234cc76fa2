from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from syntax_builders import same_value

from autotune.syntax.yaml_types import plain, tagged

NUMBERS = st.from_regex(r"[-+]?(0[box]?)?[0-9_:]{0,4}(\.[0-9_]{0,2})?([eE][-+]?[0-9]{1,2})?", fullmatch=True)
WORDS = st.sampled_from(["y", "yes", "NO", "on", "Off", "true", "FALSE", "~", "null", "", ".inf", "-.INF", ".NaN", "a"])


@pytest.mark.parametrize(
    ("text", "pyyaml", "ruamel"),
    [
        ("3e-4", "3e-4", 3e-4),
        ("1.0e-8", 1e-8, 1e-8),
        ("1e9", "1e9", 1e9),
        ("on", True, "on"),
        ("no", False, "no"),
        ("True", True, True),
        ("010", 8, 10),
        ("0o10", "0o10", 8),
        ("1:30", 90, "1:30"),
        ("-1:30.5", -90.5, "-1:30.5"),
        ("1_000", 1000, 1000),
        ("0b_", "0b_", "0b_"),
        (".5", 0.5, 0.5),
        ("-.inf", -math.inf, -math.inf),
        ("", None, None),
        ("2024-01-01", "2024-01-01", "2024-01-01"),
        ("${lr}", "${lr}", "${lr}"),
    ],
)
def test_plain_text_is_typed_as_its_consumer_does(text: str, pyyaml: object, ruamel: object) -> None:
    assert same_value(plain(text, "1.1"), pyyaml)
    assert same_value(plain(text, "1.2"), ruamel)


@pytest.mark.parametrize(
    ("text", "tag", "value"),
    [
        ("5", "str", "5"),
        ("5", "int", 5),
        ("5", "float", 5.0),
        ("1e-3", "float", 1e-3),
        ("-.inf", "float", -math.inf),
        ("0o17", "float", 15.0),
        ("yes", "bool", True),
        ("x", "null", None),
        ("x", "int", "x"),
        ("5", "binary", "5"),
    ],
)
def test_a_standard_tag_decides(text: str, tag: str, value: object) -> None:
    assert same_value(tagged(text, f"tag:yaml.org,2002:{tag}", "1.1"), value)


def test_another_tag_leaves_the_text() -> None:
    assert tagged("5", "!env", "1.1") == "5"
    assert tagged("os.system", "tag:yaml.org,2002:python/name", "1.1") == "os.system"


@given(NUMBERS | WORDS)
@example("0_")
@example("1_0.5_e+3")
def test_plain_text_is_what_pyyaml_makes_of_it(text: str) -> None:
    yaml = pytest.importorskip("yaml")
    loader = yaml.SafeLoader("")
    node = yaml.ScalarNode(loader.resolve(yaml.ScalarNode, text, (True, False)), text)
    assert_same(plain(text, "1.1"), lambda: loader.construct_object(node))


@given(NUMBERS | WORDS)
def test_plain_text_is_what_ruamel_makes_of_it(text: str) -> None:
    assert_same(plain(text, "1.2"), lambda: YAML(typ="safe", pure=True).load(f"[{text}]" if text else "[~]")[0])


def assert_same(value: object, reference) -> None:
    try:
        expected = reference()
    except (ValueError, IndexError):
        return  # what looks like a number and is none stays text here
    assert same_value(value, expected) or (isinstance(value, str) and isinstance(expected, datetime.date))
