"""Settings become edits of a scratch copy where the place is trusted, else arguments that a call gets."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.collect.request import Override
from autotune.engine.evidence import join, observed_over
from autotune.model.evidence import RUN, Fact, Location, Setting
from autotune.model.rule import Effect
from autotune.scan.command import scan_command
from autotune.tune.realisation import DiagnosedScript, realise, settable
from autotune.tune.space import space

TRAIN = "loader#train"
WORKERS, PREFETCH = (TRAIN, "loader.num_workers"), (TRAIN, "loader.prefetch_factor")
BATCH, THREADS, FUSED = (TRAIN, "loader.batch_size"), (RUN, "train.num_threads"), ("optimizer#0", "optimizer.fused")

SCRIPT = """\
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--workers", type=int, default=1)
args = parser.parse_args()
loader = DataLoader(rows(), batch_size=args.batch_size, num_workers=args.workers)
for batch in loader:
    loss(batch).backward()
    optimizer.step()
"""
LOOP = "for batch in first:\n    loss(batch).backward()\n    optimizer.step()\n"
UNKNOWN = """\
from torch.utils.data import DataLoader
options = read_options()
loader = DataLoader(
    rows(), batch_size=8,
    **options)
for batch in loader:
    loss(batch).backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path):
    """script(text, words, **observed values of the loader): the script as a diagnosis knows it."""

    def made(text: str, *words: str, call_line: int = 7, framework: str = "raw", **observed) -> DiagnosedScript:
        path = tmp_path / "train.py"
        path.write_text(text)
        command = ("train.py", *words)
        bundle = scan_command(command, cwd=tmp_path, root=tmp_path, versions={})
        at = Location(str(path), call_line, "DataLoader")
        seen = [
            Setting(f"loader.{name}", TRAIN, value, "observed", at, spelling=name) for name, value in observed.items()
        ]
        seen.append(Setting("train.num_threads", RUN, 2, "observed"))
        static = join(bundle.facts, bundle.settings)
        evidence = observed_over(static, join([Fact("run.framework", RUN, framework)], seen))
        return DiagnosedScript(command, evidence, bundle, {}, cache(lambda name: Path(name).read_bytes()))

    return made


def with_settings(script: DiagnosedScript, *more: Setting) -> DiagnosedScript:
    settings = {**script.evidence.settings, **{(one.subject, one.name): one for one in more}}
    return replace(script, evidence=replace(script.evidence, settings=settings))


def test_defaults_of_options_are_edited_in_a_copy(script, tmp_path) -> None:
    made = realise(script(SCRIPT, batch_size=16, num_workers=1), {WORKERS: 2, BATCH: 8})
    (text,) = made.files.values()
    assert b"default=8" in text
    assert b"default=2" in text
    assert list(made.files) == [tmp_path / "train.py"]
    assert (tmp_path / "train.py").read_text() == SCRIPT
    assert (made.overrides, made.missing, made.words) == ((), {}, ("train.py",))
    assert {change.setting: change.effect for change in made.changes} == {
        "loader.num_workers": Effect.EQUIVALENT,
        "loader.batch_size": Effect.ALTERING,
    }


def test_a_value_that_was_typed_is_typed_again(script) -> None:
    made = realise(script(SCRIPT, "--workers", "3", batch_size=16, num_workers=3), {WORKERS: 2})
    assert made.words == ("train.py", "--workers", "2")
    assert made.files == {}


def test_what_was_not_given_is_added_beside_the_workers(script) -> None:
    made = realise(script(SCRIPT, batch_size=16, num_workers=1), {PREFETCH: 8})
    (text,) = made.files.values()
    assert b"prefetch_factor=8" in text


def test_without_a_trusted_place_the_call_gets_it(script, tmp_path) -> None:
    given = script(UNKNOWN, call_line=3, batch_size=8, num_workers=2)
    made = realise(given, {WORKERS: 4})
    assert made.overrides == (Override("loader", str(tmp_path / "train.py"), 3, 3, {"num_workers": 4}),)
    (without,) = realise(given, {WORKERS: 0}).overrides
    assert without.arguments == {"num_workers": 0, "prefetch_factor": None, "multiprocessing_context": None}
    assert made.files == {}
    assert made.missing == {}
    assert made.changes[0].by_hand


def test_lines_that_an_edit_adds_move_the_call(script, tmp_path) -> None:
    first = "first = DataLoader(\n    rows(),\n    num_workers=1,\n)\n"
    second = "options = read_options()\nsecond = DataLoader(rows(), **options)\n"
    given = script(f"from torch.utils.data import DataLoader\n{first}{second}{LOOP}", call_line=2, num_workers=1)
    at = Location(str(tmp_path / "train.py"), 7, "DataLoader")
    pinned = Setting("loader.pin_memory", TRAIN, False, "observed", at)
    made = realise(with_settings(given, pinned), {PREFETCH: 8, (TRAIN, "loader.pin_memory"): True})
    assert b"    num_workers=1,\n    prefetch_factor=8,\n" in made.files[tmp_path / "train.py"]
    assert (made.overrides[0].first_line, made.overrides[0].last_line) == (8, 8)


def test_threads_need_no_place(script) -> None:
    made = realise(script(SCRIPT, batch_size=16), {THREADS: 1})
    assert made.overrides == (Override("threads", "", 0, 0, {"num_threads": 1}),)


def test_settings_of_workers_are_left_out_without_workers(script) -> None:
    made = realise(script(SCRIPT, batch_size=16, num_workers=1), {WORKERS: 0, PREFETCH: 8})
    assert made.asked == {WORKERS: 0}


def test_what_nothing_can_set_says_why(script) -> None:
    given = script(SCRIPT, batch_size=16)
    made = realise(given, {(RUN, "train.compile"): True})
    assert made.overrides == ()
    assert made.missing["train.compile"]
    can = partial(settable, given)
    assert can("train.compile", RUN) == made.missing["train.compile"]
    assert can("train.num_threads", RUN) == ""
    assert can("loader.batch_size", TRAIN) == ""


ACCUMULATING = """\
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=4)
args = parser.parse_args()

loader = DataLoader(rows(), batch_size=16, num_workers=1)
for step, batch in enumerate(loader):
    (loss(batch) / args.accumulate).backward()
    if (step + 1) % args.accumulate == 0:
        optimizer.step()
"""


def test_a_loop_that_accumulates_by_itself_is_said_to_be_one(script) -> None:
    given = script(ACCUMULATING, batch_size=16, num_workers=1)
    seen = with_settings(given, Setting("train.accumulation_steps", RUN, 4, "observed"))
    reason = settable(seen, "train.accumulation_steps", RUN)
    assert reason.startswith("the loop itself accumulates: ")
    found = space(seen.evidence, {"batch"}, {Effect.ALTERING}, partial(settable, seen))
    left = {one.setting: one.why for one in found.left_out if one.why != "not among the knobs"}
    assert found.axes == ()
    assert left == {
        "train.accumulation_steps": reason,
        "loader.batch_size": "it can only change together with train.accumulation_steps",
    }


def test_frameworks_take_their_own_words(script, tmp_path) -> None:
    given = script(f"import torch\nfirst = make()\n{LOOP}", call_line=2, framework="hf_trainer")
    at = Location(str(tmp_path / "train.py"), 2, "TrainingArguments")
    own = with_settings(given, Setting("optimizer.fused", "optimizer#0", False, "observed", at))
    made = realise(own, {FUSED: True})
    assert made.overrides[0].at == "hf_args"
    assert made.overrides[0].arguments == {"optim": "adamw_torch_fused"}


def test_threads_are_a_statement_where_nobody_gave_them(script, tmp_path) -> None:
    given = script(f"import torch\n{SCRIPT}", call_line=8, batch_size=16, num_workers=1)
    at = next(one for one in given.bundle.settings if one.name == "train.num_threads")
    free = Setting("train.num_threads", RUN, 2, "default", at.location, trusted=True, spelling=at.spelling)
    made = realise(with_settings(given, free), {WORKERS: 2, THREADS: 1, PREFETCH: 4})
    text = made.files[tmp_path / "train.py"].decode()
    assert text.startswith(
        "import torch\nimport argparse\nfrom torch.utils.data import DataLoader\n\ntorch.set_num_threads(1)\n\n"
    )
    assert "default=2" in text
    assert "prefetch_factor=4" in text
    assert (made.overrides, made.missing) == ((), {})
    assert not any(change.by_hand for change in made.changes)
