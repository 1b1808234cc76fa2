"""autotune report: a stored Recording in, each format out; nothing runs."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from autotune.cli import run
from autotune.report import formats

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
STARTS = {"text": "Input-bound", "json": '{"schema": 1', "markdown": "# Training speed", "html": "<!doctype html>"}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an H100: images are decoded in the training process."""
    file = tmp_path_factory.mktemp("recording") / "decoded_images.json"
    file.write_bytes(gzip.decompress((RECORDINGS / "decoded_images.json.gz").read_bytes()))
    return file


@pytest.mark.parametrize("format_", formats("diagnose"))
def test_each_format_of_a_recording(format_: str, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(recording), "--format", format_]) == 0
    text = capsys.readouterr().out
    assert text.startswith(STARTS[format_])
    assert "DL001" in text and "decoded_images" in text


def test_the_page_of_a_real_run_is_small_and_shows_the_device(recording: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run(["report", str(recording), "--format", "html", "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert len(text) < 150_000
    assert "Three steps in time" in text and ">device</text>" in text and 'class="busy"' in text


def test_verbose_says_why_something_was_not_looked_at(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["report", str(recording)])
    short = capsys.readouterr().out
    run(["report", str(recording), "--verbose"])
    whole = capsys.readouterr().out
    assert "(--verbose: why)" in short and "(--verbose: why)" not in whole
    assert len(whole.splitlines()) > len(short.splitlines())


def test_next_and_expected_are_there_for_programs(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["report", str(recording), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [one["numbers"] for one in found["expected"]] == [[1]]
    assert found["expected"][0]["limit_ms"] is None and found["expected"][0]["why_not"] == "the gain is an upper bound"
    assert all(one["command"].startswith("autotune ") for one in found["next"])


def test_without_jinja2_the_page_says_what_to_install(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, *more: object) -> object:
        return None if name == "jinja2" else real(name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("autotune.report.html.page.find_spec", find_spec)
    monkeypatch.setattr("autotune.requirements.find_spec", find_spec)
    assert run(["report", str(recording), "--format", "html"]) == 2
    assert "not installed: jinja2" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(tmp_path / "gone")]) == 2
    assert "there is no such run or recording" in capsys.readouterr().err
