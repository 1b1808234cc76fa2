from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autotune.catalogue.dialects import dialects
from autotune.errors import UsageError
from autotune.scan import configs
from autotune.scan.files import BUDGET, DATA, LIMITS, File, find, is_relevant, matches

TRAINS = b"import torch\nloss.backward()\n"
LAUNCH = b"torchrun train.py\n"


def write(root: Path, **files: bytes) -> None:
    for name, data in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py").replace("_sh", ".sh")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def names(root: Path, *paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [file.name for file in find([root / path for path in paths or (".",)], root=root, exclude=exclude).files]


def whys(root: Path, *paths: str) -> dict[str, str]:
    return {note.where: note.why for note in find([root / path for path in paths or (".",)], root=root).notes}


def test_files_come_in_the_order_of_their_names(tmp_path) -> None:
    write(tmp_path, b_py=TRAINS, a__z_py=TRAINS, a_py=TRAINS, a__a_sh=LAUNCH)
    found = find([tmp_path], root=tmp_path)
    assert [file.name for file in found.files] == ["a.py", "a/a.sh", "a/z.py", "b.py"]
    assert found.files[0] == File("a.py", "python", TRAINS)
    assert (found.num_files, found.notes) == (4, ())


def test_files_without_a_word_of_training_are_counted_and_left(tmp_path) -> None:
    write(tmp_path, a_py=b"import json\n", b_py=TRAINS)
    (tmp_path / "c.txt").write_bytes(TRAINS)
    found = find([tmp_path], root=tmp_path)
    assert ([file.name for file in found.files], found.num_files) == (["b.py"], 2)


@pytest.mark.parametrize(
    ("syntax", "data", "relevant"),
    [
        ("python", TRAINS, True),
        ("python", b"  from pytorch_lightning import Trainer", True),
        ("python", b"from sentence_transformers import SentenceTransformerTrainer", True),
        ("python", b"import torch\nclass Model: pass", False),
        ("python", b"# import torch\nloss.backward()", False),
        ("python", b"batch_size = 4\n", True),
        ("python", b"import argparse, os, torch\nloader = torch.utils.data.DataLoader(data)\n", True),
        ("python", b"import os, pandas\nprint('torch', 'DataLoader')\n", False),
        ("python", b"  batch_size = 4\n", False),
        ("yaml", b"train:\n  micro_batch_size: 4\nmodel_name: x", True),
        ("yaml", b"train:\n  micro_batch_size: 4", False),
        ("yaml", b"on: push\njobs: {}", False),
        ("yaml", b"precision: 0.91\nrecall: 0.85", False),
        ("yaml", b"trainer:\n  precision: 16\n  devices: 2\nseed_everything: 1", True),
        ("yaml", b"defaults:\n  - data: mnist", True),
        ("json", b'{"distributed_type": "NO", "mixed_precision": "bf16"}', True),
        ("json", b'{"zero_optimization": {}}', True),
        ("json", b'{"name": "x"}', False),
        ("toml", b"[job]\n[training]\nlocal_batch_size = 1\n[model]\nname = 1", True),
        ("toml", b"job.x = 1\ntraining.seq_len = 1\n[parallelism]", True),
        ("yaml", b"job: 1\ntraining: {seq_len: 1}\nparallelism: 1", False),
        ("shell", b"accelerate launch x.py", True),
        ("shell", b"rm -rf build", False),
    ],
)
def test_relevance(syntax: str, data: bytes, relevant: bool) -> None:
    assert is_relevant(File("x", syntax, data)) is relevant


def recognised() -> list[tuple[str, str, list[str]]]:
    """Dialect, syntax and the fewest keys by which each `[[recognise]]` table of it knows a data file."""

    def fewest(table: Mapping[str, Any]) -> list[str]:
        return [*table.get("all", ()), *(group[0] for group in table.get("some", ())), *table.get("two", ())[:2]]

    return [
        (name, syntax, fewest(table))
        for name, dialect in dialects().items()
        for syntax in DATA
        if syntax in dialect.get("syntaxes", ())
        for table in dialect.get("recognise", ())
    ]


@pytest.mark.parametrize(("dialect", "syntax", "patterns"), recognised())
def test_what_a_dialect_recognises_is_relevant(dialect: str, syntax: str, patterns: list[str]) -> None:
    keys = [pattern.partition("=")[0].replace("*", "any") for pattern in patterns]
    data = {"json": json.dumps(dict.fromkeys(keys, 1)), "toml": "\n".join(f"{key} = 1" for key in keys)}
    text = data.get(syntax, "\n".join(f"{key.replace('.', ': {')}: 1{'}' * key.count('.')}" for key in keys))
    assert is_relevant(File("x", syntax, text.encode()))


def test_a_config_of_a_new_dialect_is_found_in_a_folder(tmp_path, monkeypatch) -> None:
    new = {"syntaxes": ["yaml"], "recognise": [{"all": ["gym.reps"], "two": ["a", "b"]}]}
    monkeypatch.setattr(configs, "dialects", lambda: {"gym": new})
    (tmp_path / "a.yaml").write_text("gym:\n  reps: 3\nb: 1\na: 2\n")
    (tmp_path / "b.yaml").write_text("gym:\n  sets: 3\nb: 1\na: 2\n")
    (tmp_path / "c.yaml").write_text("gym:\n  reps: 3\nb: 1\n")
    assert [file.name for file in find([tmp_path], root=tmp_path).files] == ["a.yaml"]


def test_folders_of_tools_and_hidden_ones_are_skipped(tmp_path) -> None:
    for folder in (
        ".git",
        ".autotune",
        "node_modules",
        "lightning_logs",
        "wandb",
        "mlruns",
        "__pycache__",
        "build",
        "dist",
        "lib__site-packages",
        "src",
    ):
        write(tmp_path, **{f"{folder}__train_py": TRAINS})
    write(tmp_path, env__lib__x_py=TRAINS)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert names(tmp_path) == ["src/train.py"]


def test_a_skipped_folder_that_the_user_names_is_looked_at(tmp_path) -> None:
    write(tmp_path, build__train_py=TRAINS)
    assert names(tmp_path, "build") == ["build/train.py"]
    assert names(tmp_path, "build/train.py") == ["build/train.py"]


def test_a_path_that_does_not_exist_is_an_error(tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no such file or folder") as raised:
        find([tmp_path / "no.py"], root=tmp_path)
    assert raised.value.where == str(tmp_path / "no.py")


def test_a_named_file_of_another_kind_is_noted(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("torch")
    assert whys(tmp_path, "notes.txt")["notes.txt"].startswith("not a supported file (.py, ")


def test_a_file_that_two_paths_name_is_read_once(tmp_path) -> None:
    write(tmp_path, a__x_py=TRAINS)
    assert names(tmp_path, "a", ".", "a/x.py") == ["a/x.py"]


@pytest.mark.parametrize("pattern", ["old", "old/", "old/train.py", "o?d", "train.py", "*.py", "old/*"])
def test_exclude(pattern: str, tmp_path) -> None:
    write(tmp_path, old__train_py=TRAINS, new_sh=LAUNCH)
    assert names(tmp_path, exclude=(pattern,)) == ["new.sh"]
    assert names(tmp_path, "old/train.py", "new.sh", exclude=(pattern,)) == ["new.sh"]


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("a/b.py", "b.py", True),
        ("a/b.py", "a/b.py", True),
        ("a/b/c.py", "a/b", True),
        ("x/a/b/c.py", "a/b", False),
        ("ab/c.py", "a", False),
        ("a/B.py", "b.py", False),
    ],
)
def test_matches(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, [pattern]) is expected


@pytest.mark.parametrize(("name", "limit"), [("big.py", "500 kB"), ("big.json", "2 MB"), ("big.yml", "300 kB")])
def test_a_large_file_is_noted_and_not_read(name: str, limit: str, tmp_path) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(100_000_000)
    found = find([tmp_path], root=tmp_path)
    assert [(note.where, note.why) for note in found.notes] == [(name, f"larger than {limit}")]
    assert found.files == ()


def test_a_file_of_just_the_limit_is_read(tmp_path) -> None:
    write(tmp_path, a_py=TRAINS.ljust(LIMITS["python"]), b_py=TRAINS.ljust(LIMITS["python"] + 1))
    assert names(tmp_path) == ["a.py"]


def test_the_largest_configs_beyond_the_budget_are_noted_and_left(tmp_path) -> None:
    config = b"base_model: x\ndatasets: y\nadapter: lora\n"
    for number in range(7):
        (tmp_path / f"{number}.yaml").write_bytes(config.ljust(LIMITS["yaml"] - number))
    write(tmp_path, a_py=TRAINS)
    (tmp_path / "small.yaml").write_bytes(config)
    found = find([tmp_path], root=tmp_path)
    assert [file.name for file in found.files] == [*(f"{number}.yaml" for number in range(1, 7)), "a.py", "small.yaml"]
    assert sum(len(file.data) for file in found.files if file.syntax == "yaml") <= BUDGET
    assert [(note.where, note.why) for note in found.notes] == [("0.yaml", "smaller configs hold 2 MB already")]


def test_many_notes_of_one_folder_are_one(tmp_path) -> None:
    for number in range(5):
        with (tmp_path / f"{number}.json").open("wb") as file:
            file.truncate(3_000_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    assert whys(tmp_path) == {".": "5 files: larger than 2 MB", "gone.py": "a link to nothing"}


def test_links_out_of_the_root_are_noted_and_not_followed(tmp_path) -> None:
    root = tmp_path / "root"
    write(tmp_path, outside__train_py=TRAINS)
    write(root, a_py=TRAINS)
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file.py").symlink_to(tmp_path / "outside" / "train.py")
    (root / "etc").symlink_to("/etc")
    (root / "picture.png").symlink_to("/dev/zero")
    assert names(root) == ["a.py"]
    outside = "a link out of the checked folder: not followed"
    assert whys(root) == {"etc": outside, "file.py": outside, "folder": outside}


def test_links_inside_are_followed_once_and_loops_end(tmp_path) -> None:
    write(tmp_path, z__train_py=TRAINS)
    (tmp_path / "a").symlink_to("z")
    (tmp_path / "b.py").symlink_to("z/train.py")
    (tmp_path / "z" / "up").symlink_to("..")
    (tmp_path / "self").symlink_to("self")
    assert names(tmp_path) == ["z/train.py"]
    assert names(tmp_path, "a") == ["z/train.py"]


def test_a_link_to_elsewhere_in_the_root_is_followed(tmp_path) -> None:
    write(tmp_path, common__x_py=TRAINS, job__y_py=TRAINS)
    (tmp_path / "job" / "common").symlink_to("../common")
    (tmp_path / "job" / "x.py").symlink_to("../common/x.py")
    assert names(tmp_path, "job") == ["job/x.py", "job/y.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_noted(tmp_path) -> None:
    write(tmp_path, a_py=TRAINS, closed__b_py=TRAINS)
    (tmp_path / "a.py").chmod(0)
    (tmp_path / "closed").chmod(0)
    try:
        assert whys(tmp_path) == dict.fromkeys(("a.py", "closed"), "cannot be read: Permission denied")
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_file_that_fails_to_open_is_noted(tmp_path, monkeypatch) -> None:
    write(tmp_path, a_py=TRAINS)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("autotune.reading.os.open", refuse)
    assert whys(tmp_path) == {"a.py": "cannot be read: Permission denied"}


def test_pipes_and_sockets_do_not_block(tmp_path, monkeypatch) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.py")
        assert whys(tmp_path) == dict.fromkeys(("pipe.py", "socket.py"), "not a regular file")
    assert whys(tmp_path, "pipe.py") == {"pipe.py": "not a regular file"}
