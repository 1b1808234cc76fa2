from __future__ import annotations

import sqlite3

import pytest
from overlaid import Project

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
