from __future__ import annotations

import pytest
from build import GRAD_IN_EVAL, MS, NO_GRAD, TRAIN, Script, loader, recording

from autotune.derive import recording_view
from autotune.derive.loaders import TRAIN as TRAIN_LOADER

LOADERS = (loader(0), loader(1))


def found(script: Script, loaders=LOADERS):
    """(start, end) in ms, gradients, complete: of each span."""
    seen = recording_view.view_of(recording(script, loaders=loaders, warmup=0)).evaluations
    return [(s.start_ns / MS, s.end_ns / MS, s.with_grad, s.complete) for s in seen]


def played(*between) -> Script:
    """Two steps (65 ms each), what `between` does, and a third step."""
    script = Script()
    script.step()
    script.step()
    for action in between:
        action(script)
    script.step()
    return script


def library(script: Script) -> None:
    with script.inside("evaluation"):
        script.idle(5)
        script.evaluate()


def forgotten_train(script: Script) -> None:
    script.mode(False)
    script.idle(2)
    for _ in range(2):
        script.fetch(3, loader=1)
        script.forward(7, NO_GRAD)


def without_loader(script: Script) -> None:
    script.mode(False)
    for _ in range(3):
        script.idle(4)
        script.forward(6, NO_GRAD)
    script.mode(True)


def late_train(script: Script) -> None:
    script.mode(False)
    script.fetch(3, loader=1)
    script.forward(7, NO_GRAD)
    script.fetch(10, loader=0)
    script.mode(True)


def exhausted(script: Script) -> None:
    script.evaluate(modes=False)
    script.fetch(2, loader=1, came=False)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param(library, [(130, 159, False, True)], id="a library's own loop"),
        pytest.param(Script.evaluate, [(130, 154, False, True)], id="eval() .. train()"),
        pytest.param(lambda s: s.evaluate(modes=False), [(130, 154, False, True)], id="no_grad, own loader, no eval()"),
        pytest.param(exhausted, [(130, 156, False, True)], id="until its loader is exhausted"),
        pytest.param(forgotten_train, [(130, 152, False, True)], id="train() forgotten"),
        pytest.param(without_loader, [(130, 160, False, True)], id="no DataLoader at all"),
        pytest.param(late_train, [(130, 140, False, True)], id="train() called after the next training batch came"),
        pytest.param(lambda s: s.evaluate(flag=GRAD_IN_EVAL), [(130, 154, True, True)], id="no_grad forgotten"),
        pytest.param(
            lambda s: s.evaluate(modes=False, flag=TRAIN), [(130, 154, True, True)], id="no_grad and eval() forgotten"
        ),
    ],
)
def test_an_evaluation_is_found(action, expected):
    assert found(played(action)) == expected


def switches(script: Script) -> None:
    script.mode(False)
    script.mode(True)


def frozen_batchnorm(script: Script) -> None:
    script.mode(False)
    for _ in range(2):
        script.fetch(10)
        script.forward(20, GRAD_IN_EVAL)
        script.run("backward", 30)
        script.update()


def gan(script: Script) -> None:
    script.fetch(10)
    script.forward(5, NO_GRAD, model=1)
    script.forward(20, TRAIN, model=2)
    script.run("backward", 30)
    script.forward(5, TRAIN, model=1)
    script.run("backward", 30)
    script.update()


def teacher(script: Script) -> None:
    script.mode(False, model=5)
    script.fetch(10)
    script.forward(9, NO_GRAD, model=5)
    script.forward(20)
    script.run("backward", 30)
    script.update()


def joint_loaders(script: Script) -> None:
    script.fetch(3, loader=1)
    script.forward(5)
    script.fetch(10, loader=0)
    script.forward(20)
    script.run("backward", 30)
    script.update()


@pytest.mark.parametrize("action", [switches, frozen_batchnorm, gan, teacher, joint_loaders])
def test_training_is_no_evaluation(action):
    assert found(played(action, action)) == []


def test_a_teacher_beside_an_evaluation_is_left_alone():
    assert found(played(Script.evaluate, teacher)) == [(130, 154, False, True)]


def test_an_evaluation_before_the_models_first_call_has_no_model_yet():
    script = Script()
    script.run("mode", 0, -1, 0)
    script.forward(7, NO_GRAD)
    script.mode(True)
    script.step()
    assert found(script) == [(0, 7, False, True)]


def test_a_stretch_at_the_end_is_clipped_and_says_so():
    script = played()
    script.mode(False)
    script.fetch(3, loader=1)
    script.forward(7, NO_GRAD)
    assert recording_view.view_of(recording(script, loaders=LOADERS, warmup=3)).evaluations[0].complete is False


def test_lookahead_of_a_library_does_not_make_the_evaluation_loader_a_training_one():
    script = Script()
    script.fetch(10)
    for _ in range(3):
        script.fetch(10)
        script.forward(20)
        script.run("backward", 30)
        script.update()
    script.fetch(10)
    script.evaluate(modes=False)
    script.forward(20)
    script.run("backward", 30)
    script.update()
    assert found(script) == [(215, 239, False, True)]


def test_events_after_the_window_are_not_looked_at():
    script = played()
    rec = recording(script, loaders=LOADERS)
    script.evaluate()
    late = recording(script, loaders=LOADERS, window=rec.window)
    assert recording_view.view_of(late).evaluations == ()
    assert recording_view.view_of(late).nodes[-1].event.kind == "optimizer"


@pytest.mark.parametrize(
    ("wraps", "events_of", "subjects"),
    [
        pytest.param(0, 1, [TRAIN_LOADER], id="the wrapper has the events"),
        pytest.param(0, 0, [TRAIN_LOADER, "loader#1"], id="the inner one was itself iterated: two subjects"),
        pytest.param(None, 1, ["loader#0", TRAIN_LOADER], id="independent"),
        pytest.param(1, 1, ["loader#0", TRAIN_LOADER], id="wraps itself"),
    ],
)
def test_grouping_of_wrapped_loaders(wraps, events_of, subjects):
    script = Script()
    for _ in range(3):
        script.step(loader=events_of)
    seen = recording_view.view_of(recording(script, loaders=(loader(0), loader(1, wraps=wraps)))).loaders
    assert [row.subject for row in seen] == subjects
    assert next(row for row in seen if row.is_train).timed["id"] == events_of


def mean_teacher(script: Script, teacher: int = 5, flag: int = NO_GRAD) -> None:
    """A teacher's forward on the batches of loader 1, then the student's step on those of loader 0."""
    script.fetch(4, loader=1)
    script.forward(9, flag, model=teacher)
    script.step()


def pseudo_labels(script: Script) -> None:
    """The trained model itself labels a batch of its own loader, without gradients but in training mode."""
    mean_teacher(script, teacher=0, flag=TRAIN - 1)


def labels_in_eval_mode(script: Script) -> None:
    """eval() .. train() inside the step, on the batch that is trained on."""
    script.fetch(10)
    script.mode(False)
    script.forward(5, NO_GRAD)
    script.mode(True)
    script.forward(20)
    script.run("backward", 30)
    script.update()


def repeated(*actions) -> Script:
    script = Script()
    for action in actions:
        action(script)
    return script


@pytest.mark.parametrize("action", [mean_teacher, pseudo_labels, joint_loaders])
def test_every_loader_that_takes_part_in_each_step_trains(action):
    script = repeated(*[action] * 5)
    seen = recording_view.view_of(recording(script, loaders=LOADERS, warmup=0))
    assert [(row.subject, row.feeds_training) for row in seen.loaders] == [(TRAIN_LOADER, True), ("loader#1", True)]
    assert seen.evaluations == ()


def test_a_loader_that_joins_few_steps_does_not_train():
    script = repeated(*[Script.step] * 4, mean_teacher)
    seen = recording_view.view_of(recording(script, loaders=LOADERS, warmup=0))
    assert [row.feeds_training for row in seen.loaders] == [True, False]


def test_what_each_step_does_with_its_own_batch_is_no_evaluation():
    assert found(repeated(*[labels_in_eval_mode] * 4)) == []


def test_a_pre_training_without_a_loader_does_not_count_against_what_each_step_does():
    def by_hand(script: Script) -> None:
        script.forward(7, TRAIN, model=5)
        script.run("backward", 30)
        script.update()

    def with_the_teacher(script: Script) -> None:
        script.fetch(10)
        script.mode(False, model=5)
        script.forward(9, NO_GRAD, model=5)
        script.forward(20)
        script.run("backward", 30)
        script.update()

    assert found(repeated(*[by_hand] * 5, *[with_the_teacher] * 5)) == []


def rollout(script: Script) -> None:
    """What a policy generates in eval mode, and the step on it; no loader."""
    script.mode(False)
    script.forward(5, NO_GRAD)
    script.mode(True)
    script.forward(20)
    script.run("backward", 30)
    script.update()


def by_hand(script: Script) -> None:
    script.forward(20)
    script.run("backward", 30)
    script.update()


def test_a_rollout_in_every_step_without_a_loader_is_no_evaluation():
    assert found(repeated(*[rollout] * 5), loaders=()) == []
    assert len(found(repeated(*[by_hand] * 9, rollout), loaders=())) == 1


def test_a_rollout_that_a_few_steps_train_on_is_no_evaluation():
    assert found(repeated(*[rollout, by_hand, by_hand, by_hand, by_hand] * 3), loaders=()) == []
    assert len(found(repeated(*[rollout, *[by_hand] * 5] * 3), loaders=())) == 3


def test_a_step_may_have_many_backwards_and_still_do_it_once():
    def attacked(script: Script) -> None:
        for _ in range(4):
            script.forward(5)
            script.run("backward", 5)
        rollout(script)

    assert found(repeated(*[attacked] * 5), loaders=()) == []


def test_what_one_step_in_many_does_with_its_own_batch_is_an_evaluation():
    assert found(repeated(*[Script.step] * 9, labels_in_eval_mode)) == [(595, 600, False, True)]


@pytest.mark.parametrize("modes", [True, False])
def test_an_evaluation_after_every_step_stays_one(modes):
    def epoch(script: Script) -> None:
        script.step()
        script.evaluate(batches=1, modes=modes)

    script = repeated(*[epoch] * 4, Script.step)
    assert found(script) == [(start, start + 14, False, True) for start in (65, 144, 223, 302)]
    seen = recording_view.view_of(recording(script, loaders=LOADERS, warmup=0)).loaders
    assert [row.feeds_training for row in seen] == [True, False]


def test_an_evaluation_on_the_train_loader_after_every_epoch_of_one_step_stays_one():
    def epoch(script: Script) -> None:
        script.run("iter", 1, 0)
        script.step()
        script.evaluate(batches=1, loader=0)

    assert len(found(repeated(*[epoch] * 4, Script.step))) == 4
