"""Replays of kept batches: as the script is, with one setting of torch changed, and of half the width."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from msgspec import Struct

from autotune.derive import preparation_time
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.derive.step import micro_batches
from autotune.derive.summary_statistics import median_interval
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import WhatIf

RESIZED = ("micro_batch", "narrow_batch")
"""Batches of another size, of the train loader alone."""


SAME = 1

LEAST_FOLLOWING = 0.9
"""Of what the models were given of a sample, where there are more samples: the rest may be masks and weights."""

LEAST_CALM = 3
LEAST_ROUNDS = 2

MOST_SPREAD = 10.0
"""Replays that leave a ratio open by more than that factor tell nothing: other programs came and went meanwhile."""

AS_IT_IS = {"float64": True}
"""As it is, but looked through for float64, which takes time: what runs without float64 is looked through as well."""

_SWITCHES = {
    "deterministic": "replay.determinism_share",
    "anomaly": "replay.anomaly_share",
    "memory_tracing": "replay.memory_tracing_share",
}


class BaselineReplay(Struct, frozen=True):
    """Milliseconds of each step and of each update, as the script is; no update where none was seen."""

    steps: Sequence[float]
    updates: Sequence[float]


class ReplayRound(Struct, frozen=True):
    """A replay with one setting changed, and the one as the script is of the same round; None without rounds."""

    changed: WhatIf
    before: WhatIf | None

    @property
    def threads(self) -> int:
        return int(self.changed.arguments["threads"])


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `replay.*`; nothing but that there is none when nothing was replayed, or tried."""
    interval = median_interval(steps_ns(view))
    if view.window is not None:
        yield Fact("replay.was_measured", RUN, interval is not None)
        yield Fact("replay.determinism_was_tried", RUN, bool(rounds(view, "deterministic")))
        yield Fact("replay.more_threads_were_tried", RUN, any(_is_more(view, n) for n in _threads_tried(view)))
    if interval is not None:
        yield Fact("replay.step_ms", RUN, median(steps_ns(view)) / MS)
        yield Fact("replay.low_ms", RUN, interval[0] / MS)
        yield Fact("replay.high_ms", RUN, interval[1] / MS)
        yield from _narrow(view)
    beside = [w.result.get("other_cpus") for name in ("replay", "replay_changed") for w in completed(view, name)]
    if known := [cpus for cpus in beside if cpus is not None]:
        yield Fact("replay.other_cpus", RUN, median(known))
    as_is = _as_is_ms(view)
    if as_is is not None:
        yield from _fused(view, as_is.updates)
        yield from _freed(view, as_is.steps)
        yield from _threads(view, as_is.steps)


def _as_is_ms(view: RecordingView) -> BaselineReplay | None:
    """A step and its update beside which changed ones are held: of the replay, or else of the window.

    Without a loader there is nothing to replay, and the changed steps are the script's own as well.
    """
    if steps_ns(view):
        updates = [ns for what_if in completed(view, "replay") for ns in what_if.result.get("update_ns", ())]
        return BaselineReplay(_ms(steps_ns(view)), _ms(updates))
    if view.window is None or view.train is not None:
        return None
    calm, update = quiet_ms(view, view.window), view.window.phase_ms("optimizer")
    return BaselineReplay(calm, () if update is None else (update,)) if len(calm) >= LEAST_CALM else None


def quiet_ms(view: RecordingView, window: MeasuredWindow) -> list[float]:
    """Steps of the window as the changed ones are counted: without waits and logging, and none with more in it."""
    stops = [node.start_ns for kind in ("checkpoint", "evaluation") for node, _ in view.in_window(kind)]
    stops += [span.start_ns for span in view.evaluations]
    waits = [(node.start_ns, own) for kind in ("iter", "fetch", "logging") for node, own in view.in_window(kind)]
    waited = view.per_step([at for at, _ in waits], [own for _, own in waits])
    steps = zip(window.step_ms, waited, view.per_step(stops), strict=False)
    return [ms - own / MS for ms, own, stopped in steps if not stopped]


def _ms(spans_ns: Sequence[int]) -> tuple[float, ...]:
    return tuple(ns / MS for ns in spans_ns)


def completed(view: RecordingView, name: str) -> list[WhatIf]:
    """The what-ifs of that name that brought something."""
    return [w for w in was_replayed(view, name) if w.outcome == "completed"]


def was_replayed(view: RecordingView, name: str) -> list[WhatIf]:
    """The what-ifs of that name; none of other sizes where a step also has inputs of the same size as before."""
    if name in RESIZED and _has_other_inputs(view):
        return []
    return [w for w in view.recording.what_ifs if w.name == name]


def _has_other_inputs(view: RecordingView) -> bool:
    """Whether a second loader gives each step a batch, which was whole, or the models' input grew less than the batch,
    as in a script that also draws from a memory of earlier samples."""
    if any(loader.joins and not loader.is_train for loader in view.loaders):
        return True
    sizes: dict[float, list[float]] = {}
    for what_if in view.recording.what_ifs:
        per_unit = _elements_per_unit(what_if) if what_if.name in ("replay", "micro_batch") else None
        if per_unit is not None:
            sizes.setdefault(what_if.arguments.get("factor", SAME), []).append(per_unit)
    if SAME not in sizes:
        return False
    least = LEAST_FOLLOWING * fmean(sizes[SAME])
    return any(factor > SAME and fmean(each) < least for factor, each in sizes.items())


def _elements_per_unit(what_if: WhatIf) -> float | None:
    """Elements that the models were given of each token, or sample, of the batch."""
    elements = what_if.result.get("input_elements")
    units = what_if.result.get("tokens") or what_if.result.get("samples")
    return elements / units if elements and units else None


def steps_ns(view: RecordingView) -> list[int]:
    """Each step of the replay as the script is."""
    return [ns for what_if in completed(view, "replay") for ns in what_if.result.get("step_ns", ())]


def rounds(view: RecordingView, name: str) -> list[ReplayRound]:
    """The replays with setting `name` changed, each with the one as it is that came last before it in its round."""
    as_is = AS_IT_IS if name in AS_IT_IS else {}
    turns, before = [], None
    for what_if in completed(view, "replay_changed"):
        if not what_if.result["step_ns"]:
            continue
        if what_if.arguments == as_is:
            before = what_if
        elif name in what_if.arguments:
            turns.append(ReplayRound(what_if, before))
    return turns


def _ratio(turns: Sequence[ReplayRound], as_is_ms: Sequence[float], key: str = "step_ns") -> float | None:
    """Time changed / as it is: the median over the rounds, so that one round in which the machine was slow is none."""
    ratios = [ratio for ratio, _ in _ratios(turns, as_is_ms, key)]
    return median(ratios) if ratios else None


def _ratios(turns: Sequence[ReplayRound], as_is_ms: Sequence[float], key: str = "step_ns") -> list[tuple[float, float]]:
    """Of each round, with the factor by which it is open; nothing where most are open by more than MOST_SPREAD."""
    found = []
    for turn in turns:
        changed, as_is = _ms(turn.changed.result[key]), _ms(turn.before.result[key]) if turn.before else as_is_ms
        if changed and as_is and median(changed) > 0 and median(as_is) > 0:
            found.append((median(changed) / median(as_is), _spread(changed) * _spread(as_is)))
    return found if found and median(spread for _, spread in found) <= MOST_SPREAD else []


def _spread(values: Sequence[float]) -> float:
    """Upper end / lower end of the 90 % interval of the median; of fewer than three values all of them count."""
    low, high = median_interval(values) or (min(values), max(values))
    return high / low if low > 0 else math.inf


def _saved(ratio: float) -> float:
    return max(0.0, 1 - ratio)


def _fused(view: RecordingView, as_is_ms: Sequence[float]) -> Iterator[Fact]:
    if ratios := _ratios(rounds(view, "fused"), as_is_ms, "update_ns"):
        yield Fact("replay.fused_ratio", RUN, 1 / median(ratio for ratio, _ in ratios))
        yield Fact("replay.fused_spread", RUN, math.sqrt(median(spread for _, spread in ratios)))


def _freed(view: RecordingView, as_is_ms: Sequence[float]) -> Iterator[Fact]:
    """Each switch off, beside as it is. A profiler's schedule may record some steps only, and write after some."""
    for switch, name in _SWITCHES.items():
        ratio = _ratio(rounds(view, switch), as_is_ms)
        if ratio is not None:
            yield Fact(name, RUN, _saved(ratio))
    if ratios := _ratios(rounds(view, "deterministic"), as_is_ms):
        yield Fact("replay.determinism_least_share", RUN, _saved(max(ratio for ratio, _ in ratios)))
    for turn in rounds(view, "profiler"):
        yield Fact("replay.profiler_share", RUN, _saved(fmean(_ms(turn.changed.result["step_ns"])) / fmean(as_is_ms)))


def saved_without(view: RecordingView, name: str) -> tuple[float, float] | None:
    """What the replays without it save of a step: the median of the rounds, and the least.

    A single round has nothing beside it that shows how far a step scatters: it says nothing.
    """
    ratios = [ratio for ratio, _ in _ratios([turn for turn in rounds(view, name) if turn.before], ())]
    return (_saved(median(ratios)), _saved(max(ratios))) if len(ratios) >= LEAST_ROUNDS else None


def _threads_tried(view: RecordingView) -> set[int]:
    """Numbers of threads that the script does not have."""
    return {turn.threads for turn in rounds(view, "threads")}


def _is_more(view: RecordingView, threads: int) -> bool:
    """Than the script has, where that is known."""
    now = view.recording.torch_state.get("num_threads")
    return now is not None and threads > now


def _threads(view: RecordingView, as_is_ms: Sequence[float]) -> Iterator[Fact]:
    """Of one thread, and of as many as there are CPUs; what the script has is what they are held beside."""
    turns, step_ms = rounds(view, "threads"), median(as_is_ms)
    ratios = {n: _ratios([turn for turn in turns if turn.threads == n], as_is_ms) for n in _threads_tried(view)}
    tried = {threads: median(ratio for ratio, _ in each) for threads, each in ratios.items() if each}
    if not tried or step_ms <= 0:
        return
    most = max(tried)
    # A script with few threads is not asked to have fewer; to have fewer, each round has to show what it saves.
    least = min(max(ratio for ratio, _ in ratios[threads]) for threads in tried)
    best = tried[most] + _delay_ms(view, most) / step_ms if _is_more(view, most) else least
    yield Fact("replay.threads_share", RUN, _saved(best))
    now = view.recording.torch_state.get("num_threads")
    if now is not None:
        yield Fact(
            "replay.best_threads", RUN, min((ratio, threads) for threads, ratio in {now: 1.0, **tried}.items())[1]
        )
    if 1 in tried:
        yield Fact("replay.one_thread_ms", RUN, tried[1] * step_ms)
    if most > 1:
        yield Fact("replay.most_threads", RUN, most)
        yield Fact("replay.most_threads_ms", RUN, tried[most] * step_ms)


def _delay_ms(view: RecordingView, threads: int) -> float:
    """How long the workers of a step keep each CPU that they run on. Threads on all CPUs end when the last one does."""
    train = view.train
    taken = preparation_time.worker_cpu_ms(view, train) if train is not None else None
    return taken / min(train.num_workers or 1, threads) if train is not None and taken is not None else 0.0


def _narrow(view: RecordingView) -> Iterator[Fact]:
    """Micro-batches of half the width beside whole ones, batch by batch."""
    whole = micro_ms(view)
    for what_if in completed(view, "narrow_batch"):
        pairs = list(zip(what_if.result.get("micro_ns", ()), whole, strict=False))
        if pairs and all(ms > 0 for _, ms in pairs):
            yield Fact("batch_curve.narrow_ratio", RUN, median(ns / MS / ms for ns, ms in pairs))


def micro_ms(view: RecordingView) -> list[float]:
    """Milliseconds of today's micro-batch in each step of the replay: without the update, which comes once a step.

    A Recording of an earlier version holds whole steps, and what else came once a step counts as a part of them.
    """
    per_step = micro_batches(view)
    return [
        ns / MS
        for what_if in completed(view, "replay")
        for ns in what_if.result.get("micro_ns") or _split(what_if, per_step)
    ]


def _split(replay: WhatIf, per_step: float | None) -> list[float]:
    steps = zip(replay.result["step_ns"], replay.result.get("update_ns", ()), strict=False)
    return [(step - update) / per_step for step, update in steps] if per_step else []
