"""The note of what fits: verdicts, the bars beside the end of each card, and what is left out where it is unknown."""

from __future__ import annotations

from fitted_builders import GIB, card, close, fitted
from msgspec.structs import replace

from autotune.report.note.blocks import Bullets, Figure, Paragraph, Rect, Section, Segment, Table
from autotune.report.note.fit import note

KINDS = ("part0", "predicted", "free")


def sections(**changes):
    return {block.title: block.blocks for block in note(fitted(**changes)).blocks if isinstance(block, Section)}


def figure(**changes) -> Figure:
    (found,) = sections(**changes)["Cards"]
    assert isinstance(found, Figure)
    return found


def test_the_verdict_names_each_card_once_for_each_answer() -> None:
    (verdict,) = [one for one in note(fitted(cards=(card(), close()))).blocks if isinstance(one, Paragraph)]
    assert verdict.is_verdict
    assert verdict.text == "Fits: a100-80 (4 x 2048). Too close, do not rent it for this: a100-64 (4 x 2048)."


def test_a_bar_is_what_is_needed_and_its_line_the_end_of_the_card() -> None:
    shapes = figure(cards=(card(), close())).picture.shapes
    bars = {kind: [one for one in shapes if isinstance(one, Rect) and one.kind == kind] for kind in KINDS}
    sure, maybe, free = bars.values()
    ends = [one for one in shapes if isinstance(one, Segment)]
    most = 79 * GIB
    assert [round(one.width, 6) for one in sure] == [round(100 * 60 * GIB / most, 6)] * 2
    assert [round(one.x + one.width, 6) for one in maybe] == [round(100 * 66 * GIB / most, 6)] * 2
    assert [round(one.x1, 6) for one in ends] == [100, round(100 * 64 * GIB / most, 6)]
    assert [round(one.width, 6) for one in free] == [round(100 * 13 * GIB / most, 6)]


def test_columns_without_a_value_are_left_out() -> None:
    one = card(step_ms=None, run_s=None, usd=None)
    assert figure(cards=(one,)).table.columns == ("card", "batch", "needs", "of", "verdict")


def test_what_is_unknown_is_said_and_never_a_number() -> None:
    unknown = replace(card(), largest=None, usd_per_hour=None)
    table, _ = sections(cards=(unknown, card("t4")))["The largest micro-batch"]
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows] == ["5"]
    priced = replace(card(), largest=None)
    table, _ = sections(cards=(priced, replace(card("t4"), usd_per_hour=None)))["The largest micro-batch"]
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows] == ["not known", "5"]
    assert [row[3] for row in table.rows] == ["$1.89 an hour, 2026-11-20", "-"]
    assert "The largest micro-batch" not in sections(cards=(unknown,))


def test_only_what_fits_has_a_checklist() -> None:
    assert "On the rented card" not in sections(cards=(close(),))
    (boxes,) = sections(cards=(card(step_ms=None),), basis="memory budget")["On the rented card"]
    assert isinstance(boxes, Bullets) and boxes.is_checklist and len(boxes.items) == 1
