"""A rule as loaded from its file."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from autotune.model.evidence import Value


class Severity(StrEnum):
    """How grave a finding can be; `rank` orders them, critical first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Effect(StrEnum):
    """What a change does to results, from the same bits to an edit by hand; `rank` orders them, the mildest first."""

    EXACT = "exact"
    EQUIVALENT = "equivalent"
    ALTERING = "altering"
    MANUAL = "manual"

    @property
    def rank(self) -> int:
        return list(Effect).index(self)


SCRIPTS = ("stage", "tokenise")
"""What can be generated for a fix: copy the data to a local disk; tokenise it once."""


class Limit(Struct, frozen=True):
    """A threshold of a rule: its value, its unit ("share", "s", "version" ...) and why this number."""

    value: Value
    unit: str
    why: str


class Fix(Struct, frozen=True):
    """Either a setting with a value expression (over facts and limits), or a manual `text` (facts interpolated).

    A text may need an `install` ("transformers>=4.42,<5"), or a `script` that is generated for it (one of SCRIPTS).
    The settings of a rule change together or not at all; those of the others hold without an `optional` one.
    """

    setting: str = ""
    value: str = ""
    note: str = ""
    text: str = ""
    when: str = ""
    install: str = ""
    script: str = ""
    optional: bool = False


class Code(Struct, frozen=True):
    """What a reader has in the files and what to make of it: a few lines of Python, of a config or of a shell."""

    before: str
    after: str


class GainSpec(Struct, frozen=True):
    """Names a what-if of predict/ and its arguments."""

    what_if: str
    arguments: Mapping[str, str]


class Remark(Struct, frozen=True):
    """What a report says of a subject for which the rule passed: `words` (facts interpolated) where `when` is true."""

    when: str
    words: str


class Example(Struct, frozen=True):
    """Facts by name and what the rule must do with them: "fires", "silent" or "skipped".

    A `static` example tries the [static] part, and expects a minor finding where `minor` is set. `right` and `useless`
    are the words of the remark, "" for none.
    """

    expect: str
    facts: Mapping[str, Value]
    why: str = ""
    message: str = ""
    static: bool = False
    right: str = ""
    useless: str = ""
    minor: bool = False


class Static(Struct, frozen=True):
    """What files alone show of a rule's problem: `when` and `message` read only what is known without a run.

    Where `matters` is given and not surely true, what it says is minor: true, and worth a change in some runs only.
    """

    when: str
    message: str
    severity: Severity
    confidence: str
    fixes: tuple[Fix, ...]
    matters: str = ""
    at: str = ""
    """The setting whose place a finding without a change has; "" for the first that the condition reads."""


class Rule(Struct, frozen=True):
    """One file of rules/. `when` and the fixes' values are expressions (engine/expr.py)."""

    id: str
    name: str
    summary: str
    since: str
    status: str
    severity: Severity
    confidence: str
    subject: str
    when: str
    message: str
    why: str
    references: tuple[str, ...]
    limits: Mapping[str, Limit]
    fixes: tuple[Fix, ...]
    gain: GainSpec | None
    examples: tuple[Example, ...]
    file: str
    cause: str = ""
    """Findings of one subject whose rules name the same cause are one recommendation."""
    asks_about: str = ""
    """Of a question: the fact that says what part of the step it asks about. It asks about a place that no rule has an
    answer for; what it finds is no claim."""
    yields_to: tuple[str, ...] = ()
    """Rules by id: where one of them has a finding, this one's comes after it unless it gains several times as much. It
    tunes the step to work that they may end."""
    static: Static | None = None
    """What `check` says while `when` is undecided."""
    code: Code | None = None
    """None where the settings of its fixes show it, or where no file does."""
    refuted_by: str = ""
    """A condition on what a run shows: where it is true, what files say of this rule does not hold for that run."""
    right: tuple[Remark, ...] = ()
    """What is already right where the rule passed: the first whose condition is true."""
    matters: str = ""
    """Of a static part: the condition under which its finding is a full one; "" for always."""
    at: str = ""
    """Of a static part: the setting whose place a finding without a change has."""
    useless: tuple[Remark, ...] = ()
    """What would not help where the rule passed: the first whose condition is true."""

    @property
    def family(self) -> str:
        """The folder that the rule stands in: what it is about."""
        return PurePath(self.file).parent.name

    @property
    def is_question(self) -> bool:
        return bool(self.asks_about)

    def as_static(self) -> Rule:
        """The rule of its [static] part, with those of its examples; the rule itself where it has none."""
        if self.static is None:
            return self
        own = self.static
        return replace(
            self,
            when=own.when,
            message=own.message,
            severity=own.severity,
            confidence=own.confidence,
            fixes=own.fixes,
            gain=None,
            examples=tuple(example for example in self.examples if example.static),
            static=None,
            right=(),
            useless=(),
            matters=own.matters,
            at=own.at,
        )
