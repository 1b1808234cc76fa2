"""A rule's own examples, run: the one way to know that a rule does what its file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.catalogue import facts, settings
from autotune.engine.evaluate import evaluate_subject
from autotune.model.evidence import RUN, Evidence, Setting, Value
from autotune.model.finding import Finding, Passed
from autotune.model.rule import Example, Rule


def failures(rule: Rule) -> Iterator[str]:
    """One line for every example that the rule does not hold to."""
    for number, example in enumerate(rule.examples, 1):
        outcome, said = run_example(rule, example)
        title = f"{rule.id}, example {number}" + (f" ({example.why})" if example.why else "")
        if outcome != example.expect:
            yield f"{title}: expected {example.expect}, got {outcome}" + (f": {said}" if said else "")
        elif example.message and said != example.message:
            yield f'{title}: says "{said}" instead of "{example.message}"'


def run_example(rule: Rule, example: Example) -> tuple[str, str]:
    """What the rule does with the facts of `example`: "fires" and its message, "silent", or "skipped" and its needs.

    A static example is one of the rule's [static] part alone.
    """
    asked = rule.as_static() if example.static else rule
    subject = RUN if rule.subject == RUN else f"{rule.subject}#example"
    outcome = evaluate_subject(asked, evidence_of(example.facts, subject), subject)
    if isinstance(outcome, Finding):
        return "fires", outcome.message
    if isinstance(outcome, Passed):
        return "silent", ""
    return "skipped", f"needs {', '.join(outcome.needs)}"


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
