"""Whether the lines of a report have the time that clocks around each statement give them.

python -m line_attribution [--only NAME ...] [--rounds 3] [--json FILE]

In each round a script is diagnosed as it is, and then run natively with clocks (scripts/line_timer.py) around every
statement of a copy. For each line with 5 % of a step or more on either side: both shares of the step, and how many
points they differ. What the clocks themselves take is nobody's time. `--gpu` takes the scripts for a GPU, and events of
the device as clocks.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import measuring

OWN = measuring.ROOT / "fixtures" / "labelled" / "own"
CASES = (
    "steps_a_cell_through_frames",
    "healthy_decodes_what_it_predicted",
    "healthy_graph_of_each_batch",
    "normalises_its_graph_in_each_forward",
    "keeps_its_replay_in_lists",
    "healthy_replay_in_tensors",
    "encodes_frozen_features_in_every_epoch",
    "copies_its_teacher_in_each_step",
    "scores_boxes_one_by_one",
    "healthy_integrates_step_by_step",
)
GPU = measuring.SCRIPTS / "gpu"
GPU_CASES = (
    "runs_ahead",
    "written_attention",
    "full_precision",
    "recomputed",
    "planar_convolutions",
    "norms_every_step",
)
WARMUP, STEPS = 5, 40
LEAST_SHARE = 0.05
ALLOWED = 0.03


class Clocks(ast.NodeTransformer):
    """Puts a clock around each simple statement and around the header of each for loop."""

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if isinstance(node, ast.For):
            node = self.generic_visit(node)
            node.iter = _call("timed", ast.Constant(node.iter.lineno), node.iter)
            return node
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)) and node.col_offset:
            return _clocked(node)
        return self.generic_visit(node)


def _clocked(node: ast.stmt) -> list[ast.stmt]:
    value = getattr(node, "value", None)
    if value is None:
        return [node]
    line, before = ast.Constant(node.lineno), [ast.Expr(_call("enter", ast.Constant(node.lineno)))]
    if isinstance(node, ast.Return):
        kept = ast.Assign([ast.Name("_timed", ast.Store())], value)
        body: list[ast.stmt] = [kept, ast.Expr(_call("made", line, ast.Name("_timed", ast.Load())))]
        after: list[ast.stmt] = [ast.Return(ast.Name("_timed", ast.Load()))]
    elif isinstance(node, ast.Expr):
        kept = ast.Assign([ast.Name("_timed", ast.Store())], value)
        body, after = [kept, ast.Expr(_call("made", line, ast.Name("_timed", ast.Load())))], []
    else:
        names = [ast.Name(name, ast.Load()) for name in _names(node)]
        body, after = [node, ast.Expr(_call("made", line, *names))], []
    return [*before, ast.Try(body, [], [], [ast.Expr(_call("leave"))]), *after]


def _names(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("line_timer", ast.Load()), name, ast.Load()), list(arguments), [])


def clocked(source: str) -> str:
    """The source with clocks in it; line numbers in the calls are those of `source`."""
    tree = Clocks().visit(ast.parse(source))
    imports = [n for n, each in enumerate(tree.body) if isinstance(each, (ast.Import, ast.ImportFrom))]
    tree.body.insert(imports[-1] + 1, ast.Import([ast.alias("line_timer")]))
    return ast.unparse(ast.fix_missing_locations(tree))


def by_clock(script: Path, folder: Path, limit_s: float) -> dict[int, float]:
    """Shares of the step by line."""
    copy, out = folder / script.name, folder / "clocks.json"
    copy.write_text(clocked(script.read_text(encoding="utf-8")), encoding="utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(measuring.SCRIPTS), str(GPU)]),
        "TIMER_WARMUP": str(WARMUP),
        "TIMER_STEPS": str(STEPS),
        "TIMER_OUT": str(out),
    }
    ended = measuring.run([sys.executable, str(copy)], cwd=folder, environ=environ, limit_s=limit_s)
    if not out.exists():
        raise SystemExit(f"line_attribution: {script.name} with clocks: {measuring.failure(ended)}")
    document = json.loads(out.read_text(encoding="utf-8"))
    total = sum(document["own_ns"].values())
    return {int(line): ns / total for line, ns in document["own_ns"].items()}


def by_report(script: Path, folder: Path, limit_s: float) -> tuple[dict[int, float], float]:
    """Shares of the step by line, and the share that the report puts down to lines or modules."""
    document, ended = measuring.diagnose(
        [sys.executable, str(script)], ["--no-lock"], cwd=folder, environ=dict(os.environ), limit_s=limit_s
    )
    if document is None:
        raise SystemExit(f"line_attribution: {script.name}: {measuring.failure(ended)}")
    step = document["step"]
    return {row["line"]: row["share"] for row in step["lines"]}, step["known_share"]


def measured(name: str, rounds: int, limit_s: float) -> measuring.Json:
    """{"known", "lines": {line: [share by clock, share in the report]}}, medians over the rounds."""
    script = (GPU if name in GPU_CASES else OWN) / f"{name}.py"
    clocks, reports, known = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="line-attribution-") as place:
            folder = Path(place)
            report, of_step = by_report(script, folder, limit_s)
            clocks.append(by_clock(script, folder, limit_s))
            reports.append(report)
            known.append(of_step)
    lines = {line for each in (*clocks, *reports) for line in each}
    sides = {
        line: [statistics.median(each.get(line, 0.0) for each in side) for side in (clocks, reports)] for line in lines
    }
    shown = {str(line): pair for line, pair in sorted(sides.items()) if max(pair) >= LEAST_SHARE}
    return {"known": statistics.median(known), "lines": shown}


def text(results: measuring.Json) -> str:
    rows, errors = [], []
    for name, found in results.items():
        for line, (clock, report) in found["lines"].items():
            errors.append(abs(clock - report))
            rows.append([f"{name}:{line}", f"{clock:.1%}", f"{report:.1%}", f"{100 * (report - clock):+.1f}"])
    within = sum(error <= ALLOWED for error in errors)
    head = ["line", "clocks", "report", "points"]
    known = min(found["known"] for found in results.values())
    return "\n".join([
        measuring.table(head, rows),
        f"\n{within} of {len(errors)} lines within {100 * ALLOWED:.0f} points; the median differs by "
        f"{100 * statistics.median(errors):.1f}, the worst by {100 * max(errors):.1f}.",
        f"At lines or modules: {known:.0%} of the step and more.",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--gpu", action="store_true", help="the scripts for a GPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=180.0, help="seconds of one run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    names = given.only or (GPU_CASES if given.gpu else CASES)
    results = {name: measured(name, given.rounds, given.limit) for name in names}
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(text(results))


if __name__ == "__main__":
    main()
