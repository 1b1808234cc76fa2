"""The space: the settings that can be changed in this script, with the values that could help on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from autotune import catalogue
from autotune.catalogue import SettingEntry
from autotune.engine.expr import compile_expression
from autotune.engine.fixes import effect_of
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.finding import UNCHANGED
from autotune.model.outlook import MemoryBudget
from autotune.model.rule import Effect
from autotune.model.tuned import Axis, SkippedSetting, Space
from autotune.tune.batch_room import batch_room, within
from autotune.tune.batch_room import left_out as too_large
from autotune.tune.points import COMPUTED, MEMORY_SHARE, TRAIN, Point

OWNERS = {"loader": TRAIN, "optimizer": "optimizer#0", "run": RUN}
"""The subject whose setting is searched, by the kind of subject in the catalogue."""

UNSET = ("loader.prefetch_factor",)
"""Settings that a loader without workers does not have."""

Settable = Callable[[str, str], str]
"""(setting, subject) -> why it cannot be changed in this script; "" where it can."""


def space(
    evidence: Evidence,
    knobs: Set[str],
    allow: Set[Effect],
    settable: Settable,
    budget: MemoryBudget | None = None,
) -> Space:
    """The axes that `knobs` name (empty: all of them), and the settings that are left out with the reason.

    Micro-batches that cannot fit, by what the diagnosis measured or by its memory `budget`, are among these.
    Settings that alter what is learned are searched only where `allow` has Effect.ALTERING. Raises UsageError for an
    unknown knob.
    """
    _check(knobs)
    why = {name: _why_not(entry, evidence, knobs, allow, settable) for name, entry in searched().items()}
    axes, left_out = [], [SkippedSetting(name, reason) for name, reason in why.items() if reason]
    room = batch_room(evidence, budget)
    for name, entries in by_axis().items():
        usable = [entry for entry in entries if not why[entry.name]]
        points = _points(name, usable, evidence)
        left_out += too_large(points, room)
        axis = _axis(name, usable, within(points, room), evidence)
        if axis is not None:
            axes.append(axis)
        else:
            left_out += [SkippedSetting(entry.name, _why_no_axis(entry, usable, entries)) for entry in usable]
    limit = evidence.lookup(RUN, "memory.limit_bytes")
    may_use = int(MEMORY_SHARE * limit) if isinstance(limit, int | float) else None
    return Space(tuple(axes), tuple(left_out), may_use, evidence.lookup(RUN, "device.type") == "cuda")


def searched() -> Mapping[str, SettingEntry]:
    """The settings with a [search] in the catalogue."""
    return {name: entry for name, entry in catalogue.settings().items() if entry.search is not None}


def by_axis() -> Mapping[str, list[SettingEntry]]:
    """The searched settings by the name of their axis, in the catalogue's order."""
    found: dict[str, list[SettingEntry]] = {}
    for entry in searched().values():
        found.setdefault(entry.search.axis if entry.search else "", []).append(entry)
    return found


def _check(knobs: Set[str]) -> None:
    unknown = sorted(knob for knob in knobs if not any(_names(knob, entry) for entry in searched().values()))
    if unknown:
        raise UsageError(
            f"there is no knob {', '.join(unknown)}", where="--knobs", to_do=f"There are: {', '.join(by_axis())}."
        )


def _names(knob: str, entry: SettingEntry) -> bool:
    """A knob is an axis, a setting, or how the last part of a setting's name begins (accum)."""
    axis = entry.search.axis if entry.search else ""
    return knob in (axis, entry.name) or entry.name.partition(".")[2].startswith(knob)


def _why_not(entry: SettingEntry, evidence: Evidence, knobs: Set[str], allow: Set[Effect], settable: Settable) -> str:
    """Why a setting is not searched; "" where it may be."""
    axis = [one for one in searched().values() if one.search and entry.search and one.search.axis == entry.search.axis]
    if knobs and not any(_names(knob, one) for knob in knobs for one in axis):
        return "not among the knobs"
    owner = OWNERS[entry.subject]
    if evidence.lookup(owner, entry.name) is None and entry.name not in UNSET:
        return "its value in this run is not known"
    reason = _why_no_use(entry, evidence, owner)
    if reason:
        return reason
    effect = effect_of(entry.name, evidence, owner)
    if effect not in UNCHANGED and effect not in allow:
        return f"it is {effect}: what is learned may change{_because(entry, effect, evidence, owner)}"
    return settable(entry.name, owner)


def _because(entry: SettingEntry, effect: Effect, evidence: Evidence, owner: str) -> str:
    """The facts about this script that give a setting this effect, in words; "" where it always has the effect."""
    conditions = [compile_expression(case.when) for case in entry.effect_when if case.effect is effect]
    held = [one.names for one in conditions if one.evaluate(lambda name: evidence.lookup(owner, name))[0] is True]
    values = {name: evidence.lookup(owner, name) for names in held for name in names}
    said = [value if isinstance(value, str) else _meaning(name) for name, value in values.items() if value]
    return f", as {' and '.join(said)}" if said else ""


def _meaning(name: str) -> str:
    facts = catalogue.facts()
    return facts[name].meaning if name in facts else catalogue.settings()[name].meaning


def _why_no_use(entry: SettingEntry, evidence: Evidence, owner: str) -> str:
    when = entry.search.when if entry.search else ""
    if not when:
        return ""
    answer, missing = compile_expression(when).evaluate(
        lambda name: value if (value := evidence.lookup(owner, name)) is not None else evidence.lookup(TRAIN, name)
    )
    if answer is None:
        return f"not known here: {', '.join(missing)}"
    return "" if answer or entry.search is None else f"only {entry.search.only}"


def _axis(name: str, usable: Sequence[SettingEntry], points: tuple[Point, ...], evidence: Evidence) -> Axis | None:
    """The axis of these settings; None where it would have one point."""
    current = _current(points, usable, evidence)
    if len(points) < 2 or current is None:
        return None
    owner = next((OWNERS[one.subject] for one in usable if one.subject != RUN), RUN)
    return Axis(name, owner, points, current, is_ordered=name in COMPUTED)


def _points(name: str, usable: Sequence[SettingEntry], evidence: Evidence) -> tuple[Point, ...]:
    if not usable:
        return ()
    if name in COMPUTED:
        return COMPUTED[name](evidence, {entry.name for entry in usable})
    (entry,) = usable
    values = entry.search.values if entry.search else ()
    return tuple({entry.name: value} for value in dict.fromkeys((*_now(entry, evidence), *values)))


def _now(entry: SettingEntry, evidence: Evidence) -> Iterator[Value]:
    value = evidence.lookup(OWNERS[entry.subject], entry.name)
    if value is not None:
        yield value


def _current(points: Sequence[Point], usable: Sequence[SettingEntry], evidence: Evidence) -> int | None:
    """The point of the baseline."""
    now = {entry.name: value for entry in usable for value in _now(entry, evidence)}
    return next((at for at, point in enumerate(points) if all(now.get(name) == point[name] for name in point)), None)


def _why_no_axis(entry: SettingEntry, usable: Sequence[SettingEntry], entries: Sequence[SettingEntry]) -> str:
    if entry.search and entry.search.values:
        return "it already has the value that could help"
    fixed = [one.name for one in entries if one not in usable and not (one.search and one.search.when)]
    return f"it can only change together with {', '.join(fixed)}" if fixed else "it has one possible value"
