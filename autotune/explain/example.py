"""A rule's own example for a reader: what it says, and the code before and after its change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autotune.catalogue import spelling
from autotune.engine.evaluate import evaluate_subject
from autotune.engine.examples import evidence_of
from autotune.model.evidence import RUN, Value
from autotune.model.explanation import Paragraph
from autotune.model.finding import Finding, SettingChange
from autotune.model.rule import Example, Rule

FRAMEWORKS = {"raw": "", "hf_trainer": "transformers", "lightning": "Lightning"}
"""Whose spelling is shown, where it differs from those before it; the first is torch's own."""

MOST_ADVICE = 1


def paragraphs(rule: Rule) -> Iterator[Paragraph]:
    """Labelled lines; nothing of a rule without an example that fires."""
    shown = _first(rule)
    finding = _finding(rule, shown) if shown is not None else None
    if finding is None:
        return
    yield _labelled("seen", finding.message)
    if rule.code is not None:
        yield from (*_lines("before", rule.code.before), *_lines("after", rule.code.after))
        return
    told: set[tuple[str, str]] = set()
    for framework, name in FRAMEWORKS.items():
        before, after = (_code(finding.changes, framework, is_new=is_new) for is_new in (False, True))
        if after and (before, after) not in told:
            told.add((before, after))
            of = f"  # {name}" if name else ""
            yield _labelled("before", f"{before or 'not set'}{of}")
            yield _labelled("after", after)
    if not told:
        yield from (_labelled("fix", text) for text in (*map(_words, finding.changes), *finding.advice[:MOST_ADVICE]))


def _first(rule: Rule) -> Example | None:
    """The first that fires in a run, else in files alone."""
    found = [one for one in rule.examples if one.expect == "fires"]
    return next((one for one in found if not one.static), found[0] if found else None)


def _finding(rule: Rule, example: Example) -> Finding | None:
    subject = RUN if rule.subject == RUN else f"{rule.subject}#example"
    asked = rule.as_static() if example.static else rule
    outcome = evaluate_subject(asked, evidence_of(example.facts, subject), subject)
    return outcome if isinstance(outcome, Finding) else None


def _code(changes: Sequence[SettingChange], framework: str, *, is_new: bool) -> str:
    """ "DataLoader(num_workers=4, persistent_workers=True)"; "" where the framework has no key for one of them."""
    calls: dict[str, dict[str, Value]] = {}
    for change in changes:
        spelled = spelling(framework, change.setting, {})
        value = change.new if is_new else change.old
        if spelled is None:
            return ""
        if value is None:
            continue
        if not spelled.call:
            calls[f"{spelled.key}({value!r})"] = {}
            continue
        calls.setdefault(spelled.call, {}).update(spelled.arguments(value))
    return "; ".join(f"{call}({_arguments(given)})" if given else call for call, given in calls.items())


def _arguments(given: Mapping[str, Value]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in given.items())


def _words(change: SettingChange) -> str:
    old = "unset" if change.old is None else change.old
    return f"{change.setting}: {old} -> {change.new}"


def _lines(label: str, code: str) -> Iterator[Paragraph]:
    """Each line as it stands."""
    for number, line in enumerate(code.splitlines()):
        yield Paragraph(line, f"  {'' if number else label:<7} ", " " * 10)


def _labelled(label: str, text: str) -> Paragraph:
    return Paragraph(" ".join(text.split()), f"  {label:<7} ", " " * 10)
