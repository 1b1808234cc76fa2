from __future__ import annotations

import random
import threading

import pytest

from autotune.model.forecast import Forecast
from autotune.model.tuned import Axis, Outcome, SearchTrial, Space
from autotune.tune.search import fastest, search
from autotune.tune.stopping import Stopping
from autotune.tune.study import JOURNAL, Study
from autotune.tune.surrogate import NUM_FORECAST, completed

pytestmark = pytest.mark.usefixtures("few_beside")

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

    def __call__(self, number, candidate, expected) -> SearchTrial:
        self.seen.append((candidate, expected))
        outcome = self.ends(candidate)
        speed = 1e3 / ms(candidate) * self.draw.lognormvariate(0, self.noise) if outcome == Outcome.COMPLETED else None
        return SearchTrial(number, candidate, outcome, 1.0, speed, memory_bytes=self.memory(candidate), error="boom")

    @property
    def candidates(self):
        return [candidate for candidate, _ in self.seen]


def best(space, forecaster, trials):
    return fastest(space, forecaster, trials, completed(space, trials))


def regret(candidate) -> float:
    every = [(b, w, f) for b in range(6) for w in range(5) for f in range(2)]
    return ms(candidate) / min(map(ms, every)) - 1


@pytest.mark.parametrize("forecaster", [forecast, unknown])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_it_finds_a_good_candidate_in_a_fraction_of_the_space(forecaster, noise) -> None:
    script = Script(noise)
    trials, why = search(SPACE, Study(SPACE, forecaster), script, LONG)
    assert regret(best(SPACE, forecaster, trials)) <= 0.05
    assert len(trials) <= 26
    assert why.endswith(("less than 0.5 % of the step", "noise of 3.0 %"))


def test_the_users_own_is_first_and_the_forecast_says_what_is_next() -> None:
    script = Script()
    search(SPACE, Study(SPACE, forecast), script, Stopping(trials=1 + NUM_FORECAST))
    (own, said), *others = script.seen
    assert (own, said) == (SPACE.current, 1.0)
    assert [one for one, _ in others] == [(1, 1, 0), (1, 2, 0), (1, 3, 0)]
    assert [expected for _, expected in others] == pytest.approx([140 / 91, 140 / 92, 140 / 93])


def test_what_the_forecast_ranks_first_is_not_tried_where_memory_ran_out() -> None:
    space = Space((BATCH, WORKERS), is_on_device=True)

    def larger_is_faster(settings) -> Forecast:
        ms = 100.0 / (1 + settings["loader.batch_size"])
        return Forecast(ms, ms, ms, "modelled")

    tried = []

    def attempt(number, candidate, expected) -> SearchTrial:
        tried.append(candidate[0])
        has_room = candidate[0] < 5
        outcome = Outcome.COMPLETED if has_room else Outcome.OUT_OF_MEMORY
        return SearchTrial(number, candidate, outcome, 1.0, 1.0 if has_room else None)

    search(space, Study(space, larger_is_faster), attempt, Stopping(trials=4))
    assert tried == [1, 5, 4, 3]


def test_without_a_forecast_nothing_is_expected() -> None:
    script = Script()
    search(SPACE, Study(SPACE, unknown), script, Stopping(trials=2))
    assert [expected for _, expected in script.seen] == [None, None]


def test_only_rivals_for_the_first_place_are_tried_again_and_once() -> None:
    script = Script()
    trials, _ = search(SPACE, Study(SPACE, forecast), script, LONG)
    twice = {one for one in script.candidates if script.candidates.count(one) == 2}
    assert len(script.candidates) == len(set(script.candidates)) + len(twice)
    assert 2 <= len(twice) <= 6
    assert best(SPACE, forecast, trials) in twice


def test_the_budget_ends_the_search() -> None:
    clock = iter(range(0, 1000, 10))
    trials, why = search(SPACE, Study(SPACE, forecast), Script(), Stopping(budget_s=35.0), lambda: next(clock))
    assert len(trials) == 3
    assert why


def test_a_search_ends_at_once_where_the_run_is_over_before_it_pays() -> None:
    trials, why = search(SPACE, Study(SPACE, forecast), Script(), Stopping(budget_s=1.0, planned_s=1.5), lambda: 0.0)
    assert len(trials) == 1
    assert why


def test_what_is_as_large_as_what_ran_out_of_memory_is_not_tried() -> None:
    script = Script(ends=lambda one: Outcome.OUT_OF_MEMORY if one[0] >= 3 else Outcome.COMPLETED)
    trials, _ = search(SPACE, Study(SPACE, unknown), script, LONG)
    ran_out = [one[0] for one in script.candidates if one[0] >= 3]
    assert ran_out == sorted(ran_out, reverse=True)
    assert len(set(ran_out)) == len(ran_out) <= 3
    assert best(SPACE, unknown, trials)[0] == 2


def test_what_leaves_too_little_memory_is_not_the_best() -> None:
    space = Space(SPACE.axes, memory_limit_bytes=100, is_on_device=True)
    script = Script(memory=lambda one: 200 if one[1] == 2 else 50)
    trials, _ = search(space, Study(space, forecast), script, LONG)
    assert best(space, forecast, trials)[1] != 2


def test_a_script_that_does_not_run_is_not_searched() -> None:
    trials, why = search(SPACE, Study(SPACE, forecast), Script(ends=lambda one: Outcome.FAILED), LONG)
    assert len(trials) == 1
    assert why == "the script does not run as it is: boom"
    assert best(SPACE, forecast, trials) == SPACE.current


def test_where_the_users_own_failed_in_another_search_it_is_tried_again(tmp_path) -> None:
    url = f"{JOURNAL}{tmp_path / 'study.journal'}"
    for _ in range(2):
        lost = Script(ends=lambda one: Outcome.TIMED_OUT)
        _, why = search(SPACE, Study(SPACE, forecast, url), lost, LONG)
        assert (lost.candidates, why) == ([SPACE.current], "the script does not run as it is: boom")
    script = Script()
    trials, _ = search(SPACE, Study(SPACE, forecast, url), script, LONG)
    assert script.candidates[0] == SPACE.current
    assert regret(best(SPACE, forecast, trials)) <= 0.05


def test_where_the_users_own_runs_out_of_memory_smaller_ones_are_searched() -> None:
    script = Script(ends=lambda one: Outcome.OUT_OF_MEMORY if one[0] >= 1 else Outcome.COMPLETED)
    trials, _ = search(SPACE, Study(SPACE, forecast), script, LONG)
    assert all(one[0] == 0 for one in script.candidates[1:])
    assert best(SPACE, forecast, trials)[0] == 0


def test_a_space_of_one_ends_after_it() -> None:
    trials, why = search(
        Space(()), Study(Space(()), unknown), lambda n, c, e: SearchTrial(n, c, Outcome.COMPLETED, 1.0, 1.0), LONG
    )
    assert (len(trials), why) == (1, "nothing is left to try")


def test_a_search_goes_on_where_it_was_interrupted(tmp_path) -> None:
    url = f"{JOURNAL}{tmp_path / 'study.journal'}"
    script = Script()

    def interrupted(number, candidate, expected) -> SearchTrial:
        if len(script.seen) == 4:
            raise KeyboardInterrupt
        return script(number, candidate, expected)

    with pytest.raises(KeyboardInterrupt):
        search(SPACE, Study(SPACE, forecast, url), interrupted, LONG)
    again = Script()
    trials, _ = search(SPACE, Study(SPACE, forecast, url), again, Stopping(trials=8))
    assert len(trials) == 8
    assert len(again.seen) == 4
    assert not set(again.candidates) & set(script.candidates)


def test_two_tuners_share_the_work(tmp_path) -> None:
    url = f"{JOURNAL}{tmp_path / 'study.journal'}"
    Study(SPACE, forecast, url)
    scripts, both = [Script(), Script()], threading.Barrier(2)

    def tune(script) -> None:
        def attempt(number, candidate, expected) -> SearchTrial:
            if not script.seen:
                both.wait(60.0)  # a trial takes no time here: neither is to make all of them
            return script(number, candidate, expected)

        search(SPACE, Study(SPACE, forecast, url, longest_s=60.0), attempt, Stopping(trials=10))

    threads = [threading.Thread(target=tune, args=(script,)) for script in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tried = [one for script in scripts for one in script.candidates]
    assert 10 <= len(tried) <= 11
    assert len(set(tried)) == len(tried)
    assert all(script.seen for script in scripts)
