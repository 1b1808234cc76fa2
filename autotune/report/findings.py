"""What every output of `check` says in the same words: the order, the places, the fixes, the counts and the end."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from autotune.catalogue import facts
from autotune.model.checked import ASIDE, MINOR, Checked, CheckedBundle, Gate
from autotune.model.evidence import Location
from autotune.model.finding import Finding, SettingChange, Skipped
from autotune.model.rule import Effect, Rule, Severity
from autotune.model.scanned import Bundle, ScanNote
from autotune.model.source import SCRIPTS
from autotune.outlet import clean
from autotune.report.labels import cell, edit, words

EFFECTS = {
    Effect.EXACT: "same results, bit by bit",
    Effect.EQUIVALENT: "same training",
    Effect.ALTERING: "changes what is learned",
    Effect.MANUAL: "for you to judge",
}
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")
_OF_FILES = "scan."
_OF_JOB = (".sbatch", ".slurm", ".pbs", ".lsf")
_OF_SHELL = (".sh", ".bash", *_OF_JOB)
_ASKED_FOR = frozenset({"job.cpus", "job.memory_bytes", "job.time_limit_hours", "job.lacks_cpus"})
"""Facts that a scheduler's lines at the head of a script state."""


class LocatedFinding(Struct, frozen=True):
    """A finding of `bundle` and where to show it: its own place, else the top of the bundle's main file."""

    bundle: str
    finding: Finding
    location: Location


def locate_findings(checked: Checked) -> tuple[LocatedFinding, ...]:
    """The findings of all bundles, the gravest first, then by place."""
    return _by_severity(each for bundle in checked.bundles for each in locate_in_bundle(bundle))


def locate_in_bundle(bundle: CheckedBundle) -> tuple[LocatedFinding, ...]:
    """The findings of one bundle, the gravest first, then by place."""
    return _by_severity(bundle_location(bundle, each) for each in bundle.findings)


def bundle_location(bundle: CheckedBundle, finding: Finding) -> LocatedFinding:
    """A finding of `bundle` with its place."""
    return LocatedFinding(bundle.bundle.name, finding, finding.location or Location(bundle.bundle.name, 1))


def _by_severity(findings: Iterable[LocatedFinding]) -> tuple[LocatedFinding, ...]:
    return tuple(sorted(findings, key=_order))


def _order(each: LocatedFinding) -> tuple[int, str, int, int, int, int, str]:
    where, rule = each.location, each.finding.rule
    return (rule.severity.rank, where.file, where.line, where.cell, where.cell_line, where.column, rule.id)


def format_location(location: Location) -> str:
    """ "train.py:23:5", without the column where it is not known; "a.ipynb:57:12 (cell 4, line 3)" of a notebook."""
    place = f"{location.file}:{location.line}" + (f":{location.column}" if location.column else "")
    return f"{place} ({in_cell})" if (in_cell := cell(location)) else place


def title(rule: Rule) -> str:
    """ "DL001 batches prepared in the training process"."""
    return f"{rule.id} {words(rule)}"


def confidence(rule: Rule) -> str:
    """ "medium confidence", nothing when it is high."""
    return "" if rule.confidence == "high" else f"{rule.confidence} confidence"


def other_places(each: LocatedFinding) -> tuple[Location, ...]:
    """Where else the files show what the rule read."""
    shown = format_location(each.location)
    return tuple(
        {format_location(other): other for other in each.finding.places if format_location(other) != shown}.values()
    )


def remedies(each: LocatedFinding) -> Iterator[tuple[str, str]]:
    """What to do, a label and a text each: the changes (fix, note), then the advice (fix, or "or" beside changes)."""
    finding = each.finding
    for change in finding.changes:
        yield "fix", _edit(change, each.location)
    for note in dict.fromkeys(change.note for change in finding.changes if change.note):
        yield "note", note
    for text in finding.advice:
        yield "or" if finding.changes else "fix", text


def _edit(change: SettingChange, shown: Location) -> str:
    """ "sft.yaml:4 dataloader_num_workers: 0 -> 4 (same training)", without a place that is shown already."""
    where = change.location
    file = (where or shown).file
    there = f"{format_location(where)} " if where and format_location(where) != format_location(shown) else ""
    return f"{there}{edit(change, file)} ({EFFECTS[change.effect]})"


def shared_findings(checked: Checked) -> tuple[tuple[LocatedFinding, ...], ...]:
    """What the same rule says in the same words, but for numbers, of several bundles or files: a group each, the
    gravest first."""
    groups: dict[tuple[str, Severity, str], list[LocatedFinding]] = {}
    for each in locate_findings(checked):
        rule = each.finding.rule
        groups.setdefault((rule.id, rule.severity, NUMBER.sub("0", each.finding.message)), []).append(each)
    return tuple(
        tuple(group) for group in groups.values() if len({(each.bundle, each.location.file) for each in group}) > 1
    )


def paragraphs(each: LocatedFinding) -> list[str]:
    """The message, with its cell in a notebook, and what to do, one line each."""
    place = cell(each.location)
    message = clean(each.finding.message)
    return [f"{place}: {message}" if place else message, *(f"{label}: {clean(text)}" for label, text in remedies(each))]


def needs_a_run(checked: Checked) -> tuple[Skipped, ...]:
    """The rules that no bundle's files decide and that a run can, once each.

    What only files can show and these do not (no FSDP, no accumulation loop) a run would not show either.
    """
    bundles = reversed(checked.bundles)
    skipped = {each.rule.id: each for bundle in bundles for each in reversed(bundle.skipped) if _a_run_helps(each)}
    return tuple(skipped[rule_id] for rule_id in sorted(skipped))


def _a_run_helps(skipped: Skipped) -> bool:
    known = (facts().get(name) for name in skipped.needs)
    return any(fact is None or not fact.supplier.startswith(_OF_FILES) for fact in known)


COMMAND = "COMMAND"
"""Stands for a command that files do not show."""


def diagnose_command(checked: Checked) -> str:
    """What to type for the rules that need a run: the first launch script, else the first script that starts training.

    A module of which nothing starts training when it is run is no script. A job script runs where its scheduler starts
    it: there autotune stands in front of the command that trains.
    """
    bundles = [each.bundle for each in checked.bundles]
    launches = ((name, bundle) for bundle in bundles for name in bundle.files if name.endswith(_OF_SHELL))
    scripts = (bundle for bundle in bundles if bundle.name.endswith(SCRIPTS) and _starts_training(bundle))
    if (launch := next(launches, None)) is not None:
        path = _path_from_cwd(checked, launch[0])
        return f"in {path}: autotune diagnose -- {COMMAND}" if _is_job(*launch) else f"autotune diagnose -- bash {path}"
    script = next(scripts, None)
    if script is None:
        return f"autotune diagnose -- {COMMAND}"
    if script.is_module:
        return _as_module(checked, script)
    return f"autotune diagnose {_path_from_cwd(checked, script.name)}"


def _is_job(name: str, bundle: Bundle) -> bool:
    return name.endswith(_OF_JOB) or any(fact.name in _ASKED_FOR for fact in bundle.facts)


def _as_module(checked: Checked, script: Bundle) -> str:
    """A module is found from the folder above its packages: the one that its imports say, else the root, or where the
    check was asked for below it."""
    root = Path(checked.root)
    file = root / script.name
    cwd = start = Path(checked.cwd or root)
    if script.home:
        start = root / script.home
    elif not (file.is_relative_to(cwd) and cwd.is_relative_to(root)):
        start = root
    while start != root and not script.home and (start / "__init__.py").is_file():
        start = start.parent
    away = "" if start == cwd else f"cd {shlex.quote(str(start))} && "
    module = ".".join(file.relative_to(start).with_suffix("").parts)
    return f"{away}autotune diagnose -m {shlex.quote(module)}"


def _starts_training(bundle: Bundle) -> bool:
    """Whether training starts when the script is run, below a main guard or without one."""
    return any(fact.name == "code.has_main_guard" for fact in bundle.facts)


def _path_from_cwd(checked: Checked, name: str) -> str:
    """A file as it is named where the check was asked for."""
    return shlex.quote(os.path.relpath(f"{checked.root}/{name}", checked.cwd or checked.root))


def notes(checked: Checked) -> tuple[ScanNote, ...]:
    """What was not read or not followed, once each; broken files first."""
    return tuple(sorted(dict.fromkeys(checked.notes), key=lambda note: not note.is_error))


def suppressed_counts(checked: Checked) -> str:
    """ "3 findings (comment 2, minor 1)", "" when none is; what --all would report is marked."""
    by = Counter(each.by for bundle in checked.bundles for each in bundle.silenced)
    if not by:
        return ""
    named = {name: f"{number}: --all reports them" if name in (MINOR, ASIDE) else number for name, number in by.items()}
    return f"{count(by.total(), 'finding')} ({', '.join(f'{name} {number}' for name, number in sorted(named.items()))})"


def gate_line(of: Gate) -> str:
    """ "step.data_wait_share 0.14, limit 0.1: not met (why)"."""
    value = "not known" if of.value is None else f"{of.value:.4g}"
    why = f" ({of.why})" if of.why else ""
    return f"{of.fact} {value}, limit {of.limit:.4g}: {'met' if of.holds else 'not met'}{why}"


def totals(checked: Checked) -> str:
    """ "14 files, 2 bundles, 72 rules: 3 findings (1 high, 2 medium)"."""
    if not checked.bundles:
        files = count(checked.num_files, "file") if checked.num_files else "no file to read"
        return f"{files}: no training was recognised"
    found = checked.findings
    by = Counter(each.rule.severity for each in found)
    kinds = ", ".join(f"{by[severity]} {severity}" for severity in Severity if by[severity])
    counts = (count(checked.num_files, "file"), count(len(checked.bundles), "bundle"), count(checked.num_rules, "rule"))
    return f"{', '.join(counts)}: {count(len(found), 'finding')}" + (f" ({kinds})" if kinds else "")


def ending(checked: Checked) -> str:
    """ "exit 1: 1 finding at or above high, 1 gate not met", and why not where it is 0 and there are findings.

    What a bug kept from being checked may hold anything: it decides.
    """
    if checked.bugs:
        return f"exit 4: {count(len(checked.bugs), 'file')} not checked because of an internal error"
    if not (checked.findings or checked.fails):
        return "exit 0"
    return f"exit {int(checked.fails)}: {', '.join(_reasons(checked))}"


def _reasons(checked: Checked) -> Iterator[str]:
    limit = checked.fail_on
    grave = 0 if limit is None else sum(each.rule.severity.rank <= limit.rank for each in checked.findings)
    broken = sum(not each.holds for each in checked.gates)
    if grave or not broken:
        yield "findings do not fail the check" if limit is None else f"{count(grave, 'finding')} at or above {limit}"
    if broken:
        yield f"{count(broken, 'gate')} not met"


def count(number: int, noun: str) -> str:
    """ "no finding", "1 file", "1,240 files"."""
    return f"no {noun}" if number == 0 else f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(texts: Sequence[str], limit: int) -> list[str]:
    """The first `limit` texts, and how many more there are."""
    rest = len(texts) - limit
    return [*texts[:limit], f"and {rest:,} more"] if rest > 0 else list(texts)


def encodable(text: str) -> str:
    """`text` as it can be written in UTF-8: a lone surrogate (an undecodable byte of a file name) is a "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")
