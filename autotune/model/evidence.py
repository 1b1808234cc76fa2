"""What is known: facts and settings, each belonging to a subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

Value = bool | int | float | str | tuple[int, ...]
"""A known value. A version is a tuple of ints, a share a float in 0..1. An unknown value is absent, never 0 or None."""

Origin = Literal["observed", "static", "default"]

RUN = "run"
"""The subject of everything that belongs to the whole run; every other subject can see its facts."""


def subject_order(subject: str) -> tuple[bool, str, int, str]:
    """A key to sort by: the run, then each kind, those with a role before those with a number: loader#2, loader#10."""
    kind, _, which = subject.partition("#")
    return subject != RUN, kind, int(which) if which.isdecimal() else 0, which


class Span(Struct, frozen=True):
    """Bytes of a file: from `start` up to, not including, `end`."""

    start: int
    end: int


class Location(Struct, frozen=True):
    """A place in a file. `line` and `column` count from 1, a column of 0 is not known.

    `call` is what is called there, e.g. "DataLoader"; `end_line` is the last line of that call. `key` is the path of
    a value in a config ("train.micro_batch_size") or its flag in a command ("--workers"), `span` its bytes. An empty
    span without a key is where a statement is missing, which would stand at `line`. `cell` and `cell_line` are the cell
    of a notebook and the line in it, from 1 (text cells count); 0 where no cell is meant.
    """

    file: str
    line: int
    call: str = ""
    column: int = 0
    end_line: int = 0
    key: str = ""
    span: Span | None = None
    cell: int = 0
    cell_line: int = 0

    @property
    def is_missing(self) -> bool:
        return self.span is not None and self.span.start == self.span.end and not self.key


class Fact(Struct, frozen=True):
    """A measured or read value, e.g. Fact("loader.wait_share", "loader#train", 0.72); `places` show it in the files."""

    name: str
    subject: str
    value: Value
    places: tuple[Location, ...] = ()


class Setting(Struct, frozen=True):
    """What a setting was in this run, or is in the files, and where it was given.

    `trusted` says that an edit at `location` would change the observed value; `why_not` says why it is not.
    `spelling` is how the user's framework writes it, e.g. "dataloader_num_workers" of TrainingArguments.
    `feeds` is the call in a script that a static value reaches; None where a config or a command gives it to a library.
    """

    name: str
    subject: str
    value: Value | None
    origin: Origin
    location: Location | None = None
    trusted: bool = False
    why_not: str = ""
    spelling: str = ""
    feeds: Location | None = None


class Evidence(Struct, frozen=True):
    """Facts and settings by subject. `lookup` falls back from a subject to the run.

    `places` shows facts in the files, by subject and name.
    """

    facts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    settings: Mapping[tuple[str, str], Setting] = field(default_factory=dict)
    places: Mapping[tuple[str, str], tuple[Location, ...]] = field(default_factory=dict)

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
        """All subjects of a kind, in their order: subjects("loader") gives ("loader#train", "loader#2")."""
        seen = {*self.facts, *(owner for owner, _ in self.settings)}
        return tuple(sorted((name for name in seen if name.split("#")[0] == kind), key=subject_order))
