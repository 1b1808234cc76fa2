"""The window as facts: exclusive times per optimizer step, throughput, noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from autotune.derive import busy_cpus, line_table
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView, S
from autotune.derive.summary_statistics import mean, mean_interval, quantile
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Batch
from autotune.model.report import PHASES, Frame, Step

COMPUTE = ("forward", "recompute", "backward", "optimizer")
NUM_FRAMES = 5


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `step.*`; nothing but the first step's when no step was measured."""
    for name, value in _values(view).items():
        if value is not None:
            yield Fact(f"step.{name}", RUN, value)


def step(view: RecordingView, run_ms: float | None) -> Step | None:
    """The measured window for the report, with a step of the whole run; None when there was no window."""
    window = view.window
    if window is None:
        return None
    return Step(
        steps=window.steps,
        mean_ms=window.mean_ms,
        median_ms=quantile(_durations_ms(window), 0.5),
        p90_ms=quantile(_durations_ms(window), 0.9),
        breakdown_ms={phase: window.phase_ms(phase) for phase in PHASES},
        other=frames(view),
        lines=line_table.table(view),
        run_ms=run_ms,
        **throughput(view),
    )


def _values(view: RecordingView) -> Mapping[str, int | float | None]:
    window = view.window
    if window is None:
        return {"first_ms": first_ms(view)}
    values: dict[str, int | float | None] = {
        "num_steps": window.steps,
        "mean_ms": window.mean_ms,
        "median_ms": quantile(_durations_ms(window), 0.5),
        "p90_ms": quantile(_durations_ms(window), 0.9),
        "first_ms": first_ms(view),
        "num_micro_batches": micro_batches(view),
        "num_averaged": _num_averaged(view, window),
        "noise_share": noise_share(window),
    }
    for phase in (*PHASES, "compute"):
        ms = compute_ms(window) if phase == "compute" else window.phase_ms(phase)
        values[f"{phase}_share"] = None if ms is None else ms / window.mean_ms
    return {**values, **throughput(view)}


def _num_averaged(view: RecordingView, window: MeasuredWindow) -> float | None:
    """Micro-batches per step whose gradients DDP averages; None with several optimizers, which take turns."""
    backwards = view.recording.torch_state.get("averaged_backwards")
    return backwards / window.steps if backwards is not None and len(view.recording.optimizers) == 1 else None


def _durations_ms(window: MeasuredWindow) -> tuple[float, ...]:
    return window.step_ms or (window.mean_ms,)


def first_ms(view: RecordingView) -> float | None:
    """From the first training fetch, or else the first training forward, to the end of the first step."""
    if not view.step_ends_ns:
        return None
    train = view.train.ids if view.train else frozenset()
    starts = (
        node.start_ns
        for node in view.nodes
        if not view.is_evaluation(node.start_ns)
        and (node.event.kind == "forward" or (node.event.kind in ("iter", "fetch") and node.event.ref in train))
    )
    start = next(starts, None)
    return None if start is None or start >= view.step_ends_ns[0] else (view.step_ends_ns[0] - start) / MS


def micro_batches(view: RecordingView) -> float | None:
    """Backwards per step, without those that activation checkpointing starts inside another; None without any."""
    count = sum(node.outermost for node, _ in view.in_window("backward"))
    return count / view.window.steps if view.window and count else None


def compute_ms(window: MeasuredWindow) -> float | None:
    """Forward, recompute, backward and optimizer per step; None when neither forward nor backward was seen."""
    known = {phase: window.phase_ms(phase) for phase in COMPUTE}
    if known["forward"] is None and known["backward"] is None:
        return None
    return sum(ms for ms in known.values() if ms is not None)


def noise_share(window: MeasuredWindow) -> float | None:
    """Half width of the 90 % interval of the mean step, of the mean; None under three steps."""
    interval = mean_interval(window.step_ms)
    return None if interval is None else (interval[1] - interval[0]) / 2 / window.mean_ms


def throughput(view: RecordingView) -> dict[str, float | None]:
    """Samples and tokens per second: batches fetched in the window x what a batch holds on average."""
    per_s = _batches_per_s(view)
    batches = train_batches(view)
    return {
        "samples_per_s": _product(per_s, mean(b.num_samples for b in batches if b.num_samples is not None)),
        "tokens_per_s": _product(per_s, mean(b.tokens for b in batches if b.tokens is not None)),
        "useful_tokens_per_s": _product(per_s, mean(b.useful_tokens for b in batches if b.useful_tokens is not None)),
    }


def train_batches(view: RecordingView) -> list[Batch]:
    """The batches of loader#train that were looked at."""
    ids = view.train.ids if view.train else frozenset()
    return [batch for batch in view.recording.batches if batch.loader in ids]


def _batches_per_s(view: RecordingView) -> float | None:
    fetched = len(view.train_fetches())
    return fetched / (view.window.wall_ns / S) if view.window and fetched else None


def _product(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


def frames(view: RecordingView) -> tuple[Frame, ...]:
    """The places that fill "other", most first: its share of the step, divided by the stack samples."""
    window = view.window
    samples = [sample for sample in view.recording.samples if sample.phase == "other"]
    total = sum(sample.count for sample in samples)
    if window is None or not total:
        return ()
    share = window.parts.phase_ns["other"] / window.wall_ns
    counts: Counter[tuple[str, int, str]] = Counter()
    for sample in samples:
        counts[busy_cpus.place_of(sample)] += sample.count
    busy = busy_cpus.by_place(samples)
    return tuple(Frame(*at, share * count / total, busy.get(at)) for at, count in counts.most_common(NUM_FRAMES))
