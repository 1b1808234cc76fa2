"""dialects/<framework>.toml: how each framework spells each canonical setting, by version.

framework = "hf_trainer"          the name that the fact run.framework has
package = "transformers"          whose version `since` and `before` mean
call = "TrainingArguments"        whose argument a key is; an entry may name its own
extends = "other"                 entries that this dialect does not have are those of the other

["loader.num_workers"]
key = "dataloader_num_workers"

["train.activation_checkpointing"]                      by version, `before` excluded:
versions = [{ before = "5.23", key = "gradient_checkpointing" }, { since = "5.23", key = "activation_checkpointing" }]

["train.precision"]                                      canonical values that are written in another way:
key = "bf16"
values = { bf16-mixed = { bf16 = true }, fp32 = { bf16 = false, fp16 = false } }

["data.packing"]
missing = "why this dialect has no such key"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from autotune.catalogue.vocabulary import read
from autotune.model.evidence import Value

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spelling:
    """`key` is an argument of `call`, or a function that takes the value when `call` is empty; `note`: what to mind.

    `values` holds the arguments of every canonical value that is not written as `key` = value.
    """

    key: str
    call: str = ""
    note: str = ""
    values: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)

    def arguments(self, value: Value) -> Mapping[str, Value]:
        """What to write so that the setting is `value`, by key."""
        name = str(value).lower() if isinstance(value, bool) else str(value)
        return self.values.get(name, {self.key: value})

    def written(self, value: Value) -> str:
        """The key; with its value where that is not written as it is: "bf16=True"."""
        arguments = self.arguments(value)
        if arguments == {self.key: value}:
            return self.key
        return ", ".join(f"{key}={one!r}" for key, one in arguments.items())


def spelling(framework: str, setting: str, versions: Mapping[str, Version]) -> Spelling | None:
    """How `framework` (a value of run.framework) spells `setting`, given versions by package; None without a key.

    A package whose version is unknown is taken to be the newest.
    """
    entry, dialect = _entry(framework, setting)
    installed = versions.get(dialect.get("package", ""))
    for row in entry.get("versions", [entry] if "key" in entry else []):
        if _covers(row, installed):
            return Spelling(
                key=row["key"],
                call=row.get("call", entry.get("call", dialect.get("call", ""))),
                note=row.get("note", entry.get("note", "")),
                values=row.get("values", entry.get("values", {})),
            )
    return None


def why_missing(framework: str, setting: str) -> str:
    """Why `framework` has no key for `setting`; "" when it has one or is not known."""
    return str(_entry(framework, setting)[0].get("missing", ""))


@cache
def dialects() -> Mapping[str, Mapping[str, Any]]:
    """Every dialect file, parsed, by its name without the suffix."""
    folder = files("autotune.catalogue").joinpath("dialects")
    names = sorted(one.name for one in folder.iterdir() if one.name.endswith(".toml"))
    return MappingProxyType({name.removesuffix(".toml"): read(f"dialects/{name}") for name in names})


def _entry(framework: str, setting: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The entry of `setting` and the dialect that has it, looking through what the framework's dialect extends."""
    dialect = next((rows for rows in dialects().values() if framework in rows["frameworks"]), {})
    while setting not in dialect and "extends" in dialect:
        dialect = dialects()[dialect["extends"]]
    return dialect.get(setting, {}), dialect


def _covers(row: Mapping[str, Any], installed: Version | None) -> bool:
    if installed is None:
        return "before" not in row
    since, before = (_version(row[key]) if key in row else None for key in ("since", "before"))
    return (since is None or installed >= since) and (before is None or installed < before)


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))
