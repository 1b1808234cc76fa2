"""From recorded fake steps to the answer for a card."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from fit_builders import GIB, record, step
from msgspec.structs import replace

from autotune.catalogue.devices import asked
from autotune.fit.fit import FitOptions, answer, notes
from autotune.fit.sharding import COPIES
from autotune.model.fitted import FitVerdict, Sharding
from autotune.model.recording import FitBreak, MadeUpValue

A100, T4, H100 = map(asked, ("a100-80", "t4", "h100-80"))
ROOT = Path("/project")
NO_ERROR = SimpleNamespace(error=None, outcome="completed")


def options(*cards, **given):
    return FitOptions(("train.py",), cards or (A100,), **given)


def test_the_largest_micro_batch_is_of_the_length_that_was_asked_for():
    own = [step(samples=1, rest=1, length=128), step(samples=2, rest=2, length=128)]
    longer = [step(samples=1, rest=10, length=512), step(samples=2, rest=20, length=512)]
    found = record(*own, *longer)
    assert answer(A100, found, options(lengths=(512,))).largest == 4
    assert answer(A100, found, options(lengths=(128, 512))).largest == 4
    assert answer(A100, found, options(lengths=(128,))).largest == answer(A100, found, options()).largest > 40
    assert answer(A100, record(*own), options(lengths=(512,))).largest is None


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("bfloat16", FitVerdict.TOO_CLOSE), ("float16", FitVerdict.FITS), ("float32", FitVerdict.FITS)],
)
def test_bf16_on_a_card_without_it_is_never_said_to_fit(kind, verdict):
    steps = [step(samples=count, rest=0, work=[(1, 1, kind, 1)]) for count in (1, 2)]
    found = answer(T4, record(*steps), options(A100, T4))
    assert found.fits[0].verdict is verdict
    assert answer(A100, record(*steps), options(A100, T4)).fits[0].verdict is FitVerdict.FITS
    assert any("works in bf16" in note for note in said(record(*steps), A100, T4)) is (kind == "bfloat16")
    if kind == "bfloat16":
        assert found.largest is None


def said(found, *cards, recording=NO_ERROR, **given):
    return list(notes(recording, found, options(*cards, **given), ROOT))


def test_cards_that_the_script_was_not_told_of_are_named():
    (note, *_) = said(record(step()), A100, T4, A100, H100)
    assert note.startswith(f"planned as on {A100.title}: of {T4.title}, {H100.title} the compute capability differs")
    (note, *_) = said(record(step()), A100, T4, H100, T4, H100)
    assert f"{H100.title}, {T4.title} and 1 more the compute" in note
    assert not any("planned as on" in note for note in said(record(step()), A100, asked("a100-40")))


def test_every_made_up_value_is_named_or_counted():
    values = ["1.0", "False", "1.0", "1", "1.0"]
    places = tuple(MadeUpValue("/project/train.py", line, "op", value) for line, value in enumerate(values, 1))
    found = [note for note in said(replace(record(step()), made_up=places)) if "only data can say" in note]
    assert len(found) == 4
    assert found[0].startswith("train.py:4 ") and "the need may be larger" in found[0]
    assert "the need may be larger" not in found[1]
    assert found[3] == "2 more places read a value that only data can say"


def test_a_size_that_was_not_reached_has_the_reason_of_the_script():
    broken = FitBreak("aten::unique", "DynamicOutputShapeException", {"file": "/project/train.py", "line": 7})
    (note,) = said(replace(record(step(length=None)), breaks=(broken,)), batches=(1, 9))
    assert note.startswith("micro-batches of 9 were not tried: train.py:7: aten::unique cannot run without data")
    error = {"type": "ZeroDivisionError", "traceback": ["/project/train.py:3 in main"]}
    (note,) = said(record(step(length=None)), recording=SimpleNamespace(error=error, outcome="raised"), lengths=(9,))
    assert note.startswith("sequences of 9 were not tried: train.py:3") and "ZeroDivisionError" in note
    (note,) = said(record(step(length=None)), batches=(9,))
    assert "DataLoader" in note


@pytest.mark.parametrize(
    ("kind", "num_trained", "is_counted"),
    # 3 GiB are trained: fp32 as 3/4 Gi numbers, 16 bits as 3/2 Gi.
    [
        (Sharding.ZERO_1, 3 * GIB // 2, True),
        (Sharding.ZERO_3, 3 * GIB // 2, True),
        (Sharding.ZERO_1, 3 * GIB // 4, False),
        (Sharding.FSDP, 3 * GIB // 2, False),
        (None, 3 * GIB // 2, False),
    ],
)
def test_what_deepspeed_has_in_fp32_of_a_16_bit_model_is_said_to_be_counted_where_it_is(kind, num_trained, is_counted):
    found = record(step(length=None), num_trained=num_trained)
    given = {"num_devices": 4, "sharding": kind} if kind is not None else {}
    (row,) = answer(A100, found, options(**given)).fits
    assert (COPIES in row.need.parts) is is_counted
    counted = "DeepSpeed's fp32 weights, optimizer state and gradients of the update of a 16-bit model are counted"
    assert (counted in said(found, **given)) is is_counted
    assert any("DeepSpeed" in note for note in said(found, **given)) is is_counted


def test_a_script_that_ends_by_itself_is_said_to():
    ended = SimpleNamespace(error=None, outcome="no_step")
    found = said(record(step(length=None)), recording=ended, batches=(1, 9))
    assert found == [
        "the script ended by itself, before every size was tried",
        "micro-batches of 9 were not tried: the script ended by itself",
    ]


def test_what_the_plan_leaves_out_is_said():
    (note,) = said(record(step(length=None), compiles=True))
    assert note.startswith("torch.compile is left out")
    (note,) = said(record(step(length=None), has_optimizer=False))
    assert note.startswith("the script makes no optimizer")
