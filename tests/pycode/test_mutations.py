"""What a run changes after it is made, in whichever file, is not known; what nobody changes is."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autotune.scan import scan

TRAIN = """
import torch
from torch.utils.data import DataLoader
{head}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(rows, num_workers={workers}):
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""


def workers(root: Path, head: str, asked: str, **modules: str) -> object:
    """The workers of the loader that train.py makes, "unknown" where they are not known."""
    files = {"train": TRAIN.format(head=textwrap.dedent(head), workers=asked), **modules}
    for name, text in files.items():
        end = "" if "_yaml" in name else ".py"
        (root / f"{name.replace('_yaml', '.yaml')}{end}").write_text(textwrap.dedent(text))
    found = {one.name: one for bundle in scan([root], root=root).bundles for one in bundle.settings}
    return found["loader.num_workers"].value if "loader.num_workers" in found else "unknown"


HOLDERS = {
    "dict": ('cfg = {"workers": 0}', 'cfg["workers"]', "cfg"),
    "get": ('cfg = {"workers": 0}', 'cfg.get("workers")', "cfg"),
    "dict of dicts": ('cfg = {"data": {"workers": 0}}', 'cfg["data"]["workers"]', 'cfg["data"]'),
    "namespace": (
        "from types import SimpleNamespace\ncfg = SimpleNamespace(workers=0)",
        "cfg.workers",
        "cfg",
    ),
    "object": ("class Config:\n    workers = 0\ncfg = Config()", "cfg.workers", "cfg"),
    "class": ("class cfg:\n    workers = 0", "cfg.workers", "cfg"),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    workers: int = 0\ncfg = Config()",
        "cfg.workers",
        "cfg",
    ),
    "attributes": ("class Node: pass\ncfg = Node()\ncfg.workers = 0", "cfg.workers", "cfg"),
    "file": (
        'import yaml\nwith open("base.yaml") as file:\n    cfg = yaml.safe_load(file)',
        'cfg["data"]["workers"]',
        'cfg["data"]',
    ),
    "function": ('def get():\n    return {"workers": 0}\ncfg = get()', 'cfg["workers"]', "cfg"),
}

BASE = {"base_yaml": "data:\n  workers: 0\nbatch_size: 4\n"}

CHANGES = {
    "key": '{x}["workers"] = 8',
    "attribute": "{x}.workers = 8",
    "update with a keyword": "{x}.update(workers=8)",
    "update with a dict": '{x}.update({{"workers": 8}})',
    "update with what is not known": "{x}.update(read())",
    "merge_from_file": '{x}.merge_from_file("other.yaml")',
    "setattr": 'setattr({x}, "workers", 8)',
    "setattr of any": "for name, value in read():\n    setattr({x}, name, value)",
    "any key": "for name in read():\n    {x}[name] = 8",
    "vars": 'vars({x})["workers"] = 8',
    "__dict__": "{x}.__dict__.update(read())",
    "OmegaConf.update": 'from omegaconf import OmegaConf\nOmegaConf.update({x}, "workers", 8)',
    "a function": 'def change(given):\n    given["workers"] = 8\nchange({x})',
    "a function that is not read": "from elsewhere import update_config\nupdate_config({x})",
    "a function of a library": "import elsewhere\nelsewhere.override_config({x})",
    "a keyword of a function": "from elsewhere import override_config\noverride_config(cfg={x})",
    "a keyword of a library's": "import elsewhere\nelsewhere.override_config(cfg={x})",
    "a later argument": "from elsewhere import merge_into\nmerge_into(1, {x})",
    "an alias": 'other = {x}\nother["workers"] = 8',
    "deleted": 'del {x}["workers"]',
    "under a condition": 'if fast:\n    {x}["workers"] = 8',
}

NO_CHANGES = {
    "nothing": "",
    "read": 'print({x}, len(vars({x})))\nshown = dict(other="a")\nshown.update({x})\nshown.update(other={x})',
    "a function of the project": (
        "def update_model(model, given):\n    print(given)\nupdate_model(1, {x})\nupdate_model(1, given={x})"
    ),
    "another key": '{x}["batch_size"] = 8\n{x}.lr = 0.1\n{x}.update(lr=0.1)\nsetattr({x}, "lr", 0.1)',
    "another object": 'other = {{"workers": 1}}\nother["workers"] = 8\nother.workers = 8\nsetattr(other, "workers", 8)',
    "a copy": 'import copy\nother = copy.deepcopy({x})\nother["workers"] = 8',
    "never": 'if False:\n    {x}["workers"] = 8\n    {x}.update(workers=8)',
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("change", NO_CHANGES)
@pytest.mark.parametrize("where", ["script", "module"])
def test_a_config_of_another_module_that_nobody_changes_is_known(
    tmp_path: Path, holder: str, change: str, where: str
) -> None:
    conf, asked, changed = HOLDERS[holder]
    head = "from conf import cfg\n" + NO_CHANGES[change].format(x=changed)
    modules = {"conf": conf, **BASE}
    if where == "module":
        head, modules = "import tune\nfrom conf import cfg", {**modules, "tune": head}
    assert workers(tmp_path, head, asked, **modules) == 0


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["script", "module"])
def test_a_config_of_another_module_that_is_changed_is_not_known(
    tmp_path: Path, holder: str, change: str, where: str
) -> None:
    conf, asked, changed = HOLDERS[holder]
    head = "from conf import cfg\n" + CHANGES[change].format(x=changed)
    modules = {"conf": conf, **BASE}
    if where == "module":
        head, modules = "import tune\nfrom conf import cfg", {**modules, "tune": head}
    assert workers(tmp_path, head, asked, **modules) == "unknown"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", 0),
        ("conf.LR = 1\n", 0),
        ("conf.WORKERS = 8", "unknown"),
        ('setattr(conf, "WORKERS", 8)', "unknown"),
        ("for name, value in read():\n    setattr(conf, name, value)", "unknown"),
        ("vars(conf).update(read())", "unknown"),
        ("def change():\n    conf.WORKERS = 8\nchange()", "unknown"),
    ],
)
@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("import conf", "conf.WORKERS"),
        ("import conf\nfrom conf import WORKERS", "WORKERS"),
        ("import conf\nfrom conf import WORKERS as n", "n"),
        ("import conf\nfrom conf import *", "WORKERS"),
        ("import conf\nfrom conf import make", "make()"),
    ],
)
@pytest.mark.parametrize("where", ["script", "module"])
def test_a_name_of_a_module_that_others_set(
    tmp_path: Path, change: str, expected: object, head: str, asked: str, where: str
) -> None:
    conf = "WORKERS = 0\nLR = 0.1\ndef make():\n    return WORKERS\n"
    if where == "script":
        assert workers(tmp_path, f"{head}\n{change}", asked, conf=conf) == expected
    else:
        assert workers(tmp_path, f"import tune\n{head}", asked, conf=conf, tune=f"import conf\n{change}") == expected


def test_a_module_that_sets_its_own_names_by_globals(tmp_path: Path) -> None:
    assert workers(tmp_path, "from conf import WORKERS", "WORKERS", conf="WORKERS = 0") == 0
    conf = "WORKERS = 0\nglobals().update(read())"
    assert workers(tmp_path, "from conf import WORKERS", "WORKERS", conf=conf) == "unknown"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("globals()['OTHER'] = 8\nprint(globals())", 0),
        ("globals()['WORKERS'] = 8", "unknown"),
        ("globals().update(vars(args))", "unknown"),
        ("def change():\n    globals()['WORKERS'] = 8\nchange()", "unknown"),
    ],
)
def test_a_script_alone_that_sets_its_own_names_by_globals(tmp_path: Path, change: str, expected: object) -> None:
    assert workers(tmp_path, f"WORKERS = 0\n{change}", "WORKERS") == expected


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("from .inner import conf", 0),
        ("from .inner.conf import cfg\ncfg['other'] = 8\nfrom .inner import conf\nconf.OTHER = 8", 0),
        ("from .inner.conf import cfg\ncfg['workers'] = 8", "unknown"),
        ("from .inner import conf\nconf.cfg['workers'] = 8", "unknown"),
        ("from .inner import conf\nconf.WORKERS = 8", "unknown"),
    ],
)
def test_a_package_that_an_import_of_its_module_runs(tmp_path: Path, package: str, expected: object) -> None:
    (tmp_path / "p/inner").mkdir(parents=True)
    (tmp_path / "p/__init__.py").write_text(package)
    (tmp_path / "p/inner/conf.py").write_text("WORKERS = 0\ncfg = {'workers': 0}\n")
    asked = "WORKERS" if "WORKERS" in package else "cfg['workers']"
    assert workers(tmp_path, "from p.inner.conf import WORKERS, cfg", asked) == expected


@pytest.mark.parametrize("asked", ['cfg["workers"]', 'cfg.get("workers", 4)'])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("del cfg['other']", 0),
        ("del cfg['workers']", "unknown"),
        ("if fast:\n    del cfg['workers']", "unknown"),
        ("for name in read():\n    del cfg[name]", "unknown"),
    ],
)
def test_a_key_that_the_script_deletes(tmp_path: Path, change: str, expected: object, asked: str) -> None:
    assert workers(tmp_path, f"cfg = {{'workers': 0, 'other': 1}}\n{change}", asked) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("for key, section in cfg.items():\n    print(section['workers'])", 0),
        ("for key, section in cfg.items():\n    section['other'] = 8", 0),
        ("for section in other.values():\n    section['workers'] = 8", 0),
        ("for value in cfg['data'].values():\n    value['workers'] = 8", 0),
        ("for key, section in cfg.items():\n    section['workers'] = 8", "unknown"),
        ("for section in cfg.values():\n    section.update(read())", "unknown"),
        ("for key in cfg:\n    cfg[key]['workers'] = 8", "unknown"),
    ],
)
def test_sections_of_a_file_that_a_loop_changes(tmp_path: Path, change: str, expected: object) -> None:
    head = f"import yaml\ncfg = yaml.safe_load(open('base.yaml'))\nother = {{'data': {{}}}}\n{change}"
    assert workers(tmp_path, head, "cfg['data']['workers']", **BASE) == expected


@pytest.mark.parametrize(("change", "expected"), [("", 0), ('cfg["workers"] = 8', "unknown")])
def test_a_loader_that_the_changed_module_makes_itself(tmp_path: Path, change: str, expected: object) -> None:
    conf = """
    cfg = {"workers": 0}
    def number():
        return cfg["workers"]
    """
    head = f"from conf import cfg, number\n{change}"
    assert workers(tmp_path, head, "number()", conf=conf) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [("Config()", 0), ("Config(lr=1)", 0), ("Config(workers=8)", "unknown"), ("Config(**read())", "unknown")],
)
def test_a_constructor_that_sets_what_it_is_given(tmp_path: Path, made: str, expected: object) -> None:
    conf = """
    class Config:
        workers = 0
        def __init__(self, **given):
            self.__dict__.update(given)
    """
    assert workers(tmp_path, f"from conf import Config\ncfg = {made}", "cfg.workers", conf=conf) == expected


@pytest.mark.parametrize(("call", "expected"), [("", 0), ("cfg.take(read())", "unknown")])
def test_a_method_that_sets_what_it_is_given(tmp_path: Path, call: str, expected: object) -> None:
    conf = """
    class Config:
        workers = 0
        def take(self, given):
            for name, value in given.items():
                setattr(self, name, value)
    cfg = Config()
    """
    assert workers(tmp_path, f"from conf import cfg\n{call}", "cfg.workers", conf=conf) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", 0),
        ("conf.options['workers'] = 8", "unknown"),
        ("conf.options.update(read())", "unknown"),
        ("conf.options['pin_memory'] = True", 0),
    ],
)
@pytest.mark.parametrize("held", ['{"num_workers": 0}', 'yaml.safe_load(open("base.yaml"))["data"]'])
def test_options_that_are_unpacked(tmp_path: Path, held: str, change: str, expected: object) -> None:
    change = change.replace("'workers'", "'num_workers'")
    conf = f"""
    import yaml
    from torch.utils.data import DataLoader
    options = {held}
    def make(rows):
        return DataLoader(rows, **options)
    """
    head = f"import conf\nfrom conf import make\n{change}"
    files = {"conf": conf, "base_yaml": "data:\n  num_workers: 0\n"}
    train = TRAIN.replace("DataLoader(rows, num_workers={workers})", "make(rows)")
    (tmp_path / "train.py").write_text(train.format(head=head))
    for name, text in files.items():
        (tmp_path / (name.replace("_yaml", ".yaml") if "_" in name else f"{name}.py")).write_text(textwrap.dedent(text))
    found = {one.name: one.value for bundle in scan([tmp_path], root=tmp_path).bundles for one in bundle.settings}
    assert found.get("loader.num_workers", "unknown") == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", 0),
        ("args.dataloader_num_workers = 8", "unknown"),
        ("setattr(args, 'dataloader_num_workers', 8)", "unknown"),
        ("for name, value in read():\n    setattr(args, name, value)", "unknown"),
        ("args.set_dataloader(num_workers=8)", "unknown"),
        ("args.learning_rate = 1.0", 0),
        ("args.get_process_log_level()\nargs.to_dict().update(a=1)", 0),
    ],
)
def test_arguments_of_a_trainer_that_another_module_made(tmp_path: Path, change: str, expected: object) -> None:
    (tmp_path / "conf.py").write_text(
        "from transformers import TrainingArguments\nargs = TrainingArguments('out', dataloader_num_workers=0)\n"
    )
    (tmp_path / "train.py").write_text(
        f"from transformers import Trainer\nfrom conf import args\n{change}\nTrainer(model, args).train()\n"
    )
    found = {one.name: one.value for bundle in scan([tmp_path], root=tmp_path).bundles for one in bundle.settings}
    assert found.get("loader.num_workers", "unknown") == expected


@pytest.mark.parametrize("work", ["fabric.setup(model)", "fabric.load(path)", "fabric.set_it()", "fabric.clear()"])
def test_an_object_of_a_library_that_does_its_work_keeps_what_it_got(tmp_path: Path, work: str) -> None:
    text = f"from lightning import Fabric\nfabric = Fabric(precision='bf16-true')\n{work}\n"
    step = "for x in rows:\n    loss = model(x)\n    fabric.backward(loss)\n    optimizer.step()\n"
    (tmp_path / "train.py").write_text(text + step)
    found = {one.name: one.value for bundle in scan([tmp_path], root=tmp_path).bundles for one in bundle.settings}
    assert found["train.precision"] == "bf16"
