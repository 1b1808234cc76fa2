from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from overlaid import Project

import autotune
from autotune.probe.isolate import unisolated_writes


class World:
    def __init__(self, free):
        self._free = free

    def place(self, path):
        return path

    def is_free(self, path):
        return path == self._free


class Isolated:
    def __init__(self):
        self.named = []

    def not_isolated(self, text):
        self.named.append(text)


@pytest.fixture
def connected(tmp_path):
    isolated = Isolated()
    names = unisolated_writes._Names(World(str(tmp_path / "free.db")), isolated)
    connection = names.of_statements(sqlite3.connect)(":memory:")
    yield connection, isolated
    connection.close()


def test_a_database_that_a_literal_attaches_is_named(connected, tmp_path):
    connection, isolated = connected
    connection.execute(f"attach '{tmp_path / 'other.db'}' as a")
    assert isolated.named == [f"sqlite3 ATTACH: {tmp_path / 'other.db'}"]


def test_a_database_that_a_parameter_attaches_is_named_without_its_path(connected, tmp_path):
    connection, isolated = connected
    connection.execute("attach ? as a", (str(tmp_path / "other.db"),))
    assert isolated.named == ["sqlite3 ATTACH: a database that a parameter of the statement names"]


def test_what_may_be_written_and_databases_in_memory_are_not_named(connected, tmp_path):
    connection, isolated = connected
    connection.execute(f"attach '{tmp_path / 'free.db'}' as a")
    connection.execute("attach ':memory:' as b")
    connection.execute("create table a.t(x)")
    assert isolated.named == []


NAMED = """
import json, os, sys
from autotune.probe.isolate import unisolated_writes

class World:
    place = staticmethod(os.path.realpath)

    def is_free(self, place):
        return False

class Isolated:
    named = []

    def not_isolated(self, text):
        self.named.append(text)

unisolated_writes.install(World(), Isolated())
import autotune.probe.what_ifs, autotune.probe.window
for path in sys.argv[1:]:
    open(path, "a").close()
print(json.dumps(Isolated.named))
"""


@pytest.mark.parametrize("has_prefix", [False, True])
def test_the_bytecode_of_the_probe_is_no_write_of_the_script(tmp_path, has_prefix):
    package = tmp_path / "tool/autotune"
    shutil.copytree(Path(autotune.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    kept = tmp_path / "bytecode" if has_prefix else package
    variables = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": ""}
    variables |= {"PYTHONPYCACHEPREFIX": str(kept)} if has_prefix else {}
    others = [str(package / "probe/window.py"), str(tmp_path / "__pycache__")]
    done = subprocess.run(
        [sys.executable, "-c", NAMED, *others], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert list(kept.rglob("window.*.pyc"))
    assert json.loads(done.stdout) == [f"a write below the hooks: {path}" for path in others]


def test_a_write_that_the_overlay_holds_is_no_write_below_it(tmp_path):
    report, _ = Project(tmp_path).run(
        """
        import io, os, pathlib, posix
        open("a", "w").write("x")
        io.open("b", "a").write("x")
        pathlib.Path("c").write_text("x")
        os.close(os.open("d", os.O_CREAT | os.O_WRONLY))
        posix.mkdir("e")
        posix.rmdir("e")
    """
    )
    assert [row["what"] for row in report["not_isolated"]] == ["a write below the hooks: e (2 times)"]
    assert report["redirected"] != []
