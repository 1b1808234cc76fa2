"""What run.json keeps beside the Recordings, so that `report` works without the machine and the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import asdict, replace

from autotune.errors import UsageError
from autotune.model.evidence import Fact, Setting, Value
from autotune.model.recording import Recording
from autotune.model.report import MeasuredRun, RunSummary
from autotune.model.scanned import Pin

Json = Mapping[str, Any]


class ManifestData(Struct, frozen=True):
    """All that a diagnosis knows but for its Recordings.

    `facts` are of the machine and the software, `versions` those of packages as they name them; the static facts and
    settings are what the files behind the command say, `pins` what the project's files bound of packages.
    """

    run: RunSummary
    facts: tuple[Fact, ...]
    versions: Mapping[str, str]
    static_facts: tuple[Fact, ...] = ()
    static_settings: tuple[Setting, ...] = ()
    pins: tuple[Pin, ...] = ()


class StoredManifest(Struct, frozen=True):
    """What a diagnosis knows beside its Recordings, as run.json has it; a lone Recording has nothing of it."""

    run: MeasuredRun | None = None
    facts: tuple[tuple[str, str, Value], ...] = ()
    """Name, subject and value of those of the machine and the software."""

    software: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages as they name them."""

    static_facts: tuple[Fact, ...] = ()
    """What the files behind the command say, as the next."""

    static_settings: tuple[Setting, ...] = ()
    pins: tuple[Pin, ...] = ()
    """What the project's files bound of packages."""


def to_json(known: ManifestData) -> dict[str, Any]:
    """`known` as JSON."""
    facts = tuple((fact.name, fact.subject, fact.value) for fact in known.facts)
    static = known.static_facts, known.static_settings, known.pins
    plain: dict[str, Any] = to_builtins(StoredManifest(known.run, facts, dict(known.versions), *static))
    del plain["run"]["folder"]
    return plain


def from_json(row: Json, recordings: Sequence[Recording], path: Path) -> ManifestData:
    """The inverse of `to_json`; a Recording alone brings its own software and command. Raises UsageError for a row that
    is none."""
    try:
        stored = convert(row, StoredManifest)
    except ValueError as error:
        raise UsageError(
            f"the data beside the recording cannot be read ({error})", where=str(path), to_do="Diagnose again."
        ) from error
    run = stored.run or MeasuredRun(tuple(recordings[0].process["argv"]), recordings[0].outcome)
    return ManifestData(
        run=RunSummary(folder=str(path), **asdict(run)),
        facts=tuple(Fact(*fact) for fact in stored.facts),
        versions=stored.software or dict(recordings[0].software),
        static_facts=tuple(map(_without_spans, stored.static_facts)),
        static_settings=stored.static_settings,
        pins=stored.pins,
    )


def _without_spans(fact: Fact) -> Fact:
    """Its places as they were; nothing is edited there, and their bytes may be others by now."""
    return replace(fact, places=tuple(replace(place, span=None) for place in fact.places))
