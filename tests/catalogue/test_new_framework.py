"""A framework that nothing knows becomes known by one file: autotune/catalogue/frameworks/<name>.toml.

The framework is a small library in a folder of its own. Its file lies in a copy of the catalogue, which the commands
read in place of the package's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.catalogue import vocabulary

LIBRARY = """
import torch

__version__ = "1.2.3"


class Coach:
    def __init__(self, model, watch_anomalies=False, *, rounds=1, micro_steps=1, log_each=10, save_each=None):
        self.model, self.rounds, self.micro_steps = model, rounds, micro_steps
        self.log_each, self.save_each = log_each, save_each
        self.watch_anomalies = watch_anomalies
        self.made = 0

    def teach(self, train, held_out):
        torch.autograd.set_detect_anomaly(self.watch_anomalies)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(self.rounds):
            for at, (rows, labels) in enumerate(train, 1):
                torch.nn.functional.cross_entropy(self.model(rows), labels).backward()
                if at % self.micro_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    self.made += 1
                    if self.save_each and self.made % self.save_each == 0:
                        self.store("weights.pt")
            self.examine(held_out)

    def examine(self, held_out):
        with torch.no_grad():
            return [self.model(rows).argmax(1) for rows, _ in held_out]

    def store(self, path):
        with open(path, "w") as file:  # no torch.save: only the hook of this method can see it
            file.write(str([one.sum().item() for one in self.model.parameters()]))
"""

FILE = """
title = "Gym"
packages = ["gymnast"]
distributions = ["gymnast"]
replaces_loop = ["gymnast"]
classes = { gymnast = ["Coach"] }
positional = { Coach = ["model", "watch_anomalies"] }
constructs = ["Coach"]
starts = ["teach"]
more_devices = "start it with gymnast run"

[[hooks]]
module = "gymnast"
type = "Coach"
object = "gym"
fields = ["rounds", "micro_steps", "log_each", "save_each"]
times = { examine = "evaluation", store = "checkpoint" }
override = "arguments"

[observed]
"train.epochs" = "rounds"
"train.accumulation_steps" = "micro_steps"

[intervals]
checkpoint = { steps = ["save_each"] }
logging = { steps = ["log_each"] }

[dialect]
call = "Coach"
extends = "torch"

[dialect."train.epochs"]
key = "rounds"

[dialect."train.accumulation_steps"]
key = "micro_steps"
default = 1

[dialect."train.anomaly_detection"]
key = "watch_anomalies"
default = false

[dialect."checkpoint.interval_steps"]
key = "save_each"
"""

SCRIPT = """
import torch
from gymnast import Coach
from torch.utils.data import DataLoader, TensorDataset


def main():
    rows = TensorDataset(torch.randn(640, 8), torch.randint(4, (640,)))
    train, held_out = DataLoader(rows, batch_size=8, shuffle=True), DataLoader(rows, batch_size=32)
    coach = Coach(torch.nn.Linear(8, 4), True, rounds=3, micro_steps=2, save_each=10)
    coach.teach(train, held_out)


if __name__ == "__main__":
    main()
"""

AUTOTUNE = """
import sys
from pathlib import Path
from autotune.catalogue import vocabulary
vocabulary.FOLDER = Path(sys.argv.pop(1))
from autotune.cli import main
main()
"""


@pytest.fixture
def gym(tmp_path: Path) -> SimpleNamespace:
    """A project that trains with the framework; `run` runs a command there, by default with the framework's file."""
    project, site, known = tmp_path / "project", tmp_path / "site-packages", tmp_path / "known"
    for folder in (project, site):
        folder.mkdir()
    (site / "gymnast.py").write_text(LIBRARY)
    (project / "train.py").write_text(SCRIPT)
    shutil.copytree(vocabulary.FOLDER, known, ignore=lambda _, names: [one for one in names if one.endswith(".py")])
    (known / "frameworks" / "gym.toml").write_text(FILE)
    environ = {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*words: str, known: Path = known) -> str:
        command = [sys.executable, "-c", AUTOTUNE, str(known), *words]
        done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return SimpleNamespace(run=run, project=project)


def test_its_file_lets_check_read_its_settings(gym) -> None:
    report = json.loads(gym.run("check", "--all", "--format=json", "train.py"))
    assert report["bundles"][0]["dialects"] == ["torch", "gym"]
    found = {one["rule"]: one for one in report["findings"]}
    (change,) = found["SY007"]["changes"]
    assert (change["spelling"], change["location"]["line"], change["new"]) == ("watch_anomalies", 10, False)
    assert "every 10 steps" in found["CK001"]["message"]


def test_without_its_file_nothing_is_known_of_it(gym) -> None:
    report = json.loads(gym.run("check", "--format=json", "train.py", known=vocabulary.FOLDER))
    assert (report["bundles"], report["findings"]) == ([], [])


@pytest.mark.train
def test_its_file_lets_the_probe_hook_it_and_a_diagnosis_know_it(gym) -> None:
    options = ("--no-lock", "--no-what-ifs", "--warmup=2", "--steps=50", "--format=json")
    report = json.loads(gym.run("diagnose", *options, "--", sys.executable, "train.py"))
    (file,) = gym.project.glob(".autotune/runs/*/recording-*.json")
    recording = json.loads(file.read_text())
    ((name, noted),) = recording["frameworks"].items()
    assert (name, noted["type"], noted["site"]["line"]) == ("gym", "Coach", 10)
    assert noted["values"] == {"rounds": 3, "micro_steps": 2, "log_each": 10, "save_each": 10}
    assert recording["software"]["gymnast"] == "1.2.3"
    assert {"evaluation", "checkpoint"} <= {event[0] for event in recording["events"]}
    assert (report["facts"]["run.framework"], report["facts"]["run.num_planned_steps"]) == ("gym", 120)
    told = {"train.epochs": 3, "train.accumulation_steps": 2, "checkpoint.interval_steps": 10}
    settings = {name: report["settings"][name] for name in told}
    assert {name: one["value"] for name, one in settings.items()} == told
    assert {one["location"]["line"] for one in settings.values()} == {10}
