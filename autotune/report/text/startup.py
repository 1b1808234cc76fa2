"""What the process did until its first step: a line for each cause, where that took long or a rule speaks of it."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.catalogue.startup import causes
from autotune.model.report import Report, StartUpPart
from autotune.report.labels import path
from autotune.report.text.layout import StyledLine, wrap
from autotune.report.units import duration

SHOWN_FROM_S = 10.0
"""A start-up that is shorter keeps nobody waiting."""

FAMILY = "ST"
_LEAST_SHARE = 0.03
_MOST_CAUSES = 6
_MOST_PLACES = 2


def lines(report: Report, width: int) -> list[StyledLine]:
    """The heading with the time until the first step, then the causes, the longest first."""
    total_s = sum(part.seconds for part in report.startup)
    is_named = any(finding.rule.id.startswith(FAMILY) for finding in report.evaluation.findings)
    if not report.startup or (total_s < SHOWN_FROM_S and not is_named):
        return []
    until = "until the first step" if report.step is not None else "without a step"
    head = f"Start-up: {duration(total_s)} {until}"
    return [
        *(StyledLine(line.text, "heading") for line in wrap(head, width)),
        *table(report.startup, report.run.folder, width),
    ]


def table(parts: Sequence[StartUpPart], folder: str, width: int) -> list[StyledLine]:
    """A line for each cause that matters, and one for the others together."""
    total_s = sum(part.seconds for part in parts)
    by_cause: dict[str, list[StartUpPart]] = {}
    for part in parts:
        by_cause.setdefault(part.cause, []).append(part)
    ranked = sorted(by_cause, key=lambda cause: -_seconds(by_cause[cause]))
    shown = [cause for cause in ranked if _seconds(by_cause[cause]) >= _LEAST_SHARE * total_s][:_MOST_CAUSES]
    rows = [line for cause in shown for line in _row(cause, by_cause[cause], total_s, folder, width)]
    left_s = total_s - sum(_seconds(by_cause[cause]) for cause in shown)
    if left_s >= 0.05:
        rows += _line("all else", left_s, total_s, "", width)
    return rows


def _row(cause: str, parts: Sequence[StartUpPart], total_s: float, folder: str, width: int) -> list[StyledLine]:
    known = causes().get(cause)
    longest = sorted(parts, key=lambda part: -part.seconds)[:_MOST_PLACES]
    places = [_place(part, folder, len(parts) > 1) for part in longest if part.file or part.of or part.within]
    return _line(known.title if known is not None else cause, _seconds(parts), total_s, "; ".join(places), width)


def _line(title: str, seconds: float, total_s: float, places: str, width: int) -> list[StyledLine]:
    head = f"  {seconds / total_s * 100:>3.0f} % {duration(seconds):>10}  "
    return wrap(f"{title}: {places}" if places else title, width, first=head, rest=" " * (len(head) + 2))


def _place(part: StartUpPart, folder: str, is_one_of_several: bool) -> str:
    """ "transformers 8.1 s (tensorflow 5.0 s)", "tokenise, train.py:12 (1 process, cache off)"."""
    where = f"{path(part.file, folder)}:{part.line}" if part.file else ""
    named = part.function if part.cause == "code" and part.function != "<module>" else ""
    name = part.of or ", ".join(text for text in (named, where) if text)
    seconds = f" {duration(part.seconds)}" if is_one_of_several else ""
    more = ", ".join(_more(part))
    return f"{name}{seconds} ({more})" if more else f"{name}{seconds}"


def _more(part: StartUpPart) -> list[str]:
    found = [f"{name} {duration(seconds)}" for name, seconds in part.within[:1]]
    if part.num_processes is not None:
        found.append("1 process" if part.num_processes == 1 else f"{part.num_processes} processes")
    if part.reads_cache is not None:
        found.append("may read its cache" if part.reads_cache else "cache off")
    return found


def _seconds(parts: Sequence[StartUpPart]) -> float:
    return sum(part.seconds for part in parts)
