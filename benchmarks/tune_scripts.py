"""Tunes scripts as a user would, and compares what wins with the best of their whole space.

python benchmarks/tune_scripts.py fixtures/scripts/phase1c.py ... --out FOLDER [--budget 10m] [--for 480]

Each script is tuned in a fresh folder of its own by the command line. With --near, every configuration of the space
that `tune` searched is then started once as a trial is; the NEAR fastest and the one that won are started ROUNDS times
more, in turns. "of the best" is the speed of what won over that of the fastest of these, with the 95 % t-interval of
the rounds. The fastest is the best of several by the same rounds, so that equals come out a little below 1. Where the
answer was to keep what there is, that stands for what won. Another script's name with "=" behind it says which options
it gets: "train.py=--steps 60". The machine has to be idle. With --out what is measured is kept at once, and a later
call goes on from there; --for begins nothing that may end after so many seconds.
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
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.ROOT))

from autotune.api import diagnose
from autotune.api.placed import placed
from autotune.model.tuned import Candidate, Space
from autotune.tune.trial import Trials

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


def of_settings(space: Space, settings: measuring.Json) -> Candidate | None:
    """The candidate that is the user's own but for these settings; None where this space has none."""
    wanted = {**space.settings(space.current), **settings}
    return next((one for one in candidates(space) if space.settings(one) == wanted), None)


def speed(trials: Trials, candidate: Candidate) -> float | None:
    """Samples a second of one start; None where it failed."""
    return trials.attempt(0, candidate, None).samples_per_s


def exhausted(script: Path, arguments: Sequence[str], best: measuring.Json, near: int, rounds: int) -> measuring.Json:
    """{"configurations", "once": speeds, "rounds": {settings: speeds of each round}} of the whole space."""
    words, draw = (script.name, *arguments), random.Random(script.stem)
    with project(script) as folder:
        asked = diagnose.Options(words, lock=False, stdout=sys.stderr.fileno())
        report = diagnose.diagnose(asked, lambda status: None, cwd=folder, environ=environment())
        where = {"cwd": folder, "environ": environment()}
        with placed(report, words, frozenset(), frozenset(), lambda status: None, **where) as trials:
            space = trials.space
            every = draw.sample(candidates(space), k=len(candidates(space)))
            once = {one: found for one in every if (found := speed(trials, one))}
            won = of_settings(space, best)
            chosen = [*sorted(once, key=lambda one: -once[one])[:near], space.current]
            chosen = list(dict.fromkeys([*([won] if won is not None else []), *chosen]))
            again: dict[Candidate, list[float | None]] = {one: [] for one in chosen}
            for _ in range(rounds):
                for one in draw.sample(chosen, k=len(chosen)):
                    again[one].append(speed(trials, one))
    named = {json.dumps(space.changes(one)): speeds for one, speeds in again.items()}
    return {
        "configurations": len(every),
        "once": {json.dumps(space.changes(one)): once.get(one) for one in every},
        "rounds": named,
        "won": None if won is None else json.dumps(space.changes(won)),
    }


def of_the_best(found: measuring.Json) -> tuple[float, float, float] | None:
    """(ratio, low, high) of what won to the fastest of the rounds; None where one of its starts failed."""
    rounds = {name: speeds for name, speeds in found["rounds"].items() if None not in speeds}
    if found["won"] not in rounds:
        return None
    fastest = max(rounds, key=lambda name: statistics.fmean(map(math.log, rounds[name])))
    logs = [math.log(one / other) for one, other in zip(rounds[found["won"]], rounds[fastest], strict=True)]
    mean = statistics.fmean(logs)
    half = T_95[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


HEAD = ("script", "answer", "changes", "trials", "seconds", "verified", "space", "of the best", "95 % interval")


def row(found: measuring.Json) -> tuple[str, ...]:
    tune, every = found["tune"], found.get("exhausted")
    measured = tune["measured"]
    ratio = of_the_best(every) if every else None
    return (
        found["script"],
        "wins" if tune["changes"] else "keep what you have",
        " ".join(f"{name.rpartition('.')[2]}={value}" for name, value in tune["changes"].items()),
        str(len(tune["trials"])),
        f"{tune['wall_s']:.0f}",
        f"{measured['speedup']:.2f} ({measured['low']:.2f}-{measured['high']:.2f})" if measured else "",
        str(every["configurations"]) if every else "",
        f"{ratio[0]:.3f}" if ratio else "",
        f"{ratio[1]:.3f}-{ratio[2]:.3f}" if ratio else "",
    )


def measured(script: Path, arguments: Sequence[str], given: argparse.Namespace) -> measuring.Json:
    """Both parts of one script, each kept once it is measured."""
    name = script.stem
    tune = measuring.kept(given.out, name, lambda: tuned(script, arguments, given.budget, limit_s=900))
    found = {"script": name, "tune": tune}
    if given.near and tune["space"]:
        found["exhausted"] = measuring.kept(
            given.out,
            f"{name}-exhausted",
            lambda: exhausted(script, arguments, tune["changes"], given.near, given.rounds),
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT[=ARGS]")
    parser.add_argument("--budget", default="10m", help="of each search (10m)")
    parser.add_argument("--near", type=int, default=0, help="so many of the fastest are compared (0: none)")
    parser.add_argument("--rounds", type=int, default=3, help="of the fastest (3)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep what is measured here, and use what is kept")
    parser.add_argument("--for", dest="for_s", type=float, default=math.inf, help="begin nothing after so many seconds")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    began, results = time.monotonic(), []
    for one in given.scripts:
        name, _, arguments = one.partition("=")
        if time.monotonic() - began < given.for_s:
            results.append(measured(Path(name).resolve(), shlex.split(arguments), given))
            print(" | ".join(row(results[-1])), file=sys.stderr, flush=True)
    measuring.show({"scripts": results}, measuring.table(HEAD, list(map(row, results))), given.format == "json")


if __name__ == "__main__":
    main()
