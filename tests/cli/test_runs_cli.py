"""autotune runs: folders in, each format out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from autotune.cli import run
from autotune.report import formats

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
STARTS = {"table": "when (UTC)", "csv": "began,run,", "json": '{"schema": 1', "prometheus": "# HELP autotune_run_info"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("team")
    folder = root / "one" / ".autotune" / "runs" / "20261101-120000-abcdef"
    folder.mkdir(parents=True)
    data = gzip.decompress((RECORDINGS / "decoded_images.json.gz").read_bytes())
    (folder / "recording-1.json").write_bytes(data)
    (folder / "run.json").write_text("{}")
    return root


@pytest.mark.parametrize("format_", formats("runs"))
def test_each_format(format_: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", str(project), "--format", format_]) == 0
    text = capsys.readouterr().out
    assert text.startswith(STARTS[format_])
    assert ("DL001" in text and "20261101-120000-abcdef" in text) or format_ == "table"


def test_output_is_written(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    assert run(["runs", str(project), "--format", "json", "--output", str(file)]) == 0
    (line,) = json.loads(file.read_text())["jobs"]
    assert line["bound"] == "data_wait" and line["first_fix"] == "DL001"


def test_nothing_to_tell_is_a_mistake_of_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", str(tmp_path)]) == 2
    assert "no diagnosed job was found" in capsys.readouterr().err
