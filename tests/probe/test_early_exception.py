"""The note of a process that ended before torch came."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autotune import probe


@pytest.mark.train
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import no_such.thing", ["ModuleNotFoundError", "no_such", sys.executable]),
        ("raise ValueError('private text')", ["ValueError", "", sys.executable]),
        ("raise SystemExit(2)", ["", "", sys.executable]),
        ("print(1)", ["", "", sys.executable]),
    ],
)
def test_what_ends_a_process_before_torch_comes_is_noted(tmp_path, code, expected):
    request = tmp_path / "request.json"
    request.write_text(
        json.dumps(
            {"run_dir": str(tmp_path), "isolate": None, "frameworks": [], "startup_entries": [], "notebook": None}
        )
    )
    environ = {"PYTHONPATH": str(Path(probe.__file__).parent / "boot"), "AUTOTUNE_REQUEST": str(request)}
    subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=False)
    notes = [note.read_text().splitlines() for note in tmp_path.glob("raised-*")]
    assert notes == [expected]
