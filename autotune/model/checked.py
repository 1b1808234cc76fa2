"""The result of `check`: what the files of each bundle say, without a run."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.finding import Finding, Skipped
from autotune.model.rule import Severity
from autotune.model.scanned import Bundle, ScanNote

COMMENT, CONFIGURATION, BASELINE = "comment", "configuration", "baseline"
MINOR, ASIDE, UNCHANGED = "minor", "aside", "unchanged"
"""What may say that a finding is not reported."""


class Silenced(Struct, frozen=True):
    """A finding that is not reported; `by` is COMMENT, CONFIGURATION, BASELINE, MINOR, ASIDE or UNCHANGED."""

    finding: Finding
    by: str
    reason: str


class CheckedBundle(Struct, frozen=True):
    """One bundle's answers. `num_passed` rules were decided and have nothing to say; `skipped` need a run."""

    bundle: Bundle
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    num_passed: int
    silenced: tuple[Silenced, ...] = ()


class Gate(Struct, frozen=True):
    """One limit on a recorded profile (--profile): a fact, its value, the limit and whether it holds."""

    fact: str
    value: float | None
    limit: float
    holds: bool
    why: str


class Checked(Struct, frozen=True):
    """Everything that an output of `check` may print.

    `fail_on` is the mildest severity that makes the command fail; None: never. Paths are relative to `root`; commands
    to type work in the folder `cwd`, "" for the root.
    """

    root: str
    bundles: tuple[CheckedBundle, ...]
    notes: tuple[ScanNote, ...]
    num_files: int
    num_rules: int
    fail_on: Severity | None
    gates: tuple[Gate, ...] = ()
    cwd: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all bundles."""
        return tuple(finding for each in self.bundles for finding in each.findings)

    @property
    def bugs(self) -> tuple[ScanNote, ...]:
        """The files of which nothing is known because of a mistake of autotune."""
        return tuple(note for note in self.notes if note.is_bug)

    @property
    def fails(self) -> bool:
        """Whether a finding is as grave as `fail_on`, or a gate does not hold."""
        limit = self.fail_on
        grave = limit is not None and any(each.rule.severity.rank <= limit.rank for each in self.findings)
        return grave or any(not gate.holds for gate in self.gates)
