"""Reads small scripts for the tests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from autotune.catalogue.coercion import literal
from autotune.model.evidence import Location, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.scan.read_script import ScannedScript, read_script
from autotune.syntax import python

LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(4, 4)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, batch_size=8):
    {body}
"""
"""A training loop; `body` stands for what each step does."""


def scan(code: str, flags: Mapping[str, str | bool] | None = None, *, is_module: bool = False) -> ScannedScript:
    """The script; a flag is True or False where it stands alone."""
    given = {name: _flag(name, value) for name, value in (flags or {}).items()}
    data = textwrap.dedent(code).encode()
    source = python.read(data, "train.py")
    return read_script(source, "train.py", None if flags is None else given, is_module=is_module)


def _flag(name: str, value: str | bool) -> WrittenValue:
    at = Location("run.sh", 1)
    return (
        WrittenValue(name, value, at) if isinstance(value, bool) else WrittenValue(name, literal(value), at, text=value)
    )


def loop_code(body: str, before: str = "") -> str:
    """The code of a script whose loop has `body`, with more code before it."""
    lines = textwrap.dedent(body).strip().splitlines()
    return textwrap.dedent(before) + LOOP.replace("    {body}", "\n".join(f"    {line}" for line in lines))


def looped(body: str, before: str = "") -> ScannedScript:
    """The script of loop_code."""
    return scan(loop_code(body, before))


def call_of(script: ScannedScript, name: str) -> ConsumerCall:
    (found,) = [call for call in script.calls if call.name == name]
    return found


def given(code: str, flags: Mapping[str, str | bool] | None = None, name: str = "x") -> WrittenValue:
    """What the argument `x` of the only DataLoader is."""
    script = scan("from torch.utils.data import DataLoader\n" + textwrap.dedent(code), flags)
    return call_of(script, "DataLoader").arguments[name]


def value(code: str, flags: Mapping[str, str | bool] | None = None) -> Value | str | None:
    """Its value, "unknown" when it is not known."""
    found = given(code, flags)
    return found.value if found.known else "unknown"


def facts(script: ScannedScript) -> dict[str, Value]:
    return {fact.name: fact.value for fact in script.facts}


def lines(script: ScannedScript, name: str) -> list[int]:
    """The lines that show a fact."""
    (fact,) = [fact for fact in script.facts if fact.name == name]
    return [place.line for place in fact.places]
