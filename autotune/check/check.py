"""check: from files to findings, without a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import catalogue, reading
from autotune.catalogue.dialects import Version
from autotune.check import baseline, configuration, suppression
from autotune.engine.load import load_rules
from autotune.model.checked import Checked, CheckedBundle, Gate
from autotune.model.evidence import Evidence, Fact, Location, Setting
from autotune.model.rule import Rule, Severity
from autotune.model.scanned import Bundle, ScanNote
from autotune.scan import scan

if TYPE_CHECKING:
    from autotune.model.report import Report


class CheckOptions(Struct, frozen=True):
    """What the user asked for.

    `select` and `ignore` hold ids of rules or beginnings of ids. `baseline` silences what it holds, `write_baseline`
    makes one first. `env` adds this machine and the packages of `python` (None: the active one). `profile` is a run or
    a recording; `maxima` are limits of its facts, `max_regression` is a share, against the run or recording `against`.
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


def check(options: CheckOptions, *, cwd: Path) -> Checked:
    """Read the files below the paths and say what is wrong with the training runs that they describe.

    Raises UsageError for a path, a rule, a configuration, a baseline or a recording that cannot be used.
    """
    paths = [cwd / path for path in options.paths]
    folder = _common_folder(paths)
    root = _root(folder, cwd)
    config = configuration.read(folder, root)
    every_rule = load_rules()
    rules = configuration.selected_rules(every_rule, config, options.select, options.ignore)
    known, versions = _environment(options.python, cwd) if options.env else ((), None)
    profile = _load(options.profile, cwd)
    scanned = scan(paths, root=root, exclude=config.exclude, versions=versions)
    observed = _observed(profile.evidence, root) if profile is not None else None
    recorded = scanned.bundles if len(scanned.bundles) == 1 else _recorded(scanned.bundles, profile)
    evidence = [(bundle, observed if bundle in recorded else None) for bundle in scanned.bundles]
    bundles, left = _all_judged(evidence, rules, known) if evidence else ([], [])
    bundles = [suppression.suppressed_by_comment(each, config) for each in _once(bundles)]
    bundles = _without_baseline(bundles, options, root, cwd)
    return Checked(
        root=str(root),
        bundles=tuple(bundles),
        notes=(*config.notes, *scanned.notes, *left, *suppression.unknown_rules(scanned.bundles, every_rule)),
        num_files=scanned.num_files,
        num_rules=len(rules),
        fail_on=options.fail_on,
        gates=tuple(_gates(options, profile, cwd)) if profile is not None else (),
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
    from autotune import machine  # psutil and the GPU's library; only --env needs them
    from autotune.diagnose import requirements
    from autotune.machine.software import release

    requirements.check_packages()
    found = machine.software(machine.find_python((), python, os.environ, cwd)[0])
    versions = {name: version for name, text in found.items() if (version := release(text)) is not None}
    return machine.facts(found), versions


def _load(name: str | None, cwd: Path) -> Report | None:
    if name is None:
        return None
    from autotune.diagnose import diagnose  # all that reads recordings; only --profile needs it

    return diagnose.load(name, cwd=cwd)


def _all_judged(
    evidence: Sequence[tuple[Bundle, Evidence | None]], rules: Sequence[Rule], known: Sequence[Fact]
) -> tuple[list[CheckedBundle], list[ScanNote]]:
    """Each bundle with what was observed of it, judged; and notes on those for which that took too much or failed."""
    from autotune.pycode.work_budget import attempt  # a tree in which nothing trains has no bundles

    left: list[ScanNote] = []
    made = (
        attempt(bundle.name, partial(_judged, bundle, rules, known, observed), left.append)
        for bundle, observed in evidence
    )
    return [each for each in made if each is not None], left


def _judged(bundle: Bundle, rules: Sequence[Rule], known: Sequence[Fact], observed: Evidence | None) -> CheckedBundle:
    """What the rules say about the files of one run, this machine and, where one is given, its recording."""
    from autotune.engine.evaluate import evaluate  # as above
    from autotune.engine.evidence import join, observed_over

    read = join((*known, *bundle.facts), bundle.settings)
    evidence = observed_over(read, observed) if observed is not None else read
    found = evaluate(rules, evidence, static=True)
    return CheckedBundle(bundle, found.findings, found.skipped, len(found.passed))


def _recorded(bundles: Sequence[Bundle], profile: Report | None) -> tuple[Bundle, ...]:
    """The bundles of several that a recording is of: its command names the script or config that they begin with."""
    command = profile.run.command if profile is not None else ()
    named = {os.path.normpath(word) for word in command if Path(word).suffix}
    return tuple(one for one in bundles if any(one.name == name or name.endswith(f"/{one.name}") for name in named))


def _observed(profile: Evidence, root: Path) -> Evidence:
    """What a run showed. What it had from files is left out: they may have changed, and are read again."""
    from autotune.engine.evidence import NOT_SEEN  # only --profile needs it

    facts = {
        owner: {
            name: value for name, value in known.items() if not catalogue.facts()[name].supplier.startswith("scan.")
        }
        for owner, known in profile.facts.items()
    }
    seen = {key: setting for key, setting in profile.settings.items() if setting.why_not != NOT_SEEN}
    return Evidence(facts, {key: _seen(setting, root) for key, setting in seen.items()})


def _seen(setting: Setting, root: Path) -> Setting:
    """A setting of a run with the name of its file below `root`, and without a place that files gave to it."""
    place = None if setting.trusted else setting.location
    if place is not None and Path(place.file).is_relative_to(root):
        place = replace(place, file=Path(place.file).relative_to(root).as_posix())
    return replace(setting, location=place, trusted=False, why_not="")


def _once(bundles: Sequence[CheckedBundle]) -> Iterator[CheckedBundle]:
    """A script that two commands start is two bundles; what is wrong at a place is said once."""
    seen: set[tuple[str, Location | None]] = set()
    for each in bundles:
        keys = [(one.rule.id, one.location) for one in each.findings]
        new = [one for one, key in zip(each.findings, keys, strict=True) if key[1] is None or key not in seen]
        seen.update(keys)
        yield replace(each, findings=tuple(new))


def _without_baseline(
    bundles: Sequence[CheckedBundle], options: CheckOptions, root: Path, cwd: Path
) -> list[CheckedBundle]:
    file = options.write_baseline or options.baseline
    if file is None:
        return list(bundles)
    if options.write_baseline is not None:
        found = [
            (one, place) for each in bundles for one in each.findings for place in suppression.places_of(one, each)
        ]
        counts = baseline.write(cwd / file, found, root)
    else:
        counts = baseline.read(cwd / file)
    return [suppression.suppressed_by_baseline(each, counts, root, str(file)) for each in bundles]


def _gates(options: CheckOptions, profile: Report, cwd: Path) -> Iterator[Gate]:
    from autotune.check import gate

    yield from gate.limits(profile, options.maxima)
    before = _load(options.against, cwd)
    if options.max_regression is not None and before is not None:
        yield gate.regression(profile, before, options.max_regression)
