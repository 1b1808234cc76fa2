"""facts.toml and settings.toml as frozen records."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from autotune.model.rule import Effect

KINDS = ("bool", "int", "float", "text", "version", "share", "ms", "s", "bytes", "per_s")
"""The types of facts and settings."""

SUBJECTS = ("run", "loader", "optimizer", "rank")
"""What a fact, a setting or a rule can belong to."""


@dataclass(frozen=True, slots=True)
class FactEntry:
    """What the catalogue says about a fact. `supplier` is the module that states it."""

    name: str
    subject: str
    type: str
    meaning: str
    supplier: str


@dataclass(frozen=True, slots=True)
class EffectWhen:
    """The effect of changing a setting while the condition `when` holds."""

    when: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """What the catalogue says about a setting: the first `effect_when` that holds replaces `effect`."""

    name: str
    subject: str
    type: str
    meaning: str
    effect: Effect
    effect_when: tuple[EffectWhen, ...] = ()


def read(name: str) -> dict[str, Any]:
    """A TOML file of this package, parsed."""
    return tomllib.loads(files("autotune.catalogue").joinpath(name).read_text(encoding="utf-8"))


@cache
def facts() -> Mapping[str, FactEntry]:
    """Every fact by name."""
    return MappingProxyType({name: FactEntry(name, **row) for name, row in read("facts.toml").items()})


@cache
def settings() -> Mapping[str, SettingEntry]:
    """Every setting by its canonical name."""
    return MappingProxyType({name: _setting(name, row) for name, row in read("settings.toml").items()})


def _setting(name: str, row: Mapping[str, Any]) -> SettingEntry:
    effects = tuple(EffectWhen(one["when"], Effect(one["effect"])) for one in row.get("effect_when", ()))
    plain = {key: row[key] for key in ("subject", "type", "meaning")}
    return SettingEntry(name, **plain, effect=Effect(row["effect"]), effect_when=effects)


@cache
def kinds() -> Mapping[str, str]:
    """The type of every fact and setting."""
    of_facts = {name: entry.type for name, entry in facts().items()}
    return MappingProxyType(of_facts | {name: entry.type for name, entry in settings().items()})


def names() -> tuple[str, ...]:
    """Every fact and setting, in the order of the files."""
    return tuple(kinds())


def near(name: str) -> str | None:
    """The fact or setting that `name` was probably meant to be, or None."""
    return next(iter(get_close_matches(name, names(), n=1, cutoff=0.7)), None)
