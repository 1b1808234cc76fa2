"""diagnose --trace: files and folders of traces in, a report out."""

from __future__ import annotations

import json
import os

import pytest
from chrome import training

from autotune.cli import run
from autotune.diagnose.diagnose import load
from autotune.diagnose.from_trace import diagnose_traces
from autotune.errors import UsageError
from autotune.model.evidence import RUN

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return torch.ones(3), 0


loader = DataLoader(Images(), batch_size=8, num_workers=0)
model = torch.nn.Linear(3, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for images, labels in loader:
    torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def slow_loader(**head):
    """Steps of 100 ms, 30 of them data wait."""
    made = training(6, **head)
    for event in made.events:
        event["ts"] *= 100
        event["dur"] *= 100
    return made


def report_of(tmp_path, *names, words=(), **given):
    return diagnose_traces([tmp_path / name for name in names], words, cwd=tmp_path, environ=dict(os.environ), **given)


def test_one_trace(tmp_path):
    slow_loader().write(tmp_path / "t.json")
    report = report_of(tmp_path, "t.json")
    rules = [finding.rule.id for finding in report.evaluation.findings]
    assert "DL024" in rules[:2]
    (found,) = [one for one in report.evaluation.findings if one.rule.id == "DL024"]
    assert found.gain.basis == "bound"
    assert found.gain.speedup == pytest.approx(1 / 0.702, rel=0.02)
    assert report.machine["gpu_name"] == "NVIDIA A100-SXM4-80GB"
    assert report.run.traces == (str(tmp_path / "t.json"),)
    assert report.device.busy_share == pytest.approx(0.46)
    assert report.step.mean_ms == pytest.approx(100)
    assert report.evidence.lookup(RUN, "machine.cpu_quota") is None, "this machine is not the job's"


def test_a_stored_trace_is_reported_on_again(tmp_path):
    slow_loader().write(tmp_path / "t.json")
    first = report_of(tmp_path, "t.json")
    again = load("last", cwd=tmp_path)
    assert [one.rule.id for one in again.evaluation.findings] == [one.rule.id for one in first.evaluation.findings]
    assert again.device == first.device
    assert again.run.traces == first.run.traces


def test_the_scripts_own_file_is_patched(tmp_path, monkeypatch, capsys):
    slow_loader().write(tmp_path / "t.json")
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    assert run(["diagnose", "--trace", "t.json", "train.py"]) == 0
    assert "train.py:13" in capsys.readouterr().out
    assert run(["apply", "--diff"]) == 0
    diff = capsys.readouterr().out
    assert "-loader = DataLoader(Images(), batch_size=8, num_workers=0)" in diff
    assert "+loader = DataLoader(Images(), batch_size=8, num_workers=2" in diff


def test_a_folder_of_ranks(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in (1, 0):
        slow_loader(distributedInfo={"rank": rank, "world_size": 2}).write(folder / f"{1 - rank}.json")
    (folder / "notes.txt").write_text("no trace")
    report = report_of(tmp_path, "traces")
    assert report.run.num_processes == 2
    assert [one.rsplit("/", 1)[1] for one in report.run.traces] == ["0.json", "1.json"]
    assert report.evidence.lookup(RUN, "run.world_size") == 2


def test_ranks_that_traces_do_not_tell_are_in_their_names(tmp_path):
    names = ("rank0.json", "rank-11.json")
    for name in names:
        slow_loader().write(tmp_path / name)
    report = report_of(tmp_path, *names)
    assert report.run.num_processes == report.evidence.lookup(RUN, "run.world_size") == 2


def test_several_traces_of_one_process_are_no_ranks(tmp_path):
    for name in ("host_1.111.pt.trace.json", "host_1.222.pt.trace.json"):
        slow_loader().write(tmp_path / name)
    with pytest.raises(UsageError, match="tells its rank"):
        report_of(tmp_path, "host_1.111.pt.trace.json", "host_1.222.pt.trace.json")


@pytest.mark.parametrize("words", [["--no-what-ifs"], ["--steps", "5"], ["--keep-going"]])
def test_options_of_a_run_are_refused(tmp_path, monkeypatch, capsys, words):
    slow_loader().write(tmp_path / "t.json")
    monkeypatch.chdir(tmp_path)
    assert run(["diagnose", *words, "--trace", "t.json"]) == 2
    assert f"{words[0]} is about a run" in capsys.readouterr().err


def test_two_traces_of_one_rank_are_refused(tmp_path):
    for name in ("a.json", "b.json"):
        slow_loader(distributedInfo={"rank": 3, "world_size": 8}).write(tmp_path / name)
    with pytest.raises(UsageError, match=r"b\.json: it is of rank 3, as .*a\.json is"):
        report_of(tmp_path, "a.json", "b.json")


def test_a_folder_without_traces(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no trace is in it"):
        report_of(tmp_path, "empty")


def test_a_trace_of_the_host_alone(tmp_path):
    made = slow_loader()
    made.events = [event for event in made.events if event["cat"] not in ("kernel", "gpu_memcpy")]
    made.write(tmp_path / "t.json")
    with pytest.raises(UsageError, match="no event of a GPU") as caught:
        report_of(tmp_path, "t.json")
    assert "ProfilerActivity.CUDA" in str(caught.value)


def test_what_the_trace_lacks_is_said(tmp_path):
    made = slow_loader(distributedInfo={"rank": 0, "world_size": 4})
    made.events = [
        event
        for event in made.events
        if event["cat"] != "python_function" and not event["name"].startswith(("ProfilerStep", "Optimizer"))
    ]
    made.write(tmp_path / "t.json")
    notes = " ".join(report_of(tmp_path, "t.json").run.notes)
    assert "marks no steps" in notes
    assert "no stacks" in notes
    assert "1 of 4 ranks" in notes


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    for rank in range(2):
        slow_loader(distributedInfo={"rank": rank, "world_size": 2}).write(tmp_path / f"rank{rank}.json")
    monkeypatch.chdir(tmp_path)
    assert run(["diagnose", "--trace", "rank0.json", "rank1.json"]) == 0
    text = capsys.readouterr().out
    assert "The device over 5 profiled steps: 46 % busy, 54 % idle" in text
    assert "Read from 2 traces: nothing was run." in text
    assert "measured" not in text.split("Next")[0].replace("not measured", "")
    assert run(["diagnose", "--format", "json", "--trace", "rank0.json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["devices"][0]["busy_share"] == pytest.approx(0.46)
    assert document["run"]["traces"] == [str(tmp_path / "rank0.json")] or document["run"]["traces"] == ["rank0.json"]
    assert run(["diagnose", "--trace", "missing.json"]) == 2
