"""The vocabulary as data: facts, settings, and how each framework spells a setting."""

from autotune.catalogue.dialects import Spelling, spelling, why_missing
from autotune.catalogue.vocabulary import (
    EffectWhen,
    FactEntry,
    SearchEntry,
    SettingEntry,
    WhatIfEntry,
    facts,
    kinds,
    names,
    near,
    settings,
    what_ifs,
)

__all__ = [
    "EffectWhen",
    "FactEntry",
    "SearchEntry",
    "SettingEntry",
    "Spelling",
    "WhatIfEntry",
    "facts",
    "kinds",
    "names",
    "near",
    "settings",
    "spelling",
    "what_ifs",
    "why_missing",
]
