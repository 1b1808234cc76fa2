"""What the tests of tune share."""

from __future__ import annotations

import pytest
from optuna.storages.journal import _file


@pytest.fixture(autouse=True)
def fast_journal(monkeypatch) -> None:
    """A journal waits for the disk after each line; what these tests see does not depend on it."""
    monkeypatch.setattr(_file.os, "fsync", lambda descriptor: None)
