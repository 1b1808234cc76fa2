from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import change, finding, gain, recommendation, report, rule, run, step

from autotune.model.evidence import Location, Span
from autotune.model.finding import Finding, Gain, GeneratedScript, Install, Recommendation, SettingChange
from autotune.model.rule import Effect
from autotune.report.text import advice
from autotune.report.text.layout import to_text


def shown(*recommendations: Recommendation, has_step: bool = True) -> list[str]:
    made = report(*recommendations, run=run(planned_steps=100), step=step(forward=1000.0) if has_step else None)
    return [line.text for block in advice.blocks(made, 80) for line in block]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (change("loader.num_workers", 0, 2, ("/home/user/project/a.py", 23), spelling="num_workers"),
         "  fix    a.py:23 num_workers: 0 -> 2"),
        (change("loader.num_workers", None, 2, ("a.py", 23)),
         "  fix    a.py:23 loader.num_workers: unset -> 2"),
        (change("model.attention", "eager", "sdpa", ("c.yaml", 3)),
         "  fix    c.yaml:3 model.attention: eager -> sdpa"),
        (change("model.attention", "eager", "sdpa", ("t.py", 3)),
         '  fix    t.py:3 model.attention: "eager" -> "sdpa"'),
        (replace(change("train.num_threads", 2, 4, ("t.py", 5), spelling="torch.set_num_threads"),
                 location=Location("/home/user/project/t.py", 5, span=Span(30, 30))),
         "  fix    t.py:5 insert torch.set_num_threads(4)"),
        (change("optimizer.fused", False, True),
         "  fix    optimizer.fused: False -> True (its place was not found)"),
    ],
)  # fmt: skip
def test_a_change_in_the_files_own_words(edit: SettingChange, expected: str) -> None:
    assert expected in shown(recommendation(1, finding(rule(), "m", edit)))


@pytest.mark.parametrize(
    ("effect", "note", "expected"),
    [
        (Effect.EQUIVALENT, "", None),
        (Effect.EQUIVALENT, "other draws", "  note   other draws"),
        (Effect.ALTERING, "order changes", "  price  order changes"),
        (Effect.ALTERING, "", "  price  changes what is learned: compare the losses before you keep it"),
    ],
)
def test_the_price_of_a_change(effect: Effect, note: str, expected: str | None) -> None:
    lines = shown(recommendation(1, finding(rule(), "m", change("a.b", 1, 2, effect=effect, note=note))))
    assert [line for line in lines if line[2:7] in ("note ", "price")] == ([expected] if expected else [])


def test_what_rarer_saves_cost_is_a_price_although_training_is_unchanged() -> None:
    rarer = change("checkpoint.interval_steps", 5, 500, effect=Effect.EXACT, note="a crash loses more")
    lines = shown(recommendation(1, finding(rule("CK001"), "m", rarer)))
    assert lines[0] == "YOUR DECISION: changes training, costs something, or has to be made by hand"
    assert lines[-1] == "  price  a crash loses more"


def test_what_cannot_be_written_is_the_readers_to_decide_on_with_the_reason() -> None:
    made = recommendation(1, finding(rule("BA001"), "m", change("data.padding", "max_length", "longest")))
    lines = shown(replace(made, by_hand=("padding = longest: no collator that pads was found",)))
    assert lines[0].startswith("YOUR DECISION")
    assert lines[-2:] == [
        '  fix    data.padding: "max_length" -> "longest"',
        "  note   by hand: padding = longest: no collator that pads was found",
    ]


def test_advice_by_hand_has_the_place_of_its_cause() -> None:
    found = finding(rule(), "m", advice=("Delete it.",), location=Location("/home/user/project/train.py", 57))
    assert shown(recommendation(1, found))[-2:] == ["  at     train.py:57", "  fix    Delete it."]


def test_advice_beside_an_edit_is_an_alternative() -> None:
    found = finding(rule(), "m", change("a.b", 1, 2), advice=("Stream it.",), location=Location("t.py", 1))
    assert shown(recommendation(1, found))[-1] == "  or     Stream it."
    assert not any(line.startswith("  at") for line in shown(recommendation(1, found)))


URL = f"https://example.org/{'w' * 90}.whl"
FITS = Install("p", True, f"python -m pip install {URL}", "it is published")
NO_WHEEL = Install("p", False, "", "no wheel fits: it needs Python 3.10. Otherwise: wait")
STAGE = GeneratedScript(
    name="stage_data.py",
    text="",
    to_fill=("SOURCE", "DESTINATION"),
    needed_bytes=6 * 2**30,
    free_bytes=50 * 2**30,
    takes_s=300.0,
    break_even_steps=5999.2,
    path="/home/user/project/.autotune/runs/20260101-120000/stage_data.py",
)
WRITTEN = "  script .autotune/runs/20260101-120000/stage_data.py"
TO_FILL = "  note   fill in SOURCE, DESTINATION at its top first; the script is untested"


def needing(**given: object) -> list[str]:
    """The lines below the advice, in a report that is wide enough."""
    found: Finding = replace(finding(rule(), "m", advice=("Do it.",)), **given)  # type: ignore[arg-type]
    made = report(recommendation(1, found), run=run(), step=step(forward=1000.0))
    text = to_text(advice.blocks(made, 200)[0], False, 200)
    return text.split("Do it.\n")[1].splitlines()


@pytest.mark.parametrize(
    ("install", "expected"),
    [
        (FITS, [f"  type   python -m pip install {URL}", "  note   it is published"]),
        (NO_WHEEL, ["  note   no command to install p: no wheel fits: it needs Python 3.10. Otherwise: wait"]),
    ],
)
def test_an_install_is_a_command_or_a_reason(install: Install, expected: list[str]) -> None:
    assert needing(install=install) == expected


def test_a_command_is_never_cut() -> None:
    made = report(recommendation(1, replace(finding(rule(), "m"), install=FITS)), run=run(), step=step(forward=1.0))
    text = to_text(advice.blocks(made, 60)[0], False, 60)
    assert FITS.command in text.splitlines()[3]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (STAGE, [WRITTEN, TO_FILL,
                 "  note   needs 6.0 GiB, of 50 GiB free on its disk; takes about 5 min 0 s;"
                 " pays off after about 6,000 steps; --dry-run writes nothing"]),
        (replace(STAGE, to_fill=(), needed_bytes=None, takes_s=None, break_even_steps=None),
         [WRITTEN, "  note   50 GiB free on its disk; --dry-run writes nothing"]),
        (replace(STAGE, to_fill=(), free_bytes=None, takes_s=None, break_even_steps=None),
         [WRITTEN, "  note   needs 6.0 GiB; --dry-run writes nothing"]),
    ],
    ids=["all", "free", "needed"],
)  # fmt: skip
def test_a_script_says_where_it_is_and_what_it_takes(script: GeneratedScript, expected: list[str]) -> None:
    assert needing(script=script) == expected


def test_findings_that_share_a_change_are_one() -> None:
    edit = change("a.b", 1, 2)
    first = finding(rule("DL001", "one-thing"), "first message")
    second = finding(rule("DL002", "another-thing"), "second message", edit)
    assert shown(recommendation(1, first, second))[1:4] == [
        f"1 DL001 one thing{' ' * 45}gain not estimated",
        "  seen   first message",
        "  also   DL002 another thing: second message",
    ]


def test_a_failed_run_has_no_times() -> None:
    assert shown(recommendation(1, finding(rule(), "m", change("a.b", 1, 2))), has_step=False)[1] == (
        "1 DL001 batches in the main process"
    )


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, "saves 50 s"),
        (gain(2.0, 2.0, 2.0), "saves 50 s"),
        (gain(1.25, 1.2, 1.3), "saves 17 s to 23 s after 1-2"),
    ],
)
def test_what_is_left_after_the_earlier_numbers(after: object, expected: str) -> None:
    won = gain(2.0, 2.0, 2.0)
    edits = [finding(rule(), "m", change("a.b", 1, 2), gain=won) for _ in range(3)]
    lines = shown(
        recommendation(1, edits[0]),
        recommendation(2, edits[1]),
        recommendation(3, edits[2], after=after),  # type: ignore[arg-type]
    )
    assert next(line for line in lines if line.startswith("3 ")).endswith(f"  {expected}")


@pytest.mark.parametrize(
    ("won", "heading"),
    [
        (gain(1.4, 1.2, 1.6, "measured"), "APPLY NOW: training unchanged"),
        (gain(1.4, 1.01, 1.6, "modelled"), "APPLY NOW: training unchanged"),
        (gain(1.4, 1.0, 1.6, "modelled"), "SAFE TO TRY: training unchanged, the gain is not certain"),
        (gain(1.4, 1.2, 1.4, "bound"), "SAFE TO TRY: training unchanged, the gain is not certain"),
        (gain(1.0, 1.0, 1.0, "measured", 90.0), "APPLY NOW: training unchanged"),
        (None, "SAFE TO TRY: training unchanged, the gain is not certain"),
    ],
)
def test_what_may_save_nothing_is_not_told_to_be_applied_now(won: Gain | None, heading: str) -> None:
    lines = shown(recommendation(1, finding(rule(), "m", change("a.b", 1, 2), gain=won)))
    assert lines[0] == heading


def test_the_certain_come_before_the_uncertain_under_their_own_numbers() -> None:
    first = recommendation(1, finding(rule(), "m", change("a.b", 1, 2), gain=gain(1.4, 1.2, 1.4, "bound")))
    second = recommendation(2, finding(rule("CP001"), "m", change("a.c", 1, 2), gain=gain(1.2, 1.1, 1.3, "measured")))
    heads = [line.split(" ")[0] for line in shown(first, second) if not line.startswith(" ")]
    assert heads == ["APPLY", "2", "SAFE", "1"]
