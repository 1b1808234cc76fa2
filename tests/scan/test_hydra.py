"""The files that a script of Hydra's puts together, and what the command says instead."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from autotune.model.evidence import Location, Setting
from autotune.model.scanned import TYPED
from autotune.scan.command import scan_command
from autotune.scan.hydra import hydra_values
from autotune.scan.launch import launches
from autotune.scan.library import Library
from autotune.syntax import shell

SCRIPT = """\
import hydra
import torch

@hydra.main(version_base=None, config_path="../configs", config_name="train")
def main(cfg):
    model = torch.nn.Linear(2, 2)
    loss = model(torch.ones(2)).sum()
    loss.backward()

main()
"""
DATA = "_target_: data.Images\nbatch_size: 32\nnum_workers: {}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "src/train.py": SCRIPT,
        "configs/train.yaml": "defaults:\n  - _self_\n  - data: images\n  - logger: null\nseed: 1\n",
        "configs/data/images.yaml": DATA.format(0),
        "configs/data/text.yaml": "defaults:\n  - images\nnum_workers: 3\n",
        "configs/data/large.yaml": DATA.format(8),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def workers(project: Path, *words: str) -> Setting | None:
    bundle = scan_command(["src/train.py", *words], cwd=project, root=project, versions={})
    assert bundle is not None
    return next((one for one in bundle.settings if one.name == "loader.num_workers"), None)


def place(setting: Setting | None) -> Location:
    assert setting is not None
    assert setting.location is not None
    return setting.location


def test_the_file_of_a_group_gives_its_values(project: Path) -> None:
    found = workers(project)
    assert (place(found).file, place(found).line) == (str(project / "configs/data/images.yaml"), 3)
    assert found.value == 0
    assert found.feeds is None


def test_the_command_chooses_another_file(project: Path) -> None:
    found = workers(project, "data=large")
    assert place(found).file == str(project / "configs/data/large.yaml")
    assert found.value == 8


def test_a_value_of_the_command_wins_over_the_file(project: Path) -> None:
    found = workers(project, "data.num_workers=4")
    assert (place(found).file, place(found).key, found.value) == (TYPED, "data.num_workers", 4)


def test_a_name_that_is_too_long_for_a_folder_chooses_no_file(project: Path) -> None:
    assert workers(project, f"+{'a' * 300}=1").value == 0


def test_an_interpolation_is_followed_to_what_the_command_says(project: Path) -> None:
    (project / "configs/data/images.yaml").write_text(DATA.format("${seed}"))
    found = workers(project, "seed=0")
    assert (place(found).file, place(found).key, found.value) == (TYPED, "seed", 0)
    found = workers(project)
    assert (place(found).file, place(found).key, found.value) == (str(project / "configs/train.yaml"), "seed", 1)


def test_a_script_without_hydra_has_no_such_configs(project: Path) -> None:
    (project / "src/train.py").write_text(SCRIPT.replace("@hydra.main", "@other.main"))
    bundle = scan_command(["src/train.py"], cwd=project, root=project, versions={})
    assert bundle is None or not bundle.settings


def test_defaults_that_name_each_other_end(project: Path) -> None:
    (project / "configs/data/images.yaml").write_text("defaults:\n  - images\n" + DATA.format(2))
    assert workers(project).value == 2


FILES = {
    "train": "defaults:\n  - data: images\n  - model: small\n  - experiment: null\ndata:\n  n: 9\nk: 1\n",
    "first": "defaults:\n  - _self_\n  - data: images\n  - model: small\n  - optional local: none\n"
    "data:\n  n: 9\nk: 1\n",
    "registered": "defaults:\n  - data: images\n  - base_config\n  - _self_\nk: 1\n",
    "chosen": "defaults:\n  - data: ${name}\nname: text\n",
    "several": "defaults:\n  - parts: [one, two]\n  - data: text\n  - _self_\n",
    "data/images": "defaults:\n  - sub: a\nn: 0\nd: 1\n",
    "data/text": "defaults:\n  - images\nn: 3\n",
    "data/sub/a": "x: 1\nn: 7\n",
    "data/sub/b": "x: 2\n",
    "parts/one": "p: 1\nq: 1\n",
    "parts/two": "p: 2\n",
    "model/small": "defaults:\n  - net: base\nw: 1\n",
    "model/large": "defaults:\n  - small\n  - /data/sub: b\nw: 2\n",
    "model/net/base": "q: 1\n",
    "model/net/wide": "q: 2\n",
    "model/placed": "# @package other\nw: 3\n",
    "experiment/fast": "# @package _global_\ndefaults:\n  - override /data: text\n  - override /model/net: wide\n"
    "data:\n  n: 8\nk: 2\n",
    "experiment/plain": "k: 5\n",
    "linked": "defaults:\n  - linked: own\n  - _self_\nk: 8\nn: ${linked.v}\nr: ${oc.env:HOME}\nt: ${linked}\n"
    "own:\n  p: 1\nq: ${own.p}\n",
    "linked/own": "k: 1\nv: 2\nw: ${k}\nrelative: ${.v}\n",
}
"""Configs that Hydra puts together as CASES says."""

LINKED = {"k": 8, "n": 2, "linked.k": 1, "linked.v": 2, "linked.w": 8, "linked.relative": 2, "own.p": 1, "q": 1}

DEFAULT = {"data.sub.x": 1, "data.sub.n": 7, "data.n": 9, "data.d": 1, "model.net.q": 1, "model.w": 1, "k": 1}

CASES = [
    ("train", "", DEFAULT),
    ("train", "data/sub=b", {"data.sub.x": 2, "data.n": 9, "data.d": 1, "model.net.q": 1, "model.w": 1, "k": 1}),
    ("train", "experiment=fast", {**DEFAULT, "model.net.q": 2}),
    ("train", "experiment=fast data=images", {**DEFAULT, "model.net.q": 2}),
    ("train", "model=large", {**DEFAULT, "model.w": 2, "model.data.sub.x": 2}),
    ("train", "model=large model/net=wide", {**DEFAULT, "model.w": 2, "model.data.sub.x": 2, "model.net.q": 2}),
    ("train", "experiment=plain", {**DEFAULT, "experiment.k": 5}),
    ("first", "", {**DEFAULT, "data.n": 0}),
    ("first", "data=text", {**DEFAULT, "data.n": 3}),
    ("first", "+experiment=fast", {**DEFAULT, "data.n": 8, "k": 2, "model.net.q": 2}),
    ("first", "+experiment=fast data=images model/net=base", {**DEFAULT, "data.n": 8, "k": 2}),
    ("first", "+experiment=plain", {**DEFAULT, "data.n": 0, "experiment.k": 5}),
    ("several", "", {"parts.p": 2, "parts.q": 1, "data.sub.x": 1, "data.sub.n": 7, "data.n": 3, "data.d": 1}),
    (
        "several",
        "parts=[one]",
        {"parts.p": 1, "parts.q": 1, "data.sub.x": 1, "data.sub.n": 7, "data.n": 3, "data.d": 1},
    ),
]

UNKNOWN = [
    ("registered", "", {"k": 1}),
    ("chosen", "", {}),
    ("train", "model=placed", {}),
    ("train", "~model", {}),
    ("train", "data=images,text", {}),
    ("train", "--config-name=first", {}),
    ("train", "--multirun", {}),
    ("train", "data@other=text", {}),
    ("linked", "", LINKED),
    ("linked", "k=0", {**LINKED, "k": 0, "linked.w": 0}),
    ("linked", "linked.v=5", {**LINKED, "n": 5, "linked.v": 5, "linked.relative": 5}),
    ("linked", "k=null", {key: value for key, value in LINKED.items() if key not in ("k", "linked.w")}),
    ("linked", "~k", {key: value for key, value in LINKED.items() if key not in ("k", "linked.w")}),
    ("linked", "linked=null", {"k": 8, "own.p": 1, "q": 1}),
    ("linked", "own=null", {key: value for key, value in LINKED.items() if key not in ("own.p", "q")}),
]
"""What decides here is not read: no value is said, or those alone that nothing can change."""


@pytest.mark.parametrize(("primary", "typed", "expected"), [*CASES, *UNKNOWN])
def test_what_is_put_together(tmp_path: Path, primary: str, typed: str, expected: dict[str, object]) -> None:
    for name, text in FILES.items():
        (tmp_path / "configs" / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "configs" / f"{name}.yaml").write_text(text)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(SCRIPT.replace('config_name="train"', f'config_name="{primary}"'))
    command = shell.read(f"python src/train.py {typed}".encode(), "run.sh")
    (launch,) = launches(command, "run.sh")
    library = Library(tmp_path, {})
    script = library.find("src/train.py", "", ("python",), is_wanted=True)
    found = hydra_values(library, script, launch.flags)
    assert {key: one.value for key, one in found.items() if one.known and key != "name"} == expected


@pytest.mark.skipif(find_spec("hydra") is None, reason="needs Hydra")
@pytest.mark.parametrize(("primary", "typed", "expected"), CASES)
def test_hydra_puts_together_the_same(tmp_path: Path, primary: str, typed: str, expected: dict[str, object]) -> None:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)
    with initialize_config_dir(config_dir=str(tmp_path), version_base=None):
        made = OmegaConf.to_container(compose(primary, overrides=typed.split()))
    assert dict(flat(made)) == expected


def flat(held: dict, before: str = "") -> Iterator[tuple[str, object]]:
    for key, value in held.items():
        yield from flat(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]
