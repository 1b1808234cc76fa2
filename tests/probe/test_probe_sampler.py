"""What a sample says of the user's functions on a stack."""

from __future__ import annotations

import sys

import pytest

from autotune.probe import sampler, sites

SCRIPT = """
class Diary:
    def keep(self, look):
        return self.spread(look)
    def spread(self, look):
        return look()
    def note(self, look):
        line = look()
        self.file.write(look()) if line is None else line
        return line

def train(look, name):
    return getattr(Diary(), name)(look)
"""


def test_the_users_functions_of_a_stack(monkeypatch):
    monkeypatch.setattr(sites, "is_user", lambda file: file == "train.py")
    made = {}
    exec(compile(SCRIPT, "train.py", "exec"), made)
    assert made["train"](lambda: sampler.path(sys._getframe()), "keep") == "train > Diary.keep > Diary.spread"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("self.file.write(json.dumps(row))", True),
        ("csv.writer(file).writerow(row)", True),
        ("json.dump(row, file)", True),
        ("loss.backward()", False),
        ("rewrite(row)", False),
        ("", False),
    ],
)
def test_a_line_that_writes(tmp_path, line, expected):
    path = tmp_path / "train.py"
    path.write_text(f"x = 1\n{line}\n", encoding="utf-8")
    assert sampler.writes(("json/encoder.py", "encode", str(path), 2, "keep")) is expected


def test_without_a_line_of_the_users_nothing_writes():
    assert sampler.writes(("torch/x.py", "f", "", 0, "")) is False
