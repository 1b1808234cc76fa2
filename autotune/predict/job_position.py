"""Where a running job is, in optimizer steps: a bar may count micro-batches, or the batches of one epoch."""

from __future__ import annotations

from msgspec import Struct

from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN, Evidence
from autotune.model.outlook import Position, ProgressLine
from autotune.predict.gain_inputs import TRAIN, number

LIKE_SHARE = 0.01
"""Two lengths that differ by less are the same: a last batch that is dropped, a step that is rounded."""

DIFFERS, FOREIGN = 1.2, 3.0
"""How many times longer or shorter than the measured step the line's is: worth a word, and of another run."""


class _Lengths(Struct, frozen=True):
    """Of the planned run: optimizer steps, epochs, batches of an epoch, micro-batches a step; None is unknown."""

    steps: float | None
    epochs: float | None
    batches: float | None
    per_step: float | None
    step_s: float | None


def position(line: ProgressLine, evidence: Evidence) -> Position | str:
    """Where the job is that printed `line`, or why that cannot be told.

    The line's own rate counts where its numbers add up: it is of the whole job, saves and evaluation included.
    """
    lengths = _lengths(evidence)
    if line.step is None:
        return _by_epochs(line.epochs_done or 0.0, lengths)
    if line.total is None:
        return _of_known_length(line, lengths)
    if lengths.steps and _like(line.total, lengths.steps):
        return _placed(line, line.step, line.total, 1, lengths)
    if lengths.steps and lengths.per_step and _like(line.total, lengths.steps * lengths.per_step):
        return _placed(line, line.step, line.total, lengths.per_step, lengths, ("its bar counts micro-batches",))
    if lengths.batches and _like(line.total, lengths.batches):
        return _in_epoch(line, evidence, lengths)
    return _of_another_length(line, lengths)


def shown_step_s(line: ProgressLine, evidence: Evidence) -> float | None:
    """Seconds of an optimizer step by the line's own rate; None where it has none, or its numbers do not add up."""
    if not line.step_s or not line.adds_up:
        return None
    lengths, total = _lengths(evidence), line.total or 0
    is_of_steps = bool(lengths.steps) and _like(total, lengths.steps or 0.0)
    of_micro_batches = (lengths.batches, lengths.steps and lengths.per_step and lengths.steps * lengths.per_step)
    is_of_micro_batches = not is_of_steps and any(known and _like(total, known) for known in of_micro_batches)
    return line.step_s * (lengths.per_step or 1.0) if is_of_micro_batches else line.step_s


def _lengths(evidence: Evidence) -> _Lengths:
    return _Lengths(
        steps=number(evidence, RUN, "run.num_planned_steps"),
        epochs=number(evidence, RUN, "run.num_planned_epochs"),
        batches=number(evidence, TRAIN, "loader.num_batches"),
        per_step=number(evidence, RUN, "train.accumulation_steps") or number(evidence, RUN, "step.num_micro_batches"),
        step_s=_seconds(number(evidence, RUN, "run.step_ms") or number(evidence, RUN, "step.mean_ms")),
    )


def _by_epochs(done: float, lengths: _Lengths) -> Position | str:
    if not lengths.steps or not lengths.epochs or not lengths.step_s:
        return 'the line has only the epoch, and the number of steps per epoch is unknown: write "step N/M"'
    step = round(min(1.0, done / lengths.epochs) * lengths.steps)
    return Position(step, round(lengths.steps), lengths.step_s, (f"epoch {done:g} of {lengths.epochs:g}",))


def _of_known_length(line: ProgressLine, lengths: _Lengths) -> Position | str:
    if not lengths.steps:
        return 'neither the line nor the script gives the length of the run: write "step N/M"'
    if line.step is None or line.step > lengths.steps:
        return f"the line is beyond the {lengths.steps:,.0f} planned steps: does it belong to another run?"
    return _placed(line, line.step, lengths.steps, 1, lengths)


def _in_epoch(line: ProgressLine, evidence: Evidence, lengths: _Lengths) -> Position | str:
    """The number of the first epoch is that of the framework; where that is not known, most start at 1."""
    if line.epoch is None or line.step is None or not lengths.steps or not lengths.per_step or not lengths.batches:
        return 'its bar counts the batches of one epoch, and the epoch is unknown: write "step N/M"'
    framework = frameworks().get(str(evidence.lookup(RUN, "run.framework")))
    first = 0 if line.epoch == 0 else framework.first_epoch if framework is not None else 1
    batches = (line.epoch - first) * lengths.batches + line.step
    if batches > lengths.steps * lengths.per_step * (1 + LIKE_SHARE):
        return f"epoch {line.epoch} is beyond the planned run: does it belong to another run?"
    notes = (f"its bar counts batches of epoch {line.epoch}, the first being {first}",)
    return _placed(line, batches, lengths.steps * lengths.per_step, lengths.per_step, lengths, notes)


def _of_another_length(line: ProgressLine, lengths: _Lengths) -> Position | str:
    """The line is of the job that runs, the plan of the one that was measured: the line is believed."""
    plan = f"the measured command plans {lengths.steps:,.0f} steps: is it the same run?" if lengths.steps else ""
    notes = (plan,) if plan else ()
    return _placed(line, line.step or 0, line.total or 0, 1, lengths, notes)


def _placed(
    line: ProgressLine, step: float, total: float, per_step: float, lengths: _Lengths, notes: tuple[str, ...] = ()
) -> Position | str:
    """`step` of `total` of the bar, `per_step` of which make an optimizer step."""
    if not line.adds_up:
        notes = (*notes, "the remaining time in the line contradicts its rate: the measured step time is used instead")
    own_s = line.step_s * per_step if line.step_s and line.adds_up else None
    step_s = own_s or lengths.step_s
    if step_s is None:
        return "neither the line nor this run gives the step time"
    times = max(own_s / lengths.step_s, lengths.step_s / own_s) if own_s and lengths.step_s else 1.0
    rates = f"{own_s or 0:.3g} s per step; measured here: {lengths.step_s or 0:.3g} s"
    if times > FOREIGN:
        return f"the line belongs to another run, or its bar counts something else: {rates}"
    if times > DIFFERS:
        notes = (*notes, f"the rate in the line is used: {rates}")
    return Position(min(round(step / per_step), round(total / per_step)), round(total / per_step), step_s, notes)


def _like(a: float, b: float) -> bool:
    return abs(a - b) <= max(1.0, LIKE_SHARE * max(a, b))


def _seconds(ms: float | None) -> float | None:
    return ms / 1000 if ms else None
