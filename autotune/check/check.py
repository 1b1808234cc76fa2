"""check: from files to findings, without a run.

1. Find the project and its configuration, and select the rules.
2. Scan the files: a bundle for each training run that they describe.
3. Evaluate the rules for each bundle, with the facts of the machine and of a recorded profile.
4. Leave out what comments, the configuration or the baseline silence, minor findings, what stands in tests,
   documentation and other projects' code, and with --changed what stands on lines that did not change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import reading
from autotune.catalogue.dialects import Version
from autotune.check import configuration, foreign_code, garbage_collection, suppression
from autotune.engine.load import load_rules
from autotune.model.checked import Checked, CheckedBundle
from autotune.model.evidence import RUN, Evidence, Fact, Location, Value
from autotune.model.rule import Rule, Severity
from autotune.model.scanned import Bundle, ScanNote
from autotune.model.source import NOTEBOOK
from autotune.scan import scan

if TYPE_CHECKING:
    from autotune.catalogue.devices import Device
    from autotune.check.profile import Profile


class CheckOptions(Struct, frozen=True):
    """What the user asked for.

    `select` and `ignore` hold ids of rules or beginnings of ids. `baseline` silences what it holds, `write_baseline`
    makes one first. `env` adds this machine and the packages of `python` (None: the active one). `profile` is a run or
    a recording; `maxima` are limits of its facts, `max_regression` is a share, against the run or recording `against`.
    `with_minor` also reports minor findings and those in tests, documentation and other projects' code. `changed` is a
    commit of git: only lines that differ are reported on. `on` is the card of the runs, whatever this machine has.
    """

    paths: tuple[Path, ...]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity | None = Severity.HIGH
    baseline: Path | None = None
    write_baseline: Path | None = None
    env: bool = False
    python: str | None = None
    profile: str | None = None
    maxima: Mapping[str, float] = field(default_factory=dict)
    max_regression: float | None = None
    against: str | None = None
    with_minor: bool = False
    changed: str | None = None
    on: Device | None = None


def check(options: CheckOptions, *, cwd: Path, progress: Callable[[str, int, int], object] | None = None) -> Checked:
    """Read the files below the paths and report the findings of each training run that they describe.

    `progress` gets the next file to read, how many files are done, and of how many.
    Raises UsageError for a path, a rule, a configuration, a baseline or a recording that cannot be used.
    """
    paths = [cwd / path for path in options.paths]
    folder = _common_folder(paths)
    root = _root(folder, cwd)
    config = configuration.read(folder, root)
    all_rules = load_rules()
    rules = configuration.select_rules(all_rules, config, options.select, options.ignore)
    machine_facts, versions = _environment(options.python, cwd) if options.env else ((), None)
    if options.on is not None:
        machine_facts = _with_card(machine_facts, options.on)
    profile = _load_profile(options.profile, cwd)
    with garbage_collection.rare_collections():
        scanned = scan(paths, root=root, exclude=config.exclude, versions=versions, progress=progress)
        observed = profile.observed(scanned.bundles, root) if profile is not None else [None] * len(scanned.bundles)
        judged, unjudged = _judge(scanned.bundles, rules, machine_facts, observed)
    reported = [suppression.suppress_by_person(each, config) for each in _without_repeats(judged)]
    if not options.with_minor:
        named = [os.path.relpath(os.path.realpath(path), root) for path in paths]
        why_aside = foreign_code.places_aside(root)
        reported = [suppression.suppress_aside(suppression.suppress_minor(each), named, why_aside) for each in reported]
    reported = _on_changed_lines(reported, options.changed, root)
    reported = _without_baseline(reported, options, root, cwd)
    notes = (*scanned.notes, *unjudged, *suppression.unknown_rules(scanned.bundles, all_rules))
    reported, notes = _in_cells(reported, notes, root)
    return Checked(
        root=str(root),
        bundles=tuple(reported),
        notes=(*config.notes, *notes),
        num_files=scanned.num_files,
        num_rules=len(rules),
        fail_on=options.fail_on,
        gates=tuple(profile.gates(options.maxima, options.max_regression, options.against, cwd)) if profile else (),
        cwd=os.path.realpath(cwd),
    )


def _common_folder(paths: Sequence[Path]) -> Path:
    """The folder that all paths lie in, its links resolved."""
    real = [Path(os.path.realpath(path)) for path in paths]
    return Path(os.path.commonpath([path if path.is_dir() else path.parent for path in real]))


def _root(folder: Path, cwd: Path) -> Path:
    """What names of files are relative to: the repository of `folder`, else its project, else `cwd` or the folder.

    Names in annotations and baselines must not depend on where the command is typed. Of the folders above, only those
    count that belong to the owner of `folder` or to the user and that not everybody may write, as /tmp.
    """
    above = list(takewhile(partial(reading.may_hold_project, start=folder), folder.parents))
    for mark in (".git", "pyproject.toml"):
        for place in (folder, *above):
            if (place / mark).exists():
                return place
    here = Path(os.path.realpath(cwd))
    return here if folder.is_relative_to(here) else folder


def _environment(python: str | None, cwd: Path) -> tuple[tuple[Fact, ...], Mapping[str, Version]]:
    """Facts of this machine, and the versions of the packages that the script will find."""
    from autotune import machine, requirements  # psutil and the GPU's library; only --env needs them
    from autotune.machine.software import release

    requirements.check_packages()
    found = machine.software(machine.find_python((), python, os.environ, cwd)[0])
    versions = {name: version for name, text in found.items() if (version := release(text)) is not None}
    return machine.facts(found), versions


def _with_card(facts: Sequence[Fact], card: Device) -> tuple[Fact, ...]:
    """The facts of this machine as if its GPU were `card`."""
    of_card: dict[str, Value] = {"machine.gpu_name": card.title, "machine.gpu_memory_bytes": card.memory_bytes}
    if card.capability is not None:
        of_card["machine.gpu_capability"] = card.capability
    others = [fact for fact in facts if not fact.name.startswith("machine.gpu_")]
    return (*others, *(Fact(name, RUN, value) for name, value in of_card.items()))


def _load_profile(name: str | None, cwd: Path) -> Profile | None:
    if name is None:
        return None
    from autotune.check import profile  # all that reads recordings; only --profile needs it

    return profile.load(name, cwd)


def _judge(
    bundles: Sequence[Bundle],
    rules: Sequence[Rule],
    machine_facts: Sequence[Fact],
    observed: Sequence[Evidence | None],
) -> tuple[list[CheckedBundle], list[ScanNote]]:
    """Each bundle, judged; and notes on those for which that took too much or failed."""
    if not bundles:
        return [], []
    from autotune.pycode.work_budget import attempt  # a tree in which nothing trains has no bundles

    notes: list[ScanNote] = []
    judged = (
        attempt(bundle.name, partial(_judge_bundle, bundle, rules, machine_facts, seen), notes.append)
        for bundle, seen in zip(bundles, observed, strict=True)
    )
    return [each for each in judged if each is not None], notes


def _judge_bundle(
    bundle: Bundle, rules: Sequence[Rule], machine_facts: Sequence[Fact], observed: Evidence | None
) -> CheckedBundle:
    """What the rules say about the files of one run, this machine and, where one is given, its recording."""
    from autotune.engine.evaluate import evaluate  # as above
    from autotune.engine.evidence import join, observed_over

    read = join((*machine_facts, *bundle.facts), bundle.settings)
    evidence = observed_over(read, observed) if observed is not None else read
    evaluation = evaluate(rules, evidence, static=True)
    return CheckedBundle(bundle, evaluation.findings, evaluation.skipped, len(evaluation.passed))


def _without_repeats(bundles: Sequence[CheckedBundle]) -> Iterator[CheckedBundle]:
    """Two commands that start one script make two bundles; a finding at one location is reported once."""
    seen: set[tuple[str, Location | None]] = set()
    for each in bundles:
        keys = [(one.rule.id, one.location) for one in each.findings]
        new = [one for one, key in zip(each.findings, keys, strict=True) if key[1] is None or key not in seen]
        seen.update(keys)
        yield replace(each, findings=tuple(new))


def _on_changed_lines(bundles: list[CheckedBundle], ref: str | None, root: Path) -> list[CheckedBundle]:
    if ref is None:
        return bundles
    from autotune.check import changed  # difflib and subprocess; only --changed needs them

    return changed.suppress_unchanged(bundles, ref, root)


def _in_cells(
    bundles: list[CheckedBundle], notes: tuple[ScanNote, ...], root: Path
) -> tuple[list[CheckedBundle], tuple[ScanNote, ...]]:
    files = [*(name for each in bundles for name in each.bundle.files), *(note.where for note in notes)]
    if not any(NOTEBOOK in name for name in files):
        return bundles, notes
    from autotune.check import notebooks  # the reader of notebooks; most projects have none

    return notebooks.in_cells(bundles, notes, root)


def _without_baseline(
    bundles: list[CheckedBundle], options: CheckOptions, root: Path, cwd: Path
) -> list[CheckedBundle]:
    file = options.write_baseline or options.baseline
    if file is None:
        return bundles
    from autotune.check import baseline  # JSON and OpenSSL; only a baseline needs them

    return baseline.suppress_known(bundles, cwd / file, str(file), root, is_written=options.write_baseline is not None)
