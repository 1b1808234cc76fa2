"""A rule's own examples, run: the one way to know that a rule does what its file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from autotune.catalogue import facts, settings
from autotune.engine.coverage import remark, words
from autotune.engine.evaluate import evaluate_subject
from autotune.model.evidence import RUN, Evidence, Setting, Value
from autotune.model.finding import Finding, Skipped
from autotune.model.rule import Example, Rule


class Result(Struct, frozen=True):
    """What a rule does with an example: "fires" and its message, "silent", or "skipped" and its needs.

    `right` and `useless` are its remarks unless it is skipped: a report makes those of a rule that fires, too, where
    its change would gain nothing (evaluate.decline).
    """

    outcome: str
    said: str = ""
    right: str = ""
    useless: str = ""
    minor: bool = False

    def fits(self, example: Example) -> bool:
        """Whether the example expects it; its sentence is compared by `failures`."""
        expected = (example.expect, example.right, example.useless, example.minor)
        return (self.outcome, self.right, self.useless, self.minor) == expected


def failures(rule: Rule) -> Iterator[str]:
    """One line for every example that the rule does not hold to."""
    for number, example in enumerate(rule.examples, 1):
        result = run_example(rule, example)
        title = f"{rule.id}, example {number}" + (f" ({example.why})" if example.why else "")
        if result.outcome != example.expect:
            said = f": {result.said}" if result.said else ""
            yield f"{title}: expected {example.expect}, got {result.outcome}{said}"
        elif example.message and result.said != example.message:
            yield f'{title}: says "{result.said}" instead of "{example.message}"'
        elif not result.fits(example):
            for key in ("right", "useless", "minor"):
                if getattr(result, key) != getattr(example, key):
                    yield f'{title}: {key} is "{getattr(result, key)}" instead of "{getattr(example, key)}"'


def run_example(rule: Rule, example: Example) -> Result:
    """What the rule does with the facts of `example`.

    A static example is one of the rule's [static] part alone.
    """
    asked = rule.as_static() if example.static else rule
    subject = RUN if rule.subject == RUN else f"{rule.subject}#example"
    evidence = evidence_of(example.facts, subject)
    outcome = evaluate_subject(asked, evidence, subject)
    if isinstance(outcome, Skipped):
        return Result("skipped", f"needs {', '.join(outcome.needs)}")
    found = (remark(each, asked, evidence, subject) for each in (asked.right, asked.useless))
    right, useless = (words(each, asked, evidence, subject) if each is not None else "" for each in found)
    return (
        Result("fires", outcome.message, right, useless, outcome.is_minor)
        if isinstance(outcome, Finding)
        else Result("silent", "", right, useless)
    )


def evidence_of(values: Mapping[str, Value], subject: str) -> Evidence:
    """Evidence with `values`: those of the run belong to the run, all others to `subject`."""
    by_subject: dict[str, dict[str, Value]] = {RUN: {}, subject: {}}
    given: dict[tuple[str, str], Setting] = {}
    for name, value in values.items():
        if name in settings():
            owner = RUN if settings()[name].subject == RUN else subject
            given[owner, name] = Setting(name, owner, value, "observed")
        else:
            by_subject[RUN if facts()[name].subject == RUN else subject][name] = value
    return Evidence(by_subject, given)
