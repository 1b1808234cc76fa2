"""Rows that modules compute and nobody uses, or that they compute several times, as those of a sequence that is
generated without a cache: what they cost, and where to look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from autotune.derive.lines import (
    NOWHERE,
    PRODUCTS,
    Cost,
    Frame,
    LineCosts,
    Place,
    collapsed,
    operation_words,
    place_name,
)
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording_sections import GrowingInput, ModuleRows

MOST_OF = 0.8
"""Of the samples of a module: the frame that so many share is its caller."""

AS_MUCH = 0.95
"""Of what the module with most would save: one around it saves the same."""

PICKS = ("index", "gather", "select", "slice", "masked", "where", "narrow", "take")
REPEATS = (("repeat", "tile"), ("expand", "index"))
"""Words in the names of operations that leave rows out, and that make more of them: the surer ones first."""


def facts(view: RecordingView, found: LineCosts) -> Iterator[Fact]:
    """Facts `discarded.*`, `repeated.*`, `repeated_in_dropout.*` and `growing.*`; nothing where no rows were
    compared."""
    compared = view.recording.lines.get("rows") if view.recording.lines else None
    if compared is None:
        return
    yield from _discarded(compared["rows"], found)
    modules = [row for row in compared["rows"] if "place" not in row]
    yield from _repeated("repeated", {row["name"]: row["repeated"] for row in modules}, found)
    in_dropout = {row["name"]: row["repeated_in_dropout"] for row in modules if "repeated_in_dropout" in row}
    yield from _repeated("repeated_in_dropout", in_dropout, found)
    if "growing" in compared:
        yield from _growing(compared["growing"], found)


def _discarded(rows: Sequence[ModuleRows], found: LineCosts) -> Iterator[Fact]:
    """Of what the modules that compute row by row take, the part for rows that get no gradient."""
    names = {row["name"] for row in rows if row["unused"] is not None}
    known = [(row, _costs(row, names, found)) for row in rows if row["unused"] is not None]
    shares = [(row["unused"] or 0.0, found.share(sum(cost.ms for cost in costs)), costs) for row, costs in known]
    total = sum(share for _, share, _ in shares)
    wasted = sum(unused * share for unused, share, _ in shares)
    if not total:
        return
    if found.recorded is not None and found.recorded.get("selected_by_value"):
        wasted = 0.0  # which rows are needed is known after all of them
    computed = [cost for unused, _, costs in shares if unused for cost in costs]
    place = _place(computed, found, (PICKS,)) or calling_line(computed, found)
    places = (Location(*place),) if place else ()
    yield Fact("discarded.share", RUN, wasted, places)
    yield Fact("discarded.model_share", RUN, wasted / total, places)
    if wasted:
        yield Fact("discarded.row_share", RUN, max(unused for unused, _, _ in shares))


def _repeated(fact: str, parts: Mapping[str, float | None], found: LineCosts) -> Iterator[Fact]:
    """The module whose repetitions cost most; `parts` are the shares of each module's rows that are repetitions."""
    shares = {name: part for name, part in parts.items() if part is not None}
    if not shares:
        return
    saved = {name: part * found.share(sum(cost.ms for cost in inside(name, found))) for name, part in shares.items()}
    most = max(saved.values())
    # Of modules in each other the outermost: it is what the script calls.
    name = min((name for name in saved if saved[name] >= AS_MUCH * most), key=lambda name: name.count("."))
    if not saved[name]:
        yield Fact(f"{fact}.share", RUN, 0.0)
        return
    costs = inside(name, found)
    place = _place(costs, found, REPEATS, is_line=True) or calling_line(costs, found, is_outside=True)
    yield Fact(f"{fact}.share", RUN, saved[name], (Location(*place),) if place else ())
    yield Fact(f"{fact}.module", RUN, collapsed(name))
    yield Fact(f"{fact}.row_share", RUN, shares[name])


def _growing(rows: Sequence[GrowingInput], found: LineCosts) -> Iterator[Fact]:
    """Facts `growing.*`: where, and how often, they are of the line that costs most."""
    at = [found.statement.place((row["file"], row["line"], "", 0)) for row in rows]
    shares = _shares(at, found)
    anew = [share * (1 - row["needed"] / row["elements"]) for share, row in zip(shares, rows, strict=True)]
    ranked = sorted(range(len(rows)), key=lambda index: -anew[index])
    places = tuple(Location(*at[index]) for index in ranked)
    yield Fact("growing.share", RUN, sum(anew), places)
    if ranked:
        row, place = rows[ranked[0]], at[ranked[0]]
        yield Fact("growing.where", RUN, place_name(*place, row["function"]), places)
        yield Fact("growing.again", RUN, row["elements"] / row["needed"], places)


def _shares(at: Sequence[Place], found: LineCosts) -> list[float]:
    """Of the step, what runs in each line or is called from there; of two lines of one stack the inner one has it."""
    spent: dict[Place, float] = defaultdict(float)
    for cost in found.costs:
        stack = (found.statement.place(one) for one in reversed(cost.seen.frames))
        spent[next((place for place in stack if place in at), NOWHERE)] += cost.ms
    return [found.share(spent[place]) for place in at]


def _costs(row: ModuleRows, names: Collection[str], found: LineCosts) -> list[Cost]:
    """Of a module; or, of a line that makes a product with a weight, the part of its products, without the modules with
    rows of their own that it calls (`names`)."""
    if "place" not in row:
        return inside(row["name"], found)
    place = found.statement.place((*row["place"], "", 0))
    traced = found.traced.get(place)
    part = sum(share for name, share in traced.operations if operation_words(name) & PRODUCTS) if traced else 1.0
    return [
        replace(cost, ms=cost.ms * part)
        for cost in found.costs
        if cost.seen.frames
        and found.statement.place(cost.seen.frames[-1]) == place
        and not (cost.seen.module and cost.seen.module in names)
    ]


def inside(name: str, found: LineCosts) -> list[Cost]:
    """The costs of a module and of those in it."""
    return [cost for cost in found.costs if is_in_module(name, cost)]


def is_in_module(name: str, cost: Cost) -> bool:
    return f"{cost.seen.module}.".startswith(f"{name}.")


def calling_line(costs: Sequence[Cost], found: LineCosts, *, is_outside: bool = False) -> Place | None:
    """The innermost line that most samples of `costs` share: it calls the module that they are in.

    `is_outside`: no line of a forward, which may be the module's own, where there is another.
    """
    common = _common(costs)
    if is_outside and len(common) > 1 and common[-1][2] == "forward":
        common = common[:-1]
    return found.statement.place(common[-1]) if common else None


def _common(costs: Sequence[Cost]) -> list[Frame]:
    """The frames that most samples of `costs` share, the innermost last."""
    stacks = [(cost.seen.frames, cost.ms) for cost in costs if cost.seen.count and cost.seen.frames]
    common: list[Frame] = []
    while stacks:
        weights: dict[tuple[str, int, str], float] = defaultdict(float)
        for frames, ms in stacks:
            if len(frames) > len(common):
                weights[frames[len(common)][:3]] += ms
        best = max(weights, key=lambda place: weights[place], default=None)
        if best is None or weights[best] < MOST_OF * sum(ms for _, ms in stacks):
            break
        depth = len(common)
        stacks = [(frames, ms) for frames, ms in stacks if len(frames) > depth and frames[depth][:3] == best]
        common.append(stacks[0][0][depth])
    return common


def _place(
    costs: Sequence[Cost], found: LineCosts, groups: Sequence[Sequence[str]], *, is_line: bool = False
) -> Place | None:
    """The line of the innermost common frame whose function has an operation with a word of the first of `groups` in
    its name, or (`is_line`) the line of that operation that does most; else of the next group. None without any."""
    common = _common(costs)
    if is_line and len(common) > 1 and common[-1][2] == "forward":
        common = common[:-1]  # the module's own: it gets rows that were repeated already
    for words in groups:
        for frame in reversed(common):
            lines = _lines_with(words, frame, found)
            if lines:
                return found.statement.place(max(lines)[1]) if is_line else found.statement.place(frame)
    return None


def _lines_with(words: Sequence[str], frame: Frame, found: LineCosts) -> list[tuple[int, Frame]]:
    """(ns, frame) of the lines of a function of the user's that start such operations. A method is known by its name
    and its first line: a file has several called forward."""
    starts = {
        one[3]
        for cost in found.costs
        for one in cost.seen.frames
        if one[0] == frame[0] and one[2] == frame[2] and one[3]
    }
    return [
        (row["op_ns"], (row["file"], row["line"], row["function"], 0))
        for row in (found.recorded["rows"] if found.recorded else ())
        if row["file"] == frame[0]
        and row["function"] == frame[2]
        and (not frame[3] or max((one for one in starts if one <= row["line"]), default=0) == frame[3])
        and any(word in name.split("::")[-1].lower() for name, _, _ in row["names"] for word in words)
    ]
