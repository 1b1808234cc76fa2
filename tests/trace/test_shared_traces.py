"""Traces that others recorded on V100, A100, H100 and MI300X, beside this project, against what a reader that shares no
code with this one said of them (truth.json). Skipped where they are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autotune.derive import derive
from autotune.diagnose.from_trace import diagnose_traces
from autotune.engine.evaluate import evaluate
from autotune.engine.evidence import join
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN
from autotune.trace.read import read
from autotune.trace.recording import recording

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "traces"
TRUTH = json.loads((FOLDER / "truth.json").read_text()) if (FOLDER / "truth.json").is_file() else {}
ON_DEVICE = sorted(name for name, truth in TRUTH.items() if truth["device_events"])

pytestmark = pytest.mark.skipif(not TRUTH, reason="the shared traces are not here")


def trace(name):
    return read(FOLDER / f"{name}.json.gz")


@pytest.mark.parametrize("name", ON_DEVICE)
def test_step_busy_share_and_exposed_communication(name):
    truth, derived = TRUTH[name], derive([recording(trace(name))])
    (device,) = derived.devices
    assert device.step_ms == pytest.approx(truth["step_ms"], rel=0.01)
    assert device.busy_share == pytest.approx(truth["kernel_busy_share"], abs=0.01)
    assert device.communication_share == pytest.approx(truth["communication_share"], abs=0.01)
    assert device.exposed_share == pytest.approx(truth["exposed_communication_share"], abs=0.01)
    assert device.kernels_per_step == pytest.approx(truth["kernels_per_step"], rel=0.01)
    waited = sum(part.share for part in device.idle if part.kind == "data_wait")
    assert waited == pytest.approx(truth["idle_in_dataloader_share"], abs=0.01)
    assert device.busy_share + sum(part.share for part in device.idle) == pytest.approx(1.0)
    facts = {fact.name: fact.value for fact in derived.facts if fact.subject == RUN}
    assert facts.get("step.data_wait_share", 0.0) == pytest.approx(truth["idle_in_dataloader_share"], abs=0.01)


COLLECTIVE = {
    "hta-ddp-a100": "all-reduce",
    "hta-dlrm-a100": "all-to-all",
    "hta-sampled-rank0": "all-to-all",
    "hta-torchrec-a100": "all-reduce",
    "tracelens-resnet-ddp-mi300": "all-reduce",
}
"""The collective that is exposed most: DDP's, or that of sharded embeddings."""


@pytest.mark.parametrize("name", sorted(COLLECTIVE))
def test_exposed_communication_by_collective(name):
    (device,) = derive([recording(trace(name))]).devices
    assert device.collectives[0].kind == COLLECTIVE[name]
    assert device.collectives[0].exposed_share <= device.exposed_share
    assert sum(one.exposed_share for one in device.collectives) == pytest.approx(device.exposed_share, abs=0.01)


def test_memory_of_a_trace_that_has_it():
    derived = derive([recording(trace("tracelens-qwen-h100"))])
    assert {fact.name: fact.value for fact in derived.facts}["memory.peak_bytes"] == 2_629_828_608


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_who_and_where(name):
    truth, found = TRUTH[name], trace(name)
    assert (found.world_size, found.rank) == (truth["world_size"], truth["rank"])
    assert bool(found.activities) == bool(truth["device_events"])
    if truth["gpu"] is not None:
        assert {device.name for device in found.devices.values()} == {truth["gpu"]}


SEEN = {
    "CO001": ("hta-ddp-a100", "tracelens-qwen-h100"),
    "CV001": ("hta-ddp-a100", "kineto-resnet50-workers0"),
    "DD007": ("tracelens-resnet-ddp-mi300", "hta-ddp-a100"),
    "DL004": ("kineto-resnet50-workers0", "hta-dlrm-a100"),
    "DL024": ("kineto-resnet50-workers0", "kineto-resnet50-workers4"),
    "SY018": ("hta-torchrec-a100", "hta-dlrm-a100"),
}
"""Rules about what a GPU did: a trace on which each fires, and one on which it must not."""

RECORDED = {"AT011", "PR001", "PR002"}
"""They fire on Recordings of a GPU (fixtures/recordings), and on no shared trace."""

UNSEEN = {"AT001", "AT002", "AT004", "AT008", "MS001", "SY001", "SY002", "SY010"}
"""Nothing recorded has what they need: the model's settings, reads that find an idle device, or NVML."""

NAME = re.compile(r"[a-z_]+\.[a-z0-9_]+")
OF_DEVICE = ("device.", "calls.user_sync")
EVERYWHERE = {"device.type", "device.capability"}


def fired(name):
    derived = derive([recording(trace(name))])
    evidence = join(derived.facts, derived.settings)
    return {finding.rule.id for finding in evaluate(load_rules(), evidence).findings}


@pytest.mark.parametrize(("rule", "fires", "silent"), [(rule, *names) for rule, names in SEEN.items()])
def test_a_rule_fires_on_one_trace_and_not_on_another(rule, fires, silent):
    assert rule in fired(fires)
    assert rule not in fired(silent)


def test_every_rule_about_the_device_is_seen_on_a_trace_or_listed_as_unseen():
    of_device = {
        rule.id
        for rule in load_rules()
        if any(name.startswith(OF_DEVICE) for name in set(NAME.findall(rule.when)) - EVERYWHERE)
    }
    assert of_device == {*SEEN, *RECORDED, *UNSEEN} - {"DL024"}, "which reads the loader alone"


FIRST = {
    "kineto-resnet50-workers0": {"DL024"},
    "kineto-resnet50-profiler-api-workers0": {"DL024"},
    "kineto-resnet50-workers4": {"CO001"},
    "hta-dlrm-a100": {"DD007"},
    "hta-torchrec-a100": {"SY018"},
    "hta-ddp-a100": {"CO001", "CV001"},
    "hta-sampled-rank0": {"DD007"},
    "hta-sampled-rank1": {"DD007"},
    "tracelens-bert-small-h100": {"CO001"},
    "tracelens-qwen-h100": set(),
    "tracelens-resnet-ddp-mi300": {"DD007"},
}
"""What an expert concludes from each (README.md beside the traces), as rules; nothing of one that is 91 % busy."""


@pytest.mark.parametrize("name", sorted(FIRST))
def test_the_experts_conclusion_is_among_the_first_two_findings(name, tmp_path):
    report = diagnose_traces([FOLDER / f"{name}.json.gz"], (), cwd=tmp_path, environ={})
    said = [finding.rule.id for finding in report.evaluation.findings]
    assert FIRST[name] <= set(said[:2]), said
    if not FIRST[name]:
        assert said == []
