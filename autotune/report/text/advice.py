"""The recommendations in groups, by the decision that the reader has to make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from autotune.model.finding import Gain, GeneratedScript, Install, Recommendation, SettingChange, needs_decision
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.report.gains import decisions, questions, ready_to_apply, saved_time
from autotune.report.labels import edit, path, place, words
from autotune.report.text.layout import StyledLine, spread, to_copy, with_label
from autotune.report.units import duration, size

_PRICE = {
    Effect.ALTERING: "changes what is learned: compare the losses before you keep it",
    Effect.MANUAL: "",
}


def unchanged_lines(report: Report, width: int) -> list[StyledLine]:
    """What can be applied now, or nothing."""
    return _group(StyledLine("APPLY NOW: training unchanged", "apply"), ready_to_apply(report), report, width)


def decision_lines(report: Report, width: int) -> list[StyledLine]:
    """What the reader decides on, or nothing."""
    heading = StyledLine("YOUR DECISION: changes training, costs something, or has to be made by hand", "decide")
    return _group(heading, decisions(report), report, width)


def question_lines(report: Report, width: int) -> list[StyledLine]:
    """What is worth a look and no claim, or nothing."""
    heading = StyledLine("WORTH A LOOK: no rule knows whether this can be saved", "decide")
    return _group(heading, questions(report), report, width)


def _group(heading: StyledLine, group: Sequence[Recommendation], report: Report, width: int) -> list[StyledLine]:
    return [heading, *(line for each in group for line in _one(each, report, width))] if group else []


def _one(recommendation: Recommendation, report: Report, width: int) -> list[StyledLine]:
    first = recommendation.first
    title = f"{recommendation.number} {first.rule.id} {words(first.rule)}"
    lines = spread(title, _saved(recommendation, report), width, "heading")
    for finding in recommendation.findings:
        also = f"{finding.rule.id} {words(finding.rule)}: " if finding is not first else ""
        lines += with_label("also" if also else "seen", also + finding.message, width)
    is_by_hand = bool(recommendation.by_hand)
    lines += [line for each in recommendation.changes for line in _change(each, report, width, is_by_hand)]
    lines += [line for why in recommendation.by_hand for line in with_label("note", f"by hand: {why}", width)]
    return [*lines, *_advice(recommendation, report, width), *_price(recommendation, width)]


def _saved(recommendation: Recommendation, report: Report) -> str:
    gain = recommendation.after or recommendation.gain
    if gain is None:
        return "gain not estimated" if report.step and not recommendation.first.rule.is_question else ""
    return saved_time(gain, report) + _after(gain, recommendation)


def _after(gain: Gain, recommendation: Recommendation) -> str:
    """ " after 1" where the gain is what is left once the earlier numbers are done."""
    last = recommendation.number - 1
    if not last or gain == recommendation.gain:
        return ""
    return f" after 1-{last}" if last > 1 else " after 1"


def _change(change: SettingChange, report: Report, width: int, is_by_hand: bool) -> list[StyledLine]:
    where = f"{place(change.location, report.run.folder)}  " if change.location else ""
    file = change.location.file if change.location else ""
    insert = "insert " if change.location and change.location.is_missing else ""
    lost = "" if where or is_by_hand else " (its place was not found)"
    return with_label("fix", f"{where}{insert}{edit(change, file)}{lost}", width)


def _advice(recommendation: Recommendation, report: Report, width: int) -> list[StyledLine]:
    lines: list[StyledLine] = []
    for finding in recommendation.findings:
        if finding.location and not recommendation.changes:
            lines += with_label("at", place(finding.location, report.run.folder), width)
        for text in finding.advice:
            label = "or" if recommendation.changes else "ask" if finding.rule.is_question else "fix"
            lines += with_label(label, text, width)
        lines += _install(finding.install, width) if finding.install else []
        lines += _script(finding.script, report.run.folder, width) if finding.script else []
    return list(dict.fromkeys(lines))


def _install(install: Install, width: int) -> list[StyledLine]:
    """The command that installs it, or why there is none."""
    if not install.command:
        return with_label("note", f"no command to install {install.package}: {install.why}", width)
    return [to_copy("type", install.command), *with_label("note", install.why, width)]


def _script(script: GeneratedScript, folder: str, width: int) -> list[StyledLine]:
    """Where it was written, what is left to fill in, and what it takes; nobody has run it."""
    lines = [to_copy("script", path(script.path, folder))]
    if script.to_fill:
        names = ", ".join(script.to_fill)
        lines += with_label("note", f"fill in {names} at its top first; the script is untested", width)
    return [*lines, *with_label("note", "; ".join([*_takes(script), "--dry-run writes nothing"]), width)]


def _takes(script: GeneratedScript) -> Iterator[str]:
    """ "it needs 6.0 GiB, of 50 GiB free", "it takes about 5 min 0 s", "that pays off after about 6,000 steps"."""
    free = "" if script.free_bytes is None else f"{size(script.free_bytes)} free on its disk"
    if script.needed_bytes is not None:
        yield f"needs {size(script.needed_bytes)}" + (f", of {free}" if free else "")
    elif free:
        yield free
    if script.takes_s is not None:
        yield f"takes about {duration(script.takes_s)}"
    if script.break_even_steps is not None:
        yield f"pays off after about {math.ceil(script.break_even_steps):,} steps"


def _price(recommendation: Recommendation, width: int) -> list[StyledLine]:
    """What a change costs, in the words of its rule; a note of a change that costs nothing is only a note."""
    notes = dict.fromkeys(change.note for change in recommendation.changes if change.note)
    is_decided = any(needs_decision(change.setting, change.effect) for change in recommendation.changes)
    label = "price" if is_decided else "note"
    texts = list(notes) or [text for text in [_PRICE.get(recommendation.effect, "")] if text]
    return [line for text in texts for line in with_label(label, text, width)]
