"""The note of a search: a page stays small however many trials it had."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tuned_builders import FASTER, OWN, TOO_LARGE, tuned

from autotune.model.tuned import SearchTrial
from autotune.report import render
from autotune.report.note.blocks import Figure, Paragraph, Section
from autotune.report.note.tune import MOST_TRIALS, note

LARGEST = 150_000
"""Bytes of a page without a trace."""


def trials(number: int) -> list[SearchTrial]:
    """The baseline, then slow ones that become faster, every third of them failed."""
    return [
        OWN,
        *(
            replace(TOO_LARGE, number=place) if place % 3 == 0 else replace(FASTER, number=place, samples_per_s=place)
            for place in range(1, number)
        ),
    ]


def shown(of: Sequence[SearchTrial]) -> tuple[list[int], str]:
    """The numbers in the table, and what is said of the others."""
    (section,) = [
        one for one in note(tuned(trials=tuple(of))).blocks if isinstance(one, Section) and one.title == "Trials"
    ]
    figure, *more = section.blocks
    assert isinstance(figure, Figure)
    assert all(isinstance(one, Paragraph) for one in more)
    return [int(str(row[0])) for row in figure.table.rows], " ".join(str(one.text) for one in more)


def test_all_are_shown_where_they_are_not_many() -> None:
    assert shown(trials(MOST_TRIALS)) == (list(range(MOST_TRIALS)), "")


def test_of_many_the_baseline_and_the_fastest_are_shown_in_their_order() -> None:
    numbers, more = shown(trials(1000))
    assert len(numbers) == MOST_TRIALS
    assert numbers[0] == 0 and numbers == sorted(numbers)
    completed = [place for place in range(1, 1000) if place % 3]
    assert numbers[1:] == completed[-(MOST_TRIALS - 1) :]
    assert more == "900 more were slower, or failed: `--format json` has all."


@pytest.mark.parametrize("number", [MOST_TRIALS, 2000])
def test_the_page_is_as_small_as_promised(number: int) -> None:
    assert len(render("tune", tuned(trials=tuple(trials(number))), "html").encode()) <= LARGEST
