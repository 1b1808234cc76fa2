"""One save and one resume: with starts that are made up, and with the real trainers."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from autotune import collect
from autotune.api import resume
from autotune.model.recording import Recording, Window
from autotune.model.verified import AFTER, SIDES, Resumed, Start
from autotune.verify.sides import Sides
from autotune.verify.starts import Runner

EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
UNKNOWN = dict.fromkeys(("error", "device", "io", "compile", "kernels"))
RECORDING = Recording(
    outcome="completed", origin_ns=0, process={"argv": ["train.py"]}, software={}, frameworks={}, torch_state={},
    environment={}, memory={}, what_ifs=(), side_effects={"redirected": [], "blocked": [], "not_isolated": []},
    overhead={"event_ns": 0, "sampler_ns": 0}, sampler_interval_ns=1,
    window=Window(2, 3, 0, 10, (1,) * 5, "optimizer", "steps"), **UNKNOWN, **EMPTY,
)  # fmt: skip
START = Start(AFTER, 100.0, 6, 3, 5.0)
ERROR = {"type": "KeyError", "message": "", "traceback": ["train.py:3 main"], "phase": None}


@pytest.mark.parametrize("name", resume.TRAINERS)
def test_a_known_trainer_can_be_tried(name: str) -> None:
    found = resume.trial(replace(RECORDING, frameworks={name: {}}), START)
    assert found == resume.Trial("", pytest.approx(2 * (4.1 + 0.5)))


@pytest.mark.parametrize(
    ("frameworks", "start", "why"),
    [
        ({}, START, "no trainer was seen"),
        ({"accelerator": {}}, START, "no trainer was seen"),
        ({"hf_args": {}}, replace(START, warmup=1, steps=2), "makes only 3 steps"),
    ],
)
def test_what_cannot_be_tried_says_why(frameworks, start, why: str) -> None:
    found = resume.trial(replace(RECORDING, frameworks=frameworks), start)
    assert why in found.why_not
    assert found.seconds == 0


class Starts:
    """Two starts: what they leave in their folders, and how they end."""

    def __init__(self, root, *results) -> None:
        self.root, self.cwd, self.python = root, root, "python"
        self.sides = SimpleNamespace(words=dict.fromkeys(SIDES, ("train.py",)))
        self.results, self.requests = list(results), []

    def run_in(self, folder, side, request):
        assert side == AFTER
        self.requests.append(request)
        notes, fields = self.results.pop(0)
        fields = dict(fields)
        for name, text in notes.items():
            (folder / name).write_text(text)
        recording = replace(
            RECORDING, **{key: fields.pop(key) for key in ("losses", "outcome", "error") if key in fields}
        )
        given = {"ended_by": "probe", "exit_code": 0, "wall_s": 1.0, "startup_s": 0.5, "sampled": None, **fields}
        return collect.Collected(folder=folder, recordings=(recording,), **given), None, None

    def told(self, text):
        return text


SAVED = ({"saved": "/x/checkpoint-2"}, {"losses": (4.0, 3.0, 2.0, 1.0, 0.5)})


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ((2.0, 1.0, 0.5), "its losses are those of the run that did not stop"),
        ((2.0 * (1 + 1e-5), 1.0, 0.5), "its losses are those of the run that did not stop"),
        ((2.5, 1.0, 0.5), "its first loss is 2.5, and 2 in the run that did not stop"),
        ((), "no losses were seen"),
        ((None, None), "no losses were seen"),
    ],
)
def test_a_start_that_goes_on_where_the_save_was(root, losses, said: str) -> None:
    starts = Starts(root, SAVED, ({"resumed": "3"}, {"losses": losses}))
    found = resume.tried(starts)
    assert found.result is Resumed.OK
    assert f"went on with step 3; {said}" in found.why
    assert [(one.save_at, one.resume_from) for one in starts.requests] == [(2, None), (None, "/x/checkpoint-2")]
    assert list((root / ".autotune" / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("results", "result", "why"),
    [
        ([({}, {"outcome": "raised", "error": ERROR})], Resumed.FAILED, "to save failed: KeyError at train.py:3 main"),
        ([({}, {"bugs": ("ValueError\n  x",), "exit_code": 70})], Resumed.FAILED, "a bug of ours: ValueError"),
        ([({}, {})], Resumed.NOT_TRIED, "never came to a save"),
        ([SAVED, ({}, {"outcome": "raised", "error": ERROR})], Resumed.FAILED, "go on from the save failed: KeyError"),
        (
            [SAVED, ({}, {"outcome": "raised", "error": ERROR, "said": "a\nKeyError: 5"})],
            Resumed.FAILED,
            "(KeyError: 5)",
        ),
        ([SAVED, ({"resumed": "1"}, {})], Resumed.FAILED, "went on at step 1"),
        ([SAVED, ({}, {})], Resumed.FAILED, "went on with no step"),
        ([SAVED, ({}, {"ended_by": "script", "exit_code": 9})], Resumed.FAILED, "failed: exit code 9"),
    ],
)
def test_what_goes_wrong_is_said(root, results, result, why: str) -> None:
    found = resume.tried(Starts(root, *results))
    assert found.result is result
    assert why in found.why


HF = """
    import torch
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x, labels):
            out = self.layer(self.drop(x)).squeeze(-1)
            return {"loss": (out - labels).pow(2).mean(), "logits": out}

    torch.manual_seed(0)
    data = [{"x": torch.randn(4), "labels": torch.tensor(float(n % 3))} for n in range(64)]
    arguments = TrainingArguments(
        "out", max_steps=30, per_device_train_batch_size=4, save_strategy="no", report_to=[], use_cpu=True,
        disable_tqdm=True, logging_steps=100,
    )
    Trainer(Model(), arguments, train_dataset=data).train()
"""
LIGHTNING = """
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            return self.layer(batch).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    lightning.seed_everything(0)
    data = torch.utils.data.DataLoader(torch.randn(256, 4), batch_size=4)
    trainer = lightning.Trainer(
        max_steps=30, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu"
    )
    trainer.fit(Model(), data)
"""
BROKEN = HF.replace("Trainer(Model()", "Broken(Model()").replace(
    "    torch.manual_seed(0)\n",
    """
    class Broken(Trainer):
        def _load_from_checkpoint(self, *args, **kwargs):
            raise RuntimeError("keys do not fit")

    torch.manual_seed(0)
""",
)


def really(place, script: str):
    place.write("pyproject.toml", "")
    place.write("train.py", script)
    words = dict.fromkeys(SIDES, ("train.py",))
    sides = Sides("x", words, {side: {} for side in SIDES})
    runner = Runner(place.cwd, place.cwd, place.environ, sys.executable, sides, None, lambda status: None)
    found = resume.tried(runner)
    assert list((place.cwd / ".autotune" / "runs").iterdir()) == []
    assert sorted(path.name for path in place.cwd.iterdir()) == [".autotune", "pyproject.toml", "train.py"]
    return found


@pytest.mark.train
@pytest.mark.parametrize(
    ("script", "said"),
    [(HF, "its losses are those of the run that did not stop"), (LIGHTNING, "other data or other random draws")],
    ids=["transformers", "lightning, which begins its loader anew"],
)
def test_a_real_trainer_saves_and_goes_on(place, script: str, said: str) -> None:
    found = really(place, script)
    assert found.result is Resumed.OK, found.why
    assert "saved after step 2, and a new process went on with step 3" in found.why
    assert found.why.endswith(said)


@pytest.mark.train
def test_a_real_resume_that_fails_says_why(place) -> None:
    found = really(place, BROKEN)
    assert found.result is Resumed.FAILED
    assert "_load_from_checkpoint (RuntimeError: keys do not fit)" in found.why
