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
        f"import sys\nsys.path.append('/srv/nets')\n{LACKING}",
        f"import sys\nsys.path.insert(0, '../shared')\n{LACKING}",
        f"import os, sys\nsys.path.insert(0, os.environ['SHARED'])\n{LACKING}",
        f"import sys\nsys.path += folders\n{LACKING}",
        f"import site\nsite.addsitedir('nets')\n{LACKING}",
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
        {"setup.py": "setup(package_dir={'nets': '../nets'})\n"},
        {"nets/setup.py": "setup(ext_modules=modules)\n"},
        {"nets/ops/CMakeLists.txt": "project(ops)\n"},
        {"kernels/setup.py": "setup(packages=['nets'])\n"},
        {"run.sh": "wget https://example.org/unet_dropout.py -P nets\npython train.py\n"},
        {"run.sh": "cd /srv/work\npython train.py\n"},
        {"run.sh": "export PYTHONPATH=/srv/nets:$PYTHONPATH\npython train.py\n"},
        {"run.sh": "PYTHONPATH=../shared python train.py\n"},
        {"job.pbs": "export PYTHONPATH=$HOME/shared\npython train.py\n"},
        {"Dockerfile": "ENV PYTHONPATH /opt/nets\n"},
        {".env": "PYTHONPATH=../shared\n"},
        {"env.sh": "export PYTHONPATH=$PYTHONPATH:$SHARED\n"},
        {"nets/__init__.py": "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"},
        {"nets/__init__.py": "import sys\nsys.modules[__name__] = Lazy()\n"},
        {"README.md": "# Setup\nClone the nets from https://example.org/all.\n"},
        {"README.md": "Create `nets/unet_dropout.py` as the paper says.\n"},
        {"INSTALL.rst": "Download\n--------\n    wget https://example.org/nets.zip\n"},
        {"docs/start.md": "    ln -s ~/shared/nets nets\n"},
        {"Dockerfile": "RUN git clone https://example.org/nets \\\n  && pip install it\n"},
        {"requirements.txt": "torch\nnets==1.0\n"},
        {"requirements/base.txt": "-e git+https://example.org/nets.git#egg=nets\n"},
        {"environment.yml": "dependencies:\n  - pip:\n    - nets\n"},
        {"pyproject.toml": "[project]\nname = 'x'\ndependencies = ['nets>=1']\n"},
        {"pyproject.toml": "[tool.poetry.dependencies]\nnets = { git = 'https://example.org/a' }\n"},
        {"pyproject.toml": "not TOML"},
    ],
)
def test_a_project_that_may_get_it(tmp_path: Path, files: dict[str, str]) -> None:
    assert lacking(tmp_path, LACKING, files) == []


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "The nets of the paper.\n\nDownload the data.\n"},
        {"README.md": "Train the nets: `python train.py`\n"},
        {"requirements.txt": "torch\nnetsuite\n# nets\n"},
        {"environment.yml": "name: nets\ndependencies:\n  - torch\n"},
        {"pyproject.toml": "[project]\nname = 'nets'\ndependencies = ['torch']\n"},
        {"setup.py": "setup(name='nets', packages=['nets'], install_requires=['torch'])\n"},
        {"ops/setup.py": "setup(name='ops')\n"},
        {"nets/__init__.py": "from nets.unet import UNet\n"},
        {"run.sh": "cd ..\nexport PYTHONPATH=$PYTHONPATH:$(pwd)\npython train.py --nets all\n"},
        {"run.sh": "echo $PYTHONPATH\nexport PYTHONPATH = .\npython train.py\n"},
        {"run.sh": 'cd "$(dirname "$0")"\nPYTHONPATH=. python train.py\n'},
        {"run.sh": 'export PYTHONPATH="${PYTHONPATH:-}:${PWD}"\npython train.py\n'},
    ],
)
def test_what_brings_no_module(tmp_path: Path, files: dict[str, str]) -> None:
    assert lacking(tmp_path, LACKING, files) == ["nets.unet_dropout"]


@pytest.mark.parametrize(
    ("added", "lacks"),
    [
        ("sys.path.append('.')", True),
        ("sys.path.append('src')", True),
        ("if 'src' not in sys.path:\n    sys.path.insert(0, 'src')", True),
        ("sys.path.append('gone')", False),
        ("sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))", True),
        ("sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))", False),
        ("sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'src'))", True),
        ("sys.path.append(os.path.join(os.path.dirname(__file__), '..', '..'))", False),
        ("sys.path.append(os.path.join(os.path.dirname(__file__), name))", False),
        ("root = Path(__file__).resolve().parents[1]\nsys.path.insert(0, str(root))", True),
        ("root = Path(__file__).resolve().parents[2]\nsys.path.insert(0, str(root))", False),
        ("root = '.'\nroot = find()\nsys.path.insert(0, root)", False),
        ("sys.path.insert(0, str(Path(__file__).parent.parent / 'src'))", True),
        ("sys.path.insert(0, os.getcwd())", True),
        ("sys.path.extend(['src'])", False),
        ("sys.path = ['src']", False),
        ("sys.path.remove('src')", True),
    ],
)
def test_folders_that_a_script_adds(tmp_path: Path, added: str, lacks: bool) -> None:
    imports = f"import os, sys\nfrom pathlib import Path\n{added}\n{LACKING}"
    found = lacking(tmp_path, imports, {"src/other.py": ""}, script="tools/train.py")
    assert found == (["nets.unet_dropout"] if lacks else [])


@pytest.mark.parametrize(
    ("before", "after", "lacks"),
    [
        ("import _init_paths", "", False),
        ("from tools import _init_paths", "", False),
        ("", "import _init_paths", True),
    ],
)
def test_a_module_above_may_add_folders(tmp_path: Path, before: str, after: str, lacks: bool) -> None:
    files = {f"{folder}_init_paths.py": "import sys\nsys.path.insert(0, '/srv')\n" for folder in ("", "tools/")}
    found = lacking(tmp_path, f"{before}\n{LACKING}\n{after}", files)
    assert found == (["nets.unet_dropout"] if lacks else [])


@pytest.mark.parametrize("command", ["python train.py\n", "singularity run --bind $PWD:/w a.sif python train.py\n"])
def test_a_command_starts_it(tmp_path: Path, command: str) -> None:
    assert lacking(tmp_path, LACKING, {"run.sh": command, ".gitignore": "*.pyc\nlogs/\n"}) == ["nets.unet_dropout"]
