"""autotune diagnose: what its options ask for."""

from __future__ import annotations

import pytest

from autotune.catalogue.devices import asked as card
from autotune.cli import run
from autotune.diagnose.outlook import NOTHING, OutlookRequest
from autotune.errors import UsageError
from autotune.model.outlook import ProgressLine
from autotune.predict.device_options import DeviceRequest


@pytest.fixture
def asked(monkeypatch):
    """What was asked for, once per run of the verb, which ends there."""
    seen: list[OutlookRequest] = []

    def load(name, *, cwd, price, asked):
        seen.append(asked)
        raise UsageError("far enough")

    def diagnose(options, show, *, cwd, publish):
        seen.append(options.asked)
        raise UsageError("far enough")

    monkeypatch.setattr("autotune.cli.outlook_options.load", load)
    monkeypatch.setattr("autotune.cli.report.artefacts.resolve", lambda name, cwd: cwd / name)
    monkeypatch.setattr("autotune.cli.diagnose.diagnose", diagnose)
    return seen


@pytest.mark.parametrize(
    "words", [["report"], ["report", "last"], ["diagnose", "train.py"], ["diagnose", "--load", "last"]]
)
def test_nothing_is_asked_for_by_itself(asked, words):
    assert run(words) == 2
    assert asked == [NOTHING]


@pytest.mark.parametrize(
    ("verb", "of"), [("report", ["last"]), ("diagnose", ["train.py"]), ("diagnose", ["--load", "last"])]
)
def test_a_progress_line_and_other_devices(asked, verb, of):
    line = "12%|#| 1200/10000 [46:47<5:42:11, 2.33s/it]"
    run([verb, "--at", line, "--options", "4", "--bandwidth", "300", "--device-price", "2", "--on", "h100,T4", *of])
    cards = (card("h100-80"), card("t4"))
    assert asked == [OutlookRequest(ProgressLine(1200, 10000, 2.33), DeviceRequest(4, 300.0, 2.0, cards))]


@pytest.mark.parametrize(("option", "value"), [("--device-price", "2"), ("--bandwidth", "300")])
@pytest.mark.parametrize(("verb", "of"), [("report", ["last"]), ("diagnose", ["train.py"])])
def test_what_is_of_several_devices_is_refused_without_them(asked, capsys, option, value, verb, of):
    assert run([verb, "--on", "l4", option, value, *of]) == 2
    assert f"{option}: it is of several devices" in capsys.readouterr().err
    assert asked == []


def test_a_line_without_a_step_is_refused_before_anything_runs(asked, capsys):
    assert run(["diagnose", "--at", "nearly done", "train.py"]) == 2
    assert "--at: it names no step" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize("words", [["--options", "1"], ["--options", "2", "--bandwidth", "0"], ["--on", "gtx1"]])
def test_numbers_that_mean_nothing_are_refused(asked, words):
    assert run(["diagnose", *words, "train.py"]) == 2
    assert asked == []
