"""Applies what diagnose finds in real scripts, starts the patched scripts, and takes the patch back.

python benchmarks/apply_corpus.py --corpus FOLDER [--cases ID ...] [--out FOLDER]

`--corpus` is as in corpus.py; its `prepare.sh` also leaves DIR/.case/plain (the training command alone) and
DIR/.case/cwd (its folder below DIR). Each case runs in a fresh folder: diagnose, then twice (as it is, and with
`--allow altering`): apply --yes, a start of the patched script with the command that apply printed, undo. Asked is
- that the start makes optimizer steps;
- that no file but those of the patch changed, and of these no byte outside the patch's edits;
- that undo gives every file its SHA-256 back.
With `--out FOLDER` every case is kept there at once, and a later call goes on where this one ended.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import corpus
import measuring

from autotune.apply import apply
from autotune.model.applied import ApplyPlan
from autotune.model.evidence import Span
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.command_line import with_values
from autotune.patch.resolve import resolve

START = ("--steps", "3", "--warmup", "1", "--no-what-ifs")
"""Options of diagnose for a start that only has to make steps."""

OWN = (".autotune", ".case", "__pycache__")
"""Folders whose files are not the project's."""

STARTED = ("completed", "ended_early", "timed_out")
ALLOWED: tuple[tuple[str, ...], ...] = ((), ("--allow", Effect.ALTERING.value))


@dataclass(frozen=True, slots=True)
class Pass:
    """One apply, start and undo. `written` and `left` are changes in words; `typed` is the new command, if any.

    `stray` names files that changed without an edit, or outside of their edits; `lost` those that undo did not restore.
    `steps` is None where nothing was started: there was nothing to change, or `outcome` says what failed before.
    """

    allow: str
    outcome: str
    written: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    typed: str = ""
    diff: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    steps: int | None = None
    why: str = ""

    @property
    def is_good(self) -> bool:
        return self.outcome in (*STARTED, "nothing", "same") and not self.stray and not self.lost


def files(folder: Path) -> dict[Path, bytes]:
    """The files below `folder`, links left out."""
    found = (path for path in folder.rglob("*") if not set(OWN) & set(path.relative_to(folder).parts))
    return {path: path.read_bytes() for path in sorted(found) if path.is_file() and not path.is_symlink()}


def digests(contents: Mapping[Path, bytes]) -> dict[Path, str]:
    return {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()}


def is_kept(before: bytes, after: bytes, spans: Sequence[Span]) -> bool:
    """Whether `after` has every byte of `before` outside `spans`, in order, and nothing else but in their places."""
    ordered = sorted(spans, key=lambda span: (span.start, span.end))
    edges = [0, *(edge for span in ordered for edge in (span.start, span.end)), len(before)]
    first, *middle = [before[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    if not middle:
        return before == after
    *middle, last = middle
    at, end = len(first), len(after) - len(last)
    for piece in middle:
        found = after.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return after.startswith(first) and after.endswith(last) and at <= end


def diff(before: bytes, after: bytes) -> tuple[str, ...]:
    """The lines that went (-) and came (+)."""
    old, new = (data.decode(errors="replace").splitlines() for data in (before, after))
    _, _, *lines = difflib.unified_diff(old, new, n=0, lineterm="") if old != new else ("", "")
    return tuple(line for line in lines if line[0] in "+-")


def changed(before: Mapping[Path, object], after: Mapping[Path, object]) -> list[Path]:
    """The files that are other ones, or gone, or new."""
    return [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]


def stray(before: Mapping[Path, bytes], after: Mapping[Path, bytes], edits: Mapping[Path, Sequence[Span]]) -> list[str]:
    """Files that changed without an edit, or outside of their edits."""
    return [
        path.name
        for path in changed(before, after)
        if path not in after or path not in before or not is_kept(before[path], after[path], edits.get(path, ()))
    ]


def spans(plan: ApplyPlan) -> dict[Path, list[Span]]:
    """Where the edits of each file are."""
    edits = [edit for change in plan.chosen for edit in change.edits if edit.file != TYPED]
    found: dict[Path, list[Span]] = {}
    for path, before, _ in plan.files:
        splices = [resolve(before, edit) for edit in edits if (plan.root / edit.file).resolve() == path]
        found[path] = [splice.span for splice in splices if splice is not None]
    return found


def autotune(arguments: Sequence[str], case: corpus.Case, limit_s: float = 60) -> measuring.Ended:
    path = os.pathsep.join([str(measuring.ROOT), case.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    argv = [sys.executable, "-m", "autotune", *arguments]
    return measuring.run(argv, cwd=case.cwd, environ={**case.environ, "PYTHONPATH": path}, limit_s=limit_s)


def planned(patch: str, allow: Sequence[str], case: corpus.Case) -> ApplyPlan:
    return apply.plan(apply.ApplyOptions(patch, allow=frozenset(map(Effect, allow[1:]))), cwd=case.cwd)


def patched(case: corpus.Case, patch: str, allow: Sequence[str], folder: Path, options: Sequence[str]) -> Pass:
    """Apply the patch file, start what it made of the script, and undo."""
    plan = planned(patch, allow, case)
    edits = [edit for change in plan.chosen for edit in change.edits]
    typed = [edit for edit in edits if edit.file == TYPED]
    result = Pass(
        allow=allow[-1] if allow else "",
        outcome="nothing",
        written=tuple(f"{one.setting} {one.old} -> {one.new}" for one in plan.chosen),
        left=tuple(f"{one.setting} {one.old} -> {one.new}: {why}" for one, why in plan.left),
        typed=plan.command or (shlex.join(with_values(case.argv, typed)) if typed else ""),
    )
    if not edits or (allow and plan.chosen == planned(patch, (), case).chosen):
        return replace(result, outcome="same" if edits else "nothing")
    before = files(folder)
    applied = autotune(["apply", patch, "--yes", *allow], case)
    after = files(folder)
    result = replace(
        result,
        stray=tuple(stray(before, after, spans(plan))),
        diff=tuple(
            line for path in changed(before, after) for line in diff(before.get(path, b""), after.get(path, b""))
        ),
    )
    if applied.code != 0:
        return replace(result, outcome="not_applied", why=measuring.failure(applied))
    result = started(result, case, options)
    undone = autotune(["undo"], case) if plan.files else applied
    lost = changed(digests(before), digests(files(folder)))
    result = replace(result, lost=tuple(path.name for path in lost))
    return result if undone.code == 0 else replace(result, outcome="not_undone", why=measuring.failure(undone))


def started(result: Pass, case: corpus.Case, options: Sequence[str]) -> Pass:
    """`result` with what became of a start of the patched script."""
    argv = shlex.split(result.typed) if result.typed else case.argv
    document, ended = measuring.diagnose(
        argv, [*case.options, *START, *options], cwd=case.cwd, environ=case.environ, limit_s=180
    )
    if document is None:
        return replace(result, outcome="not_started", why=measuring.failure(ended))
    steps = document["step"]["steps"] if document["step"] else 0
    return replace(result, outcome=document["outcome"] if steps else "no_step", steps=steps)


def measure(name: str, given: argparse.Namespace) -> measuring.Json:
    """One case to its last undo: {"id", "outcome", "rules", "passes"}, and "why" where there is no report."""
    options = shlex.split(given.options)
    with tempfile.TemporaryDirectory(prefix=f"apply-{name}-") as place:
        folder = Path(place) / "run"
        case = plain(corpus.prepared(given.corpus, name, folder), folder)
        document, ended = measuring.diagnose(
            case.argv, [*case.options, *options], cwd=case.cwd, environ=case.environ, limit_s=given.limit
        )
        if document is None:
            return {"id": name, "outcome": "not_diagnosed", "why": measuring.failure(ended), "rules": [], "passes": []}
        patch = document["patch"]
        passes = [patched(case, patch, allow, folder.resolve(), options) for allow in ALLOWED] if patch else []
        return {
            "id": name,
            "outcome": document["outcome"],
            "rules": [finding["rule"] for finding in document["findings"]],
            "passes": [asdict(one) | {"is_good": one.is_good} for one in passes],
        }


def plain(case: corpus.Case, folder: Path) -> corpus.Case:
    """The case by its training command alone: what it is diagnosed by is what apply prints a new line for."""
    command, cwd = ((folder / ".case" / name).read_text(encoding="utf-8").strip() for name in ("plain", "cwd"))
    return replace(case, argv=tuple(shlex.split(command)), cwd=folder / cwd)


HEAD = (
    "case",
    "diagnosed",
    "findings",
    "allow",
    "written",
    "typed",
    "left",
    "lines",
    "start",
    "steps",
    "stray",
    "lost",
)


def rows(result: measuring.Json) -> list[list[str]]:
    """One row for each pass; one for a case without a patch."""
    head = [result["id"], result["outcome"], str(len(result["rules"]))]
    if not result["passes"]:
        return [[*head, "-", "0", "", "0", "", "no patch", *[""] * (len(HEAD) - len(head) - 6)]]
    return [[*head, *cells(one)] for one in result["passes"]]


def cells(one: measuring.Json) -> list[str]:
    went, came = (sum(line[0] == sign for line in one["diff"]) for sign in "-+")
    return [
        one["allow"] or "-",
        str(len(one["written"])),
        "yes" if one["typed"] else "",
        str(len(one["left"])),
        f"-{went} +{came}" if one["diff"] else "",
        " ".join(filter(None, [one["outcome"], one["why"]])),
        "" if one["steps"] is None else str(one["steps"]),
        " ".join(one["stray"]),
        " ".join(one["lost"]),
    ]


def totals(results: Sequence[measuring.Json]) -> dict[str, int]:
    """What the table says in numbers; `bad` is what must be 0."""
    passes = [one for result in results for one in result["passes"]]
    return {
        "cases": len(results),
        "diagnosed": sum(result["outcome"] in STARTED for result in results),
        "changed": sum(any(one["written"] for one in result["passes"]) for result in results),
        "starts": sum(one["steps"] is not None for one in passes),
        "stray": sum(bool(one["stray"]) for one in passes),
        "lost": sum(bool(one["lost"]) for one in passes),
        "bad": sum(not one["is_good"] for one in passes),
    }


def text(results: Sequence[measuring.Json]) -> str:
    total = totals(results)
    return (
        f"{measuring.table(HEAD, [row for result in results for row in rows(result)])}\n\n"
        f"{total['diagnosed']} of {total['cases']} cases diagnosed, {total['changed']} with a change. "
        f"{total['starts']} starts of patched scripts, {total['bad']} went wrong; bytes outside the edits changed in "
        f"{total['stray']}, not restored by undo: {total['lost']}."
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="folder with prepare.sh")
    parser.add_argument("--cases", nargs="+", required=True, metavar="ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each case here, and use what is kept")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds for the diagnosis of a case (420)")
    parser.add_argument("--options", default="", help="more options of autotune diagnose: --options='--no-lock'")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    results = [measuring.kept(given.out, name, partial(measure, name, given)) for name in given.cases]
    said = totals(results)
    measuring.show({"schema": 1, "totals": said, "cases": results}, text(results), given.json)
    raise SystemExit(1 if said["bad"] or said["diagnosed"] < said["cases"] else 0)


if __name__ == "__main__":
    main()
