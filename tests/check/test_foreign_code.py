"""What of a project is not its own training."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.check.foreign_code import places_aside
from autotune.model.scanned import Bundle

OURS, THEIRS = "Apache License, Version 2.0", "MIT License"


def project(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def bundle(name: str, *others: str, dialect: str = "torch") -> Bundle:
    return Bundle(name, (name, *others), (dialect,), (), ())


@pytest.mark.parametrize(
    ("files", "file", "reason"),
    [
        ({"LICENSE": OURS}, "tests/train.py", "in tests/"),
        ({"LICENSE": OURS}, "train.py", ""),
        (
            {"LICENSE": OURS, "lib/other/LICENSE": THEIRS},
            "lib/other/src/train.py",
            "lib/other/ has a license of its own",
        ),
        ({"LICENSE": OURS, "lib/other/LICENSE": THEIRS}, "lib/train.py", ""),
        ({"LICENSE": OURS, "part/LICENSE": f" {OURS}\n"}, "part/train.py", ""),
        ({"part/LICENSE": THEIRS}, "part/train.py", ""),
        ({"LICENSE": OURS, "part/LICENSE": ""}, "part/train.py", ""),
    ],
)
def test_other_projects_code(tmp_path: Path, files: dict[str, str], file: str, reason: str) -> None:
    why = places_aside(project(tmp_path, files), [])
    assert why(bundle(file), file) == reason


ONE, TWO = "configs/zero2.json", "configs/zero3.json"


@pytest.mark.parametrize(
    ("texts", "unused"),
    [
        ({"README.md": "deepspeed --config configs/zero3.json"}, {ONE}),
        ({"run.sh": "ds=zero3.json", "other.md": "zero2.json"}, set()),
        ({"README.md": "train it"}, set()),
        ({".git/zero.md": "zero3.json"}, set()),
    ],
)
def test_a_preset_that_nothing_names_beside_one_that_is_named(
    tmp_path: Path, texts: dict[str, str], unused: set[str]
) -> None:
    bundles = [bundle(name, dialect="deepspeed") for name in (ONE, TWO)]
    why = places_aside(project(tmp_path, {ONE: "{}", TWO: "{}", **texts}), bundles)
    assert {one.name for one in bundles if why(one, one.name)} == unused


@pytest.mark.parametrize("other", [bundle(ONE, dialect="axolotl"), bundle(ONE, "train.py", dialect="deepspeed")])
def test_other_configs_are_the_projects_own(tmp_path: Path, other: Bundle) -> None:
    root = project(tmp_path, {ONE: "{}", TWO: "{}", "README.md": "zero3.json"})
    assert places_aside(root, [other, bundle(TWO, dialect="deepspeed")])(other, ONE) == ""


@pytest.mark.parametrize(
    ("texts", "is_unread"),
    [
        ({"README.md": "\u251c\u2500\u2500 sft.yaml"}, True),
        ({"train.py": "parse()"}, True),
        ({"configs/other.yaml": "learning_rate: 1"}, True),
        ({"README.md": "python train.py configs/sft.yaml"}, False),
        ({"train.py": "load('sft.yaml')"}, False),
        ({"run.sh": "python train.py configs/$NAME.yaml"}, False),
        ({"train.py": "os.listdir('configs')"}, False),
        ({"train.py": "open(f'configs/{name}.yaml')"}, False),
    ],
)
def test_a_config_that_no_file_reads(tmp_path: Path, texts: dict[str, str], is_unread: bool) -> None:
    config = bundle("configs/sft.yaml", dialect="hf_trainer")
    why = places_aside(project(tmp_path, {"configs/sft.yaml": "warmup_ratio: 0.1"} | texts), [config])
    assert why(config, "configs/sft.yaml") == ("no file of the project reads it" if is_unread else "")
    assert why(bundle("configs/sft.yaml", "train.py", dialect="hf_trainer"), "configs/sft.yaml") == ""
