"""Checks JSON against the schemas beside this file, once, where it comes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any


def check(data: Any, name: str) -> None:
    """Raises ValueError, which names the place, when `data` is not as `<name>.schema.json` says."""
    _compiled(name)(data)


@cache
def _compiled(name: str) -> Callable[[Any], Any]:
    import fastjsonschema  # only what reads a recording needs it

    text = resources.files("autotune.model").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    compiled: Callable[[Any], Any] = fastjsonschema.compile(json.loads(text))
    return compiled
