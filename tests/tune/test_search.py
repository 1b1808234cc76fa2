from __future__ import annotations

import random
import threading

import pytest

from autotune.model.forecast import Forecast
from autotune.model.tuned import Axis, Outcome, Space, Trial
from autotune.tune.search import done, fastest, search
from autotune.tune.stopping import Stopping
from autotune.tune.study import Study

BATCH = Axis("batch", "loader#train", tuple({"loader.batch_size": 2**power} for power in range(6)), 1)
WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in range(5)), 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((BATCH, WORKERS, FUSED), is_on_device=True)
LONG = Stopping(trials=60)


def ms(candidate) -> float:
    """100 ms of compute that larger batches and a fused update shorten, beside loading that two workers hide."""
    batch, workers, fused = candidate
    compute = 60.0 + 40.0 / 2**batch - (10.0 if fused else 0.0)
    return max(compute, 150.0 / (1 + workers)) + 3.0 * workers


def forecast(settings) -> Forecast:
    workers = settings["loader.num_workers"]
    expected = max(90.0, 140.0 / (1 + workers)) + workers
    return Forecast(expected, expected / 1.2, expected * 1.2, "modelled", ("loader.batch_size", "optimizer.fused"))


def unknown(settings) -> None:
    return None


class Script:
    """Attempts that take no time; `seen` are their candidates and what was expected of them."""

    def __init__(self, noise=0.0, ends=lambda candidate: Outcome.COMPLETED, memory=lambda candidate: None) -> None:
        self.noise, self.ends, self.memory = noise, ends, memory
        self.draw, self.seen = random.Random(1), []

    def __call__(self, number, candidate, expected) -> Trial:
        self.seen.append((candidate, expected))
        outcome = self.ends(candidate)
        speed = 1e3 / ms(candidate) * self.draw.lognormvariate(0, self.noise) if outcome == Outcome.COMPLETED else None
        return Trial(number, candidate, outcome, 1.0, speed, memory_bytes=self.memory(candidate), error="boom")

    @property
    def candidates(self):
        return [candidate for candidate, _ in self.seen]


def best(space, forecaster, trials):
    return fastest(space, forecaster, trials, done(space, trials))


def regret(candidate) -> float:
    every = [(b, w, f) for b in range(6) for w in range(5) for f in range(2)]
    return ms(candidate) / min(map(ms, every)) - 1


@pytest.mark.parametrize("forecaster", [forecast, unknown])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_it_finds_a_good_candidate_in_a_fraction_of_the_space(forecaster, noise) -> None:
    script = Script(noise)
    trials, why = search(SPACE, forecaster, script, LONG, Study(SPACE))
    assert regret(best(SPACE, forecaster, trials)) <= 0.05
    assert len(trials) <= 24
    assert why.endswith(("less than 0.5 % of the step", "by which trials differ"))


def test_the_users_own_is_first_and_the_forecast_says_what_is_next() -> None:
    script = Script()
    search(SPACE, forecast, script, Stopping(trials=2), Study(SPACE))
    (own, said), (second, expected) = script.seen
    assert (own, said) == (SPACE.current, 1.0)
    assert second[1] > 0
    assert expected == pytest.approx(1.5, abs=0.2)


def test_without_a_forecast_nothing_is_expected() -> None:
    script = Script()
    search(SPACE, unknown, script, Stopping(trials=2), Study(SPACE))
    assert [expected for _, expected in script.seen] == [None, None]


def test_only_rivals_for_the_first_place_are_tried_again_and_once() -> None:
    script = Script(0.02)
    trials, _ = search(SPACE, forecast, script, LONG, Study(SPACE))
    twice = {one for one in script.candidates if script.candidates.count(one) == 2}
    assert len(script.candidates) == len(set(script.candidates)) + len(twice)
    assert 2 <= len(twice) <= 6
    assert best(SPACE, forecast, trials) in twice


def test_the_budget_ends_the_search() -> None:
    clock = iter(range(0, 1000, 10))
    trials, why = search(SPACE, forecast, Script(), Stopping(budget_s=35.0), Study(SPACE), lambda: next(clock))
    assert len(trials) == 3
    assert why == "what the budget leaves beside the proof does not hold another trial"


def test_a_search_ends_at_once_where_the_run_is_over_before_it_pays() -> None:
    trials, why = search(SPACE, forecast, Script(), Stopping(budget_s=1.0, planned_s=1.5), Study(SPACE), lambda: 0.0)
    assert len(trials) == 1
    assert "of the planned run" in why


def test_what_is_as_large_as_what_ran_out_of_memory_is_not_tried() -> None:
    script = Script(ends=lambda one: Outcome.OUT_OF_MEMORY if one[0] >= 3 else Outcome.COMPLETED)
    trials, _ = search(SPACE, unknown, script, LONG, Study(SPACE))
    ran_out = [one[0] for one in script.candidates if one[0] >= 3]
    assert ran_out == sorted(ran_out, reverse=True)
    assert len(set(ran_out)) == len(ran_out) <= 3
    assert best(SPACE, unknown, trials)[0] == 2


def test_what_leaves_too_little_memory_is_not_the_best() -> None:
    space = Space(SPACE.axes, memory_limit_bytes=100, is_on_device=True)
    script = Script(memory=lambda one: 200 if one[1] == 2 else 50)
    trials, _ = search(space, forecast, script, LONG, Study(space))
    assert best(space, forecast, trials)[1] != 2


def test_a_script_that_does_not_run_is_not_searched() -> None:
    trials, why = search(SPACE, forecast, Script(ends=lambda one: Outcome.FAILED), LONG, Study(SPACE))
    assert len(trials) == 1
    assert why == "the script does not run as it is: boom"
    assert best(SPACE, forecast, trials) == SPACE.current


def test_where_the_users_own_failed_in_another_search_it_is_tried_again(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    for _ in range(2):
        lost = Script(ends=lambda one: Outcome.TIMED_OUT)
        _, why = search(SPACE, forecast, lost, LONG, Study(SPACE, url))
        assert (lost.candidates, why) == ([SPACE.current], "the script does not run as it is: boom")
    script = Script()
    trials, _ = search(SPACE, forecast, script, LONG, Study(SPACE, url))
    assert script.candidates[0] == SPACE.current
    assert regret(best(SPACE, forecast, trials)) <= 0.05


def test_where_the_users_own_runs_out_of_memory_smaller_ones_are_searched() -> None:
    script = Script(ends=lambda one: Outcome.OUT_OF_MEMORY if one[0] >= 1 else Outcome.COMPLETED)
    trials, _ = search(SPACE, forecast, script, LONG, Study(SPACE))
    assert all(one[0] == 0 for one in script.candidates[1:])
    assert best(SPACE, forecast, trials)[0] == 0


def test_a_space_of_one_ends_after_it() -> None:
    trials, why = search(
        Space(()), unknown, lambda n, c, e: Trial(n, c, Outcome.COMPLETED, 1.0, 1.0), LONG, Study(Space(()))
    )
    assert (len(trials), why) == (1, "nothing is left to try")


def test_a_search_goes_on_where_it_was_interrupted(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    script = Script()

    def interrupted(number, candidate, expected) -> Trial:
        if len(script.seen) == 4:
            raise KeyboardInterrupt
        return script(number, candidate, expected)

    with pytest.raises(KeyboardInterrupt):
        search(SPACE, forecast, interrupted, LONG, Study(SPACE, url))
    again = Script()
    trials, _ = search(SPACE, forecast, again, Stopping(trials=8), Study(SPACE, url))
    assert len(trials) == 8
    assert len(again.seen) == 4
    assert not set(again.candidates) & set(script.candidates)


def test_two_tuners_share_the_work(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    Study(SPACE, url)
    scripts, both = [Script(), Script()], threading.Barrier(2)

    def tune(script) -> None:
        study = Study(SPACE, url)
        both.wait()
        search(SPACE, forecast, script, Stopping(trials=10), study)

    threads = [threading.Thread(target=tune, args=(script,)) for script in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tried = [one for script in scripts for one in script.candidates]
    assert 10 <= len(tried) <= 11
    assert len(set(tried)) == len(tried)
    assert all(script.seen for script in scripts)
