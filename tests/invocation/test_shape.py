"""Which words of a command are whose."""

from __future__ import annotations

import pytest

from autotune.invocation.shape import assigned, of_shell, script_of_python, shape


@pytest.mark.parametrize(
    ("line", "program", "launcher", "target", "is_module"),
    [
        ("train.py --lr 1", 0, "python", "train.py", False),
        ("python train.py -m x", 0, "python", "train.py", False),
        ("python -W ignore -Xdev train.py", 0, "python", "train.py", False),
        ("python3.11 -um pkg.train a", 0, "python", "pkg.train", True),
        ("-m pkg.train fit", 0, "python", "pkg.train", True),
        ("python -c code", 0, "python", None, False),
        ("python -", 0, "python", None, False),
        ("python", 0, "python", None, False),
        ("torchrun --nproc-per-node 2 --standalone train.py", 0, "torchrun", "train.py", False),
        ("torchrun -m pkg.train", 0, "torchrun", "pkg.train", True),
        ("python -m torch.distributed.run --nnodes=1 train.py", 0, "torchrun", "train.py", False),
        ("python -m accelerate.commands.launch --cpu train.py", 0, "accelerate", "train.py", False),
        ("accelerate launch --config_file a.yaml train.py", 0, "accelerate", "train.py", False),
        ("accelerate launch --num_processes 2", 0, "accelerate", None, False),
        ("accelerate test", 0, None, None, False),
        ("trl sft --config a.yaml", 0, "trl", "sft", True),
        ("env A=train.py python other.py", 2, "python", "other.py", False),
        ("uv run train.py", 2, "python", "train.py", False),
        ("uv run --with rich --no-sync train.py", 5, "python", "train.py", False),
        ("uv run -m pkg.train", 2, "python", "pkg.train", True),
        ("uv run --python 3.11 -- accelerate launch train.py", 5, "accelerate", "train.py", False),
        ("uv run tool --config x.py", 2, None, None, False),
        ("poetry run python train.py", 2, "python", "train.py", False),
        ("conda run -n torch python train.py", 4, "python", "train.py", False),
        ("srun -n 8 --gres=gpu:1 python train.py", 4, "python", "train.py", False),
        ("nohup uv run train.py", 3, "python", "train.py", False),
        ("timeout 60 bash run.sh", 2, None, None, False),
        ("bash run.sh", 0, None, None, False),
    ],
)
def test_the_parts_of_a_command(
    line: str, program: int, launcher: str | None, target: str | None, is_module: bool
) -> None:
    words = line.split()
    found = shape(words)
    assert found is not None
    named = words[found.target] if found.target is not None else None
    started = found.launcher.name if found.launcher is not None else None
    assert (found.program, started, named, found.is_module) == (program, launcher, target, is_module)


@pytest.mark.parametrize("line", ["uv sync", "uv run", "env", "nohup", ""])
def test_a_prefix_without_a_command_starts_nothing(line: str) -> None:
    assert shape(line.split()) is None


def test_the_flags_of_the_launcher_are_its_own() -> None:
    words = ["accelerate", "launch", "--num_processes", "2", "--cpu", "train.py", "--lr", "1"]
    found = shape(words)
    assert found is not None
    assert words[slice(*found.own)] == ["--num_processes", "2", "--cpu"]


def test_assignments_stand_in_front() -> None:
    assert assigned(["A=1", "B=", "x.py", "C=2"]) == ({"A": "1", "B": ""}, ["x.py", "C=2"])
    assert assigned(["A=1"]) == ({"A": "1"}, ())


def test_the_script_of_a_python() -> None:
    assert script_of_python(["python", "-u", "x.py"]) == 2
    assert script_of_python(["python", "-m", "x"]) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bash run.sh", (1, False)),
        ("bash -e run.sh x", (2, False)),
        ("bash -o pipefail run.sh", (3, False)),
        ("bash -euo pipefail run.sh", (3, False)),
        ("bash --rcfile x run.sh", (3, False)),
        ("bash -c line", (2, True)),
        ("bash -euc line", (2, True)),
        ("bash -lic line", (2, True)),
        ("bash -euo pipefail -c line", (4, True)),
        ("bash -- run.sh", (2, False)),
        ("bash", None),
        ("bash -e", None),
    ],
)
def test_what_a_shell_runs(words, expected) -> None:
    assert of_shell(words.split(), 0) == expected


@pytest.mark.parametrize(
    "words", ["torchrun --nproc-per-node 2 --no-python python x.py", "accelerate launch --no_python python x.py"]
)
def test_a_launcher_of_any_program_names_no_script(words) -> None:
    assert shape(words.split()).target is None
