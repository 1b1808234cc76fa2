"""The pure parts of benchmarks/apply_corpus.py and apply_kinds.py: what counts as changed, planted and good."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from autotune.model.evidence import Span

FOLDER = Path(__file__).parents[2] / "benchmarks"
BEFORE = b"a = 1\nb = 2\nc = 3\n"
A, B = Span(4, 5), Span(10, 11)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    for shared in ("apply_corpus", "corpus", "measuring", "scoring"):
        monkeypatch.delitem(sys.modules, shared, raising=False)

    def loaded(name):
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, f"benchmark_{name}", module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.fixture
def corpus(load):
    return load("apply_corpus")


@pytest.fixture
def kinds(load):
    return load("apply_kinds")


@pytest.mark.parametrize(
    ("after", "spans", "is_kept"),
    [
        (BEFORE, (), True),
        (b"a = 16\nb = 2\nc = 3\n", (A,), True),
        (b"a = 16\nb = 32\nc = 3\n", (B, A), True),
        (b"a = 1\nb = 2\nd = 4\nc = 3\n", (Span(12, 12),), True),
        (b"a = 1\nb = 2\nd = 4\nc = 3\n", (), False),
        (b"a = 16\nb = 32\nc = 3\n", (A,), False),
        (b"a = 1\nb = 2\nc = 3\n\n", (A,), False),
        (b"a = 16\nb  = 2\nc = 3\n", (A, B), False),
        (b"a = \nc = 3\n", (A, B), False),
    ],
)
def test_only_the_bytes_of_the_edits_may_change(corpus, after, spans, is_kept):
    assert corpus.is_kept(BEFORE, after, spans) is is_kept


def test_what_two_pieces_share_is_not_counted_twice(corpus):
    assert corpus.is_kept(b"abab", b"ab-ab", (Span(2, 2),))
    assert not corpus.is_kept(b"abab", b"ab", (Span(2, 2),))


def test_the_diff_has_the_lines_that_went_and_came(corpus):
    assert corpus.diff(BEFORE, b"a = 1\nb = 4\nc = 3\n") == ("-b = 2", "+b = 4")
    assert corpus.diff(b"-- x\n++ y\n", b"") == ("--- x", "-++ y")


def test_files_that_changed_outside_of_their_edits_are_named(corpus):
    one, two, new = Path("one.py"), Path("two.py"), Path("new.py")
    before = {one: BEFORE, two: BEFORE}
    after = {one: b"a = 9\nb = 2\nc = 3\n", two: BEFORE}
    assert corpus.stray(before, after, {one: [A]}) == []
    assert corpus.stray(before, after, {one: [B]}) == ["one.py"]
    assert corpus.stray(before, {one: BEFORE, new: b""}, {}) == ["new.py", "two.py"]


def test_a_lost_byte_or_file_changes_the_digests(corpus):
    one, two = Path("one.py"), Path("two.py")
    before = corpus.digests({one: b"1", two: b"2"})
    assert corpus.changed(before, corpus.digests({one: b"1", two: b"3"})) == [two]
    assert corpus.changed(before, corpus.digests({two: b"2"})) == [one]
    assert corpus.changed(before, dict(before)) == []


def test_own_folders_and_links_are_no_files_of_the_project(corpus, tmp_path):
    for name in (".autotune/runs/1/patch.yaml", ".case/env", "src/__pycache__/train.pyc", "src/train.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "link.py").symlink_to(tmp_path / "src/train.py")
    assert corpus.files(tmp_path) == {tmp_path / "src/train.py": b"x"}


@pytest.mark.parametrize(
    ("changed", "is_good"),
    [
        ({}, True),
        ({"outcome": "same"}, True),
        ({"outcome": "nothing"}, True),
        ({"outcome": "no_step"}, False),
        ({"outcome": "raised", "steps": 2}, False),
        ({"outcome": "not_applied"}, False),
        ({"stray": ("train.py",)}, False),
        ({"lost": ("train.py",)}, False),
    ],
)
def test_a_pass_is_good_when_it_starts_and_nothing_else_changed(corpus, changed, is_good):
    assert corpus.Pass(**{"allow": "", "outcome": "completed", **changed}).is_good is is_good


def result(corpus, **changed):
    one = corpus.asdict(corpus.Pass("", "completed", ("lr 1 -> 2",), diff=("-a", "+b"), steps=3))
    return {"id": "case", "outcome": "completed", "rules": ["DL001"], "passes": [one | {"is_good": True} | changed]}


def test_the_totals_count_what_must_be_none(corpus):
    good, bad = result(corpus), result(corpus, stray=["train.py"], is_good=False)
    none = {"id": "none", "outcome": "not_diagnosed", "rules": [], "passes": []}
    assert corpus.totals([good, bad, none]) == {
        "cases": 3,
        "diagnosed": 2,
        "changed": 2,
        "starts": 2,
        "stray": 1,
        "lost": 0,
        "bad": 1,
    }


def test_every_case_has_rows_as_wide_as_the_head(corpus):
    none = {"id": "none", "outcome": "completed", "rules": [], "passes": []}
    rows = [row for one in (result(corpus), none) for row in corpus.rows(one)]
    assert [len(row) for row in rows] == [len(corpus.HEAD)] * 2
    assert rows[0][:8] == ["case", "completed", "1", "-", "1", "", "0", "-1 +1"]


def test_a_fault_is_planted_where_its_text_stands_once(kinds):
    rows = [{"file": "f", "old": "a: 1", "new": "a: $CORPUS/x"}, {"file": "f", "old": "b", "new": "c"}]
    assert kinds.planted("a: 1\nb\n", rows, Path("/corpus")) == "a: /corpus/x\nc\n"
    with pytest.raises(ValueError, match="2 times"):
        kinds.planted("a: 1\nb\nb\n", rows, Path("/corpus"))


def test_all_six_kinds_say_what_has_to_be_found(kinds):
    assert len(kinds.KINDS) == 6
    for kind in kinds.KINDS.values():
        assert kind["rules"] and all(set(row) == {"file", "old", "new"} for row in kind["plant"])


def kind(**changed):
    found = {"speedup": 2.0, "low": 1.9, "high": 2.1, "verdict": "faster", "why": None, "predicted": None}
    return {
        "kind": "yaml_config",
        "case": "x",
        "rules": ["ME001"],
        "found": ["ME001"],
        "left": [],
        "written": ["a"],
        "diff": ["--- a/f", "+++ b/f", "-1", "+2", "+3"],
        "stray": [],
        "step_ms": [10.0, 5.0],
        "verify": found,
        "why": "",
        **changed,
    }


def test_a_row_says_that_the_finding_is_gone_and_what_was_verified(kinds):
    row = dict(zip(kinds.HEAD, kinds.row(kind()), strict=True))
    assert (row["gone"], row["diff"], row["step ms"]) == ("yes", "-1 +2", "10 -> 5")
    assert (row["predicted"], row["verified"], row["verdict"]) == ("-", "2.00 (1.90 to 2.10)", "faster")


@pytest.mark.parametrize("changed", [{"left": ["ME001"]}, {"found": []}])
def test_a_finding_that_stays_or_never_was_is_not_gone(kinds, changed):
    assert kinds.row(kind(**changed))[3] == "NO"


def test_a_verification_that_failed_says_why(kinds):
    assert kinds.row(kind(verify=None, why="exit 2: autotune: --budget"))[-2:] == ["-", "exit 2: autotune: --budget"]
