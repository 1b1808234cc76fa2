"""What the tests of the benchmarks share: these are no installed package, and import one another by bare names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def imported(monkeypatch):
    """imported(name): a module of benchmarks/."""
    monkeypatch.setattr(sys, "path", [str(ROOT), str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module
