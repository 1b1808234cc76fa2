"""The vocabulary as data: facts, settings, and how each framework spells a setting."""

from autotune.catalogue.dialects import Spelling, spelling, why_missing
from autotune.catalogue.vocabulary import (
    EffectWhen,
    FactEntry,
    SearchEntry,
    SettingEntry,
    facts,
    kinds,
    names,
    near,
    settings,
)

__all__ = [
    "EffectWhen",
    "FactEntry",
    "SearchEntry",
    "SettingEntry",
    "Spelling",
    "facts",
    "kinds",
    "names",
    "near",
    "settings",
    "spelling",
    "why_missing",
]
