"""What of a project is not its own training."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.check.foreign_code import places_aside

OURS, THEIRS = "Apache License, Version 2.0", "MIT License"


def project(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "file", "reason"),
    [
        ({"LICENSE": OURS}, "tests/train.py", "in tests/"),
        ({"LICENSE": OURS}, "train.py", ""),
        ({"LICENSE": OURS}, "legacy/train.py", ""),  # it may be what the project trains with
        ({"LICENSE": OURS}, "experimental/debug/train.py", ""),
        (
            {"LICENSE": OURS, "lib/other/LICENSE": THEIRS},
            "lib/other/src/train.py",
            "lib/other/ has a license of its own",
        ),
        ({"LICENSE": OURS, "lib/other/LICENSE": THEIRS}, "lib/train.py", ""),
        ({"LICENSE": OURS, "part/LICENSE": f" {OURS}\n"}, "part/train.py", ""),
        ({"part/LICENSE": THEIRS}, "part/train.py", ""),
        ({"LICENSE": OURS, "part/LICENSE": ""}, "part/train.py", ""),
        ({"lib/t/setup.py": 'setup(\n    name="trl",\n)'}, "lib/t/trainer/sft.py", "lib/t/ is a copy of trl"),
        (
            {"lib/t/setup.cfg": "[metadata]\nname = open_clip_torch\n"},
            "lib/t/a.py",
            "lib/t/ is a copy of open-clip-torch",
        ),
        ({"lib/t/setup.py": 'setup(\n    name="ours",\n)'}, "lib/t/a.py", ""),
        ({"lib/t/setup.py": 'setup(\n    name="trl",\n)'}, "lib/a.py", ""),
        ({"setup.py": "name = 'trl'", "lib/t/setup.py": "name = 'trl'"}, "lib/t/a.py", ""),  # the library itself
        ({"setup.py": "name = 'trl'"}, "trl/a.py", ""),
    ],
)
def test_other_projects_code(tmp_path: Path, files: dict[str, str], file: str, reason: str) -> None:
    assert places_aside(project(tmp_path, files))(file) == reason
