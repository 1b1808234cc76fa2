"""Scripts that import modules of the project that are not there, and healthy twins."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

TRAIN = "import torch\n{}\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"
LACKING = "from nets.unet_dropout import UNet"


def lacking(root: Path, imports: str, files: dict[str, str] | None = None, script: str = "train.py") -> list[str]:
    written = {"nets/__init__.py": "", "nets/unet.py": "class UNet: ...\n", script: TRAIN.format(imports)}
    for name, text in (written | (files or {})).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    facts = [one for each in scan([root], root=root).bundles for one in each.facts]
    return [str(one.value) for one in facts if one.name == "code.lacks_module"]


@pytest.mark.parametrize(
    ("imports", "module"),
    [
        (LACKING, "nets.unet_dropout"),
        ("import nets.unet\nimport nets.unet_dropout", "nets.unet_dropout"),
        ("from .nets.unet_dropout import UNet", ".nets.unet_dropout"),
    ],
)
def test_a_module_that_is_not_there(tmp_path: Path, imports: str, module: str) -> None:
    assert lacking(tmp_path, imports) == [module]


@pytest.mark.parametrize(("other", "lacks"), [("one", True), ("gone", False)])
def test_a_folder_is_a_package_where_other_files_import_from_it(tmp_path: Path, other: str, lacks: bool) -> None:
    others = {"src/parts/one.py": "", "train_other.py": TRAIN.format(f"from parts.{other} import x")}
    assert lacking(tmp_path, "from parts.two import y", others) == (["parts.two"] if lacks else [])


def test_the_place_is_the_import(tmp_path: Path) -> None:
    lacking(tmp_path, LACKING)
    facts = [one for each in scan([tmp_path], root=tmp_path).bundles for one in each.facts]
    (fact,) = (one for one in facts if one.name == "code.lacks_module")
    assert (fact.places[0].file, fact.places[0].line) == ("train.py", 2)


@pytest.mark.parametrize(
    "imports",
    [
        "from nets.unet import UNet",
        "from nets import unet_dropout",  # may be a name of nets/__init__.py
        "from torch.unet_dropout import UNet",
        "from other.unet_dropout import UNet",
        f"try:\n    {LACKING}\nexcept ImportError:\n    UNet = None",
        f"if x:\n    {LACKING}",
        "from nets._C import forward",
        "from nets.messages_pb2 import Message",
        f"import sys\nsys.modules['nets.unet_dropout'] = None\n{LACKING}",
        f"import subprocess\nsubprocess.run(['make'])\n{LACKING}",
    ],
)
def test_a_module_that_may_be_there(tmp_path: Path, imports: str) -> None:
    assert lacking(tmp_path, imports) == []


@pytest.mark.parametrize(
    "files",
    [
        {"nets/unet_dropout.py": ""},
        {"nets/unet_dropout/a.py": ""},
        {"nets/unet_dropout.pyx": ""},
        {"nets/unet_dropout.cpython-311-x86_64-linux-gnu.so": ""},
        {"lib/unet_dropout.py": ""},
        {".gitmodules": ""},
        {".gitignore": "nets/*\n"},
        {".gitignore": "# no\n*_dropout.py\n"},
        {"nets/.gitignore": "unet_*\n"},
        {"setup.py": "Extension('nets.unet_dropout', ['a.cc'])\n"},
        {"run.sh": "wget https://example.org/unet_dropout.py -P nets\npython train.py\n"},
    ],
)
def test_a_project_that_may_get_it(tmp_path: Path, files: dict[str, str]) -> None:
    assert lacking(tmp_path, LACKING, files) == []


@pytest.mark.parametrize("command", ["python train.py\n", "singularity run --bind $PWD:/w a.sif python train.py\n"])
def test_a_command_starts_it(tmp_path: Path, command: str) -> None:
    assert lacking(tmp_path, LACKING, {"run.sh": command, ".gitignore": "*.pyc\nlogs/\n"}) == ["nets.unet_dropout"]
