"""What no file gives has the place where a statement would give it, or the reason why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.evidence import Setting
from autotune.scan.command import scan_command

LOOP = """\
from torch.utils.data import DataLoader
{more}
loader = DataLoader([1], batch_size=4)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    model(batch.float()[:, None]).sum().backward()
    optimizer.step()
"""
TRAINER = """\
import torch
from transformers import Trainer, TrainingArguments
Trainer(args=TrainingArguments("out")).train()
"""
LIGHTNING = """\
import torch
import lightning as L
L.Trainer(max_epochs=1).fit(model)
"""


STATEMENTS = ("train.num_threads", "train.matmul_precision")
"""What a statement sets; other settings that nobody gives are keys of a library (absent.py)."""


def unset(root: Path, *words: str, **files: str) -> dict[str, Setting]:
    for name, text in files.items():
        (root / name.replace("_", ".", 1)).write_text(text)
    bundle = scan_command(words, cwd=root, root=root, versions={})
    assert bundle is not None
    return {one.name: one for one in bundle.settings if one.value is None and one.name in STATEMENTS}


def raw(more: str = "", before: str = "import torch\n") -> str:
    return before + LOOP.replace("{more}", more)


@pytest.mark.parametrize(
    "words", [("train.py",), ("torchrun", "train.py"), ("python", "-m", "train"), ("bash", "run.sh")]
)
def test_the_place_is_in_the_script_that_the_command_names(tmp_path: Path, words: tuple[str, ...]) -> None:
    found = unset(tmp_path, *words, train_py=raw(), run_sh="python train.py --lr 1\n")
    assert set(found) == {"train.num_threads", "train.matmul_precision"}
    threads = found["train.num_threads"]
    assert threads.location is not None
    assert (threads.location.file, threads.location.line) == (str(tmp_path / "train.py"), 4)
    assert threads.location.is_missing
    assert (threads.origin, threads.spelling) == ("default", "torch.set_num_threads")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("torch.set_num_threads(int(x))", "what train.py:3 makes of set_num_threads is not known"),
        ("if x:\n    torch.set_num_threads(2)", "what train.py:4 makes of set_num_threads is not known"),
        ("os.environ['OMP_NUM_THREADS'] = '2'", "what train.py:3 makes of OMP_NUM_THREADS is not known"),
        ("from torch import set_num_threads as s", "what train.py:3 makes of set_num_threads is not known"),
        ("# torch.set_num_threads(2)", ""),
    ],
)
def test_what_a_file_may_give_has_no_place(tmp_path: Path, more: str, why: str) -> None:
    found = unset(tmp_path, "train.py", train_py=raw(more))["train.num_threads"]
    assert (found.location is None, found.why_not) == (bool(why), why)


@pytest.mark.parametrize(
    "more",
    [
        "torch.backends.cuda.matmul.allow_tf32 = x",
        "torch.backends.fp32_precision = 'tf32'",
        "getattr(torch, 'fp32_precision')",
    ],
)
def test_another_word_for_tf32_has_no_place(tmp_path: Path, more: str) -> None:
    found = unset(tmp_path, "train.py", train_py=raw(more))
    assert found["train.matmul_precision"].location is None
    assert found["train.num_threads"].location is not None


def test_what_a_file_gives_is_not_unset(tmp_path: Path) -> None:
    assert set(unset(tmp_path, "train.py", train_py=raw("torch.set_num_threads(2)"))) == {"train.matmul_precision"}


def test_a_launch_script_that_gives_it_and_a_module_of_the_script(tmp_path: Path) -> None:
    found = unset(tmp_path, "bash", "run.sh", train_py=raw(), run_sh="export OMP_NUM_THREADS=2\npython train.py\n")
    assert found["train.num_threads"].why_not == "what run.sh:1 makes of OMP_NUM_THREADS is not known"
    module = "import torch\ndef start(n):\n    torch.set_num_threads(n)\n"
    found = unset(tmp_path, "train.py", train_py=raw("import given\ngiven.start(int(x))"), given_py=module)
    assert found["train.num_threads"].why_not == "what given.py:3 makes of set_num_threads is not known"


def test_a_word_of_the_framework_goes_before(tmp_path: Path) -> None:
    found = unset(tmp_path, "train.py", train_py=TRAINER)
    assert {name: one.spelling for name, one in found.items()} == {
        "train.num_threads": "torch.set_num_threads",
        "train.matmul_precision": "tf32",
    }
    assert set(unset(tmp_path, "train.py", train_py=LIGHTNING)) == {"train.num_threads", "train.matmul_precision"}


def test_a_script_without_the_import_gets_it_with_the_statement(tmp_path: Path) -> None:
    found = unset(tmp_path, "train.py", train_py=raw(before=""))["train.num_threads"]
    assert found.location is not None
    assert (found.location.line, found.why_not) == (4, "")


def test_a_script_that_imports_it_under_a_condition_says_so(tmp_path: Path) -> None:
    found = unset(tmp_path, "train.py", train_py=raw(before="try:\n    import torch\nexcept ImportError:\n    pass\n"))
    assert found["train.num_threads"].why_not.startswith("train.py:2 imports torch ")
