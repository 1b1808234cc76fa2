"""One save, or one start that goes on from it, by the script's own trainer: asked for by `verify`.

The Trainer of transformers saves at the word of its DefaultFlowCallback and goes on by `train(resume_from_checkpoint)`,
Lightning's saves by `save_checkpoint` and goes on by `fit(ckpt_path)`. The parent reads two notes in the run folder:
`saved` holds the path of the whole checkpoint, `resumed` the number of the first step that was made after it.
"""

from __future__ import annotations

import functools
import os

FOLDER = "scratch-checkpoint"
"""In the run folder: where the save goes."""


def on_import(session, module) -> None:
    """Hook a trainer, right after its module was imported, when this start is to save or to go on."""
    action = _ACTIONS.get(module.__name__)
    if action is not None and (_save_at(session) or _resume_from(session)):
        action(session, module)


def _flow(session, module) -> None:
    """transformers: the callback that decides at each step whether to save."""
    original = module.DefaultFlowCallback.on_step_end

    @functools.wraps(original)
    def on_step_end(self, args, state, control, **kwargs):
        control = original(self, args, state, control, **kwargs)
        if _is_due(session, state.global_step):
            control.should_save = True
        return control

    session.patches.set(module.DefaultFlowCallback, "on_step_end", on_step_end)


def _hf_trainer(session, module) -> None:
    owner = module.Trainer
    if _resume_from(session):
        session.patches.set(owner, "train", _hf_resumed(owner.train, _resume_from(session)))
        return
    folder, save = os.path.join(session.request["run_dir"], FOLDER), owner._save_checkpoint

    @functools.wraps(save)
    def saved(self, *args, **kwargs):
        result = save(self, *args, **kwargs)
        if self.state.global_step == _save_at(session):
            _note(session, "saved", os.path.join(folder, f"checkpoint-{self.state.global_step}"))
        return result

    session.patches.set(owner, "_save_checkpoint", saved)
    session.patches.set(owner, "_get_output_dir", lambda self, trial=None: folder)


def _hf_resumed(train, checkpoint: str):
    @functools.wraps(train)
    def resumed(self, *args, **kwargs):
        kwargs.pop("resume_from_checkpoint", None)  # the first parameter, by name or by place
        return train(self, checkpoint, *args[1:], **kwargs)

    return resumed


def _lightning(session, module) -> None:
    original = module.Trainer.fit

    @functools.wraps(original)
    def fit(self, *args, **kwargs):
        self.callbacks.append(_watcher(session, module.Callback))
        if _resume_from(session):
            # model, two loaders and a datamodule may come by place; the checkpoint would be the fifth.
            args, kwargs = args[:4], {**kwargs, "ckpt_path": _resume_from(session)}
        return original(self, *args, **kwargs)

    session.patches.set(module.Trainer, "fit", fit)


def _watcher(session, callback):
    """A Lightning callback that saves once, or notes the step that came first."""

    class Watcher(callback):
        def on_train_batch_end(self, trainer, *args, **kwargs):
            path = os.path.join(session.request["run_dir"], FOLDER, "checkpoint.ckpt")
            if _is_due(session, trainer.global_step) and not os.path.exists(path):
                trainer.save_checkpoint(path)
                _note(session, "saved", path)

    return Watcher()


_ACTIONS = {
    "transformers.trainer_callback": _flow,
    "transformers.trainer": _hf_trainer,
    "lightning.pytorch.trainer.trainer": _lightning,
    "pytorch_lightning.trainer.trainer": _lightning,
}


def _is_due(session, step: int) -> bool:
    """Whether to save after optimizer step number `step`; notes the first one of a start that goes on."""
    if _resume_from(session):
        _note(session, "resumed", str(step))
    return step == _save_at(session)


def _note(session, name: str, text: str) -> None:
    """Write a note for the parent; the first one counts."""
    path = os.path.join(session.request["run_dir"], name)
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _save_at(session):
    return session.request["save_at"]


def _resume_from(session):
    return session.request["resume_from"]
