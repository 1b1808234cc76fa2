from __future__ import annotations

import pytest
import report_cases
from msgspec.structs import replace
from tuned_builders import kept, tuned
from verified_builders import CHANGE, verified

from autotune.model.rule import Effect
from autotune.model.verified import Verdict
from autotune.report.next_commands import of_report, of_tuned, of_verified


def test_of_a_diagnosis_with_a_patch_its_diff_comes_first() -> None:
    made = replace(report_cases.full(), patch="/p/patch.yaml")
    assert [one.command for one in of_report(made)] == [
        "autotune apply --diff",
        "autotune explain ME001",
        "autotune report last --format html",
    ]


def test_a_name_that_a_shell_would_act_on_is_quoted() -> None:
    made = replace(report_cases.full(), patch="/p/patch.yaml", name="a; rm -r b")
    assert [one.command for one in of_report(made)][::2] == [
        "autotune apply --diff 'a; rm -r b'",
        "autotune report 'a; rm -r b' --format html",
    ]


@pytest.mark.parametrize(
    ("effect", "command"),
    [(Effect.EQUIVALENT, "autotune apply --diff"), (Effect.ALTERING, "autotune apply --allow altering --diff")],
)
def test_of_a_search_it_is_the_patch_that_was_proven(effect: Effect, command: str) -> None:
    found = tuned(verified=verified(changes=(replace(CHANGE, effect=effect),)))
    assert [one.command for one in of_tuned(found)] == [command]
    assert list(of_tuned(kept())) == []
    assert list(of_tuned(tuned(verified=verified(changes=(replace(CHANGE, by_hand="set it"),))))) == []


def test_of_a_verification_it_is_more_pairs_where_these_do_not_tell() -> None:
    asked = "autotune verify --resume train.py"
    assert list(of_verified(verified(resume_command=asked))) == []
    (found,) = of_verified(verified(verdict=Verdict.CANNOT_TELL, resume_command=asked))
    assert found.command == asked
