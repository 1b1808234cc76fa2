"""The vocabulary as data: facts, settings, and how each framework spells a setting."""

from autotune.catalogue.dialects import SettingSpelling, spelling, why_missing
from autotune.catalogue.vocabulary import (
    EffectWhen,
    FactEntry,
    SearchEntry,
    SettingEntry,
    TopicEntry,
    WhatIfEntry,
    facts,
    kinds,
    names,
    near,
    settings,
    topic_of,
    topics,
    what_ifs,
)

__all__ = [
    "EffectWhen",
    "FactEntry",
    "SearchEntry",
    "SettingEntry",
    "SettingSpelling",
    "TopicEntry",
    "WhatIfEntry",
    "facts",
    "kinds",
    "names",
    "near",
    "settings",
    "spelling",
    "topic_of",
    "topics",
    "what_ifs",
    "why_missing",
]
