from __future__ import annotations

import pytest

from autotune.engine.evidence import join
from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Evidence, Fact
from autotune.model.report import Step
from autotune.model.verified import AFTER, RunResult
from autotune.tune.token_throughput import in_own_samples, is_rebatched, tokens_per_sample

START = RunResult(AFTER, 200.0, 20, 3, 5.0, samples=8.0)


def derived(useful_tokens_per_s) -> Derived:
    step = Step(20, 200.0, 200.0, 200.0, {}, samples_per_s=40.0, useful_tokens_per_s=useful_tokens_per_s)
    return Derived((), (), step)


def evidence(**facts) -> Evidence:
    return join([Fact(f"step.{name}", RUN, value) for name, value in facts.items()], [])


def test_tokens_of_a_sample_are_without_padding() -> None:
    assert tokens_per_sample(evidence(useful_tokens_per_s=6000.0, tokens_per_s=9000.0, samples_per_s=60.0)) == 100.0


@pytest.mark.parametrize("facts", [{"samples_per_s": 60.0}, {"useful_tokens_per_s": 6000.0}, {}])
def test_what_was_not_counted_has_no_tokens_per_sample(facts) -> None:
    assert tokens_per_sample(evidence(**facts)) is None


def test_a_packed_row_counts_as_the_samples_that_it_holds() -> None:
    packed = in_own_samples(START, derived(20_000.0), 100.0)
    assert packed is not None
    assert packed.samples == pytest.approx(40.0)
    assert packed.step_ms == START.step_ms


def test_what_holds_fewer_tokens_is_fewer_samples() -> None:
    short = in_own_samples(START, derived(2_000.0), 100.0)
    assert short is not None
    assert short.samples == pytest.approx(4.0)


def test_without_tokens_on_both_sides_nothing_is_counted() -> None:
    assert in_own_samples(START, derived(None), 100.0) is None
    assert in_own_samples(START, derived(2_000.0), None) is None
    assert in_own_samples(None, None, 100.0) is None
    assert in_own_samples(START, Derived((), (), None), 100.0) is None


def test_packing_and_grouping_make_other_batches() -> None:
    assert is_rebatched(["loader.num_workers", "data.packing"])
    assert is_rebatched(["data.group_by_length"])
    assert not is_rebatched(["loader.batch_size", "loader.num_workers"])
