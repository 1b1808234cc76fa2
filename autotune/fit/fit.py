"""fit: from a command, or a stored diagnosis, to which cards its training step fits into.

1. Start the script under the probe: it trains for a few steps on fake tensors, which take no memory.
2. Add what CUDA takes beside the script's tensors; divide what several cards share.
3. Hold it against the memory of each card, and say time and price where they can be known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune import collect, machine, requirements
from autotune.catalogue.devices import Device
from autotune.collect import artefacts, lock, progress, stale_runs
from autotune.collect.request import FitPlan
from autotune.diagnose import outcome
from autotune.errors import UsageError
from autotune.fit import budget, step_time
from autotune.fit.memory_need import largest_micro_batch, of_step
from autotune.fit.prices import PriceList
from autotune.fit.sharding import Shards, gradient_bytes, keeps_fp32
from autotune.history import results
from autotune.invocation import invoked
from autotune.invocation.redacted import shown
from autotune.model.fitted import CardAnswer, CardFit, Fitted, FitVerdict, MemoryNeed, Sharding
from autotune.model.outlook import ValueRange
from autotune.model.recording import FitRecord, FitStep, Recording

MOST_NAMED = 3
"""So many cards, and places of made-up values, are named; the others are counted."""

WHOLE_NUMBER = "1"
"""What a line that reads a whole number of a tensor gets."""

Show = Callable[[progress.Status], None]

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""For the script's process: whatever asks CUDA itself finds no card, and touches none."""

STEPS_WITHOUT_LENGTH = 1000
"""Times and prices are of so many steps where the length of the run was not told."""


class FitOptions(Struct, frozen=True):
    """What the user asked for. `words` are the script and its arguments, or a whole command.

    `batches` are samples of a micro-batch, `lengths` tokens of a sequence; empty ones ask for the script's own.
    `run_steps` None is unknown; `sharding` says what `num_devices` cards share, None with one.
    """

    words: tuple[str, ...]
    cards: tuple[Device, ...]
    batches: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    num_devices: int = 1
    sharding: Sharding | None = None
    run_steps: int | None = None
    prices: PriceList = PriceList()
    python: str | None = None
    lock: bool = True
    stdout: int | None = None
    startup_limit_s: float = 1800.0


def fit(options: FitOptions, show: Show, *, cwd: Path, environ: Mapping[str, str] = os.environ) -> Fitted:
    """Run the command on fake tensors and say which cards its step fits into.

    Raises UsageError and BusyError before anything was started, ScriptError when the script failed by itself.
    """
    requirements.check()
    began = time.monotonic()
    collected, root = _collect(options, show, cwd, environ)
    recording = next((one for one in collected.recordings if one.fit is not None and one.fit.began), None)
    if recording is None:
        ended = outcome.summarise(collected, options.words, "", "", False, cwd)
        outcome.check(replace(ended, outcome="no_step" if ended.outcome == "completed" else ended.outcome), collected)
        raise UsageError("its process ended before it told anything", where=" ".join(options.words[:2]))
    record = recording.fit
    assert record is not None
    command = shown(options.words, cwd, recording.process["argv"])
    seconds = time.monotonic() - began
    run = collected.folder.name
    if record.steps:
        answers = tuple(answer(card, record, options) for card in options.cards)
        found = _fitted(command, answers, options, seconds)
        found = replace(found, notes=(*notes(recording, record, options, root), *options.prices.notes), run=run)
    else:
        why, to_do = _broken(recording, record, root)
        found = replace(_fitted(command, (), options, seconds), why_not=why, to_do=to_do, run=run)
    results.save_fit(collected.folder, found)
    return found


def _fitted(command: tuple[str, ...], cards: tuple[CardAnswer, ...], options: FitOptions, seconds: float) -> Fitted:
    """An answer by fake steps, as of today."""
    return Fitted(
        command=command,
        basis="fake steps",
        cards=cards,
        num_devices=options.num_devices,
        sharding=options.sharding,
        steps=_steps(options),
        seconds=seconds,
        day=_today(),
    )


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def load(name: str, options: FitOptions, *, cwd: Path) -> Fitted:
    """The same from the memory budget of a stored diagnosis: coarser, and it starts nothing.

    Raises UsageError where the run is not there, or has no memory budget.
    """
    began = time.monotonic()
    found = budget.read(name, cwd)
    cards = tuple(
        _answer_of_needs(card, [budget.need(found, size) for size in options.batches or (found.samples,)], options)
        for card in options.cards
    )
    return Fitted(
        found.command,
        "memory budget",
        cards,
        1,
        None,
        _steps(options),
        time.monotonic() - began,
        (*found.notes, *options.prices.notes),
        day=_today(),
    )


def _collect(options: FitOptions, show: Show, cwd: Path, environ: Mapping[str, str]) -> tuple[collect.Collected, Path]:
    python, _ = machine.find_python(options.words, options.python, environ, cwd)
    command = collect.plan_command(options.words, python, cwd, environ)
    command = replace(command, variables={**command.variables, **NO_GPU})
    root = artefacts.command_root(cwd, command.script)
    stale_runs.remove_leftovers(root)
    first = options.cards[0]
    plan = FitPlan(first.title, first.memory_bytes, first.capability or (9, 0), options.batches, options.lengths)
    request = collect.Request(fit=plan, startup_limit_s=options.startup_limit_s)
    with lock.one_measurement(invoked(options.words, cwd).title) if options.lock else nullcontext():
        folder = artefacts.new_run(root)
        show(progress.Status())
        collected = collect.collect(
            request, command, folder, cwd=cwd, environ=environ, show=show, stdout=options.stdout, protected=root
        )
    return collected, root


def _broken(recording: Recording, record: FitRecord, root: Path) -> tuple[str, str]:
    """Why no fake step came to its end, with the line, and what is left to do."""
    to_do = "Measure it where it runs (autotune diagnose), then: autotune fit --load last."
    if record.breaks:
        last = record.breaks[-1]
        where = f"{_relative(last.site['file'], root)}:{last.site['line']}"
        return f"{where}: {last.operator} cannot run without data ({last.reason})", to_do
    error = recording.error
    if error is not None:
        own = [frame for frame in error["traceback"] if frame.startswith(str(root))]
        frame = (own or list(error["traceback"]) or ["an unknown line"])[-1]
        return f"{_relative(frame, root)}: {error['type']} on tensors without data", to_do
    return "the script ended before its first optimizer step on tensors without data", to_do


def _relative(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}{os.sep}")


def answer(card: Device, record: FitRecord, options: FitOptions) -> CardAnswer:
    """What the recorded steps need of `card`: those of the sizes that were asked for, and the largest micro-batch."""
    shards = Shards(options.num_devices, options.sharding) if options.sharding is not None else None
    steps = _by_size(record)
    asked = [step for step in steps if _is_asked(step, record, options)]
    rows = tuple(_row(card, of_step(step, record, card, shards), step, options) for step in asked)
    of_length = [step for step in steps if step.length == _length_of_largest(record, options)]
    is_known = not any(_lacks_bf16(card, step) for step in of_length)
    largest = largest_micro_batch(of_length, record, card, shards) if is_known else None
    return _card(card, rows, largest, options)


def _length_of_largest(record: FitRecord, options: FitOptions) -> int | None:
    """The length that the largest micro-batch is of: the longest one asked for, else the script's own."""
    return max(options.lengths) if options.lengths else record.steps[0].length


def _answer_of_needs(card: Device, needs: list[MemoryNeed], options: FitOptions) -> CardAnswer:
    return _card(card, tuple(_row(card, need, None, options) for need in needs), None, options)


def _card(card: Device, rows: tuple[CardFit, ...], largest: int | None, options: FitOptions) -> CardAnswer:
    price = options.prices.by_card.get(card.name)
    return CardAnswer(
        card.name,
        card.title,
        card.memory_bytes,
        rows,
        largest,
        price.usd_per_hour if price is not None else None,
        price.date.isoformat() if price is not None else "",
        price.where if price is not None else "",
    )


def _by_size(record: FitRecord) -> list[FitStep]:
    """The last step of each size, in the order in which the sizes came."""
    return list({(step.samples, step.length): step for step in record.steps}.values())


def _is_asked(step: FitStep, record: FitRecord, options: FitOptions) -> bool:
    """Whether the user wants to know of this size; without any wish it is the script's own."""
    own = record.steps[0]
    is_size = step.samples in options.batches if options.batches else step.samples == own.samples
    is_length = step.length in options.lengths if options.lengths else step.length == own.length
    return is_size and is_length


def _row(card: Device, need: MemoryNeed, step: FitStep | None, options: FitOptions) -> CardFit:
    limit = card.memory_bytes
    verdict = FitVerdict.TOO_CLOSE
    if need.high <= limit and not (step is not None and _lacks_bf16(card, step)):
        verdict = FitVerdict.FITS
    elif need.low > limit:
        verdict = FitVerdict.DOES_NOT_FIT
    time_of_step = None
    if step is not None and verdict is not FitVerdict.DOES_NOT_FIT:
        time_of_step = step_time.step_ms(step, card, options.num_devices, gradient_bytes(step))
    run = _times(time_of_step, _steps(options) / 1000)
    price = options.prices.by_card.get(card.name)
    usd = _times(run, options.num_devices * price.usd_per_hour / 3600) if price is not None else None
    return CardFit(need, verdict, limit - need.high, time_of_step, run, usd)


def _lacks_bf16(card: Device, step: FitStep) -> bool:
    """Whether the step works in bf16 and `card` has no such products: what it would do there is unknown."""
    return card.bf16 is None and any(kind == "bfloat16" for _, _, kind, _ in step.work)


def _times(value: ValueRange | None, factor: float) -> ValueRange | None:
    return None if value is None else ValueRange(value.low * factor, value.high * factor, value.basis)


def _steps(options: FitOptions) -> int:
    return options.run_steps or STEPS_WITHOUT_LENGTH


def notes(recording: Recording, record: FitRecord, options: FitOptions, root: Path) -> Iterator[str]:
    """What the answer rests on that the user may know better."""
    yield from _notes_of_cards(record, options.cards)
    if keeps_fp32(record, options.sharding):
        yield "DeepSpeed's fp32 weights, optimizer state and gradients of the update of a 16-bit model are counted"
    if record.compiles:
        yield "torch.compile is left out: the lower end allows for what compiled code need not keep"
    if not record.has_optimizer:
        yield "the script makes no optimizer: each backward counts as a step, and no optimizer state is in the need"
    yield from _notes_of_values(record, root)
    yield from _notes_of_sizes(recording, record, options, root)


def _notes_of_cards(record: FitRecord, cards: Sequence[Device]) -> Iterator[str]:
    """The script was told of the first card alone."""
    if others := [card.title for card in cards if card.capability != cards[0].capability]:
        what = "the compute capability differs, and a script that asks for it may take another way there"
        yield f"planned as on {cards[0].title}: of {_some(others)} {what} (--on with one card)"
    if without := [card.title for card in cards if any(_lacks_bf16(card, step) for step in record.steps)]:
        yield f"the step works in bf16, which {_some(without)} cannot: nothing is said to fit there"


def _some(titles: list[str]) -> str:
    more = f" and {len(titles) - MOST_NAMED} more" if len(titles) > MOST_NAMED else ""
    return f"{', '.join(titles[:MOST_NAMED])}{more}"


def _notes_of_values(record: FitRecord, root: Path) -> Iterator[str]:
    """The first places that got a made-up value, whole numbers before others, and how many more there are."""
    found = sorted(record.made_up, key=lambda one: one.value != WHOLE_NUMBER)
    for made_up in found[:MOST_NAMED]:
        place = f"{_relative(made_up.file, root)}:{made_up.line}"
        text = f"{place} reads a value that only data can say; it got {made_up.value}"
        if made_up.value == WHOLE_NUMBER:
            text += ": sizes that depend on it are taken as 1, and the need may be larger"
        yield text
    if more := found[MOST_NAMED:]:
        whole = sum(one.value == WHOLE_NUMBER for one in more)
        of_them = f", {whole} of them a whole number that is taken as 1" if whole else ""
        yield f"{len(more)} more places read a value that only data can say{of_them}"


def _notes_of_sizes(recording: Recording, record: FitRecord, options: FitOptions, root: Path) -> Iterator[str]:
    """Which sizes were not reached and why, and whose length the answer is of."""
    ended = f": {_broken(recording, record, root)[0]}" if recording.error is not None or record.breaks else ""
    if recording.outcome == "no_step" and not ended:
        ended = ": the script ended by itself"
        yield "the script ended by itself, before every size was tried"
    seen = {step.samples for step in record.steps}
    if missing := [size for size in options.batches if size not in seen]:
        why = ended or ": the batch does not come from a DataLoader that can be asked"
        yield f"micro-batches of {', '.join(map(str, missing))} were not tried{why}"
    lengths = {step.length for step in record.steps}
    if missing := [length for length in options.lengths if length not in lengths]:
        why = ended or ": the batch has no such dimension"
        yield f"sequences of {', '.join(map(str, missing))} were not tried{why}"
    if len(options.lengths) > 1:
        yield f"the largest micro-batch is that of sequences of {max(options.lengths)}"
    if record.steps[0].length is not None and not options.lengths:
        yield f"sequences are {record.steps[0].length} long, as in the first batch; longer ones take more (--length)"
