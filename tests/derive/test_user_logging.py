from __future__ import annotations

import pytest
from build import Script, facts_of, sample
from msgspec.structs import replace

from autotune.derive.user_logging import LOGS


def busy(other_ms):
    """Five steps; in each of the last four the script's own code takes `other_ms` of 65 + `other_ms`."""
    script = Script()
    script.step()
    for _ in range(4):
        script.idle(other_ms)
        script.step()
    return script


@pytest.mark.parametrize(
    "path",
    [
        "main > log_metrics",
        "main > JsonBoard.add_histogram > JsonBoard._put",
        "main > train.<locals>.log",
        "main > MetricLogger.update",
        "write_stats",
        "Runner.run > _log_step > dump",
        "main > log_to_wandb",
        "main > RunLog.report > RunLog.histogram",
        "EventWriter.put",
    ],
)
def test_names_that_log(path):
    assert LOGS.search(path)


@pytest.mark.parametrize(
    "path",
    [
        "main > log_prob",
        "Flow.log_det",
        "log_softmax",
        "main > catalog",
        "login",
        "epoch_logits",
        "train > add",
        "Catalog.get",
        "Dialog.turn",
        "ObjectTracker.step",
        "WeightWriter.put",
        "SafeLog.forward",
        "main > NegLog.apply",
        "",
    ],
)
def test_names_that_do_not(path):
    assert not LOGS.search(path)


@pytest.mark.parametrize(("logging", "share"), [(10, 0.125), (0, 0.0)])
def test_a_share_of_what_the_scripts_own_code_takes(logging, share):
    samples = (replace(sample("other", logging), path="main > log_step"), sample("other", 40 - logging))
    facts = facts_of(script=busy(65), samples=samples)
    assert facts["step.own_logging_share"] == pytest.approx(share)
    assert facts["step.all_logging_share"] == facts["step.own_logging_share"]


def test_what_the_loop_is_called_from_says_nothing_of_what_it_does():
    paths = ("log_results > train", "log_results > train > draw", "log_results > train > log_step")
    samples = tuple(replace(sample("other", 20), path=path) for path in paths)
    assert facts_of(script=busy(65), samples=samples)["step.own_logging_share"] == pytest.approx(0.5 / 3)


def test_where_all_of_it_is_in_one_logger_the_backward_says_where_the_loop_is():
    samples = (
        *(replace(sample("other", 20), path=path) for path in ("main > RunLog.report", "main > RunLog.report > put")),
        replace(sample("backward", 30), path="main"),
    )
    assert facts_of(script=busy(65), samples=samples)["step.own_logging_share"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("writer", "other", "backward", "share"),
    [
        pytest.param("Diary.keep", "Diary.keep > Diary.spread", "step_once", 0.5, id="with what it calls of its class"),
        pytest.param("Diary.keep", "Diary.keep", "step_once", 0.5, id="itself"),
        pytest.param("Diary.keep", "Diary.keep > Env.step", "step_once", 0.5 / 40, id="not what it watches"),
        pytest.param("keep", "keep > simulate", "step_once", 0.5 / 40, id="a function has no class"),
        pytest.param("f.<locals>.keep", "f.<locals>.keep > f.<locals>.draw", "x", 0.5 / 40, id="nor a local one"),
        pytest.param("Diary.keep", "Diary.keep > Diary.spread", "Diary.keep", 0.0, id="it calls backward"),
        pytest.param("Diary.keep", "Diary.keep > Diary.spread", None, 0.0, id="the loop was not seen"),
    ],
)
def test_what_writes_below_the_loop_logs_whatever_its_name(writer, other, backward, share):
    samples = (
        replace(sample("other", 39), path=f"train > {other}"),
        replace(sample("other", 1), path=f"train > {writer}", writers=writer),
        *([] if backward is None else [replace(sample("backward", 30), path=f"train > {backward}")]),
    )
    assert facts_of(script=busy(65), samples=samples)["step.own_logging_share"] == pytest.approx(share)


def test_the_loop_itself_may_write():
    samples = (
        replace(sample("other", 20), path="train > Diary.keep"),
        replace(sample("other", 20), path="train", writers="train"),
        replace(sample("backward", 30), path="train > step_once"),
    )
    assert facts_of(script=busy(65), samples=samples)["step.own_logging_share"] == 0.0


@pytest.mark.parametrize("backward", ["MetricLogger.run > train", "MetricLogger.run > train > Scale.backward"])
def test_a_loop_that_stands_in_a_logger_does_not_log(backward):
    samples = (
        replace(sample("other", 40), path="MetricLogger.run > train"),
        replace(sample("backward", 30), path=backward),
    )
    assert facts_of(script=busy(65), samples=samples)["step.own_logging_share"] == 0.0


def test_on_cuda_a_read_of_the_loss_is_not_told_from_logging():
    samples = (replace(sample("other", 40), path="main > log_step"),)
    assert "step.own_logging_share" not in facts_of(script=busy(65), samples=samples, device={"type": "cuda"})


def test_few_samples_of_much_time_say_nothing():
    facts = facts_of(script=busy(40), samples=(replace(sample("other", 19), path="log"),))
    assert "step.own_logging_share" not in facts


def test_with_what_libraries_take_it_is_all():
    script = Script()
    for _ in range(4):
        script.step()
        script.run("logging", 35)
    facts = facts_of(script=script, samples=())
    assert facts["step.own_logging_share"] == 0.0
    assert facts["step.all_logging_share"] == pytest.approx(facts["step.logging_share"])


def test_without_a_window_nothing_is_known():
    assert not [name for name in facts_of() if "logging_share" in name]
