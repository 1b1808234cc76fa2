from __future__ import annotations

import pytest
from msgspec.structs import replace
from tuned_builders import FASTER, OWN, SPACE, kept, tuned
from verified_builders import CHANGE, verified

from autotune.model.finding import Gain
from autotune.model.rule import Effect
from autotune.model.tuned import Outcome, SkippedSetting, Space, UntriedFinding
from autotune.model.verified import LossComparison, LossVerdict, Verdict
from autotune.report.labels import assignments
from autotune.report.text.tune import render
from autotune.report.tune_progress import search_plan


def text(found, width: int = 100, price: float | None = None) -> str:
    return render(replace(found, price_per_hour=price), False, width)


def test_what_won_is_said_first_with_its_interval_and_changes() -> None:
    lines = text(tuned()).splitlines()
    assert lines[0] == "autotune tune: 3 trials, 3 min 20 s"
    assert lines[2] == "Best: 1.50x as fast as the baseline, 95 % interval 1.45 to 1.55."
    assert lines[3] == "  loader.num_workers: 0 -> 4 (equivalent)"
    assert "Step: 120 ms -> 80.0 ms (medians of 4 runs each)" in lines
    assert lines[-1].startswith("Next  autotune apply --diff")


def test_every_trial_is_listed_and_losers_say_why() -> None:
    lines = text(tuned()).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Trial"))
    assert lines[at].split() == ["Trial", "step", "speedup", "expected", "memory", "settings"]
    assert lines[at + 1].split() == ["0", "120", "ms", "1.00x", "-", "800", "MiB", "baseline"]
    assert lines[at + 2].split() == ["1", "80.0", "ms", "1.50x", "1.45x", "1.6", "GiB", "num_workers=4"]
    lost = " ".join(" ".join(lines[at + 3 : at + 5]).split())
    assert lost == "2 - - - - batch_size=32 accumulation_steps=1 -- out of memory: RuntimeError: can't allocate memory"


def test_what_each_change_brings_stands_beside_it() -> None:
    change = replace(CHANGE, gain="brings 30 % of the speed")
    found = text(tuned(verified=verified(changes=(change,))))
    assert "loader.num_workers: 0 -> 4 (equivalent, brings 30 % of the speed)" in found


NOT_COMPARED = LossComparison(LossVerdict.NOT_COMPARED, 0, "no unscaled scalar loss was seen")


def test_losses_that_were_not_compared_are_said_in_the_headline() -> None:
    said = " ".join(text(tuned(verified=verified(changes=(CHANGE,), losses=NOT_COMPARED))).split())
    assert (
        "Best: 1.50x as fast as the baseline, 95 % interval 1.45 to 1.55; losses not compared: no unscaled scalar loss "
        "was seen" in said
    )


def test_no_option_is_advised_that_tune_lacks() -> None:
    losses = LossComparison(LossVerdict.NOT_COMPARED, 12, "12 steps are too few to compare random draws", 20)
    found = text(tuned(verified=verified(losses=losses)))
    assert "12 steps are too few" in found
    assert "--loss-steps" not in found


def test_what_touches_learning_wins_on_a_condition_where_losses_were_not_compared() -> None:
    batch = replace(CHANGE, setting="loader.batch_size")
    said = " ".join(text(tuned(verified=verified(changes=(CHANGE, batch), losses=NOT_COMPARED))).split())
    assert "Best, if it learns the same: 1.50x as fast as the baseline" in said
    assert "1.55; losses not compared: no unscaled scalar loss was seen." in said
    assert "Best: " not in said
    allowed = replace(batch, effect=Effect.ALTERING)
    assert "Best: 1.50x" in text(tuned(verified=verified(changes=(CHANGE, allowed), losses=NOT_COMPARED)))


def test_a_winner_that_is_by_hand_says_what_to_type_and_leads_to_no_apply() -> None:
    change = replace(CHANGE, by_hand="num_workers = 4 at train.py:3: no file gives it")
    found = text(tuned(verified=verified(changes=(change,))))
    assert "by hand: num_workers = 4 at train.py:3" in found
    assert "`autotune apply` writes none of it: set it yourself." in found
    assert "autotune apply --diff" not in found


def test_what_a_hand_could_add_stands_apart() -> None:
    change = replace(
        CHANGE,
        setting="train.num_threads",
        gain="brings 12 % of the speed, by the trials",
        by_hand="num_threads = 4: no",
    )
    lines = text(tuned(by_hand=(change,))).splitlines()
    at = lines.index("To change by hand; not confirmed:")
    assert lines[at + 1] == "  train.num_threads: 0 -> 4 (equivalent, brings 12 % of the speed, by the trials)"
    assert lines[at + 2] == "    by hand: num_threads = 4: no"
    assert at > next(number for number, line in enumerate(lines) if line.startswith("Trial"))


def test_what_alters_training_has_to_be_allowed_again() -> None:
    change = replace(CHANGE, effect=Effect.ALTERING)
    assert "Next  autotune apply --allow altering --diff" in text(tuned(verified=verified(changes=(change,))))


def test_cost_and_break_even() -> None:
    found = " ".join(text(tuned(), price=3.6).split())
    assert "the search took 3 min 20 s ($0.20), of which the diagnosis and its probes 20 s" in found
    assert "it saves 40.0 ms a step, 20 min, $1.20 of each hour that you now train" in found
    assert "pays off after 5,000 steps" in found


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (kept(verified=None), "Keep what you have: no candidate was faster."),
        (kept(verified=None, other_losses=("loader.batch_size", "train.accumulation_steps")),
         "Keep what you have: faster changes were dropped for their losses (loader.batch_size, "
         "train.accumulation_steps), and nothing else was faster."),
        (kept(verified=None, trials=(), stopped="why it ended"), "Keep what you have: why it ended."),
        (kept(verified=verified(verdict=Verdict.CANNOT_TELL, why="starts differ by 9 %")),
         "Keep what you have: the best of the trials was 1.50x (1.45 to 1.55) in the A/B confirmation"),
        (kept(verified=None, notes=("num_workers=4 was 1.50x, but that is not proven: others measure",)),
         "Keep what you have for now: num_workers=4 was 1.50x, but that is not proven: others measure. To confirm it, "
         "run the same command with --resume."),
        (kept(verified=verified(losses=LossComparison(LossVerdict.DIFFERENT, 20, "other"))),
         "Keep what you have: the best of the trials was 1.50x (1.45 to 1.55) in the A/B confirmation against the "
         "baseline; its losses differ from the baseline."),
        (kept(verified=None, trials=(replace(OWN, outcome=Outcome.OUT_OF_MEMORY, samples_per_s=None), FASTER),
              notes=("your own settings ran out of memory: set num_workers=4",)),
         "Your own settings ran out of memory: set num_workers=4. Trial"),
    ],
    ids=["nothing", "taken back", "no trial", "not won", "not proven", "other losses", "out of memory"],
)  # fmt: skip
def test_keep_what_you_have(found, words: str) -> None:
    said = " ".join(text(found).split())
    assert words in said
    assert "Next" not in said
    assert "pays off" not in said


def test_settings_that_were_not_searched_stand_by_their_reason() -> None:
    space = replace(
        SPACE, left_out=(SkippedSetting("a.b", "no"), SkippedSetting("c.d", "yes"), SkippedSetting("e.f", "no"))
    )
    lines = text(tuned(space=space, dropped=(SkippedSetting("train.num_threads", "it brings nothing"),))).splitlines()
    assert "  a.b, e.f: no" in lines
    assert "  c.d: yes" in lines
    assert "  train.num_threads: it brings nothing" in lines


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    trials = (OWN, *(replace(FASTER, number=number, error="x" * 300) for number in range(1, 12)))
    assert max(map(len, text(tuned(trials=trials), width).splitlines())) <= max(60, width)


def test_the_plan_says_what_will_be_searched_and_spent() -> None:
    assert search_plan(SPACE, 6.0, 300.0, 3.6) == (
        "4 configurations of workers (2), batch (2); a trial takes about 6.0 s; 5 min 0 s left, $0.30 at most"
    )
    assert search_plan(Space(SPACE.axes[:1]), 6.0, None, None) == (
        "2 configurations of workers (2); a trial takes about 6.0 s"
    )


def test_changes_in_short() -> None:
    assert assignments({}) == "baseline"
    assert assignments({"loader.batch_size": 8, "train.accumulation_steps": 4}) == "batch_size=8 accumulation_steps=4"


def test_what_is_not_known_of_the_winner_is_a_note() -> None:
    found = text(tuned(verified=verified(notes=("not known of the winner",))))
    assert "Note: not known of the winner" in found


def test_what_became_of_the_writes_is_said_once_whatever_won() -> None:
    changed_files = "what became of log.txt"
    assert f"Note: {changed_files}" in text(kept(verified=None, side_effects=(changed_files,)))
    both = text(tuned(verified=verified(notes=(changed_files,)), side_effects=(changed_files,)))
    assert both.count(changed_files) == 1


SAVES = UntriedFinding(("CK001",), "saving takes 45 % of the step", Gain(1.82, 1.6, 2.0, "measured"))


def test_what_the_diagnosis_found_beyond_the_search_is_not_lost() -> None:
    lines = text(tuned(best={}, verified=None, patch="", beyond=(SAVES,), diagnosed="20261122-a")).splitlines()
    at = lines.index("Found by the diagnosis and not tried; gains are relative to the baseline:")
    assert lines[at + 1] == "  CK001: saving takes 45 % of the step (1.82x (1.60-2.00) measured)"
    assert lines[at + 2].split()[:3] == ["autotune", "report", "20261122-a"]
    assert "Found by the diagnosis" not in text(tuned())
