"""What benchmarks/ways.py reads from apply, and the table that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix import Place, Shape, Start, lay_out, shapes

SHOWN = """\
DL001 loader.num_workers: 0 -> 2 (equivalent)  2.50x (1.00 to 2.50), bound
--- a/config.yaml
+++ b/config.yaml
@@ -12,3 +12,3 @@
 learning_rate: 3.0e-4
-dataloader_num_workers: 0
+dataloader_num_workers: 2
 optim: adamw_torch_fused
Nothing was written: this was --diff.
"""
TYPED = """\
There is no file to write.
What you typed is in no file. Start it with:
  python train.py --output_dir 'my runs' --bf16 True
"""


@pytest.fixture
def ways(imported):
    return imported("ways")


def shape(name: str) -> Shape:
    return next(one for one in shapes() if one.name == name)


def placed(name: str, tmp_path: Path) -> tuple[Place, Start]:
    place = lay_out(shape(name), tmp_path)
    return place, Start(("train.py", "config.yaml"), place.root)


def test_the_lines_of_a_diff_are_read(ways, tmp_path: Path) -> None:
    place, start = placed("hf_yaml", tmp_path)
    changed = {place.root / "config.yaml": (["dataloader_num_workers: 0"], ["dataloader_num_workers: 2"])}
    assert ways.edits(SHOWN, place, start) == changed
    assert ways.edits(TYPED, place, start) == {}


def test_the_command_to_paste_is_read_as_a_shell_does(ways) -> None:
    assert ways.offered(TYPED) == ("python", "train.py", "--output_dir", "my runs", "--bf16", "True")
    assert ways.offered(SHOWN) == ()


def test_an_edit_elsewhere_or_beside_is_a_problem(ways, tmp_path: Path) -> None:
    place, start = placed("hf_yaml", tmp_path)
    (expect,) = shape("hf_yaml").expects
    lines = ([expect.before], ["dataloader_num_workers: 4"])
    file = place.root / "config.yaml"
    problem = ways.matrix.problem
    assert problem(expect, start, place, 4, {file: lines}, ()) == ""
    assert problem(expect, start, place, 2, {file: lines}, ()).startswith("writes")
    assert (
        problem(expect, start, place, 4, {place.root / "train.py": lines}, ())
        == "edits train.py instead of config.yaml"
    )
    assert problem(expect, start, place, 4, {}, ()) == "no edit"


def test_a_typed_value_is_pasted_and_edited_nowhere(ways, tmp_path: Path) -> None:
    place = lay_out(shape("hf_flags"), tmp_path)
    (expect,) = shape("hf_flags").expects
    start = Start(("train.py", "--gradient_checkpointing", "True", "--report_to", "none"), place.root)
    pasted = ("python", "train.py", "--gradient_checkpointing", "False", "--report_to", "none")
    problem = ways.matrix.problem
    assert problem(expect, start, place, False, {}, pasted) == ""
    assert problem(expect, start, place, False, {}, start.words).startswith("pastes")
    assert problem(expect, start, place, False, {}, ()) == "no command to paste"
    edited = {place.root / "run.sh": ([expect.before], [expect.after])}
    assert problem(expect, start, place, False, edited, pasted) == "edits run.sh, where the value was typed"
    assert problem(expect, Start(("./run.sh",), place.root, is_typed=False), place, False, edited, ()) == ""


def test_the_table_counts_and_names_what_is_wrong(ways) -> None:
    by_hand = "apply: num_workers = 16 at PROJECT/train.py:9: no file that was read sets it"
    rows = [
        {"shape": "one", "way": "python", "verdicts": {"loader.num_workers": "ok"}},
        {"shape": "one", "way": "bash", "verdicts": {"loader.num_workers": by_hand}},
        {"shape": "one", "way": "console", "left_out": "it installs no tool"},
    ]
    lines = ways.table(rows).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:5]] == ["ok", "A", "-"]
    assert lines[6:] == [
        "1 of 2 cells are ok",
        "A  1 x apply: no file that was read sets it",
        "-  1 x console: it installs no tool",
    ]
