from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.catalogue.disk_cache import cache_folder, kept
from autotune.engine import load
from autotune.engine.load import load_rules
from autotune.errors import RuleError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "autotune"


def never() -> object:
    pytest.fail("worked out again")


def test_a_value_is_made_once_for_the_same_contents() -> None:
    assert kept("x", [b"a", b"b"], lambda: {"one": [1, None, "é"]}, dict) == {"one": [1, None, "é"]}
    assert kept("x", [b"a", b"b"], never, dict) == {"one": [1, None, "é"]}


@pytest.mark.parametrize("contents", [[b"a"], [b"ab"], [b"a", b"c"], [b"a", b"b", b""]])
def test_other_contents_are_made_anew_and_the_old_value_goes(contents: list[bytes], cache: Path) -> None:
    kept("x", [b"a", b"b"], lambda: 1, int)
    kept("y", [b"a", b"b"], lambda: 3, int)
    assert kept("x", contents, lambda: 2, int) == 2
    assert sorted(file.name[0] for file in cache.iterdir()) == ["x", "y"]


@pytest.mark.parametrize("damage", [b"{\xff", b'"of another type"'])
def test_a_damaged_file_is_made_anew(cache: Path, damage: bytes) -> None:
    kept("x", [b"a"], lambda: 1, int)
    (file,) = cache.iterdir()
    file.write_bytes(damage)
    assert kept("x", [b"a"], lambda: 2, int) == 2
    assert json.loads(file.read_bytes()) == 2


def test_without_a_place_to_write_it_works_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert [kept("x", [b"a"], lambda: 1, int) for _ in range(2)] == [1, 1]


def test_what_fails_is_not_kept(cache: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        kept("x", [b"a"], lambda: 1 / 0, int)
    assert not cache.exists()


def test_the_folder_is_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/autotune")


def test_kept_rules_are_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = load_rules()
    monkeypatch.setattr(load, "_judged", lambda files: never())
    assert load_rules() == judged


def test_an_edited_rule_is_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "_rules" / "dataloader"
    folder.mkdir(parents=True)
    text = (load.rules_folder() / "dataloader" / "DL003.toml").read_text()
    (folder / "DL003.toml").write_text(text)
    monkeypatch.setattr(load, "_PACKAGE", tmp_path)
    assert [rule.id for rule in load_rules()] == ["DL003"]
    (folder / "DL003.toml").write_text(text.replace('severity = "medium"', 'severity = "dire"'))
    with pytest.raises(RuleError, match="severity"):
        load_rules()
