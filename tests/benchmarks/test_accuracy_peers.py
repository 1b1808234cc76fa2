"""benchmarks/accuracy/peers.py: what the verdicts of other tools count for, and the table that says so."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module("benchmarks.accuracy.peers")


@pytest.fixture
def judge(peers):
    cases = importlib.import_module("benchmarks.accuracy.cases")
    labels = cases.Labels((), {"workers": ("DL001",), "padding": ("BA005",)}, ())
    peer = peers.Peer("one", "one==1", "none", neutral=("BALANCED",), codes={"INPUT": ("workers", "padding")})

    def judged(kind, codes, also=()):
        return peers.judge(peer, cases.Case(kind, kind, "raw", "", "why", also=also), labels, codes)

    return judged


def test_a_code_is_right_where_it_names_the_kind(judge):
    row = judge("padding", ["BALANCED", "INPUT"])
    assert (row.named, row.is_first, row.found, row.missed, row.false) == (True, True, ("INPUT",), (), ())


def test_a_code_is_wrong_on_a_healthy_case_and_blamed_on_its_most_usual_kind(judge):
    row = judge("healthy", ["INPUT"])
    assert (row.named, row.is_first, row.false, row.false_kinds) == (False, None, ("INPUT",), ("workers",))


def test_what_is_also_true_of_a_case_may_be_said(judge):
    assert judge("healthy", ["INPUT"], also=("DL001",)).false == ()


def test_a_neutral_code_is_no_answer_and_no_alarm(judge):
    assert judge("healthy", ["BALANCED"]).false == ()
    assert judge("padding", ["BALANCED"]).missed == ("padding",)


def test_a_code_that_nobody_mapped_is_wrong(judge):
    assert judge("padding", ["NEW"]).false == ("NEW",)


def test_every_code_is_mapped_once_to_kinds_that_labels_have(peers):
    labels = peers.cases.read()
    table = peers.read()
    assert set(table) == set(peers.TOOLS)
    for peer in table.values():
        assert not set(peer.neutral) & set(peer.codes)
        assert {kind for kinds in peer.codes.values() for kind in kinds} <= set(labels.kinds)


@pytest.mark.parametrize(
    ("name", "out", "codes"),
    [
        ("hotpath", '{"files": [{"findings": [{"rule_id": "KP001"}]}]}', ["KP001"]),
        ("torchfix", "a/b.py:3:9: TOR401 Without workers\n", ["TOR401"]),
        ("pytscope", "  [HIGH] Input  (TIMING.DATALOADER_BOUND)\n   98% (of all)\n", ["TIMING.DATALOADER_BOUND"]),
        ("gpuprof", 'progress\n["small_batch"]\n', ["small_batch"]),
    ],
)
def test_a_verdict_is_read_from_what_the_tool_prints(peers, name, out, codes):
    ended = peers.measuring.Ended(0, 1.0, 1.0, out, "")
    assert peers.TOOLS[name].verdict(ended, ROOT) == codes


def test_a_summary_that_is_missing_is_no_verdict(peers, tmp_path):
    with pytest.raises(ValueError):
        peers.TOOLS["traceml"].verdict(peers.measuring.Ended(0, 1.0, 1.0, "", ""), tmp_path)
