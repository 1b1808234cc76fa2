"""What Trainers can do, by their class: trainers.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def packing() -> Mapping[str, bool]:
    """Whether a Trainer ("package.Class") can put several samples into one row; one that is not named cannot."""
    text = resources.files("autotune.catalogue").joinpath("trainers.toml").read_text(encoding="utf-8")
    return {name: row["packs"] for name, row in tomllib.loads(text).items()}
