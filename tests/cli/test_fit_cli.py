"""`autotune fit` on scripts that train here in no time: what it prints, exits with, and leaves alone."""

from __future__ import annotations

import json
import sys
import time

import pytest

from autotune.cli import run
from autotune.history import results

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
model = nn.Sequential(nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(64, {width}), torch.zeros(64, dtype=torch.long))
loader = DataLoader(data, batch_size=8, pin_memory=True)
for x, y in loader:
    {before}
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item(), flush=True)
print("the end")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """script(width, before): a script in the working folder that says it needs CUDA."""
    monkeypatch.chdir(tmp_path)

    def make(width=256, before="pass"):
        (tmp_path / "train.py").write_text(SCRIPT.format(width=width, before=before))
        return "train.py"

    return make


def answer(capfd, *words):
    """The exit code, and the document on stdout."""
    code = run(["fit", "--quiet", "--no-lock", "--format", "json", *words])
    return code, json.loads(capfd.readouterr().out)


@pytest.mark.train
def test_a_script_for_cuda_is_planned_without_cuda(script, capfd):
    code, found = answer(capfd, "--on", "t4,h100-80", "--batch", "8,16", script())
    assert (code, found["fits"], found["basis"]) == (0, True, "fake steps")
    assert [card["card"] for card in found["cards"]] == ["t4", "h100-80"]
    assert [size["micro_batch"] for size in found["cards"][0]["sizes"]] == [8, 16]
    assert found["cards"][0]["largest_micro_batch"] > 1000
    parts = found["cards"][0]["sizes"][0]["parts_bytes"]
    weights = 4 * (256 * 256 + 256 + 256 * 10 + 10)
    assert parts["weights"] == weights
    assert parts["optimizer state"] == pytest.approx(2 * weights, rel=0.01)
    assert any("train.py:18" in note for note in found["notes"])


@pytest.mark.train
def test_what_fits_nowhere_exits_with_1(script, capfd):
    # 48,000 x 48,000 parameters: 8.6 GiB, four times of that with gradients and AdamW.
    code, found = answer(capfd, "--on", "t4", script(width=48000))
    assert (code, found["fits"]) == (1, False)
    (size,) = found["cards"][0]["sizes"]
    assert (size["verdict"], size["step_ms"]) == ("does not fit", None)
    assert size["low_bytes"] > 4 * 4 * 48000**2


@pytest.mark.train
@pytest.mark.parametrize("format_", ["markdown", "html"])
def test_the_answer_is_a_dated_note(format_, script, capfd, tmp_path):
    words = ["--on", "t4", "--format", format_, "--output", str(tmp_path / "note"), script()]
    assert run(["fit", "--quiet", "--no-lock", *words]) == 0
    text = (tmp_path / "note").read_text()
    assert "Memory and cards: train.py" in text
    assert time.strftime("%Y-%m-%d", time.gmtime()) in text
    assert "weights" in text and ("surely needed" in text) == (format_ == "html")


@pytest.mark.train
def test_a_run_of_it_is_printed_again_and_is_no_diagnosis(script, capfd, tmp_path):
    _, found = answer(capfd, "--on", "t4", "--batch", "8", script())
    assert [one["command"] for one in found["next"]] == [f"autotune report {found['run']} --format html"]
    assert run(["report", found["run"], "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == found
    for format_, said in (("text", "At the peak of a micro-batch of 8"), ("markdown", "| t4"), ("html", "<svg")):
        assert run(["report", found["run"], "--format", format_]) == 0
        assert said in capfd.readouterr().out
    assert run(["runs", "."]) == 2
    assert "no diagnosed job was found" in capfd.readouterr().err
    (tmp_path / ".autotune" / "runs" / found["run"] / results.FIT).unlink()  # as if it had been interrupted
    for words in (["report", found["run"]], ["fit", "--load", found["run"]]):
        assert run(words) == 2
        assert "its steps had no data" in capfd.readouterr().err


@pytest.mark.train
def test_the_process_of_the_script_sees_no_gpu(script, capfd, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    before = "import os; assert os.environ['CUDA_VISIBLE_DEVICES'] == ''; model.to(0); torch.Generator(device='cuda')"
    code, found = answer(capfd, "--on", "t4", script(before=before))
    assert (code, found["fits"]) == (0, True)


@pytest.mark.train
def test_prices_and_several_cards(script, capfd, tmp_path):
    (tmp_path / "prices.toml").write_text("[t4]\nusd_per_hour = 3.6\ndate = 2026-11-20\n")
    words = ("--on", "t4", "--devices", "4", "--shard", "zero2", "--run-steps", "500", "--price", "prices.toml")
    _, found = answer(capfd, *words, script())
    (size,) = found["cards"][0]["sizes"]
    assert (found["devices"], found["sharding"], found["steps"]) == (4, "zero2", 500)
    assert size["cost_usd"]["low"] == pytest.approx(size["run_s"]["low"] * 4 * 3.6 / 3600)
    assert found["cards"][0]["price_date"] == "2026-11-20"
    assert run(["report", found["run"]]) == 0
    assert "Prices of a card: t4 $3.60 an hour, 2026-11-20" in capfd.readouterr().out


def test_a_folder_is_no_file_of_prices_and_the_catalogue_is_a_word(script, capfd, monkeypatch, tmp_path):
    (tmp_path / "gpuhunt").mkdir()
    assert run(["fit", "--price", "./gpuhunt", script()]) == 2
    assert "is a directory" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    assert run(["fit", "--price", "gpuhunt", script()]) == 2
    assert "the package gpuhunt is missing" in capfd.readouterr().err


@pytest.mark.train
def test_what_cannot_run_without_data_is_named_with_its_line(script, capfd):
    code, found = answer(capfd, "--on", "t4", script(before="torch.unique(model(x), return_counts=True)"))
    assert code == 1
    assert "train.py:12" in found["why_not"]


@pytest.mark.train
def test_a_script_that_fails_by_itself_exits_with_3(script, capfd):
    assert run(["fit", "--quiet", "--no-lock", "--on", "t4", script(before="raise SystemExit(7)")]) == 3
    assert "exit code 7" in capfd.readouterr().err


@pytest.mark.train
def test_a_stored_diagnosis_answers_from_its_memory_budget(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    # A script of the host: nothing pretends to be a card when it is diagnosed.
    text = SCRIPT.format(width=64, before="pass").replace('torch.device("cuda")', 'torch.device("cpu")')
    (tmp_path / "train.py").write_text(
        text.replace("y.cuda()", "y").replace('torch.autocast("cuda"', 'torch.autocast("cpu"')
    )
    assert run(["diagnose", "--quiet", "--no-lock", "--no-what-ifs", "--steps", "2", "--warmup", "1", "train.py"]) == 0
    capfd.readouterr()
    code, found = answer(capfd, "--load", "last", "--on", "t4", "--batch", "8,80")
    assert (code, found["basis"], found["cards"][0]["largest_micro_batch"]) == (0, "memory budget", None)
    measured, larger = found["cards"][0]["sizes"]
    assert larger["high_bytes"] > measured["high_bytes"] and larger["low_bytes"] == measured["low_bytes"]
    assert measured["step_ms"] is None


def test_words_that_mean_nothing_are_refused(script, capfd):
    assert run(["fit", "--on", "gtx1", script()]) == 2
    assert run(["fit", "--batch", "0", script()]) == 2
    assert run(["fit", "--shard", "fsdp", script()]) == 2
    assert run(["fit", "--load", "last", "--devices", "2"]) == 2
    errors = capfd.readouterr().err
    assert "gtx1" in errors and "whole number" in errors and "--devices 8" in errors and "several cards" in errors
