"""How many trials it takes to find a good configuration: replayed on the grids that search_grid.py recorded.

Every method chooses on half of the rounds (a candidate that is tried again is another of them) and is scored on the
others. After each trial it names a best; a run is there once that best is, and stays, no more than 3 % (10 %) slower
than the fastest configuration of all rounds. Trials count the user's own and, for autotune, its diagnosis with the
what-ifs, as so many trials as it takes the time of. The runs are all splits of the rounds, with several seeds where a
method draws.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.ROOT))

import optuna
import search_grid

from autotune import predict
from autotune.derive.numbers import quantile
from autotune.model.evidence import Evidence, Value
from autotune.model.forecast import Forecast
from autotune.model.tuned import Candidate, Outcome, Space, Trial
from autotune.tune import search as searching
from autotune.tune.stopping import Stopping
from autotune.tune.study import Study

GRID = Path(__file__).resolve().parent / "results" / "search-grid.json"
REGRET, ROUGH = 0.03, 0.1
MOST_TRIALS = 40
SEEDS = 3

Measure = Callable[[Candidate], float]
Method = Callable[["Table", Measure, int], Iterator[Candidate]]
"""(the grid, what times a candidate, a seed) -> after each trial, the best so far."""


@dataclass(frozen=True, slots=True)
class Table:
    """A recorded grid. `times_ms` are those of each round; `probes` is the diagnosis in trials."""

    name: str
    space: Space
    times_ms: Mapping[Candidate, Sequence[float]]
    evidence: Evidence
    probes: float

    def forecast(self, settings: Mapping[str, Value]) -> Forecast | None:
        return predict.step_ms(settings, self.evidence)


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: the regret of the best after each trial, and the trials before the first one of all."""

    table: str
    method: str
    regrets: tuple[float, ...]
    before: float

    def needed(self, regret: float = REGRET) -> float:
        """Trials until the best is that good and stays so; those of the longest run where it never is."""
        late = [at for at, one in enumerate(self.regrets, 1) if one > regret]
        last = max(late, default=0)
        return self.before + (last + 1 if last < len(self.regrets) else MOST_TRIALS)


def tables(file: Path) -> list[Table]:
    """The grids that were recorded at least twice: once to choose on and once to score on."""
    rows = {name: row for name, row in search_grid.rows_of(file).items() if search_grid.rounds_of(row) > 1}
    return [_table(one, rows[one.name]) for one in search_grid.WORKLOADS if one.name in rows]


def _table(workload: search_grid.Workload, row: measuring.Json) -> Table:
    space = workload.space
    every = itertools.product(*(range(len(axis.points)) for axis in space.axes))
    times = {one: tuple(row["times_ms"][search_grid.words(space.settings(one))]) for one in every}
    return Table(workload.name, space, times, Evidence(row["facts"], {}), row["diagnose_s"] / row["trial_s"])


def ours(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    yield from searched(table, measure, table.forecast)


def blind(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    """The same search without a forecast: a Gaussian process alone."""
    yield from searched(table, measure, lambda settings: None)


def searched(
    table: Table, measure: Measure, forecast: Callable[[Mapping[str, Value]], Forecast | None]
) -> Iterator[Candidate]:
    space = table.space

    def attempt(number: int, candidate: Candidate, expected: float | None) -> Trial:
        ms = measure(candidate)
        return Trial(number, candidate, Outcome.COMPLETED, 1.0, samples_per_s=1e3 / ms, forecast=expected)

    trials, _ = searching.search(space, forecast, attempt, Stopping(trials=MOST_TRIALS), Study(space))
    for count in range(1, len(trials) + 1):
        made = trials[:count]
        yield searching.fastest(space, forecast, made, searching.done(space, made))


def drawn(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    """The user's own, then at random."""
    every = list(table.times_ms)[1:]
    random.Random(seed).shuffle(every)
    yield from fastest(measure, [table.space.current, *every][:MOST_TRIALS])


def fastest(measure: Measure, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    seen: dict[Candidate, float] = {}
    for candidate in candidates:
        seen[candidate] = measure(candidate)
        yield min(seen, key=lambda one: seen[one])


def tpe(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    """Optuna's TPE with its defaults."""
    return sampled(table, measure, optuna.samplers.TPESampler(seed=seed))


def gaussian_process(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    """Optuna's GP sampler with its defaults (it needs torch and scipy)."""
    return sampled(table, measure, optuna.samplers.GPSampler(seed=seed))


def sampled(table: Table, measure: Measure, sampler: optuna.samplers.BaseSampler) -> Iterator[Candidate]:
    """By a sampler of Optuna, the user's own first; a candidate that it repeats is measured again."""
    study = optuna.create_study(sampler=sampler)
    axes = table.space.axes
    study.enqueue_trial({axis.name: axis.current for axis in axes})
    for _ in range(MOST_TRIALS):
        trial = study.ask()
        candidate = tuple(
            trial.suggest_int(axis.name, 0, len(axis.points) - 1)
            if axis.is_ordered
            else trial.suggest_categorical(axis.name, range(len(axis.points)))
            for axis in axes
        )
        study.tell(trial, measure(candidate))
        yield tuple(study.best_params[axis.name] for axis in axes)


def descent(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    """Axis after axis, all of its points, and on with the best; until a round brings nothing."""
    at, seen = table.space.current, {table.space.current: measure(table.space.current)}
    yield at
    start = None
    while start != at:
        start = at
        for axis, points in enumerate(table.space.axes):
            for point in range(len(points.points)):
                one = (*at[:axis], point, *at[axis + 1 :])
                if one not in seen:
                    seen[one] = measure(one)
                    yield min(seen, key=lambda each: seen[each])
            at = min(seen, key=lambda each: seen[each])


def doubling(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
    """A batch finder: twice the micro-batch as long as it gets faster; nothing else is looked at."""
    at, ms = table.space.current, measure(table.space.current)
    yield at
    for point in range(at[0] + 1, len(table.space.axes[0].points)):
        larger = (point, *at[1:])
        now = measure(larger)
        if now < ms:
            at, ms = larger, now
        yield at
        if at != larger:
            return


METHODS: Mapping[str, Method] = {
    "autotune": ours,
    "autotune without forecast": blind,
    "TPE": tpe,
    "GP": gaussian_process,
    "random": drawn,
    "coordinate descent": descent,
    "doubling": doubling,
}
DRAWN = ("TPE", "GP", "random")


def replay(table: Table, name: str, chosen: Sequence[int], seed: int) -> Run:
    """A method on the rounds `chosen`, scored on the others."""
    tried: dict[Candidate, int] = {}

    def measure(candidate: Candidate) -> float:
        tried[candidate] = tried.get(candidate, -1) + 1
        return table.times_ms[candidate][chosen[tried[candidate] % len(chosen)]]

    scored = [number for number in range(rounds(table)) if number not in chosen]
    score = {one: statistics.median(times[number] for number in scored) for one, times in table.times_ms.items()}
    top = min(table.times_ms, key=lambda one: statistics.median(table.times_ms[one]))
    bests = METHODS[name](table, measure, seed)
    regrets = tuple(score[one] / score[top] - 1 for one in bests)
    return Run(table.name, name, regrets, table.probes if name == "autotune" else 0.0)


def rounds(table: Table) -> int:
    return min(map(len, table.times_ms.values()))


def replays(table: Table, name: str) -> list[Run]:
    """Every split of the rounds into those to choose on, in every order, and the rest."""
    splits = itertools.permutations(range(rounds(table)), (rounds(table) + 1) // 2)
    seeds = range(SEEDS if name in DRAWN else 1)
    return [replay(table, name, split, seed) for split in splits for seed in seeds]


def spread(table: Table) -> float:
    """By how much a configuration's time differs from round to round: the median of its relative deviation."""
    return statistics.median(statistics.stdev(times) / statistics.fmean(times) for times in table.times_ms.values())


def close(table: Table) -> int:
    """Configurations within 3 % of the fastest, by the median of all rounds."""
    medians = [statistics.median(times) for times in table.times_ms.values()]
    return sum(ms <= min(medians) * (1 + REGRET) for ms in medians)


def grids(found: Sequence[Table]) -> str:
    head = ["workload", "configurations", "within 3 % of the best", "slowest / fastest", "own / fastest", "spread"]
    rows = []
    for table in found:
        medians = {one: statistics.median(times) for one, times in table.times_ms.items()}
        least = min(medians.values())
        ratios = [max(medians.values()) / least, medians[table.space.current] / least]
        cells = [str(len(medians)), str(close(table)), *(f"{ratio:.1f}x" for ratio in ratios)]
        rows.append([table.name, *cells, f"{100 * spread(table):.1f} %"])
    return measuring.table(head, rows)


def summary(runs: Sequence[Run]) -> str:
    """Trials to 3 % and to 10 % by method: the medians over all runs with their intervals, and how it ended."""
    head = ["method", "trials to 3 %", "95 % interval", "p90", "to 10 %", "95 % interval", "trials made", "regret then"]
    rows = []
    for name in dict.fromkeys(run.method for run in runs):
        mine = [run for run in runs if run.method == name]
        fine, rough = ([run.needed(regret) for run in mine] for regret in (REGRET, ROUGH))
        made = statistics.median(run.before + len(run.regrets) for run in mine)
        ended = statistics.fmean(run.regrets[-1] for run in mine)
        p90 = f"{quantile(fine, 0.9):.1f}"
        rows.append([name, *_median(fine), p90, *_median(rough), f"{made:.1f}", f"{100 * ended:.1f} %"])
    return measuring.table(head, rows)


def _median(values: Sequence[float]) -> tuple[str, str]:
    middle, low, high = measuring.interval(values)
    return f"{middle:.1f}", f"{low:.1f} to {high:.1f}"


def details(runs: Sequence[Run]) -> str:
    """The medians for each grid: trials to 3 % / to 10 %."""
    names = list(dict.fromkeys(run.table for run in runs))
    rows = []
    for method in dict.fromkeys(run.method for run in runs):
        mine = [[run for run in runs if (run.table, run.method) == (name, method)] for name in names]
        pairs = [[statistics.median(run.needed(regret) for run in each) for regret in (REGRET, ROUGH)] for each in mine]
        rows.append([method, *(f"{fine:.1f} / {rough:.1f}" for fine, rough in pairs)])
    return measuring.table(["trials to 3 % / 10 %", *names], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=Path, default=GRID, help="what search_grid.py recorded")
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = tables(args.grid)
    runs = [run for table in found for name in args.only for run in replays(table, name)]
    print(f"rounds: {min(map(rounds, found))}", grids(found), summary(runs), details(runs), sep="\n\n")


if __name__ == "__main__":
    main()
