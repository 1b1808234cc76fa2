"""The watch from inside a script: the context manager, the callbacks of the frameworks, the notebook's magic."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import autotune

pytestmark = pytest.mark.train
PACKAGE = Path(autotune.__file__).parents[1]

LOOP = """
import json, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps):
    for _ in range(steps):
        model(torch.ones(4, 16)).sum().backward()
        optimizer.step()
        time.sleep(0.003)
"""


@pytest.fixture
def script(tmp_path, environ):
    """script(text, python=..., **variables): runs it without AUTOTUNE_WATCH, where autotune can be imported."""

    def make(text, python=sys.executable, **variables):
        (tmp_path / "script.py").write_text(text)
        plain = {
            name: value for name, value in environ().items() if name not in ("AUTOTUNE_WATCH", "_AUTOTUNE_WATCH_TEST")
        }
        early = {"_AUTOTUNE_WATCH_TEST": json.dumps({"least_steps": 8, "least_s": 0, "write_s": 0.2})}
        words = [python, "script.py"]
        environment = {**plain, **early, "PYTHONPATH": str(PACKAGE), **variables}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)

    return make


def test_the_steps_inside_of_with_are_watched_and_those_outside_are_not(script, tmp_path):
    done = script(
        f"import autotune\n{LOOP}\n"
        "train(20)\n"
        "assert autotune.summary() == {}\n"
        "native = torch.nn.Module.__call__\n"
        "with autotune.watch(at=(10,)):\n"
        "    assert autotune.summary() == {}\n"
        "    train(30)\n"
        "    print(json.dumps(autotune.summary()))\n"
        "    assert autotune.drift() == []\n"
        "assert torch.nn.Module.__call__ is native\n"
        "from torch.optim import optimizer as module\n"
        "assert not module._global_optimizer_post_hooks and not module._global_optimizer_pre_hooks\n"
        "try:\n"
        "    with autotune.watch(at=(10,)):\n"
        "        train(12)\n"
        "        raise KeyError('mine')\n"
        "except KeyError:\n"
        "    print('caught')\n"
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    figures = json.loads(first)
    assert second == "caught"
    assert figures["autotune/step"] == 30
    assert figures["autotune/windows"] == 1
    assert 2.5 < figures["autotune/step_ms"] < 100
    assert figures["autotune/forward_ms"] > 0
    assert "autotune/data_wait_share" not in figures  # it has no DataLoader
    assert all(isinstance(value, float) for value in figures.values())
    states = [json.loads(path.read_text()) for path in tmp_path.glob(".autotune/watch/*/state-*.json")]
    ended = sorted((state["steps"], state["state"], state["error"]) for state in states)
    assert ended == [(12, "raised", "KeyError"), (30, "ended", None)]


def test_a_window_that_did_not_end_leaves_no_thread_and_no_status(script, tmp_path):
    done = script(
        f"import autotune, threading\n{LOOP}\n"
        "with autotune.watch(at=(2,)):\n"
        "    train(6)\n"
        "    assert [one for one in threading.enumerate() if one.name == 'autotune-sampler']\n"
        "    time.sleep(0.3)\n"
        "print([one.name for one in threading.enumerate()])\n"
    )
    assert (done.returncode, done.stdout) == (0, "['MainThread']\n"), done.stderr
    assert "autotune: watched 6 steps: the first window, which begins after step 2, did not end" in done.stderr
    assert [path.name for path in tmp_path.glob(".autotune/watch/*/*") if not path.name.startswith("state-")] == []


@pytest.mark.parametrize(
    ("end", "state", "error"),
    [
        ("sys.exit(0)", "ended", None),
        ("sys.exit('why')", "raised", "SystemExit"),
        ("try:\n        1 / 0\n    except ZeroDivisionError:\n        sys.exit(1)", "raised", "ZeroDivisionError"),
    ],
)
def test_an_exit_is_a_failure_by_its_code(script, tmp_path, end, state, error):
    done = script(f"import autotune\n{LOOP}\nwith autotune.watch():\n    train(5)\n    {end}\n")
    (path,) = tmp_path.glob(".autotune/watch/*/state-*.json")
    row = json.loads(path.read_text())
    assert (row["state"], row["error"]) == (state, error), done.stderr


def test_in_a_process_that_is_measured_it_does_nothing(script):
    text = f"import autotune\n{LOOP}\nwith autotune.watch(at=(5,)):\n    train(12)\n    print(autotune.summary())\n"
    done = script(text, AUTOTUNE_REQUEST="measured elsewhere")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "")


def test_in_a_process_that_is_watched_it_is_that_watch(script, environ):
    text = (
        f"import autotune\n{LOOP}\nwith autotune.watch(at=(5,)):\n    train(30)\ntrain(10)\nprint(autotune.summary())\n"
    )
    done = script(text, **{name: value for name, value in environ().items() if "PYTHONPATH" not in name}, **_boot())
    assert done.returncode == 0, done.stderr
    assert "'autotune/step': 40.0" in done.stdout
    assert "autotune: step 20:" in done.stderr and "step 5:" not in done.stderr


def _boot():
    from autotune.collect.command import on_python_path

    return {"PYTHONPATH": on_python_path({"PYTHONPATH": str(PACKAGE)})["PYTHONPATH"]}


HF = """
import json, torch, autotune
from transformers import Trainer, TrainerCallback, TrainingArguments
import autotune.hf

class Data(torch.utils.data.Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index): return {"x": torch.ones(8), "labels": torch.zeros(1)}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels=None):
        out = self.layer(x)
        return {"loss": (out - labels).square().mean(), "logits": out}

class Reporter(TrainerCallback):  # stands where W&B's callback stands: before those of the user
    seen = []
    def on_log(self, args, state, control, logs=None, **kwargs):
        self.seen.append(dict(logs))

arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=4, max_steps=120, logging_steps=40, save_strategy="no", report_to=[],
    use_cpu=True, disable_tqdm=True,
)
data = Data()
trainer = Trainer(
    Model(), arguments, train_dataset=data, eval_dataset=torch.utils.data.Subset(data, range(8)),
    callbacks=[Reporter(), autotune.hf.Callback()],
)
trainer.train()
evaluated = trainer.evaluate()
print(json.dumps([Reporter.seen, trainer.state.log_history, evaluated]))
"""


@pytest.mark.long
def test_the_trainers_own_loggers_get_the_figures(script):
    done = script(HF)
    assert done.returncode == 0, done.stderr
    seen, history, evaluated = json.loads(done.stdout.splitlines()[-1])
    assert [row.get("autotune/step") for row in seen[:3]] == [40.0, 80.0, 120.0]
    assert "eval_loss" in evaluated
    assert [key for row in (evaluated, *seen[3:], *history[3:]) for key in row if key.startswith("autotune")] == []
    assert seen[1]["autotune/windows"] == 1.0
    assert seen[1]["autotune/step_ms"] > 0
    assert "loss" in seen[1]
    assert history[1]["autotune/step"] == 80.0
    assert "autotune: step 50:" in done.stderr


LIGHTNING = """
import csv, pathlib, torch, autotune
import lightning
from lightning.pytorch.loggers import CSVLogger
import autotune.lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(480, 8)), batch_size=4)
trainer = lightning.Trainer(
    max_epochs=1, logger=CSVLogger("logs"), accelerator="cpu", log_every_n_steps=30, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, callbacks=[autotune.lightning.Callback()],
)
trainer.fit(Module(), data)
(path,) = pathlib.Path("logs").rglob("metrics.csv")
rows = list(csv.DictReader(path.open()))
print([row["autotune/step"] for row in rows], [bool(row["autotune/windows"] == "1.0") for row in rows])
"""


def test_lightnings_loggers_get_the_figures(script):
    done = script(LIGHTNING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("['30.0', '60.0', '90.0', '120.0'")
    assert "True" in done.stdout.splitlines()[-1]
    assert "autotune: step 50:" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="IPython is not installed")
def test_the_magic_runs_a_cell_in_the_notebooks_own_names_and_says_what_it_saw(script):
    done = script(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        f"shell.run_cell({LOOP!r})\n"
        "shell.run_line_magic('load_ext', 'autotune')\n"
        "shell.run_cell_magic('autotune', '', 'train(30)\\nanswer = 42')\n"
        "print(shell.user_ns['answer'])\n"
        "shell.run_cell_magic('autotune', '--at 5', 'train(20)')\n"
        "assert not shell.run_cell('%%autotune\\n1 / 0').success\n"
        "assert not shell.run_cell('%%autotune --wrong\\n1').success\n"
    )
    assert done.returncode == 0, done.stderr
    assert "42" in done.stdout.splitlines()
    assert "autotune: step 10:" in done.stderr and "autotune: step 5:" in done.stderr
    assert done.stderr.count("nothing has drifted") == 2
    assert done.stderr.count("the cell ended with ZeroDivisionError") == 1
    assert "usage: %%autotune" in done.stderr
