"""What the progress bar should show: computed by hand, and no promise where none can be kept."""

from __future__ import annotations

import pytest
import report_cases
from msgspec.structs import replace
from report_builders import change, evidence, finding, gain, gain_from, recommendation, report, rule, run, step

from autotune.model.finding import Recommendation
from autotune.model.report import Report
from autotune.report.expectation import Expectation, expectations, head, sentence

BAR = evidence({"run": {"step.num_micro_batches": 1.0}})


def made(*recommendations: Recommendation, **given: object) -> Report:
    window = step(forward=60.0, data_wait=40.0, checkpoint=20.0)
    return report(*recommendations, run=run(**given), step=window, evidence=BAR)  # type: ignore[arg-type]


def won(low: float = 1.4, basis: str = "measured", setting: str = "a.b", fact: str = "step.data_wait_share"):
    each = gain(1.5, low, 1.6, basis)
    of = rule(gain=gain_from(fact))
    return recommendation(1, finding(of, "m", change(setting, 1, 2, ("t.py", 1)), gain=each), after=each)


def only(report: Report) -> Expectation:
    (found,) = expectations(report)
    return found


def test_the_bar_has_no_saves_and_loses_what_the_change_removes_of_the_whole_step() -> None:
    found = only(made(won()))
    assert found.now_ms == pytest.approx(100.0)
    assert found.expected_ms == pytest.approx(100.0 - 120.0 * (1 - 1 / 1.5))
    assert found.limit_ms == pytest.approx(100.0 - 120.0 * (1 - 1 / 1.4))
    assert head(found) == "Expect after 1"
    assert (
        sentence(found)
        == "16.67 it/s, now 10.00 it/s; slower than 15.22 it/s after 50 steps: run autotune diagnose again"
    )


def test_a_narrow_interval_leaves_what_a_bar_varies_by() -> None:
    found = only(made(won(low=1.499)))
    assert found.limit_ms == pytest.approx(60.0 * 1.05)


def test_rarer_saves_do_not_shorten_an_iteration() -> None:
    found = only(made(won(fact="checkpoint.cost_share")))
    assert found.expected_ms == found.now_ms
    assert found.limit_ms is None


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (won(basis="bound"), "the gain is an upper bound"),
        (won(low=1.01), "the expected range reaches up to what it is now"),
        (won(setting="loader.batch_size"), "an iteration is other work after the change of loader.batch_size"),
    ],
)
def test_there_is_no_promise(of: Recommendation, why: str) -> None:
    found = only(made(of))
    assert (found.limit_ms, found.why_not) == (None, why)
    assert f"no promise: {why}" in sentence(found)


def test_each_group_counts_those_before_it() -> None:
    first, both = expectations(report_cases.full())
    assert (first.numbers, both.numbers) == ((1,), (1, 2, 3))
    assert both.expected_ms < first.expected_ms < first.now_ms == pytest.approx(3330.0)


@pytest.mark.parametrize("given", [{"traces": ("a.json",)}])
def test_a_trace_promises_nothing(given: dict[str, object]) -> None:
    assert expectations(made(won(), **given)) == ()


def test_without_a_step_or_a_gain_there_is_nothing_to_expect() -> None:
    assert expectations(replace(made(won()), step=None)) == ()
    assert expectations(made()) == ()
