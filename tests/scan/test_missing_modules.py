"""Scripts that import a module of their own which the project does not hold, and healthy twins."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from autotune.scan import scan
from autotune.scan.command import scan_command

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
    found = scan([root], root=root)
    assert found.bundles and not any(one.is_bug for one in found.notes)
    return [
        (str(one.value), one.places[0].file, one.places[0].line)
        for each in found.bundles
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


TRIED = "try:\n    from models.optional import Net\nexcept ImportError:\n    Net = None\n"
USES = f"{IMPORTS}from models.net import Part\n"
GONE = "import torch\nfrom models.gone import X\nclass Net(torch.nn.Module):\n    pass\n"
OPTIONAL = {"models/optional.py": GONE, "models/net.py": "", "model/unet.py": NET}


@pytest.mark.parametrize(
    "imports",
    [
        f"if True:\n{textwrap.indent(TRIED, '    ')}Net()\n",
        f"{TRIED}Net()\n",
        "import sys\nif sys.argv[1:] == ['exp']:\n    from models.optional import Net\n    Net()\n",
        "def experiment():\n    from models.optional import Net\n    return Net()\nexperiment()\n",
        "with suppress(ImportError):\n    from models.optional import Net\n    Net()\n",
    ],
)
def test_of_a_module_that_the_run_may_do_without(tmp_path: Path, imports: str) -> None:
    assert lacking(tmp_path, USES + imports, **OPTIONAL) == []
    (found,) = scan([tmp_path], root=tmp_path).bundles
    assert any(one.name == "optimizer.fused" or one.name.startswith("loader") for one in found.settings)


def test_of_a_module_on_the_way_to_which_one_is_in_a_try(tmp_path: Path) -> None:
    inner = f"import torch\n{TRIED}def make():\n    return Net()\n"
    files = {**OPTIONAL, "models/make.py": inner}
    assert lacking(tmp_path, f"{USES}from models.make import make\nmake()\n", **files) == []


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from models import Net\nNet()\n", {"models/__init__.py": "from .optional import Net\n"}),
        ("from models import optional\noptional.Net()\n", {}),
        ("import models.optional as kept\nkept.Net()\n", {}),
        ("from models.make import Net\nNet()\n", {"models/make.py": "import torch\nfrom models.optional import Net\n"}),
    ],
)
def test_of_a_module_that_the_run_certainly_imports(tmp_path: Path, imports: str, files: dict[str, str]) -> None:
    assert lacking(tmp_path, USES + imports, **OPTIONAL, **files) == [("models.gone", "models/optional.py", 2)]


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
        "import sys\nsys.modules['model.unet_dropout'] = torch\nfrom model.unet_dropout import UNetDropout\n",
        f"import {'a' * 300}\n",
        f"import {'a' * 300}.b\n",
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


def test_a_script_that_a_run_proves_wrong_keeps_its_settings(tmp_path: Path) -> None:
    """Whoever has the run, as `diagnose`, knows that it did not end there."""
    lacking(tmp_path, f"{IMPORTS}from model.unet_dropout import UNetDropout\n")
    found = scan_command(["python", "train.py"], cwd=tmp_path, root=tmp_path, versions={})
    assert found is not None and found.calls and found.settings
    assert any(one.name == "code.lacks_module" for one in found.facts)


def test_a_long_name_below_a_package(tmp_path: Path) -> None:
    name = f"model.{'a' * 300}"
    assert lacking(tmp_path, f"{IMPORTS}import {name}\n") == [(name, "train.py", 3)]
    # Also where it is the script's own package.
    lacking(tmp_path, f"import torch\nimport {name}\n", script="model/train.py")


@pytest.mark.parametrize("imports", ["import closed\n", "import closed.rows\n", "from model.closed.rows import Rows\n"])
def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "model/closed").mkdir(parents=True)
    list_folder = os.listdir

    def refuse(folder: str | Path = ".") -> list[str]:
        if Path(folder).name == "closed":
            raise PermissionError(13, "Permission denied", str(folder))
        return list_folder(folder)

    monkeypatch.setattr(os, "listdir", refuse)
    assert lacking(tmp_path, IMPORTS + imports) == []


@pytest.mark.parametrize("name", [".gitignore", "requirements.txt"])
def test_a_file_that_is_not_read(tmp_path: Path, name: str) -> None:
    """A link is not followed, and a large file not read to its end: they may name the module."""
    imports = f"{IMPORTS}from model.unet_dropout import UNetDropout\n"
    assert lacking(tmp_path / "a", imports, **{name: "#" * 2_000_000}) == []
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / name).symlink_to(tmp_path / "nowhere")
    assert lacking(tmp_path / "b", imports) == []
    os.mkfifo(tmp_path / "a" / "requirements-dev.txt")
    assert lacking(tmp_path / "a", imports, **{name: "torch\n"}) == []
