"""Repositories that are checked as CI would."""

from __future__ import annotations

from pathlib import Path

import pytest

FAULTY = """\
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments(output_dir="out", evaluation_strategy="steps", group_by_length=True)
Trainer(model=None, args=arguments).train()
"""
HEALTHY = """\
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments(output_dir="out", bf16=True, dataloader_num_workers=4)
Trainer(model=None, args=arguments).train()
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository without files."""
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def faulty(repository: Path) -> Path:
    """One whose script gives arguments that the declared transformers does not know."""
    (repository / "train.py").write_text(FAULTY)
    (repository / "requirements.txt").write_text("transformers==5.23.0\n")
    return repository


@pytest.fixture
def healthy(repository: Path) -> Path:
    """One with nothing grave in it."""
    (repository / "train.py").write_text(HEALTHY)
    return repository


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    """The runner's own folder."""
    folder = tmp_path / "runner temp"
    folder.mkdir()
    return folder
