"""What makes a finding the same one after its file was edited elsewhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from autotune.report.findings import LocatedFinding

_LENGTH = 32


def fingerprints(findings: Sequence[LocatedFinding]) -> tuple[str, ...]:
    """One of 32 hexadecimal digits for each finding: no two are the same.

    It is made of the rule, the file, the subject and what the place is called there, not of lines and not of the
    message, whose numbers change. Findings that share all of these are counted in the order given.
    """
    seen: Counter[str] = Counter()
    found = []
    for each in findings:
        identity = _identity(each)
        found.append(_hash(f"{identity}\0{seen[identity]}"))
        seen[identity] += 1
    return tuple(found)


def _identity(each: LocatedFinding) -> str:
    where, finding = each.location, each.finding
    return "\0".join((finding.rule.id, where.file, finding.subject, where.call, where.key))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
