"""facts.toml, settings.toml, topics.toml and what_ifs.toml as frozen records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from autotune.catalogue.disk_cache import kept
from autotune.model.evidence import Value
from autotune.model.rule import Effect

KINDS = ("bool", "int", "float", "text", "version", "share", "ms", "s", "bytes", "per_s")
"""The types of facts and settings."""

SUBJECTS = ("run", "loader", "optimizer", "rank", "line", "loop", "result")
"""What a fact, a setting or a rule can belong to."""

FOLDER = Path(__file__).parent
"""Where the TOML files are."""


class FactEntry(Struct, frozen=True):
    """What the catalogue says about a fact. `supplier` is the module that states it, `topic` a row of topics.toml.

    `phases` are those of the step that a change of it acts on.
    """

    name: str
    subject: str
    type: str
    topic: str
    meaning: str
    supplier: str
    phases: Sequence[str] = ()


class EffectWhen(Struct, frozen=True):
    """The effect of changing a setting while the condition `when` holds."""

    when: str
    effect: Effect


class SearchEntry(Struct, frozen=True):
    """How a setting is searched: its axis, its values (none: worked out) and the condition `when` ("": always).

    `only` says the condition in plain words.
    """

    axis: str
    values: tuple[Value, ...] = ()
    when: str = ""
    only: str = ""


class SettingEntry(Struct, frozen=True):
    """What the catalogue says about a setting: the first `effect_when` that holds replaces `effect`.

    `search` is None where no search tries another value.
    """

    name: str
    subject: str
    type: str
    topic: str
    meaning: str
    effect: Effect
    effect_when: tuple[EffectWhen, ...] = ()
    search: SearchEntry | None = None


class Because(Struct, frozen=True):
    """Why nothing is known of a topic: `words`, where `when` is true or there is no subject of the kind `without`."""

    words: str
    when: str = ""
    without: str = ""


class TopicEntry(Struct, frozen=True):
    """What a report says of a topic that lacks a fact: the first of `because` that holds, else `lacks`.

    One that `is_tried` is measured after the window. One that `is_of_files` is named only where no other is.
    """

    name: str
    lacks: str = ""
    because: tuple[Because, ...] = ()
    is_tried: bool = False
    is_of_files: bool = False


class WhatIfEntry(Struct, frozen=True):
    """The arguments of a what-if, each with its kind: "fact", "number", "flag", or the words that may be given.

    `phases` are those of the step that it acts on; without them its arguments tell.
    """

    name: str
    required: Mapping[str, str | Sequence[str]]
    optional: Mapping[str, str | Sequence[str]]
    phases: Sequence[str] = ()


def read(name: str) -> dict[str, Any]:
    """A TOML file of this package, parsed: "facts.toml", "frameworks/trl.toml"."""
    table: dict[str, Any] = tables()[name]
    return table


@cache
def tables() -> Mapping[str, Any]:
    """Every TOML file of this package, parsed, by its name."""
    texts = {file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in sorted(FOLDER.glob("**/*.toml"))}
    contents = (part for name, text in texts.items() for part in (name.encode(), text))
    return kept("catalogue", contents, lambda: _parsed(texts), dict[str, Any])


def _parsed(texts: Mapping[str, bytes]) -> dict[str, Any]:
    import tomllib  # only a cache that is out of date needs it

    return {name: tomllib.loads(text.decode()) for name, text in texts.items()}


@cache
def facts() -> Mapping[str, FactEntry]:
    """Every fact by name."""
    return MappingProxyType({name: FactEntry(name, **row) for name, row in read("facts.toml").items()})


@cache
def settings() -> Mapping[str, SettingEntry]:
    """Every setting by its canonical name."""
    return MappingProxyType({name: _setting(name, row) for name, row in read("settings.toml").items()})


@cache
def what_ifs() -> Mapping[str, WhatIfEntry]:
    """Every what-if that a rule's [gain] may name."""
    rows = read("what_ifs.toml").items()
    return MappingProxyType({name: WhatIfEntry(name, **{"required": {}, "optional": {}} | row) for name, row in rows})


@cache
def topics() -> Mapping[str, TopicEntry]:
    """Every topic by name."""
    return MappingProxyType({name: _topic(name, row) for name, row in read("topics.toml").items()})


def topic_of(name: str) -> TopicEntry:
    """What the fact or setting `name` is about."""
    return topics()[(facts().get(name) or settings()[name]).topic]


def _topic(name: str, row: Mapping[str, Any]) -> TopicEntry:
    because = tuple(Because(**one) for one in row.get("because", ()))
    return TopicEntry(name, **{**row, "because": because})


def _setting(name: str, row: Mapping[str, Any]) -> SettingEntry:
    effects = tuple(EffectWhen(one["when"], Effect(one["effect"])) for one in row.get("effect_when", ()))
    plain = {key: row[key] for key in ("subject", "type", "topic", "meaning")}
    return SettingEntry(name, **plain, effect=Effect(row["effect"]), effect_when=effects, search=_search(row))


def _search(row: Mapping[str, Any]) -> SearchEntry | None:
    found = row.get("search")
    if not found:
        return None
    return SearchEntry(found["axis"], tuple(found.get("values", ())), found.get("when", ""), found.get("only", ""))


@cache
def kinds() -> Mapping[str, str]:
    """The type of every fact and setting."""
    of_facts = {name: entry.type for name, entry in facts().items()}
    return MappingProxyType(of_facts | {name: entry.type for name, entry in settings().items()})


def names() -> tuple[str, ...]:
    """Every fact and setting, in the order of the files."""
    return tuple(kinds())


def near(name: str) -> str | None:
    """The fact or setting that `name` was probably meant to be, or None."""
    from difflib import get_close_matches  # only a mistake needs it

    return next(iter(get_close_matches(name, names(), n=1, cutoff=0.7)), None)
