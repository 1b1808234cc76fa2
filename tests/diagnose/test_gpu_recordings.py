"""Recordings of runs on a GPU (fixtures/recordings), read again: what is said of each, and the step it is said of."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from autotune.diagnose.diagnose import load
from autotune.model.rule import Effect

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
TIMES = json.loads((FOLDER / "times.json").read_text(encoding="utf-8"))
"""Milliseconds per step by CUDA events of the script: of runs with the probe, and of runs without it."""

PROBED, NATIVE = TIMES["probed"], TIMES["native"]

CLOCKS = json.loads((FOLDER / "clocks.json").read_text(encoding="utf-8"))
"""Shares of the step by line, by events of the device around each statement of a copy that ran beside it."""

FIRST = {
    "decoded_images": ("DL001", 49),
    "finetune": ("PR002", 55),
    "full_precision": ("PR002", None),
    "looped_optimizer": ("OP001", 26),
    "masked_rows": ("SY018", 27),
    "norms_every_step": ("SY018", 40),
    "pageable_clips": ("DL004", 31),
    "planar_convolutions": ("CV001", None),
    "recomputed": ("ME001", None),
    "runs_ahead": None,
    "side_stream": None,
    "small_kernels": ("CO001", None),
    "written_attention": ("AT011", 28),
}
"""The fault of each script (benchmarks/scripts/gpu) as a rule, and its line; None of the healthy ones."""

REPAIRS = {"PR001": "full_precision-tf32", "PR002": "full_precision-bf16", "AT011": "written_attention-sdpa"}
"""The repaired script whose time without the probe tells what a rule's change gained."""


@pytest.fixture(name="report")
def fixture_report(tmp_path):
    def read(name):
        file = tmp_path / f"{name}.json"
        file.write_bytes(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
        return load(str(file), cwd=tmp_path)

    return read


def test_every_recording_is_held():
    names = {path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz")}
    assert names == {*FIRST, *PROBED}


@pytest.mark.parametrize("name", FIRST)
def test_the_fault_comes_first_and_nothing_is_said_of_healthy_scripts(report, name):
    findings = report(name).evaluation.findings
    if FIRST[name] is None:
        assert not findings
        return
    first = findings[0]
    assert (first.rule.id, first.location and first.location.line) == FIRST[name]


@pytest.mark.parametrize("name", PROBED)
def test_the_window_has_the_steps_time_by_the_scripts_own_events(report, name):
    # The script's own time has the end of the window in it, once: 20 ms to 60 ms.
    step = report(name).step
    assert 0.94 * PROBED[name] < step.mean_ms < 1.005 * PROBED[name]


@pytest.mark.parametrize(("rule", "repaired"), REPAIRS.items())
def test_a_gain_that_was_measured_on_the_gpu_is_in_its_interval(report, rule, repaired):
    name = repaired.split("-")[0]
    (found,) = (each for each in report(name).evaluation.findings if each.rule.id == rule)
    assert found.gain.low <= NATIVE[name] / NATIVE[repaired] <= found.gain.high


def test_accumulation_is_a_decision_where_the_losses_of_micro_batches_are_added(tmp_path):
    """With what the probe reads of the Trainer since: on the GPU `verify` saw losses that were 49 % lower."""
    row = json.loads(gzip.decompress((FOLDER / "finetune.json.gz").read_bytes()))
    row["frameworks"]["hf_trainer"]["values"]["adds_losses"] = True
    file = tmp_path / "finetune.json"
    file.write_text(json.dumps(row), encoding="utf-8")
    found = load(str(file), cwd=tmp_path)
    effects = {each.first.rule.id: each.effect for each in found.recommendations}
    assert effects["GA004"] is Effect.ALTERING
    assert "GA007" in effects


@pytest.mark.parametrize("name", CLOCKS)
def test_lines_have_the_share_that_events_of_the_device_give_them(report, name):
    step = report(name).step
    shares = {line.line: line.share for line in step.lines.lines}
    clocks = {int(line): share for line, share in CLOCKS[name].items()}
    for line in {*shares, *clocks}:
        # Shorter ones are told apart by nothing: 147 clocks in a loop take time of the host's too.
        if max(shares.get(line, 0.0), clocks.get(line, 0.0)) >= 0.05:
            assert shares.get(line, 0.0) == pytest.approx(clocks.get(line, 0.0), abs=0.03), line
    assert step.lines.known_share > 0.99
    hottest = step.lines.lines[0]
    busy = hottest.device_ms / (hottest.share * step.mean_ms)
    assert busy < 0.5 if name == "norms_every_step" else busy > 0.9
