from __future__ import annotations

from msgspec.structs import replace

from autotune.diagnose.overlaps import without_overlaps
from autotune.engine.load import load_rules
from autotune.model.evidence import Evidence, Location
from autotune.model.finding import Finding, Gain

RULES = {rule.id: rule for rule in load_rules()}
LINE = Location("/home/me/train.py", 20, end_line=22)


def finding(rule, subject, location=LINE, gain=None):
    made = Gain(speedup=1 / (1 - gain), low=1.0, high=2.0, basis="bound") if gain else None
    return Finding(RULES[rule], subject, "", (), location=location, gain=made)


def evidence(inside="", phase="forward"):
    return Evidence({"line#1": {"line.inside": inside, "line.phase": phase, "line.share": 0.4}})


QUESTION = replace(finding("HS001", "line#1"), asked_share=0.4)


def kept(*others, **facts):
    findings, _ = without_overlaps([QUESTION, *others], evidence(**facts))
    return QUESTION in findings


def test_a_question_alone_is_asked():
    assert kept()


def test_a_question_about_a_line_whose_cause_is_known_is_not():
    assert not kept(finding("LN005", "line#1"))
    assert kept(finding("LN005", "line#2", Location("/home/me/train.py", 30)))
    assert kept(finding("LN005", "line#2", Location("/home/me/model.py", 20)))


def test_a_line_that_is_part_of_a_loop_or_a_result_is_theirs():
    elsewhere = Location("/home/me/train.py", 90)
    assert not kept(finding("LN003", "loop#2", elsewhere), inside="loop#1, loop#2")
    assert kept(finding("LN003", "loop#2", elsewhere), inside="loop#1")


def test_a_change_that_gains_most_of_the_line_answers_the_question():
    assert not kept(finding("LN001", "result#1", None, gain=0.25))
    assert kept(finding("LN001", "result#1", None, gain=0.19))
    assert kept(finding("LN001", "result#1", None, gain=0.3), phase="backward")


def test_a_question_about_the_preparation_is_answered_by_workers_that_gain_half_of_it():
    asked = replace(finding("HS002", "loader#train"), asked_share=0.4)
    for gain, is_asked in ((0.19, True), (0.21, False)):
        workers = finding("DL001", "loader#train", Location("/home/me/train.py", 90), gain=gain)
        findings, _ = without_overlaps([asked, workers], Evidence())
        assert (asked in findings) == is_asked


def test_of_loops_in_each_other_the_outer_one_is_named():
    outer = finding("LN003", "loop#1", Location("/home/me/train.py", 10, end_line=30))
    inner = finding("LN003", "loop#2", Location("/home/me/train.py", 12, end_line=15))
    other = replace(inner, rule=RULES["LN004"])
    findings, left_out = without_overlaps([inner, outer, other], Evidence())
    assert (findings, left_out) == ((outer, other), (inner,))


def test_one_bound_is_told_of_a_late_rank_and_of_averaging_that_waits_for_it():
    late, averaging = finding("DD006", "run", None, gain=0.2), finding("DD020", "run", None, gain=0.6)
    assert without_overlaps([averaging, late], evidence()) == ((late,), (averaging,))
    assert without_overlaps([averaging], evidence()) == ((averaging,), ())
