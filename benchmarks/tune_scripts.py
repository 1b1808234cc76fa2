"""Tunes scripts as a user would, and compares what wins with the best of their whole space.

python benchmarks/tune_scripts.py fixtures/scripts/phase1c.py ... --out FOLDER [--budget 10m] [--for 480]

Each script is tuned in a fresh folder of its own by the command line. With --near, every configuration of the space
that `tune` searched is then started once as a trial is; the NEAR fastest and the one that won are started ROUNDS times
more, in turns. "of the best" is the speed of what won over that of the fastest of these, with the 95 % t-interval of
the rounds. The fastest is the best of several by the same rounds, so that equals come out a little below 1. Where the
answer was to keep what there is, that stands for what won. Another script's name with "=" behind it says which options
it gets: "train.py=--steps 60". The machine has to be idle. With --out what is measured is kept at once, and a later
call goes on from there; after --for seconds nothing more is begun.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.ROOT))

from autotune.diagnose import diagnose
from autotune.model.tuned import Candidate, Space
from autotune.tune.trial import Trials
from autotune.tune.trial_space import trial_space

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36)
"""97.5 % points of the t distribution with 1, 2, ... degrees of freedom."""


@contextmanager
def project(script: Path) -> Iterator[Path]:
    """A fresh folder that holds the script alone."""
    with tempfile.TemporaryDirectory(prefix="tune-") as name:
        shutil.copy2(script, name)
        (Path(name) / "pyproject.toml").touch()
        yield Path(name)


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(measuring.ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


def tuned(script: Path, arguments: Sequence[str], budget: str, limit_s: float) -> measuring.Json:
    """What `tune` printed."""
    options = ["--format", "json", "--quiet", "--budget", budget]
    with project(script) as folder:
        argv = [sys.executable, "-m", "autotune", "tune", *options, "--", script.name, *arguments]
        ended = measuring.run(argv, cwd=folder, environ=environment(), limit_s=limit_s)
    if not ended.out:
        raise SystemExit(f"tune_scripts: {script.stem}: {measuring.failure(ended)}")
    return {"wall_s": round(ended.wall_s, 1), **json.loads(ended.out)}


def candidates(space: Space) -> list[Candidate]:
    return list(itertools.product(*(range(len(axis.points)) for axis in space.axes)))


def of_changes(space: Space, changes: measuring.Json) -> Candidate | None:
    """The candidate that is the user's own but for these changes; None where this space has none."""
    return next((one for one in candidates(space) if space.changes(one) == changes), None)


@dataclass(slots=True)
class ConfigurationRuns:
    """All runs of the configurations of one space, in a file: {"once": {settings: speed}, "rounds":
    [{settings: speed}, ...]}. A speed is in samples a second, None where the run failed."""

    file: Path | None
    ends_at: float
    once: dict[str, float | None] = field(default_factory=dict)
    rounds: list[dict[str, float | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            self.once, self.rounds = kept["once"], kept["rounds"]

    def make(self, into: dict[str, float | None], trials: Trials, every: Sequence[Candidate]) -> bool:
        """Start what is missing of these; False when the time is over."""
        for one in every:
            if time.monotonic() > self.ends_at:
                return False
            name = named(trials.space, one)
            if name not in into:
                into[name] = trials.attempt(0, one, None).samples_per_s
                self._save()
        return True

    def _save(self) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps({"once": self.once, "rounds": self.rounds}, indent=1), encoding="utf-8")


def named(space: Space, candidate: Candidate) -> str:
    return json.dumps(space.changes(candidate))


def exhausted(
    script: Path, arguments: Sequence[str], best: measuring.Json, runs: ConfigurationRuns, near: int, rounds: int
) -> bool:
    """Start the whole space once, and the fastest of it in turns; False when the time was over before that."""
    words, draw = (script.name, *arguments), random.Random(script.stem)
    with project(script) as folder:
        asked = diagnose.DiagnoseOptions(words, lock=False, stdout=sys.stderr.fileno())
        report = diagnose.diagnose(asked, lambda status: None, cwd=folder, environ=environment())
        with trial_space(
            report, words, frozenset(), frozenset(), lambda status: None, cwd=folder, environ=environment()
        ) as trials:
            every = candidates(trials.space)
            if not runs.make(runs.once, trials, draw.sample(every, k=len(every))):
                return False
            fastest = sorted(every, key=lambda one: -(runs.once[named(trials.space, one)] or 0.0))[:near]
            won = of_changes(trials.space, best)
            chosen = list(dict.fromkeys([*fastest, trials.space.current, *([won] if won is not None else [])]))
            if runs.rounds and set(runs.rounds[0]) - {named(trials.space, one) for one in chosen}:
                runs.rounds = []  # another one won: they are compared anew, interleaved
            for number in range(rounds):
                if number == len(runs.rounds):
                    runs.rounds.append({})
                if not runs.make(runs.rounds[number], trials, draw.sample(chosen, k=len(chosen))):
                    return False
    return True


def of_the_best(runs: ConfigurationRuns, best: measuring.Json) -> tuple[float, float, float] | None:
    """(ratio, low, high) of what won to the fastest of the whole rounds, NaN for itself.

    None where a run of it failed.
    """
    rounds = [one for one in runs.rounds if one.keys() == runs.rounds[0].keys()]
    speeds = {name: [each[name] for each in rounds] for name in (rounds or [{}])[0]}
    whole = {name: [one for one in each if one] for name, each in speeds.items() if all(each)}
    won = next((name for name in whole if json.loads(name) == best), None)
    if won is None or len(rounds) < 2:
        return None
    fastest = max(whole, key=lambda name: statistics.fmean(map(math.log, whole[name])))
    if fastest == won:
        return 1.0, math.nan, math.nan
    logs = [math.log(one / other) for one, other in zip(whole[won], whole[fastest], strict=True)]
    mean, half = statistics.fmean(logs), T_95[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


HEAD = ("script", "answer", "changes", "trials", "seconds", "verified", "space", "of the best", "95 % interval")


def row(name: str, tune: measuring.Json, runs: ConfigurationRuns) -> tuple[str, ...]:
    found = tune["measured"]
    ratio = of_the_best(runs, tune["changes"])
    return (
        name,
        "wins" if tune["changes"] else "keep what you have",
        " ".join(f"{name.rpartition('.')[2]}={value}" for name, value in tune["changes"].items()),
        str(len(tune["trials"])),
        f"{tune['spent_s']:.0f}",
        f"{found['speedup']:.2f} ({found['low']:.2f}-{found['high']:.2f})" if found else "",
        str(math.prod(len(axis["points"]) for axis in tune["space"])),
        f"{ratio[0]:.3f}" if ratio else "",
        f"{ratio[1]:.3f}-{ratio[2]:.3f}" if ratio and ratio[0] != 1.0 else "",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT[=ARGS]")
    parser.add_argument("--budget", default="10m", help="of each search (10m)")
    parser.add_argument("--near", type=int, default=0, help="so many of the fastest are compared (0: none)")
    parser.add_argument("--rounds", type=int, choices=range(2, len(T_95) + 2), default=3, help="of the fastest (3)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep what is measured here, and use what is kept")
    parser.add_argument("--for", dest="for_s", type=float, default=math.inf, help="begin nothing after so many seconds")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    ends_at, rows = time.monotonic() + given.for_s, []
    for one in given.scripts:
        path, _, typed = one.partition("=")
        script, arguments = Path(path).resolve(), shlex.split(typed)
        if time.monotonic() > ends_at:
            break
        tune = measuring.kept(given.out, script.stem, lambda: tuned(script, arguments, given.budget, limit_s=900))  # noqa: B023
        runs = ConfigurationRuns(given.out and given.out / f"{script.stem}-space.json", ends_at)
        if given.near and tune["space"]:
            exhausted(script, arguments, tune["changes"], runs, given.near, given.rounds)
        rows.append(row(script.stem, tune, runs))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    measuring.show({"head": HEAD, "rows": rows}, measuring.table(HEAD, rows), given.format == "json")


if __name__ == "__main__":
    main()
