"""How far off the predicted gains are: recorded once, predicted for other settings, then these applied and timed.

Each base (a kind of loader and model, and its settings) is diagnosed once. From its facts alone every what-if predicts
the settings that were held out; a script then trains under all of them in turn (forwards, then backwards), so that
other work on the machine hits them alike. Error: applied speedup / predicted speedup - 1, the applied one being the
median over the rounds. Covered: the prediction's own interval holds the applied speedup. Chosen workers: those with
the best prediction (as recorded, where nothing is claimed), against the best ones timed. `--save` keeps facts and
times; `--replay` predicts from them again and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.ROOT))

from autotune.api.diagnose import load
from autotune.derive.numbers import quantile
from autotune.model.evidence import Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict

SCRIPT = measuring.SCRIPTS / "loading.py"
TRAIN = "loader#train"
PADDING = {"share": "loader.pad_share", "of": "step.compute_share"}
FUSED = {"share": "step.optimizer_share", "low": "3", "high": "30"}
LOADERS = {
    "I/O": ("remote", "remote-slow", "remote-uneven"),
    "CPU": ("decode", "decode-heavy", "json", "tokenise", "augment"),
    "mixed": ("mixed", "mixed-json", "mixed-uneven"),
    "0 wins": ("tiny", "in-memory", "short-epoch", "short-json"),
}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Settings that were not recorded, and the what-if that predicts them."""

    words: str
    what_if: str
    arguments: dict[str, str]


@dataclass(frozen=True, slots=True)
class Base:
    """What is recorded: a kind of the script under settings; `group` names the row of the table that it counts in."""

    group: str
    kind: str
    words: str
    held_out: tuple[HeldOut, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One prediction beside its measurement; speedups are against the base. `said` is None when nothing was claimed."""

    group: str
    kind: str
    base: str
    words: str
    applied: float
    said: float | None
    low: float | None
    high: float | None

    @property
    def error(self) -> float | None:
        return None if self.said is None else self.applied / self.said - 1

    @property
    def covered(self) -> bool:
        return self.low is not None and self.high is not None and self.low <= self.applied <= self.high


def workers(count: int, prefetch: int | None = None) -> HeldOut:
    words = f"workers={count}" + (f" prefetch={prefetch}" if prefetch else "")
    return HeldOut(words, "workers", {"workers": str(count), **({"prefetch": str(prefetch)} if prefetch else {})})


def bases() -> list[Base]:
    """Every base of the benchmark with what is held out from it."""
    return [*padded(), *accumulated(), *saved(), *fused(), *loaded()]


def padded() -> list[Base]:
    rows: list[Base] = []
    for kind, size in (("text", 4), ("text", 8), ("text", 16), ("text-wide", 8)):
        words = {pad: f"batch={size} pad={pad}" for pad in ("static", "dynamic", "grouped")}
        left = {pad: {**PADDING, "left": f"loader.{pad}_pad_share"} for pad in words}
        held = tuple(HeldOut(words[pad], "padding", left[pad]) for pad in ("dynamic", "grouped"))
        rows += [Base("padding", kind, words["static"], held), Base("padding", kind, words["dynamic"], held[1:])]
    return rows


def accumulated() -> list[Base]:
    rows: list[Base] = []
    for kind, size in (("deep", 2), ("wide", 8), ("text", 2), ("text-wide", 2)):
        held = [HeldOut(f"batch={size * k} accumulate={8 // k}", "batch_curve", {"factor": str(k)}) for k in (2, 4, 8)]
        rows.append(Base("batch x accumulation", kind, f"batch={size} accumulate=8", tuple(held)))
    return rows


def saved() -> list[Base]:
    arguments = {k: {"cost": "checkpoint", "factor": str(k)} for k in (2, 4, 8)}
    held = tuple(HeldOut(f"batch=64 save_every={2 * k}", "amortised", arguments[k]) for k in arguments)
    return [Base("checkpoint interval", kind, "batch=64 save_every=2", held) for kind in ("deep", "wide")]


def fused() -> list[Base]:
    held = (HeldOut("batch=32 fused=1", "local_ratio", FUSED),)
    return [Base("fused", kind, "batch=32", held) for kind in ("deep", "wide", "text-wide")]


def loaded() -> list[Base]:
    rows: list[Base] = []
    for group, kinds in LOADERS.items():
        for kind in kinds:
            more = (workers(2, 8),) if kind.endswith("uneven") else ()
            rows.append(Base(group, kind, "workers=0", (*map(workers, (1, 2, 4)), *more)))
            if group != "0 wins" and kind not in ("decode-heavy", "tokenise"):
                rows.append(Base(group, kind, "workers=1", tuple(map(workers, (0, 2, 4)))))
    return rows


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def record(base: Base, folder: Path, limit_s: float) -> measuring.Json | None:
    """The facts and settings of a diagnosis of `base` by subject, None when there is no Recording."""
    command = [sys.executable, str(SCRIPT), "--kind", base.kind, base.words]
    document, ended = measuring.diagnose(command, ["--no-lock"], cwd=folder, environ=environment(), limit_s=limit_s)
    if document is None:
        print(f"prediction: {base.kind} {base.words}: {measuring.failure(ended)}", file=sys.stderr)
        return None
    return known(load(document["run"]["folder"], cwd=folder).evidence)


def known(evidence: Evidence) -> measuring.Json:
    """The numbers that a what-if may look up, and the device, as plain JSON: no text of this machine is kept."""
    facts = {subject: dict(values) for subject, values in evidence.facts.items()}
    for (subject, name), setting in evidence.settings.items():
        facts.setdefault(subject, {}).setdefault(name, setting.value)
    return {s: {n: v for n, v in values.items() if is_kept(n, v)} for s, values in facts.items()}


def is_kept(name: str, value: object) -> bool:
    return isinstance(value, bool | int | float) or name == "device.type"


def apply(
    kind: str, settings: Sequence[str], folder: Path, rounds: int, seconds: float, limit_s: float
) -> measuring.Json:
    """Milliseconds per step of each round, by settings."""
    result = folder / "times.json"
    result.unlink(missing_ok=True)
    argv = [sys.executable, str(SCRIPT), "--kind", kind, "--result", str(result), *settings]
    options = ["--rounds", str(rounds), "--seconds", str(seconds)]
    ended = measuring.run([*argv, *options], cwd=folder, environ=environment(), limit_s=limit_s)
    if ended.code != 0:
        print(f"prediction: {kind}: {measuring.failure(ended)}", file=sys.stderr)
        return {}
    times: measuring.Json = json.loads(result.read_text(encoding="utf-8"))
    return times


def measure(
    chosen: Sequence[Base], folder: Path, rounds: int, seconds: float, limit_s: float
) -> Iterable[measuring.Json]:
    """One row per base: what was known of it, and the times of it and of what was held out."""
    families: dict[tuple[str, str], list[Base]] = {}
    for base in chosen:
        families.setdefault((base.group, base.kind), []).append(base)
    for (_, kind), members in families.items():
        facts = [record(base, folder, limit_s) for base in members]
        settings = dict.fromkeys(w for base in members for w in (base.words, *(held.words for held in base.held_out)))
        times = apply(kind, list(settings), folder, rounds, seconds, limit_s)
        load_average = os.getloadavg()[0]
        for base, evidence in zip(members, facts, strict=True):
            yield {"base": asdict(base), "facts": evidence, "times_ms": times, "load_average": load_average}


def predictions(measured: Iterable[measuring.Json]) -> list[Row]:
    """Every held-out setting that was applied, with what is predicted for it today."""
    rows: list[Row] = []
    for one in measured:
        base, times, facts = one["base"], one["times_ms"], one["facts"]
        if facts is None:
            continue
        evidence = Evidence(facts, {})
        for held in base["held_out"]:
            if base["words"] in times and held["words"] in times:
                pairs = zip(times[base["words"]], times[held["words"]], strict=True)
                applied = statistics.median(before / after for before, after in pairs)
                gain = predict(GainSpec(held["what_if"], held["arguments"]), evidence, TRAIN)
                said = (None, None, None) if gain is None else (gain.speedup, gain.low, gain.high)
                rows.append(Row(base["group"], base["kind"], base["words"], held["words"], applied, *said))
    return rows


def choices(rows: Sequence[Row]) -> list[tuple[str, str, str, str, float]]:
    """(kind, base, chosen, best, step time of the chosen / of the best - 1), for each base of a loader."""
    found = []
    for kind, base in dict.fromkeys((row.kind, row.base) for row in rows if row.group in LOADERS):
        mine = [row for row in rows if (row.kind, row.base) == (kind, base) and "prefetch" not in row.words]
        said = {base: (1.0, 1.0), **{row.words: (row.said or 0.0, row.applied) for row in mine}}
        chosen = max(said, key=lambda words: said[words][0])
        best = max(said, key=lambda words: said[words][1])
        found.append((kind, base, chosen, best, said[best][1] / said[chosen][1] - 1))
    return found


def summary(rows: Sequence[Row]) -> str:
    groups = {group: [row for row in rows if row.group == group] for group in dict.fromkeys(row.group for row in rows)}
    head = ["what is changed", "predictions", "no claim", "median error", "p90 error", "covered", "median half-width"]
    cells = []
    for group, mine in [*groups.items(), ("all", list(rows))]:
        claimed = [row for row in mine if row.said is not None]
        errors = [abs(row.error or 0.0) for row in claimed]
        widths = [(row.high - row.low) / 2 / row.said for row in claimed if row.said and row.low and row.high]
        if claimed:
            figures = [quantile(errors, 0.5), quantile(errors, 0.9), sum(r.covered for r in claimed) / len(claimed)]
            shown = [f"{100 * value:.1f} %" for value in (*figures, quantile(widths, 0.5))]
        else:
            shown = ["-"] * 4
        cells.append([group, str(len(claimed)), str(len(mine) - len(claimed)), *shown])
    return measuring.table(head, cells)


def details(rows: Sequence[Row]) -> str:
    head = ["what is changed", "kind", "base", "held out", "applied", "predicted", "interval", "error", "covered"]
    cells = []
    for row in rows:
        claimed = row.said is not None and row.low is not None and row.high is not None
        said = (
            [f"{row.said:.2f}x", f"{row.low:.2f}-{row.high:.2f}", f"{100 * (row.error or 0):+.0f} %"] if claimed else []
        )
        said = [*said, "yes" if row.covered else "NO"] if said else ["none", "", "", ""]
        cells.append([row.group, row.kind, row.base, row.words, f"{row.applied:.2f}x", *said])
    return measuring.table(head, cells)


def chosen_workers(found: Sequence[tuple[str, str, str, str, float]]) -> str:
    cells = [[kind, base, chosen, best, f"{100 * lost:.1f} %"] for kind, base, chosen, best, lost in found]
    close = sum(lost <= 0.03 for *_, lost in found)
    text = measuring.table(["kind", "base", "chosen", "best timed", "slower than the best"], cells)
    return f"{text}\n\nwithin 3 % of the best: {close} of {len(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = bases()
    groups = list(dict.fromkeys(base.group for base in every))
    parser.add_argument("--only", nargs="+", choices=groups, default=groups, metavar="GROUP")
    parser.add_argument("--rounds", type=int, default=4, help="of all settings of a kind (4)")
    parser.add_argument("--seconds", type=float, default=0.8, help="of one setting in one round (0.8)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is ended (300)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep facts and times")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="predict from saved facts; measure nothing")
    parser.add_argument("--details", action="store_true", help="print every prediction")
    args = parser.parse_args()
    measured = []
    if args.replay:
        measured = json.loads(args.replay.read_text(encoding="utf-8"))["measured"]
    else:
        chosen = [base for base in every if base.group in args.only]
        with tempfile.TemporaryDirectory(prefix="prediction-") as name:
            (Path(name) / "pyproject.toml").touch()
            for one in measure(chosen, Path(name), args.rounds, args.seconds, args.limit):
                measured.append(one)
                if args.save:
                    args.save.write_text(json.dumps({"schema": 1, "measured": measured}), encoding="utf-8")
    rows = predictions(measured)
    loads = [one["load_average"] for one in measured]
    print(f"load average while measuring: {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} CPUs\n")
    print(summary(rows), chosen_workers(choices(rows)), *([details(rows)] if args.details else []), sep="\n\n")


if __name__ == "__main__":
    main()
