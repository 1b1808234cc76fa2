"""A change follows its files: as it is while they are, found again or refused when they changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from autotune.model.patch import Edit, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.journal import sha256
from autotune.patch.resolve import ResolvedChange, apply_edits, drop_incomplete_pairs, resolve_change

DATA = b"workers = 0\n"
EDIT = Edit("a.py", "workers", "0", "4", sha256=sha256(DATA))
SAID = Edit(TYPED, "--lr", "1", "2")
CHANGE = PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EXACT, edits=(EDIT, SAID))


def reading(data: bytes) -> Callable[[str], bytes]:
    return {"a.py": data}.__getitem__


def test_a_file_that_is_the_same_and_a_typed_value() -> None:
    one = resolve_change(CHANGE, reading(DATA))
    assert (one.change, one.moved, one.stale) == (CHANGE, (), None)


def test_a_value_that_moved() -> None:
    one = resolve_change(CHANGE, reading(b"# new\n" + DATA))
    assert one.change.edits == (replace(EDIT, sha256=sha256(b"# new\n" + DATA)), SAID)
    assert one.moved == ("a.py changed since the diagnosis: workers was found at line 2",)


def test_a_value_that_is_there_already() -> None:
    one = resolve_change(CHANGE, reading(b"workers = 4\n"))
    assert (one.change.edits, one.moved, one.stale, one.is_made) == ((SAID,), (), None, True)


def test_a_value_that_is_another_one() -> None:
    one = resolve_change(CHANGE, reading(b"workers = 1\n"))
    assert one.change == CHANGE
    assert one.stale is not None
    assert one.stale.where == "a.py"
    assert "it is 1 now, not 0; nothing was changed" in one.stale.what


BATCH = PatchChange("loader.batch_size", "loader#train", 8, 16, ("GA004",), Effect.EQUIVALENT, edits=(EDIT,))
STEPS = PatchChange("train.accumulation_steps", "run", 4, 2, ("GA004",), Effect.EQUIVALENT, edits=(EDIT,))
MADE = ResolvedChange(replace(BATCH, edits=()), is_made=True)


def test_half_of_a_pair_is_stale() -> None:
    _, steps = drop_incomplete_pairs([MADE, ResolvedChange(STEPS)])
    assert steps.stale is not None
    assert steps.stale.where == "a.py"
    assert "someone wrote loader.batch_size = 16, and train.accumulation_steps = 2 depends" in steps.stale.what
    of_help = replace(EDIT, key="--batch help")
    _, steps = drop_incomplete_pairs([replace(MADE, change=replace(BATCH, edits=(of_help,))), ResolvedChange(STEPS)])
    assert steps.stale is not None


def test_a_pair_that_is_there_or_not_or_of_two_rules_is_as_it_was() -> None:
    of_help = replace(EDIT, key="--steps help")
    for steps in (
        ResolvedChange(replace(STEPS, edits=(of_help,)), is_made=True),
        ResolvedChange(replace(STEPS, edits=(SAID,))),
        ResolvedChange(replace(STEPS, rules=("ME001",))),
    ):
        assert list(drop_incomplete_pairs([MADE, steps])) == [MADE, steps]
    both = [ResolvedChange(BATCH), ResolvedChange(STEPS)]
    assert list(drop_incomplete_pairs(both)) == both


OPTION = "p.add_argument('--rows', default=8)\n"
LOADER = "DataLoader(x, batch_size=args.rows)\n"


@pytest.mark.parametrize(
    ("name", "key", "now", "why"),
    [
        ("a.py", "--rows", f"{OPTION}{LOADER}{LOADER}", ""),
        ("a.py", "--rows", f"{OPTION}{LOADER}lr = 0.1 * args.rows\nf(lr)\n", "line 3"),
        ("a.py", "--rows", f"{OPTION}t(T(\n  batch_size=1,\n  eval_batch_size=args.rows))\n", "line 4"),
        ("a.py", "--rows", f"{OPTION}TrainingArguments(o,\n  per_device_train_batch_size=args.rows)\n", ""),
        ("a.py", "ROWS", "ROWS = 8\nDataLoader(x, ROWS)\n", ""),
        ("a.py", "ROWS", "ROWS = 8\nDataLoader(x, ROWS)\nf(ROWS)\n", "line 3"),
        ("a.py", "rows", "c = {'rows': 8}\nDataLoader(x, c['rows'])\nf(rows)\n", ""),
        ("a.py", "rows", "c = {'rows': 8}\nDataLoader(x, c['rows'])\nf(c.get('rows'))\n", "line 3"),
        ("a.py", "Setup.rows", "c = Setup(rows=8)\nDataLoader(x, c.rows)\nf(c.rows)\n", "line 3"),
        ("a.py", "DataLoader.batch_size", "a = DataLoader(x, batch_size=8)\nf(a.batch_size)\n", ""),
        ("a.yaml", "rows", "rows: 8\nbatch_size: ${rows}\n", ""),
        ("a.yaml", "rows", "rows: 8\nbatch_size: ${rows}\nsteps: ${rows}\n", "line 2, 3"),
        ("a.yaml", "batch_size", "batch_size: 8\nsteps: ${batch_size}\n", "line 2"),
    ],
)
def test_a_value_that_something_else_reads_now_is_stale(name: str, key: str, now: str, why: str) -> None:
    edit = Edit(name, key, "8", "16", sha256="0" * 64)
    one = resolve_change(replace(BATCH, edits=(edit,)), lambda _: now.encode())
    assert (one.stale is None) is not bool(why)
    assert one.stale is None or f"it has other readers, at {why}; nothing was changed" in one.stale.what


def test_a_statement_that_a_changed_file_still_lacks() -> None:
    data = b"import torch\n"
    edit = Edit("a.py", "set_num_threads()", "", "4", sha256=sha256(data))
    change = PatchChange("train.num_threads", "run", 2, 4, ("CP001",), Effect.EQUIVALENT, edits=(edit,))
    now = b"import os\nimport torch\nx = 1\n"
    one = resolve_change(change, reading(now))
    assert apply_edits(now, one.change.edits) == b"import os\nimport torch\n\ntorch.set_num_threads(4)\n\nx = 1\n"
    assert one.moved == ("a.py changed since the diagnosis: set_num_threads() was found at line 2",)
    made = resolve_change(change, reading(b"import torch\ntorch.set_num_threads(4)\n"))
    assert (made.change.edits, made.is_made, made.stale) == ((), True, None)
    other = resolve_change(change, reading(b"import torch\ntorch.set_num_threads(2)\n"))
    assert other.stale is not None
    assert "it is 2 now" in other.stale.what


def test_the_value_of_a_function_that_moved() -> None:
    data = b"import torch\ntorch.set_num_threads(2)\n"
    edit = Edit("a.py", "set_num_threads()", "2", "4", sha256=sha256(data))
    change = PatchChange("train.num_threads", "run", 2, 4, ("CP001",), Effect.EQUIVALENT, edits=(edit,))
    one = resolve_change(change, reading(b"# new\n" + data))
    assert one.stale is None
    assert apply_edits(b"# new\n" + data, one.change.edits) == b"# new\n" + data.replace(b"2", b"4")
