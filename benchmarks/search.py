"""How many trials it takes to find a good configuration: replayed on the grids that search_grid.py recorded.

Every method chooses on half of the rounds (a candidate that is tried again is another of them) and is scored on the
others. After each trial it names a best; a run is there once that best is, and stays, no more than 3 % (10 %) slower
than the fastest configuration of all rounds. Trials count the user's own and, where a forecast is used, the diagnosis
with its what-ifs, as so many trials as it takes the time of. The runs are all splits of the rounds, with several seeds
where a method draws. `--redraw` adds searches on times that are drawn around the medians: more of them than there are
splits.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.ROOT))

import optuna
import search_grid

from autotune import predict
from autotune.derive.summary_statistics import quantile
from autotune.model.evidence import Evidence, Value
from autotune.model.forecast import Forecast
from autotune.model.tuned import Axis, Candidate, Outcome, SearchTrial, Space
from autotune.tune import search as searching
from autotune.tune.search import MAX_RIVALS
from autotune.tune.stopping import PATIENCE, Stopping, in_vain
from autotune.tune.study import Study
from autotune.tune.surrogate import NOISE, Forecaster, completed, surrogate

GRID = Path(__file__).resolve().parent / "results" / "search-grid.json"
REGRET, ROUGH = 0.03, 0.1
MOST_TRIALS = 40
RANDOM_TRIALS = 10
"""With which a sampler of Optuna begins by default."""

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
    yield from searched(table, measure, no_forecast)


def no_forecast(settings: Mapping[str, Value]) -> None:
    return None


def searched(table: Table, measure: Measure, forecast: Forecaster) -> Iterator[Candidate]:
    space = table.space

    def attempt(number: int, candidate: Candidate, expected: float | None) -> SearchTrial:
        ms = measure(candidate)
        return SearchTrial(number, candidate, Outcome.COMPLETED, 1.0, samples_per_s=1e3 / ms, forecast=expected)

    trials, _ = searching.search(space, Study(space, forecast), attempt, Stopping(trials=MOST_TRIALS))
    for count in range(1, len(trials) + 1):
        made = trials[:count]
        yield searching.fastest(space, forecast, made, completed(space, made))


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


Sampler = Callable[[int, int], optuna.samplers.BaseSampler]
"""(a seed, the trials that are enqueued) -> a sampler of Optuna."""


def tpe(seed: int, enqueued: int) -> optuna.samplers.BaseSampler:
    """Multivariate; what is enqueued counts as its random trials."""
    return optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=enqueued, multivariate=True, group=True, constant_liar=True
    )


def independent_tpe(seed: int, enqueued: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=enqueued, multivariate=False)


def gaussian_process(seed: int, enqueued: int) -> optuna.samplers.BaseSampler:
    """It needs torch and scipy."""
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=enqueued)


def sampled(sampler: Sampler, *, has_forecast: bool, has_end: bool = True) -> Method:
    """A search by a sampler of Optuna after the user's own and, like autotune, what the forecast ranks first; without a
    forecast, after ten random trials. It ends by autotune's rule for a search that knows no expected gain, and measures
    the best ones a second time like autotune. A candidate that is repeated is measured again, and counts."""

    def method(table: Table, measure: Measure, seed: int) -> Iterator[Candidate]:
        axes = table.space.axes
        first = [*surrogate(table.space, table.forecast if has_forecast else no_forecast).best_forecasts()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study = optuna.create_study(sampler=sampler(seed, 1 + len(first) if has_forecast else RANDOM_TRIALS))
        times: dict[Candidate, list[float]] = {}
        trials: list[SearchTrial] = []

        def made(candidate: Candidate) -> float:
            ms = measure(candidate)
            # By number: a sampler that repeats its best would not end otherwise.
            trials.append(SearchTrial(len(trials), (len(trials),), Outcome.COMPLETED, 1.0, samples_per_s=1e3 / ms))
            times.setdefault(candidate, []).append(ms)
            return ms

        def best() -> Candidate:
            return min(times, key=lambda one: statistics.fmean(times[one]))

        for candidate in (table.space.current, *first):
            study.enqueue_trial({axis.name: at for axis, at in zip(axes, candidate, strict=True)})
        while len(trials) < MOST_TRIALS and not (has_end and in_vain(trials) >= PATIENCE):
            trial = study.ask()
            study.tell(trial, made(tuple(_suggested(trial, axis) for axis in axes)))
            yield best()
        while has_end and len(trials) < MOST_TRIALS and (rival := _rival(times, best())) is not None:
            made(rival)
            yield best()

    return method


def _suggested(trial: optuna.Trial, axis: Axis) -> int:
    if axis.is_ordered:
        return trial.suggest_int(axis.name, 0, len(axis.points) - 1)
    return int(trial.suggest_categorical(axis.name, range(len(axis.points))))


def _rival(times: Mapping[Candidate, Sequence[float]], best: Candidate) -> Candidate | None:
    """The next of the best ones, closer together than the noise of a trial, that was measured once."""
    mean = {one: statistics.fmean(each) for one, each in times.items()}
    near = sorted((one for one in mean if mean[one] <= mean[best] * (1 + NOISE)), key=lambda one: mean[one])
    return next((one for one in near[:MAX_RIVALS] if len(times[one]) < 2), None) if len(near) > 1 else None


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
    "TPE": sampled(tpe, has_forecast=True),
    "independent TPE": sampled(independent_tpe, has_forecast=True),
    "GP": sampled(gaussian_process, has_forecast=True),
    "autotune without forecast": blind,
    "TPE without forecast": sampled(tpe, has_forecast=False),
    "GP without forecast": sampled(gaussian_process, has_forecast=False),
    "TPE, all trials": sampled(tpe, has_forecast=True, has_end=False),
    "random": drawn,
    "coordinate descent": descent,
    "doubling": doubling,
}
WITHOUT_PROBES = ("without forecast", "random", "coordinate descent", "doubling")
"""What needs no diagnosis."""


def replay(table: Table, name: str, chosen: Sequence[int], seed: int) -> Run:
    """A method on the rounds `chosen`, scored on the others."""
    tried: dict[Candidate, int] = {}

    def measure(candidate: Candidate) -> float:
        tried[candidate] = tried.get(candidate, -1) + 1
        return table.times_ms[candidate][chosen[tried[candidate] % len(chosen)]]

    scored = [number for number in range(rounds(table)) if number not in chosen]
    score = {one: statistics.median(times[number] for number in scored) for one, times in table.times_ms.items()}
    top = min(table.times_ms, key=lambda one: statistics.median(table.times_ms[one]))
    return _run(table, name, measure, seed, score, score[top])


def redraw(table: Table, name: str, seed: int) -> Run:
    """A method on times that are drawn around the median of the rounds, with the spread of the grid; scored on the
    medians."""
    draw, deviation = random.Random(f"{table.name} {seed}"), spread(table)
    medians = {one: statistics.median(times) for one, times in table.times_ms.items()}
    return _run(
        table,
        name,
        lambda candidate: medians[candidate] * draw.lognormvariate(0, deviation),
        seed,
        medians,
        min(medians.values()),
    )


def _run(table: Table, name: str, measure: Measure, seed: int, score: Mapping[Candidate, float], least: float) -> Run:
    regrets = tuple(score[one] / least - 1 for one in METHODS[name](table, measure, seed))
    return Run(table.name, name, regrets, 0.0 if name.endswith(WITHOUT_PROBES) else table.probes)


def rounds(table: Table) -> int:
    return min(map(len, table.times_ms.values()))


def replays(table: Table, name: str) -> list[Run]:
    """Every split of the rounds into those to choose on, in every order, and the rest."""
    splits = itertools.permutations(range(rounds(table)), (rounds(table) + 1) // 2)
    return [replay(table, name, split, seed) for split in splits for seed in range(SEEDS if _draws(name) else 1)]


def _draws(name: str) -> bool:
    return "TPE" in name or "GP" in name or name == "random"


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
    head = ["method", "trials to 3 %", "95 % interval", "p90", "to 10 %", "trials made", "regret then", "95 % interval"]
    rows = []
    for name in dict.fromkeys(run.method for run in runs):
        mine = [run for run in runs if run.method == name]
        fine, rough = ([run.needed(regret) for run in mine] for regret in (REGRET, ROUGH))
        made = statistics.median(run.before + len(run.regrets) for run in mine)
        p90, to_rough = f"{quantile(fine, 0.9):.1f}", f"{statistics.median(rough):.1f}"
        rows.append([name, *_median(fine), p90, to_rough, f"{made:.1f}", *_mean([run.regrets[-1] for run in mine])])
    return measuring.table(head, rows)


def _median(values: Sequence[float]) -> tuple[str, str]:
    middle, low, high = measuring.interval(values)
    return f"{middle:.1f}", f"{low:.1f} to {high:.1f}"


def _mean(regrets: Sequence[float]) -> tuple[str, str]:
    """In per cent, with the interval of its resampled means."""
    draw = random.Random(0)
    means = [statistics.fmean(draw.choices(regrets, k=len(regrets))) for _ in range(2000)]
    low, high = (100 * quantile(means, share) for share in (0.025, 0.975))
    return f"{100 * statistics.fmean(regrets):.1f} %", f"{low:.1f} to {high:.1f} %"


def regrets(runs: Sequence[Run]) -> str:
    """The mean regret in the end, for each grid."""
    names = list(dict.fromkeys(run.table for run in runs))
    rows = []
    for method in dict.fromkeys(run.method for run in runs):
        mine = [[run.regrets[-1] for run in runs if (run.table, run.method) == (name, method)] for name in names]
        rows.append([method, *(f"{100 * statistics.fmean(each):.1f} %" for each in mine)])
    return measuring.table(["regret in the end", *names], rows)


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
    parser.add_argument(
        "--redraw", type=int, default=0, metavar="N", help="also N searches of each grid on drawn times"
    )
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = tables(args.grid)
    runs = [run for name in args.only for table in found for run in replays(table, name)]
    print(f"rounds: {min(map(rounds, found))}", grids(found), summary(runs), details(runs), regrets(runs), sep="\n\n")
    if args.redraw:
        drawn = [redraw(table, name, seed) for name in args.only for table in found for seed in range(args.redraw)]
        print(f"\n{args.redraw} searches of each grid on drawn times", summary(drawn), regrets(drawn), sep="\n\n")


if __name__ == "__main__":
    main()
