"""A baseline: the findings that a project had when it began to check; only new ones are reported.

{"schema": 1, "findings": [{"rule": "DL001", "file": "train.py", "fingerprint": "4f1c...", "count": 1}]}

Every place of a finding counts. Its fingerprint is made of the rule, the file, what is called or set there, and the
text of the line: it survives that other lines come and go, and ends when the line itself changes. Reports leave the
text out of theirs: a code host takes another fingerprint for another alert, and who edits a line has not mended it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from autotune import reading
from autotune.check.notebooks import script
from autotune.check.suppression import finding_places, suppress
from autotune.errors import UsageError
from autotune.model.checked import BASELINE, CheckedBundle, Silenced
from autotune.model.evidence import Location
from autotune.model.finding import Finding

SCHEMA = 1

LARGEST = 20_000_000
"""Bytes of a baseline, and of a file that it speaks of."""


def suppress_known(
    bundles: Sequence[CheckedBundle], file: Path, name: str, root: Path, *, is_written: bool
) -> list[CheckedBundle]:
    """The bundles without the findings that the baseline in `file` has; `is_written` makes it of these findings first.

    `name` is the file as the user named it. Raises UsageError for a file that cannot be used.
    """
    if is_written:
        counts = write(
            file,
            ((one, place) for each in bundles for one in each.findings for place in finding_places(one, each)),
            root,
        )
    else:
        counts = read(file)
    return [suppress_by_baseline(each, counts, root, name) for each in bundles]


def suppress_by_baseline(checked: CheckedBundle, counts: Counter[str], root: Path, file: str) -> CheckedBundle:
    """Silence the findings all of whose places `counts` still holds, and count them off; the others show a new one."""

    def judge(finding: Finding, place: Location) -> Silenced | None:
        mark = fingerprint(finding, place, root)
        counts[mark] -= 1
        return Silenced(finding, BASELINE, file) if counts[mark] >= 0 else None

    return suppress(checked, judge)


def read(file: Path) -> Counter[str]:
    """How many findings of each fingerprint the baseline holds. Raises UsageError for another kind of file."""
    try:
        document = json.loads(reading.read(file, follow=True, most_bytes=LARGEST))
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r} is not {SCHEMA}")
        return Counter({str(row["fingerprint"]): int(row["count"]) for row in document["findings"]})
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file), to_do=_rewrite_hint(file)) from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"this is not a baseline file ({why})", where=str(file), to_do=_rewrite_hint(file)) from error


def _rewrite_hint(file: Path) -> str:
    return f"Create it again: autotune check --write-baseline {shlex.quote(str(file))} ."


def write(file: Path, findings: Iterable[tuple[Finding, Location]], root: Path) -> Counter[str]:
    """Write the baseline of `findings`, one row of it for each of their places, and return what `read` would."""
    marked = [(finding, place, fingerprint(finding, place, root)) for finding, place in findings]
    counts = Counter(mark for _, _, mark in marked)
    rows = {mark: {"rule": finding.rule.id, "file": place.file} for finding, place, mark in marked}
    document = {"schema": SCHEMA, "findings": sorted(_rows(rows, counts), key=lambda row: list(map(str, row.values())))}
    try:
        file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(file)) from error
    return counts


def fingerprint(finding: Finding, place: Location, root: Path) -> str:
    """What stays the same about a finding while other lines of the file change."""
    parts = (finding.rule.id, place.file, place.key or place.call, _line(root / place.file, place.line))
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _rows(rows: Mapping[str, Mapping[str, str]], counts: Counter[str]) -> Iterator[Mapping[str, str | int]]:
    for mark, row in rows.items():
        yield {**row, "fingerprint": mark, "count": counts[mark]}


def _line(file: Path, line: int) -> str:
    """The text of a line, its blanks made one; "" when there is none."""
    try:
        data = reading.read(file, follow=True, most_bytes=LARGEST)
    except OSError:
        return ""
    lines = re.split(r"\r\n?|\n", script(file.name, data).decode(errors="replace"))
    return " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
