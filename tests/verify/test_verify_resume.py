"""One save and one resume: with starts that are made up, and with the real trainers."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from autotune import collect
from autotune.catalogue.frameworks import resumable
from autotune.errors import ScriptError
from autotune.model.recording import RecordedWindow, Recording
from autotune.model.verified import AFTER, BEFORE, SIDES, Resumed, RunResult
from autotune.verify import resume
from autotune.verify.runs import SideRunner
from autotune.verify.sides import Sides

pytestmark = pytest.mark.usefixtures("few_beside")

EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
UNKNOWN = dict.fromkeys(("error", "device", "io", "compile", "kernels"))
RECORDING = Recording(
    outcome="completed", origin_ns=0, process={"argv": ["train.py"]}, software={}, frameworks={}, torch_state={},
    environment={}, memory={}, what_ifs=(), side_effects={"blocked": [], "not_isolated": []},
    overhead={"event_ns": 0, "sampler_ns": 0}, sampler_interval_ns=1,
    window=RecordedWindow(2, 3, 0, 10, (1,) * 5, "optimizer", "steps"), **UNKNOWN, **EMPTY,
)  # fmt: skip
START = RunResult(AFTER, 100.0, 6, 3, 5.0)
MODEL = {"param_bytes": 100_000_000}
OPTIMIZER = {"num_params": 25_000_000, "state_bytes": {"cpu": 200_000_000}}
ERROR = {"type": "KeyError", "message": "", "traceback": ["train.py:3 main"], "phase": None}


@pytest.mark.parametrize("name", resumable())
def test_a_known_trainer_can_be_tried(name: str) -> None:
    recording = replace(RECORDING, frameworks={name: {}}, models=(MODEL,), optimizers=(OPTIMIZER,))
    found = resume.plan_resume(recording, START, None)
    assert found == resume.ResumePlan("", pytest.approx(2 * (4.1 + 0.5 + 3.0)))


@pytest.mark.parametrize("state_bytes", [{"cpu": 150_000_000, "cuda": 50_000_000}, None])
def test_a_save_needs_room_on_the_disk(state_bytes) -> None:
    optimizer = {**OPTIMIZER, "state_bytes": state_bytes}
    recording = replace(RECORDING, frameworks={"lightning": {}}, models=(MODEL,), optimizers=(optimizer,))
    found = resume.plan_resume(recording, START, 350_000_000)
    assert found.why_not.startswith("a save takes about 286 MiB, and the disk has 334 MiB free: ")
    assert resume.plan_resume(recording, START, 370_000_000).why_not == ""


@pytest.mark.parametrize(
    ("frameworks", "start", "why"),
    [
        ({}, START, "autotune can test the resume of"),
        ({"accelerator": {}}, START, "autotune can test the resume of"),
        ({"hf_args": {}}, replace(START, warmup=1, steps=2), "runs only 3 steps"),
    ],
)
def test_what_cannot_be_tried_says_why(frameworks, start, why: str) -> None:
    found = resume.plan_resume(replace(RECORDING, frameworks=frameworks), start, None)
    assert why in found.why_not
    assert found.seconds == 0


class Starts:
    """Starts: what they leave in their folders, and how they end, or what they raise. Each takes two seconds."""

    def __init__(self, root, *results) -> None:
        self.root, self.cwd, self.python = root, root, "python"
        self.sides = SimpleNamespace(words=dict.fromkeys(SIDES, ("train.py",)))
        self.results, self.requests, self.run_sides, self.now = list(results), [], [], 0.0

    def tried(self, deadline: float = 4.0):
        return resume.test_resume(self, 4.0, deadline, clock=lambda: self.now)

    def run_in(self, folder, side, request):
        self.run_sides.append(side)
        self.requests.append(request)
        self.now += 2.0
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        notes, fields = result
        fields = dict(fields)
        for name, text in notes.items():
            (folder / name).write_text(text)
        recording = replace(
            RECORDING, **{key: fields.pop(key) for key in ("losses", "outcome", "error", "optimizers") if key in fields}
        )
        given = {"ended_by": "probe", "exit_code": 0, "wall_s": 1.0, "startup_s": 0.5, "sampled": None, **fields}
        return collect.Collected(folder=folder, recordings=(recording,), **given), None, None

    def with_real_paths(self, text):
        return text


SAVED = ({"saved": "2 /x/checkpoint-2"}, {"losses": (4.0, 3.0, 2.0, 1.0, 0.5)})


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ((2.0, 1.0, 0.5), "its losses equal those of the uninterrupted run"),
        ((2.0 * (1 + 1e-5), 1.0, 0.5), "its losses equal those of the uninterrupted run"),
        ((2.5, 1.0, 0.5), "its first loss is 2.5, and 2 in the uninterrupted run"),
        ((), "no losses were seen"),
        ((None, None), "no losses were seen"),
    ],
)
def test_a_start_that_goes_on_where_the_save_was(root, losses, said: str) -> None:
    starts = Starts(root, SAVED, ({"resumed": "2"}, {"losses": losses}))
    found = starts.tried()
    assert found.result is Resumed.OK
    assert f"resumed at step 3; {said}" in found.why
    assert [(one.save_at, one.resume_from) for one in starts.requests] == [(2, None), (None, "/x/checkpoint-2")]
    assert list((root / ".autotune" / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("results", "result", "why"),
    [
        ([({}, {"outcome": "raised", "error": ERROR})], Resumed.FAILED, "to save failed: KeyError at train.py:3 main"),
        ([({}, {"bugs": ("ValueError\n  x",), "exit_code": 70})], Resumed.FAILED, "internal error: ValueError"),
        ([({}, {})], Resumed.NOT_TRIED, "reached no save"),
        ([SAVED, ({}, {"outcome": "raised", "error": ERROR})], Resumed.FAILED, "go on from the save failed: KeyError"),
        ([SAVED, ({"resumed": "0"}, {})], Resumed.FAILED, "continued at step 1"),
        ([SAVED, ({}, {})], Resumed.FAILED, "continued without a step"),
        ([SAVED, ({}, {"ended_by": "script", "exit_code": 9})], Resumed.FAILED, "failed: exit code 9"),
    ],
)
def test_what_goes_wrong_is_said(root, results, result, why: str) -> None:
    found = Starts(root, *results).tried()
    assert found.result is result
    assert why in found.why


WENT_ON = ({"resumed": "2"}, {"losses": (2.0, 1.0, 0.5)})
BROKE = ({}, {"outcome": "raised", "error": ERROR})


def test_several_optimizers_share_the_steps_so_no_losses_are_compared(root) -> None:
    two = {"optimizers": ({}, {})}
    saved = ({"saved": "3 /x/checkpoint.ckpt"}, {"losses": (4.0, 3.0, 2.0, 1.0), **two})
    found = Starts(root, saved, ({"resumed": "3"}, {"losses": (9.0, 9.0), **two})).tried()
    assert (found.result, found.why) == (
        Resumed.OK,
        "saved after step 3, and a new process resumed at step 4; no losses were seen to compare",
    )


def test_what_the_script_says_of_its_end_is_not_kept(root, capsys) -> None:
    secret = "KeyError: https://user:TOKEN@host"
    found = Starts(root, SAVED, ({}, {**BROKE[1], "said": f"Traceback\n{secret}"})).tried()
    assert "failed: KeyError at train.py:3 main" in found.why
    assert "TOKEN" not in found.why
    assert secret in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ((SAVED, WENT_ON), "with the unchanged script it works"),
        ((SAVED, BROKE), "with the unchanged script it fails too"),
        ((({}, {}),), "the unchanged script was not tried"),
        ((KeyboardInterrupt(),), "the unchanged script was not tried"),
    ],
)
def test_a_failure_is_blamed_on_the_change_only_when_the_unchanged_script_works(root, before, said: str) -> None:
    starts = Starts(root, SAVED, BROKE, *before)
    found = starts.tried(deadline=8.0)
    assert found.result is Resumed.FAILED
    assert found.why.endswith(f"failed: KeyError at train.py:3 main; {said}")
    assert starts.run_sides == [AFTER] * 2 + [BEFORE] * len(before)


def test_without_time_the_unchanged_script_is_not_tried(root) -> None:
    starts = Starts(root, SAVED, BROKE)
    assert starts.tried(deadline=7.9).why.endswith("; the unchanged script was not tried")
    assert starts.run_sides == [AFTER] * 2


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (KeyboardInterrupt(), "you interrupted it"),
        (OSError(28, "No space left on device"), "it ended with OSError"),
        (ScriptError("it failed"), "it ended with ScriptError"),
        (({}, {"ended_by": "startup_limit", "exit_code": None}), "the budget ended before the run to go on"),
        (({}, {"ended_by": "time_limit", "exit_code": None}), "the budget ended before the run to go on"),
    ],
)
def test_what_ends_the_attempt_is_no_failure_and_nothing_else_ends(root, ended, why: str) -> None:
    found = Starts(root, SAVED, ended).tried()
    assert found.result is Resumed.NOT_TRIED
    assert found.why.startswith(why)
    assert list((root / ".autotune" / "runs").iterdir()) == []


@pytest.mark.parametrize(("deadline", "limit_s"), [(4.0, 2.0), (1.0, 2.0), (20.0, 10.0)])
def test_the_starts_are_ended_with_the_budget_and_get_what_was_planned_for_them(root, deadline, limit_s) -> None:
    starts = Starts(root, SAVED, WENT_ON)
    starts.tried(deadline)
    assert {(one.startup_limit_s, one.time_limit_s) for one in starts.requests} == {(limit_s, limit_s)}


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
ACCUMULATED = LIGHTNING.replace("max_steps=30", "max_steps=30, accumulate_grad_batches=2")
TWO_OPTIMIZERS = LIGHTNING.replace(
    """        def training_step(self, batch, index):
            return self.layer(batch).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)
""",
    """            self.automatic_optimization = False

        def training_step(self, batch, index):
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(self.layer(batch).pow(2).mean())
                optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.Adam([one], lr=0.01) for one in self.parameters()]
""",
)
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
    runner = SideRunner(place.cwd, place.cwd, place.environ, sys.executable, sides, {}, lambda status: None)
    found = resume.test_resume(runner, 60.0, time.monotonic() + 200.0)
    assert list((place.cwd / ".autotune" / "runs").iterdir()) == []
    assert sorted(path.name for path in place.cwd.iterdir()) == [".autotune", "pyproject.toml", "train.py"]
    return found


@pytest.mark.train
@pytest.mark.parametrize(
    ("script", "said"),
    [
        (HF, "its losses equal those of the uninterrupted run"),
        pytest.param(ACCUMULATED, "other data or other random draws", marks=pytest.mark.long),
    ],
    ids=["transformers", "lightning, which begins its loader anew, with accumulation"],
)
def test_a_real_trainer_saves_and_goes_on(place, script: str, said: str) -> None:
    found = really(place, script)
    assert found.result is Resumed.OK, found.why
    assert "saved after step 2, and a new process resumed at step 3" in found.why
    assert found.why.endswith(said)


@pytest.mark.train
@pytest.mark.long
def test_a_real_trainer_with_two_optimizers_saves_and_goes_on(place) -> None:
    found = really(place, TWO_OPTIMIZERS)
    assert found.result is Resumed.OK, found.why
    assert "resumed at step 3; no losses were seen to compare" in found.why


@pytest.mark.train
@pytest.mark.long
def test_a_real_resume_that_fails_says_why_and_whose_fault_it_is(place, capsys) -> None:
    found = really(place, BROKEN)
    assert found.result is Resumed.FAILED
    assert "RuntimeError at " in found.why
    assert found.why.endswith("_load_from_checkpoint; with the unchanged script it fails too")
    assert "RuntimeError: keys do not fit" in capsys.readouterr().err
