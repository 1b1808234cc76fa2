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


@pytest.mark.parametrize(
    ("start", "file", "reason"),
    [
        ("experimental/train.py", "experimental/train.py", "in experimental/"),
        ("train.py", "jobs/archive/run.sh", "in archive/"),
        ("train.py", "pkg/experimental/model.py", ""),  # a module of a training that stands elsewhere
        ("experiments/train.py", "experiments/train.py", ""),
    ],
)
def test_what_a_project_does_not_train_with_any_more(tmp_path: Path, start: str, file: str, reason: str) -> None:
    assert places_aside(project(tmp_path, {"LICENSE": OURS}), [])(bundle(start), file) == reason
