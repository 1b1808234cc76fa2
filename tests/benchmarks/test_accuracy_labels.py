"""The labelled cases of fixtures/labelled: their labels are sound, and each can be laid out as it is and changed."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAUSES = [
    "huggingface/transformers#20581",
    "pytorch/pytorch#154318",
    "pytorch/pytorch#23048",
    "Lightning-AI/pytorch-lightning#3451",
    "pytorch/torchtune#522",
    "huggingface/accelerate#2685",
    "rasbt/LLMs-from-scratch#1086",
    "huggingface/transformers#39547",
    "huggingface/trl#2466",
    "pytorch/pytorch#98441",
    "huggingface/accelerate#1934",
    "Lightning-AI/pytorch-lightning#10389",
    "huggingface/transformers#22141",
    "pytorch/pytorch#22260",
    "hiyouga/LLaMA-Factory#6962",
]


@pytest.fixture
def cases(imported):
    return imported("benchmarks.accuracy.cases")


@pytest.fixture
def labels(cases):
    return cases.read()


def test_there_are_enough_cases_of_every_sort(labels):
    measured = [case for case in labels.cases if not case.is_static]
    faults = [case for case in measured if not case.is_healthy]
    assert len(measured) >= 60
    assert len({case.kind for case in faults}) >= 20
    assert sum(case.is_healthy for case in measured) >= 20
    ours = [case.set_name for case in faults if case.set_name in ("own", "public")]
    assert 0.35 <= ours.count("public") / len(ours) <= 0.55
    assert {"raw", "hf_trainer", "accelerate", "lightning"} <= {case.framework for case in faults}


def test_an_id_is_one_case(labels):
    ids = Counter(case.id for case in labels.cases)
    assert max(ids.values()) == 1


def test_public_scripts_are_one_set_and_no_file_of_a_set_lacks_a_label(cases, labels):
    assert {case.set_name for case in labels.cases if case.corpus} == {"public"}
    labelled = {cases.own_source(case) for case in labels.cases if not case.corpus}
    others = ("labels.toml", "__pycache__", cases.REPAIRED)
    assert {path for path in cases.LABELLED.glob("*/*") if path.name not in others} == labelled
    repaired = {cases.own_source(case, is_repaired=True) for case in labels.cases if case.repair}
    assert set(cases.LABELLED.glob(f"*/{cases.REPAIRED}/*")) == repaired


def test_every_cause_that_users_ask_for_is_a_case(labels):
    assert set(CAUSES) <= {case.issue for case in labels.cases}


def test_kinds_and_rules_exist(labels):
    rules = {path.stem for path in (ROOT / "rules").glob("*/*.toml")}
    named = Counter(rule for of_kind in labels.kinds.values() for rule in of_kind)
    assert set(named) <= rules and max(named.values()) == 1
    assert set(labels.unscored) <= rules
    for case in labels.cases:
        assert {*case.expect, *case.also, *case.silent} <= rules, case.id
        assert not set(case.silent) & {*case.expect, *case.also}, case.id


def test_a_fault_expects_a_rule_of_its_kind_and_a_healthy_case_none(labels):
    for case in labels.cases:
        assert case.why and (case.is_by_place or (case.variant and case.silent)), case.id
        if case.is_healthy:
            assert not case.expect, case.id
        elif not case.is_by_place:
            assert case.expect[0] in labels.kinds[case.kind], case.id
    assert {case.kind for case in labels.cases if not case.is_healthy} == set(labels.kinds)


def test_a_fault_without_a_kind_has_places_in_its_files_and_the_figures_of_its_author(cases, labels):
    assert {case.set_name for case in labels.cases if case.kind in ("unlisted", "healthy")} >= set(cases.BY_PLACE)
    for case in labels.cases:
        is_fault = case.is_by_place and not case.is_healthy
        assert (case.kind == "unlisted") is is_fault, case.id
        given = (case.lines, case.repair, case.ms_faulty, case.ms_repaired)
        assert all(map(bool, given)) if is_fault else not any(given), case.id
        for place in case.places:
            path = cases.LABELLED / case.set_name / place.file
            assert path in cases.files_of(cases.own_source(case)), case.id
            rows = path.read_text().splitlines()[place.first - 1 : place.last]
            assert len(rows) == place.last - place.first + 1 and rows[0].strip() and rows[-1].strip(), case.id


@pytest.mark.parametrize("text", ["train.py", "train.py:", "train.py:4-", ":4", "train.py:a-b"])
def test_what_is_no_place_is_refused(cases, text):
    with pytest.raises(ValueError, match="FILE:FIRST-LAST"):
        cases.place(text)


def test_all_cases_but_static_ones_and_those_judged_by_their_author_have_a_change_to_measure(labels):
    for case in labels.cases:
        assert case.has_sides is not (case.is_static or (case.is_by_place and case.is_healthy)), case.id


def test_the_subset_needs_no_corpus(labels):
    subset = [case for case in labels.cases if case.in_subset]
    assert subset and not any(case.corpus for case in subset)
    assert any(case.is_healthy for case in subset)


def test_own_cases_can_be_laid_out_on_both_sides_and_the_change_changes_something(cases, labels, tmp_path):
    for case in labels.cases:
        if case.corpus:
            continue
        sides = [laid_out(cases, case, tmp_path / case.id / name, name == "B") for name in "AB"]
        for path in (tmp_path / case.id).rglob("*.py"):
            compile(path.read_text(), case.id, "exec")
        assert (sides[0] != sides[1]) is case.has_sides, case.id


def test_the_main_file_of_a_folder_is_started_from_beside_it_as_its_places_are_named(cases, labels, tmp_path):
    case = next(case for case in labels.cases if "/" in case.script)
    start = cases.laid_out(case, tmp_path / "A", None, is_changed=False)
    assert start.argv == ("python", case.script) and start.cwd == tmp_path / "A"
    assert all((start.cwd / place.file).is_file() for place in case.places)


def laid_out(cases, case, folder, is_changed):
    start = cases.laid_out(case, folder, None, is_changed=is_changed)
    text = "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    return start.argv, text


def test_plants_come_before_changes_and_words_are_taken_out_of_the_whole_command(cases, labels, tmp_path):
    base = next(case for case in labels.cases if case.id == "accelerate_3168_no_workers")
    change = cases.Change(({"old": "planted", "new": "changed"},), ("--lr", "2"), ("--epochs",))
    plant = ({"old": "Regresses", "new": "planted"},)
    case = replace(base, plant=plant, arguments=("--epochs",), without=("python",), change=change)
    argv, text = laid_out(cases, case, tmp_path / "A", False)
    assert argv == (f"{base.id}.py", "--epochs") and text.startswith('"""planted crop yields')
    argv, text = laid_out(cases, case, tmp_path / "B", True)
    assert argv == (f"{base.id}.py", "--lr", "2") and text.startswith('"""changed crop yields')


def test_an_edit_without_its_place_is_refused(cases, labels, tmp_path):
    case = replace(labels.cases[0], plant=({"old": "not in it", "new": ""},))
    with pytest.raises(ValueError, match="0 times"):
        cases.laid_out(case, tmp_path / "A", None, is_changed=False)


def test_a_public_script_needs_the_corpus(cases, labels, tmp_path):
    case = next(case for case in labels.cases if case.corpus)
    with pytest.raises(OSError, match="--corpus"):
        cases.laid_out(case, tmp_path / "A", None, is_changed=False)


def test_a_stamp_changes_with_what_is_measured_and_not_with_remarks(cases, labels):
    case = labels.cases[0]
    assert cases.stamp(replace(case, why="other", expect=("DL002",), in_subset=True)) == cases.stamp(case)
    assert cases.stamp(replace(case, steps=case.steps + 1)) != cases.stamp(case)
    assert cases.stamp(replace(case, script="healthy_short_run.py")) != cases.stamp(case)


def test_a_stamp_changes_with_the_repair(cases, labels, tmp_path, monkeypatch):
    case = next(case for case in labels.cases if case.repair)
    assert cases.stamp(replace(case, topic="other", repair="other", ms_faulty=())) == cases.stamp(case)
    shutil.copytree(cases.LABELLED / case.set_name, tmp_path / case.set_name, ignore=cases.CACHES)
    old = cases.stamp(case)
    monkeypatch.setattr(cases, "LABELLED", tmp_path)
    assert cases.stamp(case) == old
    for path in cases.files_of(cases.own_source(case, is_repaired=True)):
        path.write_text(path.read_text() + "\n")
    assert cases.stamp(case) != old
