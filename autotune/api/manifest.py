"""What run.json keeps beside the Recordings, so that --load can report without the machine and the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from autotune.errors import UsageError
from autotune.model import schemas
from autotune.model.evidence import Fact, Location, Setting, Span
from autotune.model.recording import Recording
from autotune.model.report import RunSummary
from autotune.model.scanned import Pin

Json = Mapping[str, Any]


class Known(Struct, frozen=True):
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


def stored(known: Known) -> dict[str, Any]:
    """`known` as JSON."""
    return {
        "run": {name: getattr(known.run, name) for name in _RUN_FIELDS},
        "facts": [[fact.name, fact.subject, fact.value] for fact in known.facts],
        "software": dict(known.versions),
        "static_facts": to_builtins(known.static_facts),
        "static_settings": to_builtins(known.static_settings),
        "pins": to_builtins(known.pins),
    }


_RUN_FIELDS = tuple(name for name in RunSummary.__struct_fields__ if name != "folder")


def restored(row: Json, recordings: Sequence[Recording], path: Path) -> Known:
    """The inverse of `stored`; a Recording alone brings its own software and command. Raises UsageError for a row that
    is none."""
    try:
        schemas.check(row, "manifest")
    except ValueError as error:
        raise UsageError(
            f"the data beside the recording cannot be read ({error})", where=str(path), to_do="Diagnose again."
        ) from error
    fields = row.get("run") or {"command": recordings[0].process["argv"], "outcome": recordings[0].outcome}
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return Known(
        run=RunSummary(folder=str(path), **plain),
        facts=tuple(Fact(name, subject, _plain(value)) for name, subject, value in row.get("facts", [])),
        versions=row.get("software") or dict(recordings[0].software),
        static_facts=tuple(_fact(each) for each in row.get("static_facts", [])),
        static_settings=tuple(_setting(each) for each in row.get("static_settings", [])),
        pins=tuple(Pin(**each) for each in row.get("pins", [])),
    )


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _fact(row: Json) -> Fact:
    places = tuple(Location(**{**each, "span": None}) for each in row["places"])
    return Fact(row["name"], row["subject"], _plain(row["value"]), places)


def _setting(row: Json) -> Setting:
    places = {key: _location(row[key]) for key in ("location", "feeds")}
    return Setting(**{**row, **places, "value": _plain(row["value"])})


def _location(row: Json | None) -> Location | None:
    return None if row is None else Location(**{**row, "span": Span(**row["span"]) if row["span"] else None})
