"""What verify, tune and fit found is read as it was written, and nothing in it is a command to type."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fitted_builders import close, fitted
from tuned_builders import kept, tuned
from verified_builders import verified

from autotune.cli import run
from autotune.errors import UsageError
from autotune.history import results


def test_a_search_comes_back_as_it_was(tmp_path: Path) -> None:
    for found in (tuned(day="2026-11-26", price_per_hour=2.0), kept(verified=None)):
        results.save_search(tmp_path, found)
        assert results.search(tmp_path) == found
    assert results.verification(tmp_path) is None


def test_a_verification_comes_back_without_its_command(tmp_path: Path) -> None:
    results.save_verification(tmp_path, verified(resume_command="rm -r /"))
    assert results.verification(tmp_path) == verified()
    assert results.search(tmp_path) is None


def test_a_plan_comes_back_under_the_name_of_its_folder(tmp_path: Path) -> None:
    results.save_fit(tmp_path, fitted(cards=(close(),), run="; rm -r /"))
    assert results.fit(tmp_path) == fitted(cards=(close(),), run=tmp_path.name)
    assert results.fit(tmp_path / "gone") is None


def test_what_json_has_no_words_for_is_not_kept(tmp_path: Path) -> None:
    results.save_search(tmp_path, tuned(spent_s=float("inf")))
    assert results.search(tmp_path) is None


@pytest.mark.parametrize("text", ["[]", '{"schema": 2}', '{"schema": 1, "space": 3}', "{"])
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / results.SEARCH).write_text(text)
    with pytest.raises(UsageError) as caught:
        results.search(tmp_path)
    assert results.SEARCH in str(caught.value)


@pytest.mark.parametrize("format_", ["text", "json", "markdown", "html"])
def test_report_prints_them_again(format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.save_search(tmp_path, tuned())
    assert run(["report", str(tmp_path), "--format", format_]) == 0
    assert "num_workers" in capsys.readouterr().out
    assert run(["report", str(tmp_path), "--verification"]) == 2
    assert "no verification" in capsys.readouterr().err
    results.save_verification(tmp_path, verified())
    assert run(["report", str(tmp_path), "--verification", "--format", format_]) == 0
    shown = capsys.readouterr().out
    assert "1.5" in shown
    if format_ == "json":
        assert json.loads(shown)["verdict"] == "faster"
