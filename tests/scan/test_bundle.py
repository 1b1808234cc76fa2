"""Which files make one bundle, on small projects that are written for it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autotune.model.evidence import RUN, Setting
from autotune.model.scanned import Bundle, Scanned
from autotune.scan import scan

RAW = """
    import argparse
    import torch
    from torch.utils.data import DataLoader

    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    model = torch.nn.Linear(1, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader([1], batch_size=4, num_workers=args.workers)
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""

HF = """
    from transformers import HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    Trainer(model=None, args=args).train()
"""

HF_CONFIG = """
    output_dir: out
    per_device_train_batch_size: 2
    gradient_accumulation_steps: 4
    num_train_epochs: 1
"""

ZERO = '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto"}'


def project(root: Path, **files: str) -> Scanned:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path = path.with_name(path.name.replace("_", ".")) if "." not in path.name else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return scan([root], root=root)


def settings(bundle: Bundle) -> dict[str, Setting]:
    return {one.name: one for one in bundle.settings if one.subject in (RUN, "loader#train")}


def fact(bundle: Bundle, name: str) -> object:
    return next((one.value for one in bundle.facts if one.name == name), None)


def test_a_script_alone_is_a_bundle(tmp_path) -> None:
    (bundle,) = project(tmp_path, train_py=RAW).bundles
    assert (bundle.name, bundle.files, fact(bundle, "run.framework")) == ("train.py", ("train.py",), "raw")
    workers = settings(bundle)["loader.num_workers"]
    assert (workers.value, workers.location.file, workers.location.line) == (2, "train.py", 7)


def test_a_command_takes_its_script_and_its_flags_win(tmp_path) -> None:
    (bundle,) = project(tmp_path, scripts__run_sh="python train.py --workers 8", scripts__train_py=RAW).bundles
    assert (bundle.name, bundle.files) == ("scripts/train.py", ("scripts/train.py", "scripts/run.sh"))
    workers = settings(bundle)["loader.num_workers"]
    assert (workers.value, workers.location.file, workers.feeds.file) == (8, "scripts/run.sh", "scripts/train.py")


def test_a_script_is_also_found_from_the_folders_above(tmp_path) -> None:
    scanned = project(tmp_path, a__b__run_sh="torchrun src/train.py", src__train_py=RAW)
    assert [bundle.files for bundle in scanned.bundles] == [("src/train.py", "a/b/run.sh")]


@pytest.mark.parametrize(("flag", "files"), [("False", ("train.py",)), ("True", ("train.py", "run.sh"))])
def test_a_command_that_says_not_to_train_is_none(tmp_path: Path, flag: str, files: tuple[str, ...]) -> None:
    scanned = project(tmp_path, run_sh=f"python train.py --do_train {flag} --output_dir out", train_py=HF)
    assert [bundle.files for bundle in scanned.bundles] == [files]


@pytest.mark.parametrize(
    ("before", "started"),
    [
        ("", "a/train.py"),
        ("cd ../b", "b/train.py"),
        ("cd ../b/", "b/train.py"),
        ("cd ..\ncd b || exit 1", "b/train.py"),
        ("cd ../b && cd ../a", "a/train.py"),
        ("cd b", "b/train.py"),
        ('cd "$(dirname "$0")"', "a/train.py"),
        ("cd ../b\ncd -", "a/train.py"),
        ("(cd ../b; ls)", "a/train.py"),
        ("prepare() { cd ../b; make; }\nprepare", "a/train.py"),
        ("function prepare() { cd ../b; make; }", "a/train.py"),
        ("if [ -d ../b ]; then cd ../b; fi", "a/train.py"),
        ("if x; then\n  y\nelse\n  cd ../b\nfi", "a/train.py"),
        ("case $1 in\n  b) cd ../b;;\nesac", "a/train.py"),
        ("for x in b; do cd ../b; done", "a/train.py"),
        ("[ -d ../b ] && cd ../b", "a/train.py"),
        ("[[ -d ../b ]] && { cd ../b; ls; }", "a/train.py"),
        ("ls c || cd ../b", "a/train.py"),
        ("mkdir -p ../b && cd ../b", "b/train.py"),
        ("{ cd ../b; ls; }", "b/train.py"),
        ("(cd ../b); cd ../b", "b/train.py"),
        ("cd ../b; (cd ../a; ls)", "b/train.py"),
        ("(cd ../b &&", "b/train.py"),
        ("(\ncd ../b", "b/train.py"),
        ("if x; then\ncd ../b", "b/train.py"),
        ("if x; then cd ../b; else", "a/train.py"),
        ("case $1 in b) cd ../b;; a)", "a/train.py"),
        ("[ -d ../b ] && cd ../b &&", "b/train.py"),
        ("cd nowhere", None),
        ("cd ../..", None),
    ],
)
def test_a_script_is_looked_for_where_the_shell_has_gone(tmp_path: Path, before: str, started: str | None) -> None:
    command = f"{before}\npython train.py --workers 1\n"
    scanned = project(tmp_path, a__train_py=RAW, b__train_py=RAW, a__run_sh=command)
    found = [bundle.name for bundle in scanned.bundles if "a/run.sh" in bundle.files]
    assert found == ([started] if started else [])


def test_a_script_that_two_commands_start_is_two_bundles(tmp_path) -> None:
    scanned = project(
        tmp_path, a_sh="python train.py --workers 1\n", b_sh="python train.py --workers 4\n", train_py=RAW
    )
    assert [settings(bundle)["loader.num_workers"].value for bundle in scanned.bundles] == [1, 4]
    assert {bundle.name for bundle in scanned.bundles} == {"train.py"}


def test_command_before_config_before_script(tmp_path) -> None:
    (bundle,) = project(
        tmp_path,
        run_sh="python train.py --config c.yaml --gradient_accumulation_steps 16",
        c_yaml=HF_CONFIG,
        train_py=HF,
    ).bundles
    assert bundle.files == ("train.py", "run.sh", "c.yaml") or set(bundle.files) == {"train.py", "run.sh", "c.yaml"}
    values = {name: (one.value, one.origin) for name, one in settings(bundle).items()}
    assert values["train.accumulation_steps"] == (16, "static")
    assert values["loader.batch_size"] == (2, "static")
    assert values["loader.num_workers"] == (0, "default")
    assert fact(bundle, "run.framework") == "hf_trainer"


def test_a_parser_that_nobody_starts_leaves_everything_open(tmp_path) -> None:
    (bundle,) = project(tmp_path, train_py=HF).bundles
    assert fact(bundle, "run.framework") == "hf_trainer"
    assert "loader.num_workers" not in settings(bundle)


def test_a_config_alone_is_a_bundle(tmp_path) -> None:
    (bundle,) = project(tmp_path, c_yaml=HF_CONFIG).bundles
    assert (bundle.name, bundle.files, bundle.dialects) == ("c.yaml", ("c.yaml",), ("hf_trainer",))


def test_a_config_that_a_config_names_belongs_to_it(tmp_path) -> None:
    (bundle,) = project(tmp_path, c_yaml=HF_CONFIG + "    deepspeed: ds/zero.json\n", ds__zero_json=ZERO).bundles
    assert (bundle.files, bundle.dialects) == (("c.yaml", "ds/zero.json"), ("hf_trainer", "deepspeed"))
    assert settings(bundle)["zero.stage"].value == 3
    assert fact(bundle, "run.framework") == "hf_trainer"


def test_a_config_that_a_flag_names_belongs_to_the_command(tmp_path) -> None:
    launch = "deepspeed train.py --per_device_train_batch_size 4 --output_dir x --deepspeed zero.json"
    (bundle,) = project(tmp_path, run_sh=launch, zero_json=ZERO).bundles
    assert (bundle.name, set(bundle.files)) == ("run.sh", {"run.sh", "zero.json"})


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\nclass Trainer:\n    pass\n",
        "import torch\nfrom torch.utils.data import DataLoader\n\ndef loader(data):\n    return DataLoader(data)\n",
    ],
)
def test_a_module_that_trains_nothing_is_no_bundle(text: str, tmp_path) -> None:
    assert project(tmp_path, lib_py=text).bundles == ()


def test_other_files_are_no_bundle(tmp_path) -> None:
    scanned = project(
        tmp_path,
        ci_yaml="on: push\njobs:\n  build:\n    batch_size: 3\n",
        build_sh="python setup.py build\n",
        setup_py="import torch\nfrom torch.utils.cpp_extension import CppExtension, optim\n",
    )
    assert (scanned.bundles, scanned.notes) == ((), ())


def test_a_module_beside_a_script_adds_what_it_does(tmp_path) -> None:
    module = """
        import torch

        def fit(loader, model, optimizer):
            for batch in loader:
                loss = model(batch).sum()
                loss.backward()
                optimizer.step()
                print(loss.item())
    """
    script = RAW + "\n    from lib import fit\n    fit(loader, model, optimizer)\n"
    (bundle,) = project(tmp_path, train_py=script, lib_py=module).bundles
    assert bundle.files == ("train.py", "lib.py")
    assert fact(bundle, "code.num_scalar_reads_in_step") == 1


def test_a_module_is_left_to_its_script_whatever_their_names(tmp_path) -> None:
    module = RAW.replace("parser.parse_args()", "parser.parse_args([])")
    script = "import torch\nimport a_module\n" + textwrap.dedent(RAW)
    scanned = project(tmp_path, **{"a_module.py": module, "train.py": script})
    assert [bundle.name for bundle in scanned.bundles] == ["train.py"]


def test_a_broken_file_is_noted_with_its_place_and_the_others_are_read(tmp_path) -> None:
    broken = {"bad_py": "import torch\nloss.backward(\n", "bad_yaml": "opt: sgd\nepochs: 3\namp: [1"}
    scanned = project(tmp_path, **broken, train_py=RAW)
    assert [bundle.name for bundle in scanned.bundles] == ["train.py"]
    assert [(note.where.rpartition(":")[0].rpartition(":")[0], note.is_error) for note in scanned.notes] == [
        ("bad.py", True),
        ("bad.yaml", True),
    ]


def test_pins_of_the_nearest_folder_are_facts(tmp_path) -> None:
    scanned = project(
        tmp_path,
        **{
            "requirements.txt": "transformers==4.40.0\ntorch>=2\n",
            "old/requirements-dev.txt": "torch==1.13.1\n",
            "old/deep/c.yaml": HF_CONFIG,
            "new/c.yaml": HF_CONFIG,
        },
    )
    found = {one.name: (fact(one, "software.transformers"), fact(one, "software.torch")) for one in scanned.bundles}
    assert found == {"new/c.yaml": ((4, 40, 0), None), "old/deep/c.yaml": (None, (1, 13, 1))}


def test_the_python_is_that_of_the_nearest_folder_that_names_one(tmp_path) -> None:
    scanned = project(
        tmp_path,
        **{
            "requirements.txt": "torch==2.3.1\n",
            ".python-version": "3.12\n",
            "pyproject.toml": '[project]\nrequires-python = "==3.11.*"\n',
            "old/pyproject.toml": '[project]\nrequires-python = "==3.10.*"\n',
            "old/c.yaml": HF_CONFIG,
            "new/pyproject.toml": '[project]\nrequires-python = ">=3.9"\n',
            "new/c.yaml": HF_CONFIG,
        },
    )
    found = {one.name: (fact(one, "software.python"), fact(one, "software.torch")) for one in scanned.bundles}
    assert found == {"old/c.yaml": ((3, 10), (2, 3, 1)), "new/c.yaml": ((3, 12), (2, 3, 1))}


def test_a_lock_file_goes_first_and_disagreement_says_nothing(tmp_path) -> None:
    lock = '[[package]]\nname = "torch"\nversion = "2.4.1"\n'
    pins = {"requirements.txt": "torch==2.1.0\ntrl==0.9.0\n", "requirements-b.txt": "trl==0.9.1\n", "uv.lock": lock}
    (bundle,) = project(tmp_path, **pins, **{"c.yaml": HF_CONFIG}).bundles
    assert (fact(bundle, "software.torch"), fact(bundle, "software.trl")) == ((2, 4, 1), None)


def test_installed_versions_replace_what_is_declared(tmp_path) -> None:
    project(tmp_path, **{"requirements.txt": "transformers==4.40.0\n", "c.yaml": HF_CONFIG})
    (bundle,) = scan([tmp_path], root=tmp_path, versions={"transformers": (5, 0)}).bundles
    assert fact(bundle, "software.transformers") is None  # whoever knows what is installed states it


SLOW = RAW.replace(
    "args = parser",
    'parser.add_argument("--fast", dest="anomaly", action="store_false")\n    args = parser',
).replace("for batch", "if args.anomaly:\n        torch.autograd.set_detect_anomaly(True)\n    for batch")


@pytest.mark.parametrize(
    ("command", "anomaly"),
    [("--workers 1", True), ("--fast", None), ('--workers 1 "$@"', None), ('"$@"', None), ('--fast "$@"', None)],
)
def test_a_default_is_certain_where_no_more_flags_may_come(command: str, anomaly: bool | None, tmp_path) -> None:
    (bundle,) = project(tmp_path, run_sh=f"python train.py {command}\n", train_py=SLOW).bundles
    found = settings(bundle).get("train.anomaly_detection")
    assert (found and found.value) is anomaly


SELF_TESTED = """
    import torch
    from torch.utils.data import DataLoader

    def make_train_loader(workers, pin):
        return DataLoader([1], batch_size=4, num_workers=workers, pin_memory=pin)

    if __name__ == "__main__":
        torch.autograd.set_detect_anomaly(True)
        make_train_loader(0, False)
"""

USES_IT = """
    import torch
    from data import make_train_loader

    model = torch.nn.Linear(1, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in make_train_loader(8, True):
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""


def test_the_self_test_of_a_module_says_nothing_about_the_script_that_imports_it(tmp_path) -> None:
    (bundle,) = project(tmp_path, **{"train.py": USES_IT, "data.py": SELF_TESTED}).bundles
    assert bundle.files == ("train.py", "data.py")
    said = {one.name: one.value for one in bundle.settings}
    assert said.get("train.anomaly_detection") is not True
    assert said.get("loader.num_workers", 8) == 8
    assert said.get("loader.pin_memory", True) is True


def test_what_is_excluded_is_not_read_where_a_script_or_a_command_names_it(tmp_path) -> None:
    files = {
        "train.py": textwrap.dedent(RAW) + "import third_party.loop\n",
        "third_party/loop.py": RAW.replace("optimizer.step()", "print(loss.item())\n        optimizer.step()"),
        "run.sh": "accelerate launch --config_file old/acc.yaml train.py\n",
        "old/acc.yaml": "distributed_type: MULTI_GPU\nmixed_precision: fp16\nnum_processes: 2\n",
    }
    (every,) = project(tmp_path, **files).bundles
    assert {"third_party/loop.py", "old/acc.yaml"} < set(every.files)
    (bundle,) = scan([tmp_path], root=tmp_path, exclude=["third_party", "old/*"]).bundles
    assert set(bundle.files) == {"train.py", "run.sh"}
    assert fact(bundle, "code.num_scalar_reads_in_step") is None


def test_comments_come_with_their_bundle(tmp_path) -> None:
    script = RAW.replace("num_workers=args.workers)", "num_workers=0)  # autotune: ignore[DL001] tiny")
    (bundle,) = project(tmp_path, train_py=script).bundles
    assert [(one.file, one.line, one.rule, one.reason) for one in bundle.ignored] == [("train.py", 11, "DL001", "tiny")]


@pytest.mark.parametrize(
    "script", ["/etc/passwd.py", "../../outside.py", "~/x.py", "a\0b.py", ".py", "x" * 5000 + ".py"]
)
def test_a_script_outside_is_not_looked_for(script: str, tmp_path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.py").write_text(textwrap.dedent(RAW))
    assert project(root, run_sh=f"python '{script}' --workers 3\n").bundles == ()


STARTED = """
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--config")
args = parser.parse_args()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(rows, num_workers=args.workers):
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("launcher", "text", "asked", "expected"),
    [
        ("run.sh", "python src/train.py --workers 0", ["src/train.py"], 0),
        ("src/run.sh", "python train.py --workers 0", ["src/train.py"], 0),
        ("scripts/run.sh", "python src/train.py --workers 0", ["src/train.py"], 0),
        ("run.sh", "python -m src.train --workers 0", ["src/train.py"], 0),
        ("run.sh", "python src/train.py --workers 0 --config a.yaml", ["src/train.py", "a.yaml"], 0),
        ("run.sh", "python src/train.py --workers 0 --config a.yaml", ["src/train.py", "b.yaml"], 2),
        ("run.sh", "python src/other.py --workers 0", ["src/train.py"], 2),
        ("run.sh", "echo", ["src/train.py"], 2),
        ("old/run.sh", "python src/train.py --workers 0", ["src/train.py"], 2),
        (".cache/run.sh", "python src/train.py --workers 0", ["src/train.py"], 2),
    ],
)
def test_a_script_that_is_named_is_read_with_what_starts_it(
    tmp_path: Path, launcher: str, text: str, asked: list[str], expected: int
) -> None:
    files = {"src/train.py": STARTED, "src/other.py": STARTED, launcher: text, "a.yaml": "a: 1\n", "b.yaml": "b: 1\n"}
    for name, written in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(written)
    bundles = scan([tmp_path / one for one in asked], root=tmp_path, exclude=["old"]).bundles
    found = {one.name: one.value for each in bundles for one in each.settings if one.origin == "static"}
    assert ({each.name for each in bundles}, found["loader.num_workers"]) == ({"src/train.py"}, expected)
    assert (launcher in {name for each in bundles for name in each.files}) is (expected == 0)


LIT_DATA = """
import lightning as L
from torch.utils.data import DataLoader

class Data(L.LightningDataModule):
    def __init__(self, batch_size: int = 8, num_workers: int = 2):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return DataLoader(Rows(), batch_size=self.hparams.batch_size, num_workers=self.hparams.num_workers)
"""

LIT_CONFIG = """
trainer:
  max_epochs: 2
data:
  class_path: lit.data.Data
  init_args:
    num_workers: 0
"""


@pytest.mark.parametrize(
    "cli",
    [
        "LightningCLI()",
        "LightningCLI(datamodule_class=Data, subclass_mode_data=True)",
        "CLI(datamodule_class=Data, subclass_mode_data=True)",
    ],
)
@pytest.mark.parametrize("start", ["", "python -m lit.train fit -c configs/base.yaml", "python lit/train.py fit -c $C"])
def test_a_config_that_a_lightning_cli_takes_gives_the_arguments_of_its_classes(
    tmp_path: Path, cli: str, start: str
) -> None:
    head = "from lightning.pytorch.cli import LightningCLI\nfrom lit.data import Data\nclass CLI(LightningCLI): pass\n"
    files = {
        "lit/__init__.py": "",
        "lit/data.py": LIT_DATA,
        "lit/train.py": f'{head}if __name__ == "__main__":\n    {cli}\n',
        "configs/base.yaml": LIT_CONFIG,
        "run.sh": f"C=configs/base.yaml\n{start}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (bundle,) = scan([tmp_path], root=tmp_path).bundles
    workers = next(one for one in bundle.settings if one.name == "loader.num_workers")
    assert (bundle.name, workers.value) == ("lit/train.py", 0)
    assert workers.location is not None
    assert (workers.location.file, workers.location.line) == ("configs/base.yaml", 7)


@pytest.mark.parametrize(
    ("name", "text", "others", "expected"),
    [
        ("pkg/train.py", "from . import data", ("pkg/data.py",), (True, "")),
        ("pkg/train.py", "from pkg.data import x", ("pkg/data.py",), (True, ".")),
        ("pkg/train.py", "import pkg.data", ("pkg/data.py",), (True, ".")),
        ("src/pkg/sub/train.py", "import torch, pkg.data", ("src/pkg/data.py",), (True, "./src")),
        ("pkg/train.py", "import torch\nfrom data import x", ("pkg/data.py",), (False, "")),
        ("torch/train.py", "import torch", (), (False, "")),
        ("pkg/train.py", "import pkg", ("pkg/__init__.py",), (True, ".")),
        ("pkg/train.py", "from pkg.data import x", ("pkg/data.py", "pkg/pkg/data.py"), (False, "")),
        ("pkg/train.py", "import sys\nsys.path.insert(0, '.')\nfrom pkg.data import x", ("pkg/data.py",), (False, "")),
    ],
)
def test_a_script_that_imports_from_its_own_package_is_a_module(
    tmp_path: Path, name: str, text: str, others: tuple[str, ...], expected: tuple[bool, str]
) -> None:
    for each, content in ((name, f"{text}\n{textwrap.dedent(RAW)}"), *((other, "x = 1\n") for other in others)):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(content)
    (bundle,) = (one for one in scan([tmp_path], root=tmp_path).bundles if one.name == name)
    assert (bundle.is_module, bundle.home) == expected


def test_of_commands_that_start_a_script_in_the_same_way_the_first_are_read(tmp_path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(RAW))
    for number in range(7):
        (tmp_path / f"run{number}.sh").write_text(f"python train.py --seed {number}\n")
    (tmp_path / "wide.sh").write_text("python train.py --seed 1 --width 2\n")
    found = scan([tmp_path], root=tmp_path)
    assert len(found.bundles) == 5
    (note,) = [each for each in found.notes if "more commands" in each.why]
    assert (note.where, note.why[:2]) == ("train.py", "3 ")
    everything = scan([tmp_path, *(tmp_path / f"run{number}.sh" for number in range(7))], root=tmp_path)
    assert len(everything.bundles) == 8
