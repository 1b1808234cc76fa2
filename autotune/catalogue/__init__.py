"""The vocabulary as data: facts, settings, and how each framework spells a setting."""

from autotune.catalogue.dialects import Spelling, spelling
from autotune.catalogue.vocabulary import (
    EffectWhen,
    FactEntry,
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
    "SettingEntry",
    "Spelling",
    "facts",
    "kinds",
    "names",
    "near",
    "settings",
    "spelling",
]
