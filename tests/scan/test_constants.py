from __future__ import annotations

import pytest

from autotune.model.scanned import ConsumerCall
from autotune.scan.constants import read_constants
from autotune.scan.settings import settings_of
from autotune.syntax import python

CONFIG = """# a small model
import time

out_dir = "out"
eval_interval = 250
gradient_accumulation_steps = 5 * 8
batch_size = 12
block_size = 64
learning_rate = 1e-3
beta = -1
device = "cuda" if time.time() else "cpu"
"""

SCRIPT = """import os
import torch

batch_size = 12
block_size = 1024
max_iters = 600000
compile = True
dtype = "bfloat16" if torch.cuda.is_available() else "float16"
config_keys = [k for k in globals()]
exec(open("configurator.py").read())
config = {k: globals()[k] for k in config_keys}
iter_num = 0
while True:
    iter_num += 1
"""


def read(text: str) -> ConsumerCall | None:
    return read_constants(python.read(text.encode(), "c.py"), "c.py")


def test_a_file_of_constants_is_a_config() -> None:
    call = read(CONFIG)
    assert call is not None
    assert (call.dialect, call.name, call.is_open) == ("nanogpt", "", False)
    values = {one.name: one.value for one in settings_of([call], {})}
    assert values["train.accumulation_steps"] == 40
    assert values["loader.batch_size"] == 12
    assert values["data.max_length"] == 64
    assert call.arguments["beta"].value == -1
    assert not call.arguments["device"].known


def test_the_place_is_that_of_the_value() -> None:
    call = read(CONFIG)
    assert call is not None
    location = call.arguments["gradient_accumulation_steps"].location
    assert location.span is not None
    assert CONFIG[location.span.start : location.span.end] == "5 * 8"
    assert (location.line, location.key) == (6, "gradient_accumulation_steps")


def test_a_script_that_runs_its_config_holds_defaults() -> None:
    call = read(SCRIPT)
    assert call is not None
    assert call.is_open
    assert call.arguments["batch_size"].is_default
    assert not call.arguments["dtype"].known
    assert {one.name for one in settings_of([call], {})} == {
        "loader.batch_size",
        "data.max_length",
        "train.max_steps",
        "train.compile",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "batch_size = 4\n",
        "block_size = 4\nmax_iters = 3\ndef train():\n    pass\n",
        "block_size = 4\nmax_iters = 3\nfor i in range(max_iters):\n    pass\n",
        "a = 1\nexec('b = 2')\n",
    ],
)
def test_other_python_is_none(text: str) -> None:
    assert read(text) is None


def test_a_name_that_is_set_twice_is_not_known() -> None:
    call = read("block_size = 4\nmax_iters = 3\nbatch_size = 1\nbatch_size = 2\n")
    assert call is not None
    assert not call.arguments["batch_size"].known


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("10 ** 9", 10**9),
        ("0.5 * 8", 4.0),
        ("max_iters", 3),
        ("(" * 50 + "1" + ")" * 50, 1),
        ("2 ** 99 * 2 ** 99", None),
        ("'a' * 3", None),
        ("-'a'", None),
        ("f'{1}'", None),
        ("int(argv[1])", None),
    ],
)
def test_values_are_followed_as_those_of_any_script(value: str, known: float | None) -> None:
    call = read(f"block_size = 4\nmax_iters = 3\nbatch_size = {value}\n")
    assert call is not None
    assert (call.arguments["batch_size"].value, call.arguments["batch_size"].known) == (known, known is not None)
