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
    def note(self, look, file=None):
        found = look()
        if file is not None:
            file.write("a line")
        return found

def train(look, name):
    return getattr(Diary(), name)(look)
"""


@pytest.mark.parametrize(
    ("name", "path", "writers"),
    [
        ("keep", "train > Diary.keep > Diary.spread", ""),
        ("note", "train > Diary.note", "Diary.note"),
    ],
)
def test_the_users_functions_and_those_that_write_lines(monkeypatch, name, path, writers):
    monkeypatch.setattr(sites, "is_user", lambda file: file == "train.py")
    made = {}
    exec(compile(SCRIPT, "train.py", "exec"), made)
    found = made["train"](lambda: sampler.path(sys._getframe()), name)
    assert found == (path, writers)
