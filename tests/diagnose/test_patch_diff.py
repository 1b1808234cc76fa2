"""The diff that is kept with a run: what apply writes unasked, and only the changed lines."""

from __future__ import annotations

from pathlib import Path

from autotune.diagnose import patch_diff
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED

CONFIG = "workers: 0\ntoken: hf_secret\nfp16: false\n"


def proposed(root: Path, *changes: PatchChange) -> Patch:
    return Patch(str(root), "r", ("python", "train.py"), changes)


def change(key: str, old: str, new: str, effect: Effect = Effect.EQUIVALENT, file: str = "c.yaml") -> PatchChange:
    return PatchChange(f"loader.{key}", "run", old, new, ("XX001",), effect, edits=(Edit(file, key, old, new),))


def kept(tmp_path: Path, *changes: PatchChange) -> str:
    (tmp_path / "c.yaml").write_text(CONFIG)
    patch_diff.write(proposed(tmp_path, *changes), tmp_path)
    return patch_diff.stored(tmp_path)


def test_only_changed_lines_are_kept(tmp_path: Path) -> None:
    diff = kept(tmp_path, change("workers", "0", "4"))
    assert diff == "--- a/c.yaml\n+++ b/c.yaml\n@@ -1 +1 @@\n-workers: 0\n+workers: 4\n"
    assert (tmp_path / "c.yaml").read_text() == CONFIG


def test_what_needs_a_decision_is_not_in_it(tmp_path: Path) -> None:
    assert kept(tmp_path, change("fp16", "false", "true", Effect.ALTERING)) == ""


def test_what_is_typed_or_by_hand_is_in_no_file(tmp_path: Path) -> None:
    by_hand = PatchChange("a.b", "run", 1, 2, ("XX001",), Effect.EXACT, by_hand="set it")
    assert kept(tmp_path, change("workers", "0", "4", file=TYPED), by_hand) == ""


def test_a_file_that_is_gone_leaves_no_diff(tmp_path: Path) -> None:
    patch_diff.write(proposed(tmp_path, change("workers", "0", "4", file="gone.yaml")), tmp_path)
    assert patch_diff.stored(tmp_path) == ""
    assert not (tmp_path / patch_diff.NAME).exists()
