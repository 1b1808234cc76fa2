"""Findings -> recommendations: what belongs together is one, conflicts are resolved, the most saved comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from autotune.catalogue import settings
from autotune.model.evidence import RUN
from autotune.model.finding import Finding, Gain, Recommendation, SettingChange, speedup_without
from autotune.model.rule import Effect, Severity

Together = Callable[[Sequence[Finding]], Gain | None]
"""The gain of several findings' changes at once; None when none of them has a gain."""

LEAST_SHARE = 0.02
"""Of the step: a gain of less is within the noise of most runs, and a fault whose gain nobody knows may be more."""

HOPED_PART = 0.5
"""Of what a question asks about."""

TUNED_PART = 0.25
"""Of a gain whose rule yields to another one: if that part is more than the other gains, it goes first all the same."""

JUST_BELOW = 0.999
"""Of the gain that another rule yields to: it comes right behind."""

Key = tuple[object, ...]
Weight = Callable[[Finding], tuple[float, ...]]


def recommend(findings: Iterable[Finding], together: Together | None = None) -> tuple[Recommendation, ...]:
    """What to do, numbered from 1: first what is free and leaves training unchanged, then what the reader decides on.

    In both groups what is wrong (critical, without a gain) comes first, then what saves most, and what saves next to
    nothing last; a rule that yields to another one comes after it. `together` gives each recommendation what
    it adds to all earlier numbers; without it `after` stays None.
    """
    weighed = tuple(findings)
    weight = _weight(weighed)
    return ranked((_merged(group, weight) for group in _groups(weighed)), together)


def ranked(recommendations: Iterable[Recommendation], together: Together | None = None) -> tuple[Recommendation, ...]:
    """The recommendations in their order, numbered from 1."""
    every = tuple(recommendations)
    weight = _weight(finding for each in every for finding in each.findings)
    ordered = sorted(every, key=lambda each: _order(each, weight))
    numbered = tuple(replace(each, number=number) for number, each in enumerate(ordered, 1))
    return _with_after(numbered, together) if together is not None else numbered


def sort_by_gain(recommendations: Iterable[Recommendation]) -> tuple[Finding, ...]:
    """Their findings, what saves most first, whoever decides on it; those of one recommendation stay together."""
    every = tuple(recommendations)
    weight = _weight(finding for each in every for finding in each.findings)
    ordered = sorted(every, key=lambda each: _order(each, weight)[1:])
    return tuple(finding for each in ordered for finding in each.findings)


def _groups(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that touch the same setting at the same place, or are one rule at one place, are one group."""
    groups: list[tuple[set[Key], list[Finding]]] = []
    for finding in findings:
        keys, members = _keys(finding), [finding]
        apart = []
        for group in groups:
            if group[0] & keys:
                keys, members = keys | group[0], group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (keys, members)]
    return [members for _, members in groups]


def _keys(finding: Finding) -> set[Key]:
    keys: set[Key] = {_place(finding, change) for change in finding.changes}
    if finding.rule.cause:
        keys.add((finding.rule.cause, finding.subject))
    return keys | {(finding.rule.id, finding.location)} if finding.location is not None else keys


def _place(finding: Finding, change: SettingChange) -> Key:
    """One edit is one place: two loaders that one call makes share it."""
    owner = RUN if settings()[change.setting].subject == RUN else finding.subject
    return change.setting, change.location or owner


def _merged(group: Sequence[Finding], weight: Weight) -> Recommendation:
    members = sorted(group, key=weight)
    changes = _changes(members)
    gain = next((member.gain for member in members if member.gain is not None), None)
    effect = max((change.effect for change in changes), key=lambda each: each.rank, default=Effect.MANUAL)
    return Recommendation(number=0, findings=tuple(members), changes=changes, effect=effect, gain=gain)


def _changes(members: Sequence[Finding]) -> tuple[SettingChange, ...]:
    """The changes of the weightiest finding, and of every other that contradicts none of them.

    Of one that does, nothing is taken: its changes may only hold together (micro-batch and accumulation).
    """
    taken: dict[Key, SettingChange] = {}
    for finding in members:
        own = {_place(finding, change): change for change in finding.changes}
        if all(taken[key].new == change.new for key, change in own.items() if key in taken):
            taken = own | taken
    return tuple(taken.values())


def _weight(findings: Iterable[Finding]) -> Weight:
    """Sorts findings: the larger gain first, then those without one, then what gains next to nothing; then by severity.

    Gains are held beside each other in seconds where each is known in seconds, and else as shares of the step. A
    question stands where it would if a part of what it asks about could be saved.
    """
    every = tuple(findings)
    asks = any(each.asked_share is not None for each in every)
    in_seconds = not asks and all(each.gain.saved_s is not None for each in every if each.gain is not None)

    def saved(finding: Finding) -> float | None:
        if finding.asked_share is not None:
            return HOPED_PART * finding.asked_share
        if finding.gain is None:
            return None
        return finding.gain.saved_s if in_seconds and finding.gain.saved_s is not None else finding.gain.share

    def weight(finding: Finding) -> tuple[float, float, int]:
        own, severity = saved(finding), finding.rule.severity.rank
        if own is None:
            return 1.0, 0.0, severity
        before = [other for each in every if each.rule.id in finding.rule.yields_to and (other := saved(each))]
        if before and TUNED_PART * own <= max(before):
            own = min(own, JUST_BELOW * max(before))
        is_little = finding.gain is not None and finding.gain.share < LEAST_SHARE
        return (2.0 if is_little else 0.0), -own, severity

    return weight


def _order(recommendation: Recommendation, weight: Weight) -> tuple[bool, bool, tuple[float, ...], str]:
    first = recommendation.first
    is_wrong = any(each.rule.severity is Severity.CRITICAL and each.gain is None for each in recommendation.findings)
    return not recommendation.is_free, not is_wrong, weight(first), first.rule.id


def _with_after(numbered: Sequence[Recommendation], together: Together) -> tuple[Recommendation, ...]:
    done: list[Finding] = []
    before: Gain | None = None
    result = []
    for each in numbered:
        done.extend(each.findings)
        total = together(done)
        after = _added(before, total, each.gain) if total is not None and each.gain is not None else None
        result.append(replace(each, after=after))
        before = total
    return tuple(result)


def _added(before: Gain | None, total: Gain, own: Gain) -> Gain:
    """What one recommendation adds to all earlier ones, as a share of today's step: such shares sum to the total's.

    Its interval is as wide, relative to what it removes, as it is by itself.
    """
    if before is None:
        return own
    removed = 1 / before.speedup - 1 / total.speedup
    scale = removed / own.share if own.share else 0.0
    # Where the others leave it no gain but a loss, the ends change places.
    low, *_, high = sorted((removed, scale * (1 - 1 / own.low), scale * (1 - 1 / own.high)))
    saved = None
    if total.saved_s is not None and before.saved_s is not None:
        saved = total.saved_s - before.saved_s
    speedup, low, high = speedup_without(removed), speedup_without(low), speedup_without(high)
    return Gain(speedup, low, high, own.basis, saved, own.note)
