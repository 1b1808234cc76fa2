"""Coverage of a report: settings that are right, changes that would not help, topics without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autotune.catalogue import TopicEntry, topic_of
from autotune.catalogue.vocabulary import Because
from autotune.engine.expr import compile_expression
from autotune.engine.message import render
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Evaluation, Skipped
from autotune.model.report import Coverage, RunSummary
from autotune.model.rule import Remark, Rule


def coverage(evaluation: Evaluation, evidence: Evidence, run: RunSummary) -> Coverage:
    """What is right, what would not help, and the topics of the rules that were skipped, in the order of the rules."""
    asked = dict.fromkeys(_topic(each) for each in evaluation.skipped)
    return Coverage(
        right=_said(evaluation, evidence, lambda rule: rule.right),
        useless=_said(evaluation, evidence, lambda rule: rule.useless),
        not_looked_at=tuple((topic.name, _reason(topic, evidence, run)) for topic in asked),
    )


def remark(remarks: Sequence[Remark], rule: Rule, evidence: Evidence, subject: str) -> Remark | None:
    """The first of the `remarks` of `rule` whose condition is true."""
    for each in remarks:
        answer, _ = compile_expression(each.when, rule.limits).evaluate(lambda name: evidence.lookup(subject, name))
        if answer is True:
            return each
    return None


def words(found: Remark, rule: Rule, evidence: Evidence, subject: str) -> str:
    """What a remark says of a subject."""
    return render(found.words, lambda name: evidence.lookup(subject, name), rule.limits)


def _said(evaluation: Evaluation, evidence: Evidence, of: Callable[[Rule], Sequence[Remark]]) -> tuple[str, ...]:
    """Each remark once, those of the gravest rules first.

    Rules with the same words judge one thing: where one of them fired, the others say nothing.
    """
    fired = {(one.subject, each.words) for one in evaluation.findings for each in of(one.rule)}

    def said() -> Iterator[str]:
        for one in sorted(evaluation.passed, key=lambda passed: (passed.rule.severity.rank, passed.rule.id)):
            found = remark(of(one.rule), one.rule, evidence, one.subject)
            if found is not None and (one.subject, found.words) not in fired:
                yield words(found, one.rule, evidence, one.subject)

    return tuple(dict.fromkeys(said()))


def _topic(skipped: Skipped) -> TopicEntry:
    """The topic of the first missing fact that a run could have shown, else of the first missing fact."""
    missing = [topic_of(name) for name in skipped.needs]
    return next((topic for topic in missing if not topic.is_of_files), missing[0])


def _reason(topic: TopicEntry, evidence: Evidence, run: RunSummary) -> str:
    """Why a topic could not be looked at: the circumstance of this run, else the fact that is missing."""
    found = next((each.words for each in topic.because if _is_so(each, evidence)), "")
    return found or (_untried(run) if topic.is_tried else topic.lacks)


def _is_so(because: Because, evidence: Evidence) -> bool:
    if because.without:
        return not evidence.subjects(because.without)
    return compile_expression(because.when).evaluate(lambda name: evidence.lookup(RUN, name))[0] is True


def _untried(run: RunSummary) -> str:
    """Why nothing was tried after the window."""
    if run.num_processes > 1:
        return "no what-if probes with several processes"
    if run.kept_going:
        return "training continued after the window"
    if run.outcome == "ended_early":
        return "the script ended before the what-if probe"
    if run.replayed:
        return "no time was left for the what-if probe"
    return "no what-if probe"
