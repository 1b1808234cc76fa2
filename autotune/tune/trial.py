"""A trial: one run of the command with the settings of a candidate, in a fresh process."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import catalogue, collect
from autotune.collect.allocation import Allocation
from autotune.errors import ScriptError
from autotune.machine import limits
from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Value
from autotune.model.tuned import Candidate, Key, Outcome, OutOfMemoryNote, SearchTrial, Space
from autotune.model.verified import AFTER, BEFORE, RunResult
from autotune.tune.points import TRAIN
from autotune.tune.realisation import DiagnosedScript, Realisation, realise
from autotune.tune.token_throughput import NOT_COUNTED, in_own_samples, is_rebatched, tokens_per_sample
from autotune.tune.trial_outcome import GLOBAL_BATCH, End, ended
from autotune.verify import epoch_windows
from autotune.verify.runs import MemoryShortError, Ran, Show, SideRunner
from autotune.verify.scratch import Mirror, run_folder
from autotune.verify.sides import Sides
from autotune.verify.thresholds import LEAST_WINDOW_STEPS, WINDOW_S

LOSING = 3.0
"""A candidate is stopped early once its steps take this multiple of the baseline's."""

START_UP = 4.0
"""Limit of the start-up, as a multiple of the baseline's: a candidate may compile or spawn workers."""

LEAST_START_UP_S, LEAST_WINDOW_S = 30.0, 5.0

USED_UP = 4
"""Length of a window as a multiple of the prefetch queue, so that few of its batches were loaded before it."""

MOST_READY_S = 10.0
"""Limit of what that adds to a window, at the pace of the baseline."""

LEAST_WARMUP = 3
END_S, LONGEST_END_S = 0.5, 60.0
"""From the end of the window to the end of the last process: usually, and at most."""

MOST_READY_STEPS = 512
"""Steps whose batches 64 workers have ready at a prefetch factor of 8."""

WARMUP_STEPS = 20
"""Warm-up steps, in addition to those that drain the prefetch queue."""

LEAST_FREE_SHARE = 0.03
"""Share of the host's memory: with less left, a trial is ended before the machine swaps or kills."""

MACHINE_NAMES = ("machine.cpu_name", "machine.gpu_name")
"""Facts by which kinds of machines differ."""

BESIDE_A_STUDY = re.compile(r"|\.lock([\da-f-]{36}\.rename)?|-journal|-wal|-shm")
"""What the names of a study's files have behind that of its own: Optuna's lock, which it renames before it removes it,
and what SQLite keeps beside a database."""

READY: Mapping[Key, int] = {
    (TRAIN, "loader.num_workers"): 0,
    (TRAIN, "loader.prefetch_factor"): 2,
    (RUN, "train.accumulation_steps"): 1,
}
"""The settings that determine how many steps the workers prefetch, with their defaults."""


class BaselineRun(Struct, frozen=True):
    """The baseline, as the diagnosis measured it."""

    step_s: float
    startup_s: float

    samples: float | None
    """Of a step."""

    epoch_steps: int | None = None

    @property
    def trial_s(self) -> float:
        """The expected duration of a trial."""
        window_s = max(WINDOW_S, max(LEAST_WINDOW_STEPS, self.multiple) * self.step_s)
        return self.startup_s + window_s + LEAST_WARMUP * self.step_s + END_S

    @property
    def longest_s(self) -> float:
        """The longest possible duration of a trial, of any candidate."""
        request = self.request(MOST_READY_STEPS)
        return (request.startup_limit_s or 0.0) + (request.time_limit_s or 0.0) + LONGEST_END_S

    @property
    def multiple(self) -> int:
        """The number of steps of a window is a multiple of this, so that all windows have the same share of epoch
        starts."""
        return epoch_windows.multiple(self.step_s, self.epoch_steps)

    def request(self, ready: int) -> collect.Request:
        """What is measured of a candidate whose workers prefetch `ready` steps. Its time limit ends a candidate that is
        far slower than the baseline."""
        steps = max(LEAST_WINDOW_STEPS, min(USED_UP * ready, round(MOST_READY_S / self.step_s)))
        most_steps = max(steps, math.ceil(WINDOW_S / self.step_s)) + self.multiple - 1 + ready + WARMUP_STEPS
        return collect.Request(
            default_steps=steps,
            min_s=WINDOW_S,
            multiple=self.multiple,
            time_limit_s=max(LEAST_WINDOW_S, LOSING * self.step_s * most_steps),
            startup_limit_s=max(LEAST_START_UP_S, START_UP * self.startup_s),
            what_ifs=False,
        )


class Workspace(Struct, frozen=True):
    """Where trials run."""

    root: Path
    cwd: Path
    environ: Mapping[str, str]

    python: str
    """Interpreter of scripts that name none."""

    mirrors: Mapping[str, Mirror]
    """A scratch copy for each side; empty where no file is changed."""

    originals: Mapping[Path, bytes]
    """Contents of the files that a trial may change, by real path."""

    show: Show

    launch: str | None = None
    """The command that starts a job of the scheduler for each trial; None: trials run on this machine."""

    words: tuple[str, ...] = ()
    """The user's command, whose directives are the job's."""

    study: str = ""
    """The real path of the study's file, which other tuners write meanwhile; "" where it has none."""

    def by_script(self, escaped: Iterable[str]) -> tuple[str, ...]:
        """What changed in the user's files (real paths), without the files of the study."""
        return tuple(path for path in escaped if not self.study or not _is_of_study(path, self.study))

    @contextmanager
    def job(self) -> Iterator[Allocation | None]:
        """A job of the scheduler, for one trial or for all runs that are compared with one another; None for here."""
        if self.launch is None:
            yield None
            return
        with (
            run_folder(self.root) as folder,
            Allocation(self.launch, folder, self.words, self.cwd, self.environ) as there,
        ):
            yield there


class Trials(Struct):
    """The trials of one search."""

    workspace: Workspace
    script: DiagnosedScript
    space: Space
    baseline: BaselineRun

    starts: dict[Candidate, RunResult] = field(default_factory=dict)
    """Completed runs, the last one of each candidate."""

    effects: list[collect.SideEffects] = field(default_factory=list)
    """What became of the writes of each run."""

    said: str = ""
    """What the last run wrote to stderr; "" where it was measured to its end."""

    def attempt(self, number: int, candidate: Candidate, forecast: float | None) -> SearchTrial:
        """Run the command once with the settings of `candidate`, whose speedup is expected to be `forecast`."""
        began = time.monotonic()
        made = self.realisation(candidate)
        start, end = self._measured(candidate, made)
        has_pace = start is not None and end.outcome in (Outcome.COMPLETED, Outcome.PRUNED)
        is_limited = start is not None and start.is_on_device == self.space.is_on_device
        return SearchTrial(
            number=number,
            candidate=candidate,
            outcome=end.outcome,
            wall_s=time.monotonic() - began,
            samples_per_s=self._rate(start) if start is not None and has_pace else None,
            step_ms=start.step_ms if start is not None else None,
            memory_bytes=start.memory_bytes if start is not None and is_limited else None,
            forecast=forecast,
            error=end.error,
            ran_out=end.ran_out,
        )

    def realisation(self, candidate: Candidate) -> Realisation:
        """The edits, arguments and overrides that realise `candidate`."""
        return realise(self.script, wanted(self.space, candidate))

    def runner(
        self, sides: Mapping[str, Realisation], against: str = "", there: Allocation | None = None
    ) -> SideRunner:
        """The runner of each side with its realisation, in the job `there` or on this machine."""
        place = self.workspace
        files = {side: {**place.originals, **made.files} for side, made in sides.items()}
        words = {side: made.words for side, made in sides.items()}
        compared = Sides(against, words, {BEFORE: place.originals, **files}, sides[AFTER].changes)
        show = place.show if there is not None else _guarded(place, LEAST_FREE_SHARE * limits.memory_limit())
        return SideRunner(place.root, place.cwd, place.environ, place.python, compared, place.mirrors, show, there)

    def request(self, made: Realisation, side: str = AFTER) -> collect.Request:
        """The Request of a run with the realisation `made`, whose calls are in the mirror of the side."""
        mirror = self.workspace.mirrors.get(side)
        placed = [replace(one, file=mirror.mapped(one.file)) if mirror else one for one in made.overrides]
        return replace(self.baseline.request(self._ready(made)), overrides=tuple(placed))

    def judged(
        self, runner: SideRunner, ran: Ran, asked: Mapping[Key, Value], unchanged: Mapping[Key, Value]
    ) -> tuple[RunResult | None, End]:
        """How a run ended that should have had the settings `asked`, and those of `unchanged` that it shows. Its
        samples are samples of the baseline."""
        collected, start, derived = ran
        escaped = self.workspace.by_script(collected.effects.escaped)
        self.effects.append(replace(collected.effects, escaped=escaped))
        start = None if start is None else replace(start, escaped=escaped)
        by_tokens = is_rebatched(name for _, name in asked)
        counted = in_own_samples(start, derived, tokens_per_sample(self.script.evidence)) if by_tokens else start
        self.said = "" if collected.ended_by == "probe" else runner.with_real_paths(collected.said)
        own = self.script.evidence.lookup(RUN, GLOBAL_BATCH) if asked else None
        not_comparable = NOT_COUNTED if by_tokens and counted is None else ""
        end = ended(collected, start, derived, {**_seen(derived, unchanged), **asked}, own, not_comparable)
        return counted or start, end

    def check_machine(self, there: Allocation) -> None:
        """Raises ScriptError where the scheduler gave a machine of another kind than that of the diagnosis: their
        speeds cannot be compared."""
        facts = {one.name: one.value for one in there.machine(self.workspace.show)}
        for name in MACHINE_NAMES:
            own, its = self.script.evidence.lookup(RUN, name), facts.get(name)
            if own != its:
                raise ScriptError(
                    f"the scheduler gave a machine of another kind: {its or 'unknown'}, "
                    f"and {own or 'unknown'} to the diagnosis"
                )

    def _ready(self, made: Realisation) -> int:
        """Optimizer steps that the workers prefetch."""
        workers, prefetch, batches = (self._whole(made, key, default) for key, default in READY.items())
        return math.ceil(workers * prefetch / batches)

    def _whole(self, made: Realisation, key: Key, default: int) -> int:
        value = made.asked[key] if key in made.asked else self.script.evidence.lookup(*key)
        return value if isinstance(value, int) else default

    def _measured(self, candidate: Candidate, made: Realisation) -> tuple[RunResult | None, End]:
        if made.missing:
            why = "; ".join(f"{name} cannot be set: {reason}" for name, reason in made.missing.items())
            return None, End(Outcome.FAILED, why)
        self.said = ""
        with self.workspace.job() as there:
            runner = self.runner({AFTER: made}, there=there)
            try:
                if there is not None:
                    self.check_machine(there)
                ran = runner.run(AFTER, self.request(made))
            except MemoryShortError as short:
                return None, End(Outcome.OUT_OF_MEMORY, str(short), OutOfMemoryNote.HOST)
            except ScriptError as error:  # a lost job is one trial, and not the search
                return None, End(Outcome.FAILED, error.what)
        start, end = self.judged(runner, ran, made.asked, {})
        if start is not None and end.outcome is Outcome.COMPLETED:
            self.starts[candidate] = start
        return start, end

    def _rate(self, start: RunResult) -> float:
        """Samples per second; steps per second where the samples of the baseline are not known."""
        samples = (start.samples or self.baseline.samples) if self.baseline.samples else 1.0
        return (samples or 1.0) * 1000 / start.step_ms


def _is_of_study(path: str, study: str) -> bool:
    return path.startswith(study) and BESIDE_A_STUDY.fullmatch(path, len(study)) is not None


def _seen(derived: Derived | None, settings: Mapping[Key, Value]) -> dict[Key, Value]:
    """Those of the settings that the run showed."""
    settled = derived.settings if derived is not None else ()
    shown = {(one.subject, one.name) for one in settled if one.value is not None}
    return {key: value for key, value in settings.items() if key in shown}


def wanted(space: Space, candidate: Candidate) -> dict[Key, Value]:
    """The settings of a candidate that differ from the baseline, by subject and name."""
    owners = {name: subject(name, axis.subject) for axis in space.axes for point in axis.points for name in point}
    return {(owners[name], name): value for name, value in space.changes(candidate).items()}


def subject(name: str, of_axis: str) -> str:
    """The subject of a setting: an axis of a loader may contain settings of the run."""
    return RUN if catalogue.settings()[name].subject == RUN else of_axis


def _guarded(workspace: Workspace, least_bytes: float) -> Show:
    """A callback of a run: it shows the status and ends the run before the host's memory is used up."""

    def shown(status: collect.Status) -> None:
        left = limits.memory_available()
        if left < least_bytes:
            raise MemoryShortError(f"ended by autotune: only {left >> 20} MiB of the host's memory were left")
        workspace.show(replace(status, where=status.where.removeprefix(f"{workspace.root}/")))

    return shown
