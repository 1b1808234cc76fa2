"""Changes every setting of real files and changes it back: what the files' own readers see, and every byte.

python benchmarks/splice_corpus.py --files FOLDER [FOLDER ...]

For each file (YAML, JSON, TOML, Python, shell): each setting of its dialect that it gives gets another value, each that
it does not give is added, and in data files each other value is changed too. Of every edit is asked:
- its consumer (PyYAML, ruamel.yaml for YAML 1.2, OmegaConf where it is installed; json; tomllib; ast; bash, with
  --bash, whose programs only print their arguments) reads the new value and nothing else new;
- the lines that the edit does not touch are the same bytes;
- the same edit once more changes nothing;
- the inverse splice gives the file back, byte for byte.
Whatever is not so is a mismatch. A refusal is counted with its reason.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path

import measuring
from splice_attempts import Attempt, attempts
from splice_consumers import FORMATS

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Splice
from autotune.syntax.edit_effect import spliced


@dataclass(slots=True)
class Row:
    """What became of the edits of one file. `restored` counts those whose inverse splice gave the file back."""

    file: str
    dialect: str = "-"
    settings: int = 0
    changed: int = 0
    added: int = 0
    restored: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    mismatches: list[str] = field(default_factory=list)


def attempt(one: Attempt, data: bytes, row: Row) -> None:
    row.settings += 1
    try:
        splice = one.edit(data, None)
    except UsageError as error:
        row.refused[_kind(error.what, one.name)] += 1
        return
    new = spliced(data, splice)
    row.changed, row.added = row.changed + (not one.is_added), row.added + one.is_added
    if not one.is_right(data, new, splice):
        row.mismatches.append(f"{one.name}: read as something else")
    if not is_stable(one, new, splice):
        row.mismatches.append(f"{one.name}: the second time it is another edit")
    if len(kept(data, new)) < len(data.splitlines()) - 1:
        row.mismatches.append(f"{one.name}: more than one line changed")
    end = splice.span.start + len(splice.text.encode())
    back = Splice(Span(splice.span.start, end), data[splice.span.start : splice.span.end].decode())
    row.restored += spliced(new, back) == data


def _kind(what: str, name: str) -> str:
    """The reason of a refusal without what stands in this file."""
    return what.split(": ")[0].replace(name, "KEY").replace(name.split("=")[0], "KEY")


def is_stable(one: Attempt, data: bytes, splice: Splice) -> bool:
    """Whether the same edit once more changes nothing, or is refused because the key is there."""
    try:
        return spliced(data, one.edit(data, splice)) == data
    except UsageError:
        return one.is_added


def kept(old: bytes, new: bytes) -> list[bytes]:
    """The lines at the start and at the end that are the same bytes."""
    one, other = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
    tail = zip(reversed(one[head:]), reversed(other[head:]), strict=False)
    return one[:head] + [line for line, _ in takewhile(lambda pair: pair[0] == pair[1], tail)]


def measure(path: Path, bash: bool) -> Row:
    data = path.read_bytes()
    dialect, tried = attempts(path, data, bash)
    row = Row(f"{path.parent.name}/{path.name}", dialect or "-")
    for one in tried:
        attempt(one, data, row)
    return row


HEAD = ("file", "dialect", "settings", "changed", "added", "restored", "refused", "mismatches")


def as_text(rows: Sequence[Row]) -> str:
    refused = sum((row.refused for row in rows), Counter[str]())
    numbers = {name: sum(getattr(row, name) for row in rows) for name in HEAD[2:6]}
    numbers |= {"refused": refused.total(), "mismatches": sum(len(row.mismatches) for row in rows)}
    cells = [
        [*(str(getattr(row, name)) for name in HEAD[:6]), str(row.refused.total()), "; ".join(row.mismatches[:2])]
        for row in rows
    ]
    reasons = "\n".join(f"{number:5d}  {reason}" for reason, number in refused.most_common())
    totals = ", ".join(f"{number} {name}" for name, number in numbers.items())
    return f"{measuring.table(list(HEAD), cells)}\n\n{len(rows)} files: {totals}\n{reasons}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, nargs="+", required=True, metavar="FOLDER", help="files at any depth")
    parser.add_argument("--bash", action="store_true", help="let bash run the scripts; all programs only print")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    suffixes = {*FORMATS, ".py", ".sh"}
    files = [path for folder in args.files for path in sorted(folder.rglob("*")) if path.suffix in suffixes]
    rows = [measure(path, args.bash) for path in files]
    measuring.show({"schema": 1, "files": [asdict(row) for row in rows]}, as_text(rows), args.json)


if __name__ == "__main__":
    main()
