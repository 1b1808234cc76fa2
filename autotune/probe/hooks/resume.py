"""One save, or one start that goes on from it, by the script's own trainer: asked for by `verify`.

The Trainer of transformers saves at the word of its DefaultFlowCallback and goes on by `train(resume_from_checkpoint)`,
Lightning's saves by `save_checkpoint` and goes on by `fit(ckpt_path)`. The parent reads two notes in the run folder:
`saved` holds the number of optimizer steps that were made and the path of the whole checkpoint, `resumed` the number
with which the start that goes on began, written once it made a step more.
"""

from __future__ import annotations

import functools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Function

FOLDER = "scratch-checkpoint"
"""In the run folder: where the save goes."""


def on_import(session: ProbeSession, module: Any) -> None:
    """Hook a trainer, right after its module was imported, when this start is to save or to go on."""
    if not (_save_at(session) or _resume_from(session)):
        return
    for row in session.request["frameworks"]:
        if row["module"] == module.__name__ and row["resume"]:
            TRAINERS[row["resume"]](session, module)


def _flow(session: ProbeSession, module: Any) -> None:
    """transformers: the callback that decides at each step whether to save."""
    original = module.DefaultFlowCallback.on_step_end

    @functools.wraps(original)
    def on_step_end(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        control = original(self, args, state, control, **kwargs)
        if _resume_from(session):
            _note(session, "resumed", str(state.global_step - 1))
        elif state.global_step == _save_at(session):
            control.should_save = True
        return control

    session.patches.set(module.DefaultFlowCallback, "on_step_end", on_step_end)


def _hf_trainer(session: ProbeSession, module: Any) -> None:
    owner = module.Trainer
    checkpoint = _resume_from(session)
    if checkpoint:
        session.patches.set(owner, "train", _hf_resumed(owner.train, checkpoint))
        return
    folder, save = os.path.join(session.request["run_dir"], FOLDER), owner._save_checkpoint

    @functools.wraps(save)
    def saved(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = save(self, *args, **kwargs)
        if self.state.global_step == _save_at(session):
            step = self.state.global_step
            _note(session, "saved", f"{step} {os.path.join(folder, f'checkpoint-{step}')}")
        return result

    session.patches.set(owner, "_save_checkpoint", saved)
    session.patches.set(owner, "_get_output_dir", lambda self, trial=None: folder)


def _hf_resumed(train: Function, checkpoint: str) -> Function:
    @functools.wraps(train)
    def resumed(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("resume_from_checkpoint", None)  # the first parameter, by name or by place
        return train(self, checkpoint, *args[1:], **kwargs)

    return resumed


def _lightning(session: ProbeSession, module: Any) -> None:
    original = module.Trainer.fit

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.callbacks.append(_watcher(session, module.Callback))
        if _resume_from(session):
            # model, two loaders and a datamodule may come by place; the checkpoint would be the fifth.
            args, kwargs = args[:4], {**kwargs, "ckpt_path": _resume_from(session)}
        return original(self, *args, **kwargs)

    session.patches.set(module.Trainer, "fit", fit)


def _watcher(session: ProbeSession, callback: Any) -> Any:
    """A Lightning callback that saves once, or notes with how many steps a start began that goes on.

    It is called at every batch, and `global_step` counts the steps of all optimizers: with accumulation it stands still
    for some batches, with several optimizers it jumps.
    """

    class Watcher(callback):  # type: ignore[misc]  # the base is of the installed Lightning
        begun = None

        def on_train_batch_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
            if self.begun is None:
                self.begun = trainer.global_step

        def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
            step = trainer.global_step
            if _resume_from(session):
                if step > self.begun:
                    _note(session, "resumed", str(self.begun))
                return
            path = os.path.join(session.request["run_dir"], FOLDER, "checkpoint.ckpt")
            if step >= self.begun + _save_at(session) and not os.path.exists(path):
                trainer.save_checkpoint(path)
                _note(session, "saved", f"{step} {path}")

    return Watcher()


TRAINERS = {"hf_flow": _flow, "hf_trainer": _hf_trainer, "lightning": _lightning}
"""What a row of the Request may name."""


def _note(session: ProbeSession, name: str, text: str) -> None:
    """Write a note for the parent; the first one counts."""
    path = os.path.join(session.request["run_dir"], name)
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _save_at(session: ProbeSession) -> Any:
    return session.request["save_at"]


def _resume_from(session: ProbeSession) -> str | None:
    return session.request["resume_from"]
