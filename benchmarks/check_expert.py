"""What `autotune check` says of public repositories, beside what a reviewer wrote of them before it ran.

    python -m benchmarks.check_expert                       # the table, from benchmarks/results/check-expert.json

expert/repositories-*.toml name the repositories with their commits; 82 of them were read by a reviewer first, whose
remarks are in expert/remarks-*.toml (`worth`: breaks, gross, clear, small). The JSON holds each run: every finding with
the verdict of a judge who read the code (worth saying in a review of this project, trivial, false); and for the half
that was read every remark with its scope ("setup": what training code and its configuration tell; "logic": the
project's own) and the findings that say it. Findings of one rule in the same words but for numbers are one entry, as in
the printed report; `judged` is "not blind" where who made the repairs gave the verdict. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from autotune.report.findings import NUMBER
from benchmarks.accuracy.places import measuring, wilson

RESULTS = measuring.ROOT / "benchmarks" / "results" / "check-expert.json"
VERDICTS = ("worth", "trivial", "false")

Row = dict[str, Any]


def main() -> None:
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"]
    head = (
        "run",
        "repositories",
        "entries",
        *VERDICTS,
        "useless a repository",
        "remarks on setup said",
        "gross or breaks",
    )
    print(measuring.table(head, [list(row(run)) for run in runs]))
    for run in runs:
        print(f"\n{run['run']}: entries by rule")
        print(measuring.table(("rule", *VERDICTS), list(by_rule(run))))


def row(run: Row) -> Iterator[str]:
    entries = entered(run["findings"])
    counts = Counter(verdict for _, _, verdict in entries)
    useless = Counter(repo for repo, _, verdict in entries if verdict != "worth")
    yield run["run"]
    yield str(len(run["repositories"]))
    yield str(len(entries))
    yield from (share(counts[one], len(entries)) for one in VERDICTS)
    numbers = [useless[repo] for repo in run["repositories"]]
    yield f"{sum(numbers) / len(numbers):.1f}, median {median(numbers):g}"
    remarks = [one for one in run.get("remarks", ()) if one["scope"] == "setup"]
    grave = [one for one in remarks if one["worth"] in ("breaks", "gross")]
    for some in (remarks, grave):
        yield share(sum(bool(one["said_by"]) for one in some), len(some)) if some else "-"


def entered(findings: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(repository, rule, verdict) of each entry; of one with several places the verdict of most."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for one in findings:
        groups[one["repo"], one["rule"], NUMBER.sub("0", one["message"])].append(one)
    entries = []
    for (repo, rule, _), rows in groups.items():
        files = {row["file"] for row in rows}
        is_one = len(files) > 1 or files == {None}
        for some in [rows] if is_one else [[row] for row in rows]:
            entries.append((repo, rule, Counter(row["verdict"] for row in some).most_common(1)[0][0]))
    return entries


def by_rule(run: Row) -> Iterator[list[str]]:
    rules: dict[str, Counter[str]] = defaultdict(Counter)
    for _, rule, verdict in entered(run["findings"]):
        rules[rule][verdict] += 1
    for rule, counts in sorted(rules.items(), key=lambda item: -item[1].total()):
        yield [rule, *(str(counts[one]) for one in VERDICTS)]


def share(count: int, of: int) -> str:
    if not of:
        return "-"
    low, high = wilson(count, of)
    return f"{count} of {of} ({100 * count / of:.0f} %, {100 * low:.0f} to {100 * high:.0f})"


if __name__ == "__main__":
    main()
