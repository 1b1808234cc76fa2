from __future__ import annotations

from pathlib import Path

import pytest

from autotune.check.configuration import Configuration, read, select_rules
from autotune.engine.load import load_rules
from autotune.errors import UsageError


def table(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_every_key_is_read(tmp_path) -> None:
    table(
        tmp_path,
        """
        [tool.autotune]
        select = ["DL", "EN012"]
        ignore = ["DL004"]
        exclude = ["old", "examples/*.py"]
        [tool.autotune.per-file-ignores]
        "experiments/*" = ["PR"]
        """,
    )
    assert read(tmp_path, tmp_path) == Configuration(
        select=("DL", "EN012"),
        ignore=("DL004",),
        exclude=("old", "examples/*.py"),
        per_file_ignores={"experiments/*": ("PR",)},
        file=str(tmp_path / "pyproject.toml"),
    )


def test_the_nearest_table_counts_and_its_patterns_are_relative_to_it(tmp_path) -> None:
    table(tmp_path, '[tool.autotune]\nselect = ["DL"]')
    inner = table(tmp_path / "a" / "b", '[tool.autotune]\nexclude = ["old", "x/y.py", "/z/"]')
    table(inner / "c", "[project]\nname = 'needs autotune'")
    config = read(inner / "c", tmp_path)
    assert (config.select, config.exclude) == ((), ("old", "a/b/x/y.py", "/z/"))
    assert read(tmp_path / "a", tmp_path).select == ("DL",)


def test_nothing_above_the_root_counts(tmp_path) -> None:
    table(tmp_path, '[tool.autotune]\nselect = ["DL"]')
    (tmp_path / "root").mkdir()
    assert read(tmp_path / "root", tmp_path / "root") == Configuration()


@pytest.mark.parametrize("text", ["[[[ broken", "tool = 'autotune'", "[project]\nname = 'autotune'"])
def test_a_project_file_without_our_table_is_none_of_our_business(text: str, tmp_path) -> None:
    table(tmp_path, text)
    assert read(tmp_path, tmp_path) == Configuration()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.autotune", "this is not TOML: "),
        ("# \xff", "this is not TOML: "),
        ("autotune = " + "[" * 5000, "this is not TOML: "),
        ("autotune = " + "9" * 5000, "this is not TOML: "),
        ("tool.autotune = 3", "tool.autotune is not a table"),
        ("[tool.autotune]\nselct = []", "unknown key: selct"),
        ("[tool.autotune]\nselect = 'DL'", "select: must be a list of strings"),
        ("[tool.autotune]\nignore = [1]", "ignore: must be a list of strings"),
        ("[tool.autotune]\nexclude = ['']", "exclude: must be a list of strings"),
        ("[tool.autotune]\nper-file-ignores = ['x']", "per-file-ignores: is not a table"),
        ("[tool.autotune.per-file-ignores]\nx = 'DL'", "x: must be a list of strings"),
    ],
)
def test_mistakes_are_named_with_the_file(text: str, said: str, tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1").replace(b"# \xff", b"# autotune \xff"))
    with pytest.raises(UsageError) as raised:
        read(tmp_path, tmp_path)
    assert said in str(raised.value)
    assert raised.value.where.startswith(str(tmp_path / "pyproject.toml"))


def ids(config: Configuration, select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> set[str]:
    return {rule.id for rule in select_rules(load_rules(), config, select, ignore)}


def test_rules_are_chosen_by_id_or_its_beginning() -> None:
    everything = {rule.id for rule in load_rules()}
    loader = {one for one in everything if one.startswith("DL")}
    assert ids(Configuration()) == everything
    assert ids(Configuration(select=("DL",), ignore=("DL001",))) == loader - {"DL001"}
    assert ids(Configuration(select=("DL",)), select=("SY001",)) == {"SY001"}
    assert ids(Configuration(ignore=("DL",)), ignore=("SY001",)) == everything - loader - {"SY001"}


@pytest.mark.parametrize(
    ("config", "select", "where"),
    [
        (Configuration(), ("XX",), "--select or --ignore"),
        (Configuration(select=("XX",), file="p.toml"), (), "p.toml"),
        (Configuration(per_file_ignores={"a.py": ("XX",)}, file="p.toml"), (), "p.toml"),
    ],
)
def test_a_name_of_no_rule_is_a_mistake(config: Configuration, select: tuple[str, ...], where: str) -> None:
    with pytest.raises(UsageError, match='no rule is called "XX"') as raised:
        ids(config, select)
    assert raised.value.where == where
