from __future__ import annotations

import pytest

from autotune.machine import proc_files


@pytest.mark.parametrize(
    ("content", "number"), [("12\n", 12), ("-1\n", -1), ("max\n", None), ("", None), ("12 13", None)]
)
def test_number(tmp_path, content, number):
    (tmp_path / "f").write_text(content)
    assert proc_files.number(tmp_path / "f") == number


def test_a_missing_file_is_none_and_an_empty_one_is_empty(tmp_path):
    (tmp_path / "empty").write_text("\n")
    assert proc_files.text(tmp_path / "missing") is None
    assert proc_files.text(tmp_path) is None
    assert proc_files.text(tmp_path / "empty") == ""
    assert proc_files.number(tmp_path / "missing") is None
    assert proc_files.table(tmp_path / "missing") == {}


def test_table_leaves_out_what_is_no_count(tmp_path):
    (tmp_path / "stat").write_text("nr_periods 10\nslab max\nlone\noom_kill 2 3\nbalance -4\n")
    assert proc_files.table(tmp_path / "stat") == {"nr_periods": 10, "balance": -4}
