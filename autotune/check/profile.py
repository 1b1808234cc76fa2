"""A recorded profile beside the files: what it adds to the evidence of its bundle, and limits on it.

`--profile last --max data_wait_share=0.1`, `--max-regression 5% --against before.json`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import hypot
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune import catalogue
from autotune.diagnose import diagnose
from autotune.engine.evidence import NOT_SEEN
from autotune.errors import UsageError
from autotune.model.checked import Gate
from autotune.model.evidence import Evidence, Setting
from autotune.model.report import Report
from autotune.model.scanned import Bundle

_NUMBERS = ("int", "float", "share", "ms", "s", "bytes", "per_s")
_TRAIN = "loader#train"
_SAME_SHARE = 0.01
"""Samples per step that differ by less are the same: the last batch of an epoch is shorter."""


class Profile(Struct, frozen=True):
    """The report of a run or a recording."""

    report: Report

    def observed(self, bundles: Sequence[Bundle], root: Path) -> list[Evidence | None]:
        """For each bundle what the recording showed of it; None for a bundle that it is not of."""
        evidence = _evidence_of_run(self.report.evidence, root)
        recorded = bundles if len(bundles) == 1 else _bundles_of_recording(bundles, self.report)
        return [evidence if bundle in recorded else None for bundle in bundles]

    def gates(
        self, maxima: Mapping[str, float], max_regression: float | None, against: str | None, cwd: Path
    ) -> Iterator[Gate]:
        """Each limit of the command line, and whether the profile keeps it."""
        yield from limits(self.report, maxima)
        if max_regression is not None and against is not None:
            yield regression(self.report, load(against, cwd).report, max_regression)


def load(name: str, cwd: Path) -> Profile:
    """The profile of a run or a recording. Raises UsageError when there is none."""
    return Profile(diagnose.load(name, cwd=cwd))


def _bundles_of_recording(bundles: Sequence[Bundle], profile: Report) -> tuple[Bundle, ...]:
    """The bundles of several that a recording is of: its command names the script or config that they begin with."""
    named = {os.path.normpath(word) for word in profile.run.command if Path(word).suffix}
    return tuple(one for one in bundles if any(one.name == name or name.endswith(f"/{one.name}") for name in named))


def _evidence_of_run(profile: Evidence, root: Path) -> Evidence:
    """What a run showed. What it had from files is left out: they may have changed, and are read again."""
    facts = {
        owner: {
            name: value for name, value in known.items() if not catalogue.facts()[name].supplier.startswith("scan.")
        }
        for owner, known in profile.facts.items()
    }
    seen = {key: setting for key, setting in profile.settings.items() if setting.why_not != NOT_SEEN}
    return Evidence(facts, {key: _observed_setting(setting, root) for key, setting in seen.items()})


def _observed_setting(setting: Setting, root: Path) -> Setting:
    """A setting of a run with the name of its file below `root`, and without a place that files gave to it."""
    place = None if setting.trusted else setting.location
    if place is not None and Path(place.file).is_relative_to(root):
        place = replace(place, file=Path(place.file).relative_to(root).as_posix())
    return replace(setting, location=place, trusted=False, why_not="")


def limits(report: Report, maxima: Mapping[str, float]) -> tuple[Gate, ...]:
    """One gate for each fact of `maxima`. A fact that the recording does not hold does not pass.

    Raises UsageError for a name that is no fact, or that several facts share.
    """
    return tuple(_limit(fact_name(name), limit, report.evidence) for name, limit in maxima.items())


def regression(report: Report, before: Report, limit: float) -> Gate:
    """Whether the median step is at most `limit` (a share) slower than in `before`, or within the noise of both runs.

    When the steps hold other numbers of samples, the time of a sample is compared.
    """
    name = "step.median_ms"
    new, old = (_number(one.evidence, name) for one in (report, before))
    if new is None or old is None:
        which = "recording" if new is None else "one before"
        return Gate(name, new, old * (1 + limit) if old else 0.0, False, f"the {which} has no measured step")
    noise = _noise(report, before)
    if noise is None:
        return Gate(name, new, old * (1 + limit), False, "too few steps to tell a change from noise: record more")
    scale, unit = _scale(report, before)
    expected = old * scale
    comparison = f"{new:.4g} ms against {expected:.4g} ms{unit}: {new / expected - 1:+.1%}, noise {noise:.1%}"
    return Gate(name, new, expected * (1 + limit), new <= expected * (1 + max(limit, noise)), comparison)


def fact_name(name: str) -> str:
    """The fact that `name` means: itself, or the only one that ends in ".name" ("data_wait_share")."""
    numbers = [fact for fact, entry in catalogue.facts().items() if entry.type in _NUMBERS]
    found = [name] if name in numbers else [fact for fact in numbers if fact.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    near = catalogue.near(name)
    to_do = f"Write one of: {', '.join(found)}." if found else f"Did you mean {near}?" if near else ""
    what = "several facts are called" if found else "there is no fact with a number that is called"
    raise UsageError(f'{what} "{name}"', where="--max", to_do=to_do)


def _limit(name: str, limit: float, evidence: Evidence) -> Gate:
    value = _number(evidence, name)
    if value is None:
        return Gate(name, None, limit, False, "this recording does not hold it")
    return Gate(name, value, limit, value <= limit, "")


def _number(evidence: Evidence, name: str) -> float | None:
    """The value of the run or of its training loader; else the largest of all subjects."""
    known = evidence.lookup(_TRAIN, name)
    values = [known] if known is not None else [facts[name] for facts in evidence.facts.values() if name in facts]
    return max((float(value) for value in values if isinstance(value, int | float)), default=None)


def _noise(report: Report, before: Report) -> float | None:
    """Half width of the interval of the ratio of both steps, as a share."""
    shares = [_number(one.evidence, "step.noise_share") for one in (report, before)]
    return None if None in shares else hypot(*(share for share in shares if share is not None))


def _scale(report: Report, before: Report) -> tuple[float, str]:
    """How many times the samples of the step before a step has now, and what to say about it."""
    now, then = (_samples(one) for one in (report, before))
    if now is None or then is None or abs(now / then - 1) <= _SAME_SHARE:
        return 1.0, ""
    return now / then, f" (for {now:.4g} samples instead of {then:.4g})"


def _samples(report: Report) -> float | None:
    """Samples of an optimizer step of one process."""
    step = report.step
    return step.samples_per_s * step.mean_ms / 1000 if step is not None and step.samples_per_s else None
