"""Typed commands with new values: in place, at the end, in a line that a shell is given, and as a line to paste."""

from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.model.patch import Edit
from autotune.model.scanned import TYPED
from autotune.patch.command_line import launch, with_values


def edit(key: str, old: str, new: str) -> Edit:
    return Edit(TYPED, key, old, new)


WORKERS = edit("--workers", "0", "4")


@pytest.mark.parametrize(
    ("words", "wanted", "line"),
    [
        (["train.py", "--workers", "0"], [WORKERS], "python train.py --workers 4"),
        (["python", "train.py", "--workers=0", "--lr", "1"], [WORKERS], "python train.py --workers=4 --lr 1"),
        (["train.py"], [edit("--workers", "", "4")], "python train.py --workers 4"),
        (["-m", "pkg.train", "--workers", "0"], [WORKERS], "python -m pkg.train --workers 4"),
        (["OMP_NUM_THREADS=1", "train.py", "--workers", "0"], [WORKERS],
         "OMP_NUM_THREADS=1 python train.py --workers 4"),
        (["CUDA_VISIBLE_DEVICES=", "python", "my script.py", "--workers", "0"], [WORKERS],
         "CUDA_VISIBLE_DEVICES='' python 'my script.py' --workers 4"),
        (["accelerate", "launch", "--num_processes", "2", "train.py", "--workers", "0"], [WORKERS],
         "accelerate launch --num_processes 2 train.py --workers 4"),
        (["uv", "run", "train.py", "data.workers=0"], [edit("data.workers", "0", "4")],
         "uv run train.py data.workers=4"),
        (["train.py", "+data.workers=0"], [edit("data.workers", "0", "4")], "python train.py +data.workers=4"),
        (["train.py", "--checkpoint", "--lr", "1"], [edit("--checkpoint", "True", "")], "python train.py --lr 1"),
        (["bash", "-c", "python train.py --workers 0"], [WORKERS], "bash -c 'python train.py --workers 4'"),
        (["bash", "-c", "cd src && python train.py --workers 0; ls"], [WORKERS],
         "bash -c 'cd src && python train.py --workers 4; ls'"),
    ],
)  # fmt: skip
def test_the_line_that_can_be_pasted(words: list[str], wanted: list[Edit], line: str) -> None:
    assert launch(words, wanted) == line


def test_what_is_typed_already_stays() -> None:
    words = ("train.py", "--workers", "4")
    assert with_values(words, [WORKERS]) == words
    assert with_values(("train.py",), [edit("--checkpoint", "True", "")]) == ("train.py",)


@pytest.mark.parametrize("line", ["python train.py --out ~/x *.yaml", "cd x && python train.py"])
def test_a_line_that_the_shell_acts_on_is_not_typed_again(line: str) -> None:
    with pytest.raises(UsageError, match="too complex to rewrite: --workers 4 has to be put there by hand"):
        with_values(("bash", "-c", line), [edit("--workers", "", "4")])


def test_in_such_a_line_a_value_that_stands_there_is_replaced() -> None:
    words = ("bash", "-euc", "cd x && python train.py --workers 2")
    after = ("bash", "-euc", "cd x && python train.py --workers 4")
    wanted = [edit("--workers", "2", "4")]
    assert with_values(words, wanted) == after == with_values(after, wanted)
