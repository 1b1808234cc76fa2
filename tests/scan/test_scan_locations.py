"""The place where a person would change a value, in small projects as people write them: what a run had is found
there, and nothing else is trusted."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autotune.engine.trust import located
from autotune.model.evidence import Location, Setting, Value
from autotune.scan import scan
from autotune.scan.command import scan_command

LOOP = """
for batch in {loader}:
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""

TRAIN = "import torch\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"

DATA = """
    from torch.utils.data import DataLoader

    def make_loader(cfg):
        return DataLoader(list(range(8)), num_workers={value})
    """

VERSIONS = {"torch": (2, 13, 0), "transformers": (5, 23, 0), "trl": (1, 16, 0), "lightning": (2, 6, 6)}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))


def site(root: Path, call: str) -> Location | None:
    """Where a run meets the only call of this name."""
    for path in sorted(root.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if f"{call}(" in line and not line.startswith(("class", "from", "import")):
                return Location(str(path), number, call)
    return None


def place(root: Path, command: str, name: str, value: Value, call: str = "DataLoader") -> tuple[str, str] | str:
    """The file and the text at the place of a setting of which a run had this value; why there is none."""
    bundle = scan_command(command.split(), cwd=root, root=root, versions=VERSIONS)
    if bundle is None:
        return "no bundle"
    subject = "loader#train" if name.startswith("loader.") else "run"
    seen = Setting(name, subject, value, "observed", site(root, call))
    (found,) = located([seen], bundle.settings)
    at = found.location
    if not found.trusted or at is None:
        return found.why_not
    if at.file.startswith("<"):
        return "<typed>", at.key
    text = Path(at.file).read_bytes()[at.span.start : at.span.end].decode() if at.span is not None else ""
    return str(Path(at.file).relative_to(root)), f"{at.line}: {text}"


def loop(loader: str) -> str:
    return textwrap.dedent(LOOP.format(loader=loader))


CONFIG = """
    from dataclasses import dataclass, field

    @dataclass
    class Data:
        num_workers: int = 0

    @dataclass
    class Config:
        batch_size: int = 4
        num_workers: int = 0
        data: Data = field(default_factory=Data)
    """

MADE = "loader = DataLoader(list(range(8)), num_workers={value})\n"
HERE = "from torch.utils.data import DataLoader\n"

LIGHTNING_DATA = """
    import lightning as L
    from torch.utils.data import DataLoader

    class Data(L.LightningDataModule):
        def __init__(self, size: int = 8, num_workers: int = 0):
            super().__init__()
            self.num_workers = num_workers

        def train_dataloader(self):
            return DataLoader(list(range(8)), num_workers=self.num_workers)
    """

CASES = {
    # id: files, command, file, text
    "dataclass default": (
        {
            "train.py": TRAIN
            + HERE
            + textwrap.dedent(CONFIG)
            + "cfg = Config()\n"
            + MADE.format(value="cfg.num_workers")
            + loop("loader")
        },
        "train.py",
        ("train.py", "15: 0"),
    ),
    "dataclass of a module, handed to a function of another": (
        {
            "train.py": TRAIN + "from src.config import Config\nfrom src.data import make_loader\n"
            "cfg = Config(batch_size=2)\n" + loop("make_loader(cfg)"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "a nested dataclass": (
        {
            "train.py": TRAIN
            + "from src.config import Config\nfrom src.data import make_loader\n"
            + loop("make_loader(Config())"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.data.num_workers"),
        },
        "train.py",
        ("src/config.py", "5: 0"),
    ),
    "a flag that feeds a dataclass": (
        {
            "train.py": TRAIN + "import argparse\nfrom src.config import Config\nfrom src.data import make_loader\n"
            'parser = argparse.ArgumentParser()\nparser.add_argument("--workers", type=int, default=0)\n'
            "args = parser.parse_args()\ncfg = Config(num_workers=args.workers)\n" + loop("make_loader(cfg)"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("train.py", "8: 0"),
    ),
    "a typed flag that feeds a dataclass": (
        {
            "train.py": TRAIN + "import argparse\nfrom src.config import Config\nfrom src.data import make_loader\n"
            'parser = argparse.ArgumentParser()\nparser.add_argument("--workers", type=int, default=3)\n'
            "args = parser.parse_args()\ncfg = Config(num_workers=args.workers)\n" + loop("make_loader(cfg)"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py --workers 0",
        ("<typed>", "--workers"),
    ),
    "parse_args of a module": (
        {
            "train.py": TRAIN + "from src.options import parse_args\nfrom src.data import make_loader\n"
            "def main():\n    cfg = parse_args()\n    for batch in make_loader(cfg):\n        model(batch).backward()\n"
            '        optimizer.step()\nif __name__ == "__main__":\n    main()\n',
            "src/options.py": """
            import argparse

            def parse_args():
                parser = argparse.ArgumentParser()
                parser.add_argument("--num-workers", type=int, default=0)
                return parser.parse_args()
            """,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/options.py", "5: 0"),
    ),
    "tyro": (
        {
            "train.py": "import tyro\n" + TRAIN + "from src.config import Config\nfrom src.data import make_loader\n"
            "cfg = tyro.cli(Config)\n" + loop("make_loader(cfg)"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "tyro, a flag of a nested class": (
        {
            "train.py": "import tyro\n" + TRAIN + "from src.config import Config\nfrom src.data import make_loader\n"
            "cfg = tyro.cli(Config)\n" + loop("make_loader(cfg)"),
            "src/config.py": CONFIG.replace("= 0", "= 2"),
            "src/data.py": DATA.format(value="cfg.data.num_workers"),
        },
        "train.py --data.num-workers 0",
        ("<typed>", "--data.num-workers"),
    ),
    "tyro with a function": (
        {
            "train.py": "import tyro\n" + TRAIN + "from src.config import Config\nfrom src.data import make_loader\n"
            "def main(cfg: Config):\n    for batch in make_loader(cfg):\n        model(batch).backward()\n"
            '        optimizer.step()\nif __name__ == "__main__":\n    tyro.cli(main)\n',
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "simple_parsing": (
        {
            "train.py": "from simple_parsing import parse\n" + TRAIN + "from src.config import Config\n"
            "from src.data import make_loader\ncfg = parse(Config)\n" + loop("make_loader(cfg)"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "HfArgumentParser with a class of its own": (
        {
            "train.py": "from transformers import HfArgumentParser\n" + TRAIN + "from src.config import Config\n"
            "from src.data import make_loader\n(cfg,) = HfArgumentParser(Config).parse_args_into_dataclasses()\n"
            + loop("make_loader(cfg)"),
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "draccus": (
        {
            "train.py": "import draccus\n" + TRAIN + "from src.config import Config\nfrom src.data import make_loader\n"
            "@draccus.wrap()\ndef main(cfg: Config):\n    for batch in make_loader(cfg):\n"
            '        model(batch).backward()\n        optimizer.step()\nif __name__ == "__main__":\n    main()\n',
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "draccus with a config": (
        {
            "train.py": "import draccus\n" + TRAIN + "from src.config import Config\nfrom src.data import make_loader\n"
            "@draccus.wrap()\ndef main(cfg: Config):\n    for batch in make_loader(cfg):\n"
            '        model(batch).backward()\n        optimizer.step()\nif __name__ == "__main__":\n    main()\n',
            "src/config.py": CONFIG.replace("= 0", "= 2"),
            "src/data.py": DATA.format(value="cfg.num_workers"),
            "c/x.yaml": "batch_size: 8\nnum_workers: 0\n",
        },
        "train.py --config_path c/x.yaml",
        ("c/x.yaml", "2: 0"),
    ),
    "a dict": (
        {
            "train.py": TRAIN
            + "from src.data import make_loader\nCFG = {'num_workers': 0, 'lr': 0.1}\n"
            + loop("make_loader(CFG)"),
            "src/data.py": DATA.format(value="cfg['num_workers']"),
        },
        "train.py",
        ("train.py", "5: 0"),
    ),
    "a dict in a dict of a module": (
        {
            "train.py": TRAIN
            + "from src.config import CFG\nfrom src.data import make_loader\n"
            + loop("make_loader(CFG['data'])"),
            "src/config.py": "CFG = {'data': {'num_workers': 0}}\n",
            "src/data.py": DATA.format(value="cfg.get('num_workers', 2)"),
        },
        "train.py",
        ("src/config.py", "1: 0"),
    ),
    "SimpleNamespace": (
        {
            "train.py": TRAIN + "from types import SimpleNamespace\nfrom src.data import make_loader\n"
            "cfg = SimpleNamespace(num_workers=0)\n" + loop("make_loader(cfg)"),
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("train.py", "6: 0"),
    ),
    "argparse.Namespace": (
        {
            "train.py": TRAIN + "import argparse\nfrom src.data import make_loader\n"
            "cfg = argparse.Namespace(num_workers=0)\n" + loop("make_loader(cfg)"),
            "src/data.py": DATA.format(value='getattr(cfg, "num_workers", 2)'),
        },
        "train.py",
        ("train.py", "6: 0"),
    ),
    "OmegaConf": (
        {
            "train.py": TRAIN + "from omegaconf import OmegaConf\nfrom src.data import make_loader\n"
            'cfg = OmegaConf.load("configs/x.yaml")\n' + loop("make_loader(cfg)"),
            "configs/x.yaml": "data:\n  num_workers: 0\n",
            "src/data.py": DATA.format(value="cfg.data.num_workers"),
        },
        "train.py",
        ("configs/x.yaml", "2: 0"),
    ),
    "YAML, opened": (
        {
            "train.py": TRAIN + "import yaml\nfrom src.data import make_loader\n"
            'with open("configs/x.yaml") as file:\n    cfg = yaml.safe_load(file)\n' + loop("make_loader(cfg)"),
            "configs/x.yaml": "data:\n  num_workers: 0\n",
            "src/data.py": DATA.format(value="cfg['data']['num_workers']"),
        },
        "train.py",
        ("configs/x.yaml", "2: 0"),
    ),
    "JSON beside the script, in a dataclass": (
        {
            "train.py": TRAIN + "import json\nfrom pathlib import Path\nfrom src.config import Config\n"
            "from src.data import make_loader\nHERE = Path(__file__).parent\ndef load(path):\n"
            "    return Config(**json.loads(path.read_text()))\n"
            'cfg = load(HERE / "configs" / "x.json")\n' + loop("make_loader(cfg)"),
            "configs/x.json": '{"batch_size": 4,\n "num_workers": 0}\n',
            "src/config.py": CONFIG.replace("= 0", "= 2"),
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("configs/x.json", "2: 0"),
    ),
    "YAML that a flag names": (
        {
            "train.py": TRAIN + "import argparse, yaml\nfrom src.data import make_loader\n"
            'parser = argparse.ArgumentParser()\nparser.add_argument("--config")\nargs = parser.parse_args()\n'
            "cfg = yaml.safe_load(open(args.config))\n" + loop("make_loader(cfg)"),
            "configs/x.yaml": "num_workers: 0\n",
            "src/data.py": DATA.format(value="cfg['num_workers']"),
        },
        "train.py --config configs/x.yaml",
        ("configs/x.yaml", "1: 0"),
    ),
    "an attribute of a class of a module": (
        {
            "train.py": TRAIN
            + "from src.config import Config\nfrom src.data import make_loader\n"
            + loop("make_loader(Config)"),
            "src/config.py": "class Config:\n    num_workers = 0\n",
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "2: 0"),
    ),
    "a constant of a module": (
        {
            "train.py": TRAIN
            + "from src import config\nfrom src.data import make_loader\n"
            + loop("make_loader(None)"),
            "src/config.py": "NUM_WORKERS = 0\n",
            "src/data.py": "from src import config\n" + textwrap.dedent(DATA.format(value="config.NUM_WORKERS")),
        },
        "train.py",
        ("src/config.py", "1: 0"),
    ),
    "a class that keeps the config": (
        {
            "train.py": TRAIN
            + "from src.config import Config\nfrom src.data import Data\n"
            + loop("Data(Config()).loader()"),
            "src/config.py": CONFIG,
            "src/data.py": """
            from torch.utils.data import DataLoader

            class Data:
                def __init__(self, cfg):
                    self.cfg = cfg

                def loader(self):
                    return DataLoader(list(range(8)), num_workers=self.cfg.num_workers)
            """,
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "a script that only calls another module": (
        {
            "train.py": 'from src.cli import main\nif __name__ == "__main__":\n    main()\n',
            "src/cli.py": "from src.runner import Runner\ndef main():\n    Runner().run()\n",
            "src/runner.py": "from src.data import make_loader\n" + TRAIN + "class Runner:\n    def run(self):\n"
            "        for batch in make_loader(None):\n            model(batch).backward()\n"
            "            optimizer.step()\n",
            "src/data.py": DATA.format(value="0"),
        },
        "train.py",
        ("src/data.py", "4: 0"),
    ),
    "a name that a package hands on": (
        {
            "train.py": TRAIN + "from src import make_loader, Config\n" + loop("make_loader(Config())"),
            "src/__init__.py": "from .config import *\nfrom .data import make_loader\n",
            "src/config.py": CONFIG,
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
    "vars of the arguments": (
        {
            "train.py": TRAIN + "import argparse\nfrom src.data import make_loader\n"
            'parser = argparse.ArgumentParser()\nparser.add_argument("--num_workers", type=int, default=0)\n'
            "cfg = vars(parser.parse_args())\n" + loop("make_loader(cfg)"),
            "src/data.py": DATA.format(value="cfg['num_workers']"),
        },
        "train.py",
        ("train.py", "7: 0"),
    ),
    "an object that a function of a class makes": (
        {
            "train.py": TRAIN + "from src.data import Data\nfrom src.node import Node\ndef get_config():\n"
            "    C = Node()\n    C.data = Data.default()\n    return C\nconfig = get_config()\n"
            + loop("Data(config.data).loader()"),
            "src/node.py": "class Node:\n    def merge(self, other):\n        self.__dict__.update(other)\n",
            "src/data.py": """
            from torch.utils.data import DataLoader
            from src.node import Node

            class Data:
                @staticmethod
                def default():
                    C = Node()
                    C.num_workers = 0
                    return C

                def __init__(self, config):
                    self.config = config

                def loader(self):
                    size, config = 8, self.config
                    return DataLoader(list(range(size)), num_workers=config.num_workers)
            """,
        },
        "train.py",
        ("src/data.py", "8: 0"),
    ),
    "an option that only a launch on several machines changes": (
        {
            "train.py": TRAIN + "import argparse\nfrom src.data import make_loader\n"
            'parser = argparse.ArgumentParser()\nparser.add_argument("--num_workers", type=int, default=0)\n'
            'parser.add_argument("--world-size", type=int, default=-1)\nargs = parser.parse_args()\n'
            "args.distributed = args.world_size > 1\nif args.distributed:\n"
            "    args.num_workers = args.num_workers // 8\n" + loop("make_loader(args)"),
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("train.py", "7: 0"),
    ),
    "Hydra": (
        {
            "train.py": "import hydra\n" + TRAIN + "from src.data import make_loader\n"
            '@hydra.main(config_path="conf", config_name="main")\ndef main(cfg):\n'
            "    for batch in make_loader(cfg.data):\n        model(batch).backward()\n        optimizer.step()\n"
            'if __name__ == "__main__":\n    main()\n',
            "conf/main.yaml": "defaults:\n  - data: small\nepochs: 3\n",
            "conf/data/small.yaml": "num_workers: 2\n",
            "conf/data/large.yaml": "num_workers: 0\n",
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py data=large",
        ("conf/data/large.yaml", "1: 0"),
    ),
    "LightningCLI with a class_path": (
        {
            "pkg/train.py": "from lightning.pytorch.cli import LightningCLI\n"
            'if __name__ == "__main__":\n    LightningCLI()\n',
            "pkg/data.py": LIGHTNING_DATA,
            "configs/base.yaml": "trainer:\n  max_epochs: 3\ndata:\n  class_path: pkg.data.Data\n  init_args:\n"
            "    num_workers: 0\n",
        },
        "python -m pkg.train fit -c configs/base.yaml",
        ("configs/base.yaml", "6: 0"),
    ),
    "LightningCLI, the default of its data module": (
        {
            "pkg/train.py": "from lightning.pytorch.cli import LightningCLI\nfrom pkg.data import Data\n"
            'if __name__ == "__main__":\n    LightningCLI(datamodule_class=Data)\n',
            "pkg/data.py": LIGHTNING_DATA,
            "configs/base.yaml": "trainer:\n  max_epochs: 3\ndata:\n  size: 16\n",
        },
        "python -m pkg.train fit -c configs/base.yaml",
        ("pkg/data.py", "5: 0"),
    ),
    "a YAML whose section is unpacked": (
        {
            "train.py": TRAIN + "import sys\nimport yaml\nfrom pkg.data import Data\n"
            "config = yaml.safe_load(open(sys.argv[1]))\n" + loop('Data(**config["data"]).train_dataloader()'),
            "pkg/data.py": LIGHTNING_DATA.replace("= 0", "= 2"),
            "base.yaml": "data:\n  num_workers: 0\n",
        },
        "train.py base.yaml",
        ("base.yaml", "2: 0"),
    ),
    "fields that become options": (
        {
            "train.py": TRAIN
            + "from src.config import parse\nfrom src.data import make_loader\n"
            + loop("make_loader(parse())"),
            "src/config.py": textwrap.dedent(CONFIG) + "\nimport argparse\nfrom dataclasses import fields\n\n"
            "def parse():\n    parser = argparse.ArgumentParser()\n    for one in fields(Config):\n"
            '        parser.add_argument(f"--{one.name}", default=one.default)\n'
            "    return Config(**vars(parser.parse_args()))\n",
            "src/data.py": DATA.format(value="cfg.num_workers"),
        },
        "train.py",
        ("src/config.py", "10: 0"),
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_the_place_of_the_workers(tmp_path: Path, case: tuple[dict[str, str], str, tuple[str, str]]) -> None:
    files, command, expected = case
    write(tmp_path, files)
    assert place(tmp_path, command, "loader.num_workers", 0) == expected
    assert isinstance(place(tmp_path, command, "loader.num_workers", 7), str), "another value is not there"


@pytest.mark.parametrize(
    ("command", "config", "name", "value", "expected"),
    [
        ("litgpt finetune_lora m --config c.yaml", "train:\n  micro_batch_size: 4\n", "loader.batch_size", 4, "2: 4"),
        ("tune run lora --config c.yaml", "batch_size: 2\n", "loader.batch_size", 2, "1: 2"),
        ("trl sft --config c.yaml", "max_steps: 5\n", "train.max_steps", 5, "1: 5"),
        ("trl sft --config c.yaml", "max_steps: 5\n", "data.packing", False, "1: "),
        ("litgpt finetune_lora m --config c.yaml", "train:\n  max_steps: 4\n", "loader.batch_size", 1, "1: "),
    ],
)
def test_the_config_of_a_program(
    tmp_path: Path, command: str, config: str, name: str, value: Value, expected: str
) -> None:
    """A few keys are enough, and what is missing is added."""
    write(tmp_path, {"c.yaml": config})
    found = place(tmp_path, command, name, value)
    assert found in (("c.yaml", expected), ("<typed>", "")) if expected == "1: " else found == ("c.yaml", expected)


def test_an_argument_of_a_class_that_no_config_names_is_not_added(tmp_path: Path) -> None:
    write(tmp_path, {"c.yaml": "train:\n  micro_batch_size: 4\n"})
    assert isinstance(place(tmp_path, "litgpt finetune_lora m --config c.yaml", "optimizer.fused", False), str)


HF = """
    import sys
    from transformers import HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser(TrainingArguments).parse_yaml_file(sys.argv[1])
    args.dataloader_num_workers = 0
    Trainer(model=None, args=args).train()
    """


def test_what_is_set_on_parsed_arguments_counts_before_the_config(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": HF, "c.yaml": "dataloader_num_workers: 0\nmax_steps: 5\n"})
    assert place(tmp_path, "train.py c.yaml", "loader.num_workers", 0) == ("train.py", "5: 0")
    assert place(tmp_path, "train.py c.yaml", "train.max_steps", 5) == ("c.yaml", "2: 5")


RAW = """
    import sys
    import torch
    import yaml
    from torch.utils.data import DataLoader

    cfg = yaml.safe_load(open(sys.argv[1]))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg["learning_rate"])
    for batch in DataLoader(list(range(8)), batch_size=cfg["per_device_train_batch_size"]):
        model(batch).sum().backward()
        optimizer.step()
    """


def test_a_config_that_a_loop_of_its_own_reads_says_nothing_of_a_trainer(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": RAW, "c.yaml": "per_device_train_batch_size: 2\nlearning_rate: 0.1\noutput_dir: o\n"})
    assert place(tmp_path, "train.py c.yaml", "loader.batch_size", 2) == ("c.yaml", "1: 2")
    found = place(tmp_path, "train.py c.yaml", "loader.pin_memory", False)
    assert found[0] == "train.py", "the default of torch's loader, not that of TrainingArguments"


CLI = {
    "pkg/train.py": 'from lightning.pytorch.cli import LightningCLI\nif __name__ == "__main__":\n    LightningCLI()\n',
    "pkg/data.py": LIGHTNING_DATA,
    "pkg/model.py": """
        import lightning as L
        import torch

        class Net(L.LightningModule):
            def training_step(self, batch, index):
                return self(batch)

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters(), fused=False)
        """,
    "configs/base.yaml": "trainer:\n  max_epochs: 3\nmodel:\n  class_path: pkg.model.Net\ndata:\n"
    "  class_path: pkg.data.Data\n  init_args:\n    num_workers: 0\n",
}

SETUP = """
    from transformers import TrainingArguments

    def arguments():
        return TrainingArguments(output_dir="out", dataloader_num_workers=0)
    """


@pytest.mark.parametrize("paths", [(".",), ("pkg/train.py", "configs/base.yaml")])
def test_check_joins_what_a_command_would(tmp_path: Path, paths: tuple[str, ...]) -> None:
    write(tmp_path, CLI)
    (found,) = scan([tmp_path / path for path in paths], root=tmp_path).bundles
    command = "python -m pkg.train fit -c configs/base.yaml"
    run = scan_command(command.split(), cwd=tmp_path, root=tmp_path, versions={})
    assert run is not None
    assert {*found.files} == {*run.files} - {"./<command line>"}
    names = ("loader.num_workers", "optimizer.fused", "train.epochs")
    values = {one.name: one.value for one in found.settings if one.name in names}
    assert values == {"loader.num_workers": 0, "optimizer.fused": False, "train.epochs": 3.0}
    assert values == {one.name: one.value for one in run.settings if one.name in names}


@pytest.mark.parametrize("path", [".", "arguments.py"])
def test_a_file_that_only_sets_a_run_up_is_checked(tmp_path: Path, path: str) -> None:
    write(tmp_path, {"arguments.py": SETUP})
    scanned = scan([tmp_path / path], root=tmp_path)
    (found,) = scanned.bundles
    assert not scanned.notes
    assert [one.value for one in found.settings if one.name == "loader.num_workers"] == [0]


def test_a_class_of_arguments_that_is_held_ready_is_checked(tmp_path: Path) -> None:
    text = "class Mine(TrainingArguments):\n    gradient_checkpointing: bool = True\n"
    write(tmp_path, {"arguments.py": "from transformers import TrainingArguments\n" + text})
    (found,) = scan([tmp_path], root=tmp_path).bundles
    assert {one.name: one.value for one in found.settings} == {"train.activation_checkpointing": True}


READS = """
    import yaml, argparse
    {more}
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("--num_workers", type=int, default=0)
    args = parser.parse_args()
    model = make({read})
    """


def test_a_key_of_a_section_is_no_option_of_that_name(tmp_path: Path) -> None:
    text = textwrap.dedent(READS.format(more="", read="yaml.safe_load(open(args.config))"))
    text = TRAIN + HERE + text + MADE.format(value="args.num_workers") + loop("loader")
    write(tmp_path, {"train.py": text, "model.yaml": "eval:\n  num_workers: 0\n"})
    file, _ = place(tmp_path, "train.py --config model.yaml", "loader.num_workers", 0)
    assert file == "train.py"


@pytest.mark.parametrize(
    "later", ["{'num_workers': 8}", "OmegaConf.create({'num_workers': 8})", "override(x)", "OmegaConf.from_cli()"]
)
def test_what_is_merged_over_a_config_later_may_decide(tmp_path: Path, later: str) -> None:
    text = "from omegaconf import OmegaConf\n" + TRAIN + HERE
    text += f"cfg = OmegaConf.merge(OmegaConf.load('c.yaml'), {later})\n"
    text += MADE.format(value="cfg.num_workers") + loop("loader")
    write(tmp_path, {"train.py": text, "c.yaml": "num_workers: 0\n"})
    found = place(tmp_path, "train.py", "loader.num_workers", 0)
    assert (found == ("c.yaml", "1: 0")) is ("from_cli" in later)


def test_a_config_beside_the_script_is_not_that_of_the_working_folder(tmp_path: Path) -> None:
    text = "import yaml\nfrom pathlib import Path\n" + TRAIN + HERE
    text += "cfg = yaml.safe_load((Path(__file__).parent / 'config.yaml').read_text())\n"
    text += MADE.format(value="cfg['num_workers']") + loop("loader")
    write(tmp_path, {"sub/train.py": text, "config.yaml": "num_workers: 0\n", "sub/config.yaml": "num_workers: 0\n"})
    assert isinstance(place(tmp_path, "sub/train.py", "loader.num_workers", 0), str)
