from __future__ import annotations

import pytest
from build import Script, batches, facts_of, loader, optimizer, recording, sample, settings_of, steps

from autotune.derive import derive
from autotune.model.report import PHASES, Frame


def test_a_plain_loop():
    facts = facts_of(script=steps(4))
    expected = {
        "step.num_steps": 3,
        "step.mean_ms": 65.0,
        "step.median_ms": 65.0,
        "step.p90_ms": 65.0,
        "step.first_ms": 65.0,
        "step.num_micro_batches": 1.0,
        "step.data_wait_share": 10 / 65,
        "step.forward_share": 20 / 65,
        "step.backward_share": 30 / 65,
        "step.optimizer_share": 5 / 65,
        "step.other_share": 0.0,
        "step.compute_share": 55 / 65,
        "step.noise_share": 0.0,
        "step.starts_loader": False,
        "step.own_logging_share": 0.0,
        "step.all_logging_share": 0.0,
    }
    assert {name: value for name, value in facts.items() if name.startswith("step.")} == pytest.approx(expected)


def test_accumulation_of_four():
    script = steps(3, micros=4)
    facts = facts_of(script=script, batches=batches([(4, 8)] * 3))
    assert facts["step.mean_ms"] == 245.0
    assert facts["step.num_micro_batches"] == 4.0
    assert facts["step.forward_share"] == 80 / 245
    assert settings_of(script=script)["run", "train.accumulation_steps"].value == 4
    assert facts["run.global_batch"] == 8
    assert facts["step.samples_per_s"] == pytest.approx(8 / 0.245)
    assert facts["step.tokens_per_s"] == pytest.approx(64 / 0.245)
    assert facts["step.useful_tokens_per_s"] == pytest.approx(48 / 0.245)


def test_a_closure_runs_forward_and_backward_inside_the_optimizer():
    script = Script()
    for _ in range(3):
        script.fetch(10)
        with script.inside("optimizer", 0):
            for _ in range(4):
                script.forward(5)
                script.run("backward", 10)
                script.idle(1)
        script.end_step()
    facts = facts_of(script=script)
    assert (facts["step.forward_share"], facts["step.optimizer_share"]) == (20 / 74, 4 / 74)
    assert facts["step.num_micro_batches"] == 4.0
    assert facts_of("optimizer#0", script=script)["optimizer.step_ms"] == 4.0
    assert settings_of(script=script)["run", "train.accumulation_steps"].value == 1


def test_what_a_closure_does_itself_is_no_update():
    script = Script()
    for _ in range(3):
        script.fetch(10)
        with script.inside("optimizer", 0):
            with script.inside("closure"):
                script.forward(20)
                script.idle(7)
                script.run("backward", 30)
            script.idle(5)
        script.end_step()
    facts = facts_of(script=script)
    shares = [facts[f"step.{phase}_share"] for phase in ("forward", "backward", "optimizer", "other")]
    assert shares == [20 / 72, 30 / 72, 5 / 72, 7 / 72]
    assert facts_of("optimizer#0", script=script)["optimizer.step_share"] == 5 / 72


def test_two_optimizers_and_two_backwards_for_one_batch_are_no_accumulation():
    script = Script()
    for _ in range(4):
        script.micro()
        script.run("optimizer", 5, 1)
        script.forward(5, model=1)
        script.run("backward", 10)
        script.update()
    given = {"script": script, "optimizers": (optimizer(0), optimizer(1, type="SGD"))}
    assert facts_of(**given)["step.num_micro_batches"] == 2.0
    assert settings_of(**given)["run", "train.accumulation_steps"].value == 1
    assert facts_of("optimizer#1", **given)["optimizer.type"] == "SGD"


def test_several_optimizers_without_a_loader_leave_accumulation_unknown():
    script = Script()
    for _ in range(3):
        for ref in (1, 0):
            script.forward(5, model=ref)
            script.run("backward", 10)
            script.run("optimizer", 5, ref)
        script.end_step()
    given = {"script": script, "loaders": (), "optimizers": (optimizer(0), optimizer(1))}
    assert ("run", "train.accumulation_steps") not in settings_of(**given)


def test_recomputation_is_not_backward_and_its_inner_backward_is_no_micro_batch():
    script = Script()
    for _ in range(3):
        script.fetch(10)
        script.forward(20)
        with script.inside("backward"):
            script.run("recompute", 15)
            script.run("backward", 5)
            script.idle(10)
        script.update()
    facts = facts_of(script=script)
    assert (facts["step.recompute_share"], facts["step.backward_share"]) == (15 / 65, 15 / 65)
    assert facts["step.num_micro_batches"] == 1.0
    assert facts["step.compute_share"] == 55 / 65


def test_the_breakdown_sums_to_the_mean_and_leaves_out_what_was_not_seen():
    script = Script()
    for _ in range(2):
        script.step()
    script.idle(20)
    script.evaluate()
    script.run("checkpoint", 11)
    script.step()
    step = derive([recording(script, loaders=(loader(0), loader(1)))]).step
    assert step is not None
    assert tuple(step.breakdown_ms) == PHASES
    assert step.mean_ms == (65 + 20 + 24 + 11 + 65) / 2
    assert step.breakdown_ms == {
        "data_wait": 10.0,
        "h2d": None,
        "forward": 20.0,
        "recompute": None,
        "backward": 30.0,
        "rank_wait": None,
        "communication": None,
        "optimizer": 5.0,
        "checkpoint": 5.5,
        "evaluation": 12.0,
        "logging": None,
        "other": 10.0,
    }


def test_an_evaluations_batches_are_no_training():
    script = Script()
    for _ in range(4):
        script.step()
        script.evaluate(batches=5)
    script.step()
    loaders = (loader(0), loader(1))
    train = facts_of("loader#train", script=script, loaders=loaders)
    other = facts_of("loader#1", script=script, loaders=loaders)
    assert (train["loader.batches_per_step"], train["loader.is_train"]) == (1.0, True)
    assert (other["loader.batches_per_step"], other["loader.is_train"]) == (5.0, False)
    assert (other["loader.wait_ms"], other["loader.wait_share"]) == (3.0, 19 / 119)
    assert facts_of(script=script, loaders=loaders)["step.data_wait_share"] == 10 / 119


def test_noise_of_unequal_steps():
    script = Script()
    for extra in (0, 10, 40, 0, 10, 40, 0, 10, 40, 0, 10, 40):
        script.step(fetch=10 + extra)
    facts = facts_of(script=script, warmup=0)
    assert 0.02 < facts["step.noise_share"] < 0.2
    assert facts["step.median_ms"] == 75.0
    assert "step.noise_share" not in facts_of(script=steps(3))


def test_other_names_its_frames():
    script = steps(2)
    script.idle(35)
    script.end_step()
    rows = (
        sample("other", 6),
        sample("other", 1, leaf="/lib/z.py"),
        sample("other", 3, leaf="/lib/y.py", user=""),
        sample("fetch", 50),
    )
    step = derive([recording(script, samples=rows)]).step
    assert step is not None
    assert step.other == (
        Frame("train.py", 3, "work", pytest.approx(0.35 * 0.7)),
        Frame("/lib/y.py", 0, "leaf", pytest.approx(0.35 * 0.3)),
    )


def test_the_first_step_begins_with_its_batch_not_with_a_sanity_check():
    script = Script()
    script.idle(100)
    script.evaluate()
    script.run("iter", 40, 0)
    script.step()
    script.step()
    assert facts_of(script=script, loaders=(loader(0), loader(1)))["step.first_ms"] == 105.0


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"outcome": "no_step"}, id="no step"),
        pytest.param({"outcome": "raised", "error": {"phase": "forward"}, "device": None, "models": ()}, id="raised"),
        pytest.param(
            {
                "loaders": (),
                "optimizers": (),
                "models": (),
                "device": None,
                "memory": {},
                "torch_state": {},
                "environment": {},
            },
            id="nothing at all",
        ),
    ],
)
def test_without_steps_nothing_is_invented(fields):
    derived = derive([recording(**fields)], cpus_per_rank=2.0, memory_limit_bytes=1 << 34)
    assert derived.step is None
    names = {fact.name for fact in derived.facts}
    assert not {name for name in names if name.startswith(("step.", "replay.", "batch_curve.", "calls.", "ranks."))}
    of_steps = ("cost_share", "num_seen", "_per_step", "planned_s", "step_ms")
    assert not {name for name in names if name.endswith(of_steps)}
    assert all(fact.value is not None for fact in derived.facts)


def test_a_recording_is_needed():
    with pytest.raises(ValueError, match="at least one"):
        derive([])


def test_rank_zero_speaks_for_the_run():
    ranks = [
        recording(steps(3, fetch=wait), process={"rank": rank, "world_size": 2, "local_world_size": 2})
        for rank, wait in ((1, 40), (0, 10))
    ]
    values = {fact.name: fact.value for fact in derive(ranks).facts if fact.subject == "run"}
    assert values["step.mean_ms"] == 65.0
    assert values["run.world_size"] == 2
    assert values["run.global_batch"] == 16
    assert values["ranks.slowest"] == 1


@pytest.mark.parametrize(("optimizers", "averaged"), [(1, 4.0), (2, None)])
def test_micro_batches_that_ddp_averages(optimizers, averaged):
    rows = tuple(optimizer(i) for i in range(optimizers))
    facts = facts_of(script=steps(4, micros=4), torch_state={"averaged_backwards": 12}, optimizers=rows)
    assert facts.get("step.num_averaged") == averaged
