"""What a recommendation says, a label and a text each: what was seen, the fix, its script, its price."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from autotune.model.finding import Gain, GeneratedScript, Install, Recommendation, SettingChange, needs_decision
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.report.gains import certain, decisions, questions, saved_time, uncertain
from autotune.report.labels import edit, path, place, words
from autotune.report.units import duration, size

APPLY_NOW = "Apply now: training unchanged"
TRY = "Safe to try: training unchanged, the gain is not certain"
DECIDE = "Your decision: changes training, costs something, or has to be made by hand"
ASK = "Worth a look: no rule knows whether this can be saved"
"""The headings of the four groups."""

_PRICE = {
    Effect.ALTERING: "changes what is learned: compare the losses before you keep it",
    Effect.MANUAL: "",
}


class AdviceRow(Struct, frozen=True):
    """One of its texts, beside its label (seen, fix, price ...); `is_to_copy` is a command or a path."""

    label: str
    text: str
    is_to_copy: bool = False


def groups(report: Report) -> tuple[tuple[str, tuple[Recommendation, ...]], ...]:
    """The recommendations below their headings, by the decision that the reader has to make; no group is empty."""
    every = (
        (APPLY_NOW, certain(report)),
        (TRY, uncertain(report)),
        (DECIDE, decisions(report)),
        (ASK, questions(report)),
    )
    return tuple((heading, group) for heading, group in every if group)


def title(recommendation: Recommendation) -> str:
    """ "1 DL001 batches prepared in the training process"."""
    rule = recommendation.first.rule
    return f"{recommendation.number} {rule.id} {words(rule)}"


def saved(recommendation: Recommendation, report: Report) -> str:
    """ "saves 1 h 19 min to 1 h 40 min after 1", "gain not estimated"; "" of a question, and without a step."""
    gain = recommendation.after or recommendation.gain
    if gain is None:
        return "gain not estimated" if report.step and not recommendation.first.rule.is_question else ""
    return saved_time(gain, report) + _after(gain, recommendation)


def rows(recommendation: Recommendation, report: Report) -> Iterator[AdviceRow]:
    """All of it, in the order of reading."""
    for finding in recommendation.findings:
        is_first = finding is recommendation.first
        also = "" if is_first else f"{finding.rule.id} {words(finding.rule)}: "
        yield AdviceRow("seen" if is_first else "also", also + finding.message)
    yield from (_change(each, report, bool(recommendation.by_hand)) for each in recommendation.changes)
    yield from (AdviceRow("note", f"by hand: {why}") for why in recommendation.by_hand)
    yield from dict.fromkeys(_advice(recommendation, report))
    yield from _price(recommendation)


def _after(gain: Gain, recommendation: Recommendation) -> str:
    """ " after 1" where the gain is what is left once the earlier numbers are done."""
    last = recommendation.number - 1
    if not last or gain == recommendation.gain:
        return ""
    return f" after 1-{last}" if last > 1 else " after 1"


def _change(change: SettingChange, report: Report, is_by_hand: bool) -> AdviceRow:
    where = f"{place(change.location, report.run.folder)}  " if change.location else ""
    file = change.location.file if change.location else ""
    insert = "insert " if change.location and change.location.is_missing else ""
    lost = "" if where or is_by_hand else " (its place was not found)"
    return AdviceRow("fix", f"{where}{insert}{edit(change, file)}{lost}")


def _advice(recommendation: Recommendation, report: Report) -> Iterator[AdviceRow]:
    for finding in recommendation.findings:
        if finding.location and not recommendation.changes:
            yield AdviceRow("at", place(finding.location, report.run.folder))
        label = "or" if recommendation.changes else "ask" if finding.rule.is_question else "fix"
        yield from (AdviceRow(label, text) for text in finding.advice)
        yield from _install(finding.install) if finding.install else ()
        yield from _script(finding.script, report.run.folder) if finding.script else ()


def _install(install: Install) -> Iterator[AdviceRow]:
    """The command that installs it, or why there is none."""
    if not install.command:
        yield AdviceRow("note", f"no command to install {install.package}: {install.why}")
        return
    yield AdviceRow("type", install.command, is_to_copy=True)
    yield AdviceRow("note", install.why)


def _script(script: GeneratedScript, folder: str) -> Iterator[AdviceRow]:
    """Where it was written, what is left to fill in, and what it takes; nobody has run it."""
    yield AdviceRow("script", path(script.path, folder), is_to_copy=True)
    if script.to_fill:
        names = ", ".join(script.to_fill)
        yield AdviceRow("note", f"fill in {names} at its top first; the script is untested")
    yield AdviceRow("note", "; ".join([*_takes(script), "--dry-run writes nothing"]))


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


def _price(recommendation: Recommendation) -> Iterator[AdviceRow]:
    """What a change costs, in the words of its rule; a note of a change that costs nothing is only a note."""
    notes = dict.fromkeys(change.note for change in recommendation.changes if change.note)
    is_decided = any(needs_decision(change.setting, change.effect) for change in recommendation.changes)
    label = "price" if is_decided else "note"
    texts = list(notes) or [text for text in [_PRICE.get(recommendation.effect, "")] if text]
    yield from (AdviceRow(label, text) for text in texts)
