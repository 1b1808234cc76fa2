"""benchmarks/accuracy/peers.py: what the codes of other tools count for, what is left out, and what is kept."""

from __future__ import annotations

import argparse
import json
import sys

import pytest


@pytest.fixture
def peers(imported):
    return imported("benchmarks.accuracy.peers")


@pytest.fixture
def labels(peers):
    return peers.cases.Labels((), {"workers": ("DL001",), "padding": ("BA005",), "copies": ("DL005",)}, ())


@pytest.fixture
def peer(peers):
    codes = {"INPUT": ("workers", "padding"), "COPY": ("copies",)}
    return peers.Peer("one", "one==1", "none", True, neutral=("BALANCED",), codes=codes, on_gpu=("COPY",))


@pytest.fixture
def judge(peers, labels, peer):
    def judged(kind, codes, *, set_name="own", **more):
        case = peers.cases.Case(kind, set_name, kind, "raw", "", "why", **more)
        said = [code if isinstance(code, tuple) else (code, False) for code in codes]
        return peers.judge(peer, case, labels, said)

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


def test_what_is_said_low_counts_where_it_is_right_and_is_never_an_alarm(judge):
    assert judge("healthy", [("INPUT", True)]).false == ()
    assert judge("padding", [("INPUT", True)]).named


def test_advice_about_a_gpu_is_neutral_where_none_runs(judge):
    assert judge("healthy", ["COPY"]).false == ()
    assert judge("healthy", ["COPY"], set_name="static").false == ("COPY",)
    assert not judge("copies", ["COPY"]).named
    assert judge("copies", ["COPY"], set_name="static").named


def test_a_code_that_nobody_mapped_is_wrong_and_blamed_on_no_kind(judge):
    row = judge("padding", ["NEW"])
    assert (row.false, row.false_kinds) == (("NEW",), ())


def test_a_tool_that_does_not_rank_has_no_first(peers, labels):
    plain = peers.Peer("two", "two==1", "none", False, neutral=(), codes={"INPUT": ("padding",)})
    case = peers.cases.Case("a", "own", "padding", "raw", "", "why")
    assert peers.judge(plain, case, labels, [("INPUT", False)]).is_first is None


def test_every_code_is_mapped_once_to_kinds_that_labels_have(peers):
    table, known = peers.read(), set(peers.cases.read().kinds)
    assert set(table) == set(peers.peer_tools.USES)
    for one in table.values():
        assert not set(one.neutral) & set(one.codes)
        assert set(one.on_gpu) <= set(one.codes)
        assert {kind for kinds in one.codes.values() for kind in kinds} <= known


@pytest.fixture
def given(tmp_path):
    return argparse.Namespace(envs=tmp_path, corpus=None, out=tmp_path / "out", again=False)


@pytest.fixture
def asking(peers, monkeypatch):
    """Each peer says what `said` has of a case; the ids asked for are kept in it under "asked"."""
    said = {"asked": []}

    def ask(peer, case, given):
        said["asked"].append(case.id)
        codes = said.get(case.id)
        return {"codes": codes, "why": "" if codes is not None else "exit 1: Killed", "report": "", "wall_s": 1.0}

    monkeypatch.setattr(peers, "ask", ask)
    return said


@pytest.fixture
def three(peers):
    every = {case.id: case for case in peers.cases.read().cases}
    names = ["pytorch_23048_one_worker", "saves_after_every_step", "healthy_table_in_memory"]
    return [every[name] for name in names]


def test_a_case_without_a_verdict_is_named_and_left_out_of_both_sides(peers, given, asking, three):
    labels, traceml = peers.cases.read(), peers.read()["traceml"]
    asking |= {three[0].id: [["INPUT_BOUND", False]], three[2].id: []}
    own = {case.id: peers.scores.judge(case, labels, ["DL002"], ["DL002"]) for case in three}
    one = peers.compare(traceml, three, labels, own, given)
    assert [row.case.id for row in one.rows] == [row.case.id for row in one.beside] == [three[0].id, three[2].id]
    assert one.without == {three[1].id: "exit 1: Killed"}
    assert (one.rows[0].named, one.rows[1].false) == (True, ())
    text = peers.text([one], three, {"label not held by a measurement": ["a_case"], "no result of ours": []})
    assert f"No verdict on {three[1].id}: exit 1: Killed" in text
    assert "Not scored, label not held by a measurement: a_case" in text
    assert "no result of ours" not in text
    assert traceml.lines in text


def test_cases_that_a_tool_is_not_for_are_counted_by_their_reason(peers, given, asking):
    labels = peers.cases.read()
    static = [case for case in labels.cases if case.is_static]
    one = peers.compare(peers.read()["gpuprof"], static, labels, {}, given)
    assert asking["asked"] == []
    assert f"Not tried: {len(static)} static cases" in peers.notes(one)


def test_what_is_kept_is_asked_for_again_when_the_edit_changes(peers, given, asking, three, monkeypatch):
    gpuprof = peers.read()["gpuprof"]
    for _ in range(2):
        peers.asked(gpuprof, three[0], given)
    assert asking["asked"] == [three[0].id]
    monkeypatch.setattr(peers, "HARNESS", peers.HARNESS[:-1])
    peers.asked(gpuprof, three[0], given)
    assert asking["asked"] == [three[0].id] * 2
    given.again = True
    peers.asked(gpuprof, three[0], given)
    assert len(asking["asked"]) == 3


def test_every_kind_of_case_has_a_stamp_of_its_own(peers):
    torchfix, every = peers.read()["torchfix"], peers.cases.read().cases
    assert len({peers.stamp(torchfix, case) for case in every}) > 0.9 * len(every)


def test_everything_is_written_as_json(peers, given, asking, three):
    labels = peers.cases.read()
    asking |= {three[0].id: [["INPUT_BOUND", False]], three[2].id: [["COMPUTE_BOUND", True]]}
    one = peers.compare(peers.read()["traceml"], three, labels, {}, given)
    document = json.loads(json.dumps(peers.as_json([one], {"no result of ours": ["a_case"]})))["peers"]["traceml"]
    assert [row["codes"] for row in document["cases"]] == [[["INPUT_BOUND", False]], [["COMPUTE_BOUND", True]]]
    assert document["without_a_verdict"] == {three[1].id: "exit 1: Killed"}


def test_a_result_of_ours_whose_case_is_gone_is_passed_over(peers, tmp_path, three):
    rows = [{"case": name, "reported": ["DL002"], "first": ["DL002"]} for name in (three[0].id, "gone")]
    (tmp_path / "ours.json").write_text(json.dumps({"cases": rows}))
    own = peers.ours(tmp_path / "ours.json", peers.cases.read())
    assert {name: row.named for name, row in own.items()} == {three[0].id: True}


def test_an_environment_must_be_there_and_hold_the_version(peers, tmp_path, monkeypatch):
    gpuprof = peers.read()["gpuprof"]
    with pytest.raises(SystemExit, match="no environment"):
        peers.check(gpuprof, tmp_path)
    python = tmp_path / "gpuprof" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 0.7.1\n")
    python.chmod(0o755)
    peers.check(gpuprof, tmp_path)
    python.write_text("#!/bin/sh\necho 0.6.0\n")
    with pytest.raises(SystemExit, match=r"has gpuprof 0\.6\.0; wanted"):
        peers.check(gpuprof, tmp_path)


def test_an_edit_that_cannot_be_made_is_no_verdict(peers, given, three, monkeypatch):
    def cannot(*_):
        raise peers.peer_tools.peer_edits.CannotEditError("no loop")

    monkeypatch.setattr(peers.peer_tools.peer_edits, "edited", cannot)
    said = peers.ask(peers.read()["gpuprof"], three[0], given)
    assert (said["codes"], said["why"]) == (None, "cannot be edited as documented: no loop")


def test_only_cases_that_hold_and_that_we_have_a_result_of_are_asked_about(
    peers, asking, three, monkeypatch, capsys, tmp_path
):
    row = {"case": three[0].id, "reported": ["DL002"], "first": ["DL002"]}
    (tmp_path / "ours.json").write_text(json.dumps({"cases": [row]}))
    monkeypatch.setattr(peers, "check", lambda *_: None)
    monkeypatch.setattr(peers.accuracy, "holds", lambda case, _: case.id != three[2].id)
    words = ["--envs", str(tmp_path), "--peer", "traceml", "--only", *(case.id for case in three)]
    monkeypatch.setattr(sys, "argv", ["peers", *words, "--ours", str(tmp_path / "ours.json")])
    peers.main()
    assert asking["asked"] == [three[0].id]
    out = capsys.readouterr().out
    assert f"Not scored, label not held by a measurement: {three[2].id}" in out
    assert f"Not scored, no result of ours: {three[1].id}, {three[2].id}" in out


def test_an_id_without_a_label_is_said(peers, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["peers", "--envs", str(tmp_path), "--only", "nothing"])
    with pytest.raises(SystemExit, match="no label for nothing"):
        peers.main()
