"""Trainers like those of transformers and Lightning, hooked as the real ones are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.collect.request import Request, as_json
from autotune.probe.hooks import resume
from autotune.probe.patches import Patches


@pytest.fixture
def session(tmp_path):
    """session(**request): what the hooks need of one."""

    def make(save_at=None, resume_from=None):
        request = as_json(Request(save_at=save_at, resume_from=resume_from), tmp_path, None)
        return SimpleNamespace(request=request, patches=Patches())

    return make


def hf_modules():
    """Modules with a Trainer of six steps; `seen` holds its saves and where it was told to resume from."""
    seen = SimpleNamespace(saves=[], resumed_from="nothing")

    class DefaultFlowCallback:
        def on_step_end(self, args, state, control, **kwargs):
            return control

    class Trainer:
        def _get_output_dir(self, trial=None):
            return "out"

        def _save_checkpoint(self, model, trial=None):
            seen.saves.append((self.state.global_step, self._get_output_dir(trial=trial)))

        def train(self, resume_from_checkpoint=None, trial=None):
            seen.resumed_from = resume_from_checkpoint
            self.state = SimpleNamespace(global_step=int(resume_from_checkpoint or 0))
            while self.state.global_step < 6:
                self.state.global_step += 1
                control = SimpleNamespace(should_save=False)
                if DefaultFlowCallback().on_step_end(None, self.state, control).should_save:
                    self._save_checkpoint(None)

    flow = SimpleNamespace(__name__="transformers.trainer_callback", DefaultFlowCallback=DefaultFlowCallback)
    return flow, SimpleNamespace(__name__="transformers.trainer", Trainer=Trainer), seen


def lightning(accumulate: int = 2, optimizers: int = 1):
    """A module with a Trainer of twelve batches; its optimizers step at the end of every `accumulate` of them."""
    seen = SimpleNamespace(saves=[], resumed_from="nothing")

    class Trainer:
        def __init__(self):
            self.callbacks = []

        def save_checkpoint(self, path):
            Path(path).parent.mkdir()
            Path(path).write_text("x")
            seen.saves.append(self.global_step)

        def fit(self, model, train=None, val=None, datamodule=None, ckpt_path=None):
            seen.resumed_from = ckpt_path
            self.global_step = 2 if ckpt_path else 0
            for batch in range(self.global_step * accumulate // optimizers, 12):
                for one in self.callbacks:
                    one.on_train_batch_start(self, model, None, batch)
                if (batch + 1) % accumulate == 0:
                    self.global_step += optimizers
                for one in self.callbacks:
                    one.on_train_batch_end(self, model, None, None, batch)

    return SimpleNamespace(__name__="lightning.pytorch.trainer.trainer", Trainer=Trainer, Callback=object), seen


def note(tmp_path, name: str) -> str | None:
    path = tmp_path / name
    return path.read_text() if path.exists() else None


def test_the_trainer_of_transformers_saves_once_into_the_run_folder(session, tmp_path) -> None:
    *modules, seen = hf_modules()
    made = session(save_at=2)
    for module in modules:
        resume.on_import(made, module)
    modules[1].Trainer().train()
    assert seen.saves == [(2, str(tmp_path / resume.FOLDER))]
    assert note(tmp_path, "saved") == f"2 {tmp_path / resume.FOLDER / 'checkpoint-2'}"
    assert note(tmp_path, "resumed") is None


@pytest.mark.parametrize("given", [{}, {"resume_from_checkpoint": None}, {"resume_from_checkpoint": "5"}])
def test_the_trainer_of_transformers_goes_on(session, tmp_path, given) -> None:
    *modules, seen = hf_modules()
    made = session(resume_from="2")
    for module in modules:
        resume.on_import(made, module)
    modules[1].Trainer().train(**given)
    assert (seen.resumed_from, seen.saves) == ("2", [])
    assert note(tmp_path, "resumed") == "2"
    modules[1].Trainer().train(None, None)
    assert seen.resumed_from == "2"


@pytest.mark.parametrize(
    ("accumulate", "optimizers", "step"), [(1, 1, 2), (2, 1, 2), (3, 1, 2), (1, 2, 2), (1, 3, 3), (2, 3, 3)]
)
def test_the_trainer_of_lightning_saves_once(session, tmp_path, accumulate: int, optimizers: int, step: int) -> None:
    module, seen = lightning(accumulate, optimizers)
    resume.on_import(session(save_at=2), module)
    module.Trainer().fit("model")
    assert seen.saves == [step]
    assert note(tmp_path, "saved") == f"{step} {tmp_path / resume.FOLDER / 'checkpoint.ckpt'}"
    assert seen.resumed_from is None


@pytest.mark.parametrize("more", [(), ("train", "val", None, "theirs.ckpt")])
@pytest.mark.parametrize(("accumulate", "optimizers"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_the_trainer_of_lightning_goes_on(session, tmp_path, more, accumulate: int, optimizers: int) -> None:
    module, seen = lightning(accumulate, optimizers)
    resume.on_import(session(resume_from="ours.ckpt"), module)
    module.Trainer().fit("model", *more)
    assert (seen.resumed_from, seen.saves) == ("ours.ckpt", [])
    assert note(tmp_path, "resumed") == "2"


def test_a_start_that_goes_on_and_makes_no_step_has_no_note(session, tmp_path) -> None:
    module, _ = lightning(accumulate=20)
    resume.on_import(session(resume_from="ours.ckpt"), module)
    module.Trainer().fit("model")
    assert note(tmp_path, "resumed") is None


def test_other_starts_are_left_alone(session) -> None:
    *modules, _ = hf_modules()
    before = [vars(modules[0].DefaultFlowCallback).copy(), vars(modules[1].Trainer).copy()]
    for module in modules:
        resume.on_import(session(), module)
    assert [vars(modules[0].DefaultFlowCallback), vars(modules[1].Trainer)] == before


def test_everything_can_be_taken_back(session) -> None:
    module, _ = lightning()
    fit, made = module.Trainer.fit, session(save_at=2)
    resume.on_import(made, module)
    assert module.Trainer.fit is not fit
    made.patches.restore()
    assert module.Trainer.fit is fit
