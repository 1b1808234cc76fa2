"""What is known: facts and settings, each belonging to a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Value = bool | int | float | str | tuple[int, ...]
"""A known value. A version is a tuple of ints, a share a float in 0..1. An unknown value is absent, never 0 or None."""

Origin = Literal["observed", "static", "default"]

RUN = "run"
"""The subject of everything that belongs to the whole run; every other subject can see its facts."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file. `line` counts from 1; `call` is what is called there, e.g. "DataLoader"."""

    file: str
    line: int
    call: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A measured or read value, e.g. Fact("loader.wait_share", "loader#train", 0.72)."""

    name: str
    subject: str
    value: Value


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting was in this run, and where it was given.

    `trusted` says that an edit at `location` would change the observed value; `why_not` says why it is not.
    `spelling` is how the user's framework writes it, e.g. "dataloader_num_workers" of TrainingArguments.
    """

    name: str
    subject: str
    value: Value | None
    origin: Origin
    location: Location | None = None
    trusted: bool = False
    why_not: str = ""
    spelling: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts and settings by subject. `lookup` falls back from a subject to the run."""

    facts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    settings: Mapping[tuple[str, str], Setting] = field(default_factory=dict)

    def lookup(self, subject: str, name: str) -> Value | None:
        """The value of fact or setting `name` for `subject`, or None when it is unknown."""
        for owner in (subject, RUN):
            if name in self.facts.get(owner, {}):
                return self.facts[owner][name]
            setting = self.settings.get((owner, name))
            if setting is not None and setting.value is not None:
                return setting.value
        return None

    def setting(self, subject: str, name: str) -> Setting | None:
        """The setting `name` of `subject`, or of the run."""
        return self.settings.get((subject, name)) or self.settings.get((RUN, name))

    def subjects(self, kind: str) -> tuple[str, ...]:
        """All subjects of a kind: subjects("loader") gives ("loader#train", "loader#2")."""
        seen = dict.fromkeys([*self.facts, *(owner for owner, _ in self.settings)])
        return tuple(name for name in seen if name.split("#")[0] == kind)
