"""What a rule says about a subject, what it would gain, and what is recommended."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from autotune.model.evidence import Location, Value
from autotune.model.rule import Effect, Rule

COSTS = ("checkpoint.", "evaluation.")
"""Settings that are not free although training stays as it is: rarer saves lose more in a crash, rarer evaluations show
less."""

UNCHANGED = (Effect.EXACT, Effect.EQUIVALENT)
"""Effects after which training is what it was."""


def needs_decision(setting: str, effect: Effect) -> bool:
    """Whether a person decides on a change: it changes training, or costs something else.

    What does not is under "apply now" or "safe to try" in the report, and is what `apply` writes unasked.
    """
    return effect not in UNCHANGED or setting.startswith(COSTS)


Basis = Literal["measured", "modelled", "profiled", "bound"]

MOST_REMOVED = 0.99
"""No claim removes more of a step than this, whatever its parts add up to."""


def speedup_without(share: float) -> float:
    """Old step time / new step time when `share` of the step goes away; a negative one is time that comes on top."""
    return 1.0 / (1.0 - min(share, MOST_REMOVED))


class Gain(Struct, frozen=True):
    """A predicted gain. `speedup` = old step time / new step time, with its interval.

    `saved_s` is seconds saved over the planned run, None when the length of the run is unknown.
    `share` is the share of the step that goes away (1 - 1/speedup).
    """

    speedup: float
    low: float
    high: float
    basis: Basis
    saved_s: float | None = None
    note: str = ""

    @property
    def share(self) -> float:
        return 1.0 - 1.0 / self.speedup


class SettingChange(Struct, frozen=True):
    """One setting to change: from `old` (None when it is unknown or unset) to `new`, at `location`.

    `needs` are the settings of the same finding without whose change it is not made.
    """

    setting: str
    old: Value | None
    new: Value
    effect: Effect
    location: Location | None = None
    spelling: str = ""
    note: str = ""
    needs: tuple[str, ...] = ()


class Install(Struct, frozen=True):
    """What a fix needs installed; nothing installs it but the reader.

    `fits` is True when a published wheel is known to, None when nobody can tell from here. `command` is what to type
    ("" unless a wheel fits), `why` what it was decided by, and which pins of the project it is against.
    """

    package: str
    fits: bool | None
    command: str
    why: str


class GeneratedScript(Struct, frozen=True):
    """A runnable script for a fix, `text` to be written as `name`, and what running it takes; None is not known.

    It needs `needed_bytes` on the disk that has `free_bytes`, and about `takes_s` seconds, won back after
    `break_even_steps` optimizer steps if the waiting that it is for then ends. `to_fill` are the constants at its top
    that nothing tells. `path` is the file that it was written to, "" before.
    """

    name: str
    text: str
    to_fill: tuple[str, ...] = ()
    needed_bytes: float | None = None
    free_bytes: float | None = None
    takes_s: float | None = None
    break_even_steps: float | None = None
    path: str = ""


class Finding(Struct, frozen=True):
    """A rule that fired for a subject. `advice` are the manual fixes' texts; `location` is where the cause stands.

    `places` are where the first fact that the rule read and that has places shows it.
    `install` and `script` are what its advice needs, and a run tells enough of. `asked_share`: the part of the
    step that a question asks about. `is_minor`: read off files, and worth a change in some runs only.
    """

    rule: Rule
    subject: str
    message: str
    changes: tuple[SettingChange, ...]
    advice: tuple[str, ...] = ()
    location: Location | None = None
    gain: Gain | None = None
    places: tuple[Location, ...] = ()
    install: Install | None = None
    script: GeneratedScript | None = None
    asked_share: float | None = None
    is_minor: bool = False

    @property
    def effect(self) -> Effect:
        """The gravest effect of its changes; manual when there is none."""
        return max((change.effect for change in self.changes), key=lambda e: e.rank, default=Effect.MANUAL)


class Skipped(Struct, frozen=True):
    """A rule that could not be decided for a subject: `needs` names every missing fact that could change the answer."""

    rule: Rule
    subject: str
    needs: tuple[str, ...]


class Passed(Struct, frozen=True):
    """A rule that was decided and has nothing to say; `note` says beside what, e.g. "beside the change of CP001"."""

    rule: Rule
    subject: str
    note: str = ""


class Evaluation(Struct, frozen=True):
    """The three answers of all rules."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    passed: tuple[Passed, ...]


class Recommendation(Struct, frozen=True):
    """What to do, in the order of seconds saved: findings that share a change are one recommendation.

    `number` counts from 1; `after` is what it adds to all earlier numbers of both groups (unchanged training first,
    then what the reader decides on), as a share of today's step: these shares sum to the gain of all together.
    `by_hand` says of each change why it cannot be written, where none of them can.
    """

    number: int
    findings: tuple[Finding, ...]
    changes: tuple[SettingChange, ...]
    effect: Effect
    gain: Gain | None = None
    after: Gain | None = None
    by_hand: tuple[str, ...] = ()

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def is_free(self) -> bool:
        """Whether it needs no decision: edits that `apply` writes unasked."""
        is_decided = any(needs_decision(change.setting, change.effect) for change in self.changes)
        return self.effect in UNCHANGED and not is_decided and not self.by_hand
