"""Which real scripts `fit` answers for with zero edits, and why it cannot for the others.

    python benchmarks/fit_corpus.py --corpus FOLDER --labels labels.json [--only ID...] [--out FOLDER]

FOLDER holds the cases as benchmarks/corpus.py describes it. Two cards are asked for, one with and one without bf16.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import corpus
import measuring

CARDS = "a100-80,t4"
GIB = 2**30


def answer(folder: Path, name: str, limit_s: float) -> measuring.Json:
    """What `fit` said of one case, prepared in a fresh folder: its document or None, seconds, exit code and why."""
    with tempfile.TemporaryDirectory(prefix=f"fit-{name}-") as fresh:
        try:
            case = corpus.prepared(folder, name, Path(fresh) / "run")
        except OSError as error:
            return {"document": None, "wall_s": 0.0, "exit": None, "why": f"not prepared: {error}"}
        argv = [sys.executable, "-m", "autotune", "fit", "--quiet", "--no-lock", "--format", "json", "--on", CARDS]
        path = os.pathsep.join(filter(None, [str(measuring.ROOT), case.environ.get("PYTHONPATH", "")]))
        environ = {**case.environ, "PYTHONPATH": path}
        ended = measuring.run([*argv, *case.options, "--", *case.argv], cwd=case.cwd, environ=environ, limit_s=limit_s)
    document = json.loads(ended.out) if ended.out.startswith("{") else None
    why = measuring.failure(ended) if document is None else document["why_not"] or ""
    return {"document": document, "wall_s": ended.wall_s, "exit": ended.code, "why": why}


def row(name: str, found: measuring.Json) -> list[str]:
    """The smallest size on each card, and the largest micro-batch there."""
    document = found["document"]
    if document is None or not document["cards"]:
        return [name, "no", found["why"], "", "", f"{found['wall_s']:.0f} s"]
    cells = []
    for card in document["cards"]:
        size = min(card["sizes"], key=lambda one: one["micro_batch"] or 0)
        need = f"{size['low_bytes'] / GIB:.2f}-{size['high_bytes'] / GIB:.2f} GiB"
        largest = card["largest_micro_batch"]
        cells.append(f"{need}, {size['verdict']}{f', largest {largest}' if largest is not None else ''}")
    batch = document["cards"][0]["sizes"][0]["micro_batch"]
    return [name, "yes", str(batch or "unknown"), *cells, f"{found['wall_s']:.0f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="folder with prepare.sh")
    parser.add_argument("--labels", type=Path, required=True, metavar="FILE", help="labels, .json or .toml")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--skip", nargs="+", default=[], metavar="ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each result here, and use what is kept")
    parser.add_argument("--again", action="store_true", help="run also what is kept in --out")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per case (600)")
    given = parser.parse_args()
    rows = []
    for name in corpus.chosen(corpus.read_labels(given.labels), given.only, given.skip):
        measure = partial(answer, given.corpus.resolve(), name, given.limit)
        rows.append(row(name, measuring.kept(given.out, name, measure, again=given.again)))
    head = ["case", "answer", "micro-batch", *CARDS.split(","), "wall"]
    print(measuring.table(head, rows))
    print(f"\n{sum(one[1] == 'yes' for one in rows)} of {len(rows)} cases are answered")


if __name__ == "__main__":
    main()
