"""Scripts that import a module of their own which the project does not hold, and healthy twins."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

LOOP = """
net = UNet().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(range(9)):
    net(x.cuda()).sum().backward()
    optimizer.step()
"""
NET = "import torch\nclass UNet(torch.nn.Module):\n    pass\n"
IMPORTS = "import torch\nfrom model.unet import UNet\n"


def lacking(root: Path, imports: str, script: str = "train.py", **files: str) -> list[tuple[str, str, int]]:
    """The facts of such a project: what is missing, and where it is imported."""
    texts = {
        "model/unet.py": NET,
        "data/scans.py": "class Scans: pass\n",
        "datasets/own.py": "",
        script: f"{imports}{LOOP}",
    }
    for name, text in {**texts, **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [
        (str(one.value), one.places[0].file, one.places[0].line)
        for each in scan([root], root=root).bundles
        for one in each.facts
        if one.name == "code.lacks_module"
    ]


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from model.unet_dropout import UNetDropout\n", "model.unet_dropout"),
        ("import model.unet_dropout\n", "model.unet_dropout"),
        ("from model.parts.blocks import Block\n", "model.parts.blocks"),
        ("import sys; sys.path.append('..'); from model.unet_dropout import UNetDropout\n", "model.unet_dropout"),
    ],
)
def test_a_module_that_the_project_does_not_hold(tmp_path: Path, imports: str, name: str) -> None:
    assert lacking(tmp_path, IMPORTS + imports) == [(name, "train.py", 3)]


def test_of_a_module_of_the_run(tmp_path: Path) -> None:
    found = lacking(tmp_path, IMPORTS, **{"model/unet.py": f"from model.old_layers import Layer\n{NET}"})
    assert found == [("model.old_layers", "model/unet.py", 1)]


def test_of_a_script_in_a_folder(tmp_path: Path) -> None:
    found = lacking(tmp_path, f"{IMPORTS}from model.unet_dropout import UNetDropout\n", script="training/train.py")
    assert found == [("model.unet_dropout", "training/train.py", 3)]


def test_below_a_folder_of_a_package(tmp_path: Path) -> None:
    """The run imports nothing else from it, and the folder in it that the import names is there."""
    found = lacking(
        tmp_path, "import torch\nfrom kit.data.rows import Rows\n", **{"kit/__init__.py": "", "kit/data/table.py": ""}
    )
    assert found == [("kit.data.rows", "train.py", 2)]


@pytest.mark.parametrize(
    "imports",
    [
        "",
        "from data.scans import Scans\n",
        "from model import unet\n",
        "from data.scan_sets import Scans\n",  # the only import from `data`, which may be an installed package
        "import torch.utils.tensorboard\n",
        "from datasets.own import Rows\nfrom datasets.features import Audio\n",
        "try:\n    from model.unet_dropout import UNetDropout\nexcept ImportError:\n    pass\n",
        "if torch.cuda.is_available():\n    import model.unet_dropout\n",
        "import sys\nsys.path.append('../shared')\nfrom model.unet_dropout import UNetDropout\n",
        "from model._kernels import fused\n",
        "from model.version import version\n",
    ],
)
def test_what_may_be_there(tmp_path: Path, imports: str) -> None:
    assert lacking(tmp_path, IMPORTS + imports) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("old/unet_dropout.py", ""),  # moved, and found by who sets PYTHONPATH
        ("model/unet_dropout.cpython-312.so", ""),
        ("csrc/ops.cpp", ""),
        (".gitmodules", ""),
        (".gitignore", "model/unet_dropout.py\n"),
        ("requirements.txt", "torch\nmodel>=1.2\n"),  # a package of the same name
        ("model.py", ""),
    ],
)
def test_what_may_bring_it(tmp_path: Path, name: str, text: str) -> None:
    assert lacking(tmp_path, f"{IMPORTS}from model.unet_dropout import UNetDropout\n", **{name: text}) == []


def test_nothing_else_is_said_of_such_a_script(tmp_path: Path) -> None:
    lacking(tmp_path, f"{IMPORTS}from model.unet_dropout import UNetDropout\n")
    (found,) = scan([tmp_path], root=tmp_path).bundles
    told = [one.name for one in found.facts if one.name.startswith(("code", "loader", "job"))]
    assert told == ["code.lacks_module"] and not found.settings
