from __future__ import annotations

import pytest
from build import GRAD_IN_EVAL, MS, NO_GRAD, Script, facts_of, loader, settings_of, steps, what_if, window
from msgspec.structs import replace

HF = {"type": "TrainingArguments", "module": "transformers.training_args", "site": None}
LOADERS = (loader(0), loader(1))


def saving(count: int, every: int, ms: int = 35) -> Script:
    """Each save is two torch.save calls inside one library call."""
    script = Script()
    for done in range(1, count + 1):
        script.step()
        if done % every == 0 and done < count:
            with script.inside("checkpoint"):
                script.run("checkpoint", ms - 5)
                script.run("checkpoint", 5)
    return script


def test_saves_and_the_interval_seen():
    facts = facts_of(script=saving(10, 3))
    assert facts["checkpoint.num_seen"] == 3
    assert facts["checkpoint.save_s"] == 0.035
    assert facts["checkpoint.cost_share"] == pytest.approx(35 / (3 * 65 + 35))
    setting = settings_of(script=saving(10, 3))["run", "checkpoint.interval_steps"]
    assert (setting.value, setting.location) == (3, None)


def planned(script: Script, **told) -> tuple[object, object]:
    """A step of the whole run in ms, and seconds of its 1,000 steps."""
    facts = facts_of(script=script, frameworks={"hf_args": HF | {"values": {"max_steps": 1000, **told}}})
    return facts.get("run.step_ms"), facts.get("run.planned_s")


def test_one_save_in_a_short_window_comes_as_often_as_the_run_saves():
    step_ms, planned_s = planned(saving(10, 6, ms=6500), save_strategy="steps", save_steps=1000)
    assert step_ms == pytest.approx(65 + 6.5)
    assert planned_s == pytest.approx(65 + 6.5)


def test_a_save_that_comes_who_knows_how_often_leaves_the_run_unknown():
    assert planned(saving(10, 6)) == (None, None)
    assert planned(saving(10, 3)) == (pytest.approx(65 + 35 / 3), pytest.approx(65 + 35 / 3))
    assert planned(steps(10)) == (65.0, 65.0)


def test_evaluations_count_at_their_interval_too():
    told = {"eval_strategy": "steps", "eval_steps": 500, "save_strategy": "steps", "save_steps": 1000}
    script = evaluating(3, count=6)
    with script.inside("checkpoint"):
        script.idle(40)
    script.step()
    frameworks = {"hf_args": HF | {"values": told}}
    facts = facts_of(script=script, loaders=LOADERS, frameworks=frameworks)
    assert facts["run.step_ms"] == pytest.approx(65 + 24 / 500 + 40 / 1000)
    assert "run.planned_s" not in facts


def test_an_evaluation_of_unknown_length_leaves_the_run_unknown():
    script = steps(4)
    script.mode(False)
    script.fetch(3, loader=1)
    script.forward(7, NO_GRAD)
    longer = replace(window(script, 1), end_ns=script.now * MS)
    frameworks = {"hf_args": HF | {"values": {"eval_strategy": "steps", "eval_steps": 500}}}
    assert "run.step_ms" not in facts_of(script=script, loaders=LOADERS, window=longer, frameworks=frameworks)


def test_what_comes_within_the_run_and_was_never_seen_is_not_taken_for_nothing():
    every_500 = {"eval_strategy": "steps", "eval_steps": 500}
    assert planned(steps(10), **every_500) == (None, None)
    assert planned(steps(10), save_strategy="steps", save_steps=1000) == (None, None)
    assert planned(steps(10), **every_500 | {"eval_steps": 1001}) == (65.0, 65.0)


def test_saves_that_the_window_has_none_of_come_on_top():
    probe = (what_if("serialise", {"parts": "model+optimizer"}, ns=130 * MS, bytes=5000),)
    hf = {"hf_args": HF | {"values": {"save_strategy": "steps", "save_steps": 10}}}
    assert facts_of(script=steps(3), what_ifs=probe, frameworks=hf)["run.step_ms"] == pytest.approx(65 + 13)
    assert facts_of(script=steps(3), what_ifs=probe)["run.step_ms"] == 65.0


def test_two_saves_between_two_steps_are_one():
    script = steps(2)
    script.run("checkpoint", 10)
    script.idle(3)
    script.run("checkpoint", 20)
    script.step()
    facts = facts_of(script=script)
    assert (facts["checkpoint.num_seen"], facts["checkpoint.save_s"]) == (1, 0.03)
    assert "checkpoint.cost_share" not in facts


def test_a_save_before_the_first_step_is_no_round():
    script = Script()
    script.run("checkpoint", 50)
    script.step()
    script.step()
    facts = facts_of(script=script)
    assert facts["checkpoint.num_seen"] == 0
    assert "checkpoint.save_s" not in facts


def test_the_last_save_of_a_script_that_ended_is_no_part_of_the_rhythm():
    script = saving(8, 3)
    end = script.now
    script.run("checkpoint", 10)
    ended = window(script, 1, "script_ended")
    longer = replace(ended, end_ns=(end + 10) * MS)
    assert settings_of(script=script, window=longer)["run", "checkpoint.interval_steps"].value == 3


def test_serialising_stands_in_for_a_save_that_was_not_seen():
    probe = (what_if("serialise", {"parts": "model+optimizer"}, ns=130 * MS, bytes=5000),)
    hf = {"hf_args": HF | {"values": {"save_strategy": "steps", "save_steps": 8}}}
    facts = facts_of(script=steps(3), what_ifs=probe, frameworks=hf)
    assert (facts["checkpoint.num_seen"], facts["checkpoint.save_s"], facts["checkpoint.bytes"]) == (1, 0.13, 5000)
    assert facts["checkpoint.cost_share"] == pytest.approx(130 / (8 * 65 + 130))
    failed = (what_if("serialise", {}, outcome="failed"),)
    assert "checkpoint.save_s" not in facts_of(script=steps(3), what_ifs=failed)


def evaluating(*after: int, count: int, **how) -> Script:
    """Evaluations (24 ms) after these numbers of steps."""
    script = Script()
    for done in range(count + 1):
        if done in after:
            script.evaluate(**how)
        if done < count:
            script.step()
    return script


@pytest.mark.parametrize(
    ("after", "count", "interval"),
    [
        pytest.param((3, 6), 8, 3, id="two evaluations"),
        pytest.param((0, 5), 8, 5, id="step 0 is a mark of the rhythm"),
        pytest.param((5,), 8, None, id="one evaluation says nothing"),
    ],
)
def test_evaluations_and_the_interval_seen(after, count, interval):
    given = {"script": evaluating(*after, count=count), "loaders": LOADERS}
    facts = facts_of(**given)
    assert facts["evaluation.eval_s"] == 0.024
    assert facts["evaluation.num_seen"] == len([steps for steps in after if steps])
    assert facts["evaluation.with_grad"] is False
    expected = None if interval is None else pytest.approx(24 / (interval * 65 + 24))
    assert facts.get("evaluation.cost_share") == expected


def test_gradients_in_an_evaluation():
    script = evaluating(2, count=4, flag=GRAD_IN_EVAL)
    assert facts_of(script=script, loaders=LOADERS)["evaluation.with_grad"] is True


def test_one_evaluation_at_the_end_of_an_epoch_comes_every_epoch():
    script = Script()
    for _ in range(4):
        script.step(micros=2)
    script.fetch(1, loader=0, came=False)
    script.evaluate()
    script.run("iter", 2, 0)
    for _ in range(2):
        script.step(micros=2)
    loaders = (loader(0, num_batches=8), loader(1))
    mean = 125 + (1 + 2) / 5
    assert facts_of(script=script, loaders=loaders)["evaluation.cost_share"] == pytest.approx(
        0.024 / (4 * mean / 1e3 + 0.024)
    )


def test_an_evaluation_that_the_recording_cut_has_no_length():
    script = steps(4)
    script.mode(False)
    script.fetch(3, loader=1)
    script.forward(7, NO_GRAD)
    cut = window(script, 1)
    longer = replace(cut, end_ns=script.now * MS)
    facts = facts_of(script=script, loaders=LOADERS, window=longer)
    assert facts["evaluation.num_seen"] == 1
    assert "evaluation.eval_s" not in facts


def lightning(**values):
    return {"lightning": {"type": "Trainer", "module": "lightning", "site": None, "values": values}}


@pytest.mark.parametrize(
    ("frameworks", "name", "expected"),
    [
        ({"hf_args": HF | {"values": {"save_strategy": "epoch"}}}, "checkpoint", 100),
        ({"hf_args": HF | {"values": {"save_strategy": "no", "save_steps": 9}}}, "checkpoint", None),
        (
            {"hf_args": HF | {"values": {"save_strategy": "steps", "save_steps": 0.1, "max_steps": 95}}},
            "checkpoint",
            10,
        ),
        ({"hf_args": HF | {"values": {"eval_strategy": "steps", "eval_steps": 7}}}, "evaluation", 7),
        ({"hf_args": HF | {"values": {"eval_strategy": "steps", "logging_steps": 6}}}, "evaluation", 6),
        ({"hf_args": HF | {"values": {"eval_strategy": "no", "logging_steps": 6}}}, "evaluation", None),
        ({"hf_args": HF | {"values": {"logging_strategy": "steps", "logging_steps": 5}}}, "logging", 5),
        (lightning(log_every_n_steps=50), "logging", 50),
        (lightning(val_check_interval=1.0, check_val_every_n_epoch=2), "evaluation", 200),
        (lightning(val_check_interval=0.25), "evaluation", 25),
        (lightning(val_check_interval=30), "evaluation", 30),
        (lightning(val_check_interval=30, enable_validation=True), "evaluation", 30),
        (lightning(val_check_interval=1.0, enable_validation=False), "evaluation", None),
    ],
)
def test_intervals_as_told(frameworks, name, expected):
    setting = settings_of(script=steps(3), frameworks=frameworks).get(("run", f"{name}.interval_steps"))
    assert (setting.value if setting else None) == expected


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("hf_args", {"load_best_model_at_end": True}, True),
        ("hf_args", {}, False),
        ("accelerator", {}, False),
        ("lightning", {}, None),
    ],
)
def test_whether_an_evaluation_chooses_the_checkpoint(key, values, expected):
    facts = facts_of(frameworks={key: HF | {"values": values}})
    assert facts.get("evaluation.selects_checkpoint") is expected


def test_a_recording_without_steps_has_no_rounds():
    assert not [name for name in facts_of() if name.endswith(("num_seen", "_s", "cost_share", "with_grad"))]
