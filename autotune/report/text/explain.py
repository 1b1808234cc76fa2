"""The printed explanation of a rule, and the lines of each of its sections."""

from __future__ import annotations

import textwrap

from autotune.model.explanation import Explanation, Paragraph, Section
from autotune.model.rule import Rule
from autotune.outlet import plain


def render(explanation: Explanation, colour: bool, width: int) -> str:
    """The rule and its sections, in lines of at most `width` columns."""
    rule = explanation.rule
    lines = [
        f"{rule.id} {rule.name}",
        standing(rule),
        "",
        *_wrap(Paragraph(" ".join(rule.summary.split()), "", ""), width),
    ]
    for section in explanation.sections:
        lines += ["", section.title, *section_lines(section, width)]
    return plain("".join(f"{line}\n" for line in lines))


def standing(rule: Rule) -> str:
    """How grave, how sure, how old."""
    return f"{rule.severity} severity, {rule.confidence} confidence; {rule.status} since {rule.since}"


def section_lines(section: Section, width: int = 80) -> list[str]:
    """The text of a section below its title, indented by two."""
    return [line for paragraph in section.paragraphs for line in _wrap(paragraph, width)]


def _wrap(paragraph: Paragraph, width: int) -> list[str]:
    """Names and literals stay whole: `max-autotune` and paths can be searched for."""
    wrapper = textwrap.TextWrapper(
        width,
        initial_indent=paragraph.first,
        subsequent_indent=paragraph.rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.wrap(paragraph.text) or [""]
