"""Frames of Python: which are the user's own."""

from __future__ import annotations

import pytest

from autotune.trace.frames import innermost, user_place


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        ("train.py(12): step", "train.py:12 (step)"),
        ("/home/me/proj/train.py(12): <module>", "/home/me/proj/train.py:12 (<module>)"),
        ("src\\net.py(3): forward", "src/net.py:3 (forward)"),
        ("my torch/net.py(3): forward", "my torch/net.py:3 (forward)"),
        ("torch/nn/modules/linear.py(124): forward", ""),
        ("transformers/trainer.py(1): train", ""),
        ("/opt/conda/lib/python3.9/site-packages/foo/bar.py(3): f", ""),
        ("/usr/lib/python3.11/runpy.py(3): f", ""),
        ("threading.py(1032): _bootstrap", ""),
        ("json/decoder.py(33): decode", ""),
        ("<built-in function len>", ""),
        ("<string>(1): f", ""),
        ("nn.Module: Linear_0", ""),
        ("", ""),
    ],
)
def test_a_frame(frame, place):
    assert user_place(frame) == place


def test_the_innermost_of_a_stack_that_is_the_users():
    stack = "torch/optim/sgd.py(5): step;train.py(9): inner;train.py(51): <module>"
    assert innermost(stack) == "train.py:9 (inner)"
    assert innermost("torch/optim/sgd.py(5): step") == innermost("") == ""
