"""One run of one side: the command with the probe, and what its Recordings say."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune import collect, derive, machine
from autotune.collect.allocation import Allocation
from autotune.model.derived import Derived
from autotune.model.recording import RecordedWindow, Recording
from autotune.model.verified import RunResult, TimeSlicing
from autotune.verify import clocks, disturbances, epoch_windows
from autotune.verify.pausable import may_be_stopped, wait_s, were_fair
from autotune.verify.schedule import FreeResources
from autotune.verify.scratch import Mirror, run_folder
from autotune.verify.sides import Sides
from autotune.verify.steady_state import steady_state_ms
from autotune.verify.time_slicing import PausedGroup, alternate

Show = Callable[[collect.Status], None]
Ran = tuple[collect.Collected, RunResult | None, Derived | None]
Busy = tuple[float | None, float | None]
"""Shares of the CPUs that were busy with other work, and at all."""

HASH_SEED = "PYTHONHASHSEED"

MESSAGES = "stderr"
"""In the folder of a run: what the script wrote to stderr. On the terminal, ten runs would repeat it ten times."""


class MemoryShortError(Exception):
    """The host is about to run out of memory: raised by the status callback of a run."""


class SideRunner(Struct, frozen=True):
    """What every run needs. `python` runs scripts that name no interpreter; `mirrors` has one for each side, and is
    empty where no file differs."""

    root: Path
    cwd: Path
    environ: Mapping[str, str]
    python: str
    sides: Sides
    mirrors: Mapping[str, Mirror]
    show: Show
    there: Allocation | None = None
    """Where it runs; None for this machine."""

    def run(self, side: str, request: collect.Request) -> Ran:
        """Run `side` once; no RunResult when no step was measured."""
        with run_folder(self.root) as folder:
            return self.run_in(folder, side, request)

    def run_in(self, folder: Path, side: str, request: collect.Request) -> Ran:
        """The same in a run folder that the caller keeps."""
        before, waited_s = disturbances.read(), disturbances.waited_s()
        collected = self._collected(folder, side, request, self.show, None)
        if self.there is not None:  # what else this machine does is no matter there
            return _ran(side, collected, (None, None), None, cpus=None)
        own_s = _own_s([collected], disturbances.waited_s() - waited_s)
        busy = disturbances.shares(before, disturbances.read(), own_s)
        return _ran(side, collected, busy, None, cpus=machine.num_cpus())

    def in_turns(self, requests: Mapping[str, collect.Request], turns: TimeSlicing) -> dict[str, Ran] | None:
        """Run all sides of `requests` in time slices: one is paused while another runs. None when the window of one
        did not end, or did not lie within the slices."""
        before, waited_s = disturbances.read(), disturbances.waited_s()
        with ExitStack() as folders:
            shows = [self.show, *[_ignore] * (len(requests) - 1)]
            works = [
                partial(self._paused, folders.enter_context(run_folder(self.root)), side, _patient(request), show)
                for (side, request), show in zip(requests.items(), shows, strict=True)
            ]
            every = alternate(works, turns)
        waited_s = disturbances.waited_s() - waited_s
        if not were_fair(every):
            return None
        busy = disturbances.shares(before, disturbances.read(), _own_s([collected for collected, _ in every], waited_s))
        return {
            side: _ran(side, one, busy, paused, cpus=machine.num_cpus())
            for side, (one, paused) in zip(requests, every, strict=True)
        }

    def _paused(
        self, folder: Path, side: str, request: collect.Request, show: Show, paused: PausedGroup
    ) -> tuple[collect.Collected, PausedGroup]:
        def shown(status: collect.Status) -> None:
            paused.check(status.steps)
            show(status)

        return self._collected(folder, side, request, shown, paused), paused

    def _collected(
        self, folder: Path, side: str, request: collect.Request, show: Show, paused: PausedGroup | None
    ) -> collect.Collected:
        mirror = self.mirrors.get(side)
        if mirror is not None:
            mirror.show(self.sides.files[side])
        words, cwd, environ = self._placed(side)
        command = collect.plan_command(words, self.python, cwd, environ)

        def shown(status: collect.Status) -> None:
            show(replace(status, where=self.with_real_paths(status.where)))

        if self.there is not None:
            return self.there.collect(
                request, command, folder, cwd=cwd, environ=environ, show=shown, title=Path(words[0]).name,
                stderr=folder / MESSAGES, protected=self.root,
            )  # fmt: skip
        with Path(os.devnull).open("w") as nowhere:
            return collect.collect(
                request, command, folder, cwd=cwd, environ=environ, show=shown, stdout=nowhere.fileno(),
                stderr=folder / MESSAGES, hold=paused.group if paused else collect.isolation_gaps, protected=self.root,
            )  # fmt: skip

    def with_real_paths(self, text: str) -> str:
        """`text` with the real paths instead of those in a mirror."""
        for mirror in self.mirrors.values():
            text = text.replace(str(mirror.top), "")
        return text

    def _placed(self, side: str) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        """The command, working folder and environment of `side`, with paths into its mirror."""
        words, mirror = self.sides.words[side], self.mirrors.get(side)
        if mirror is None:
            return words, self.cwd, dict(self.environ)
        environ = dict(self.environ)
        environ |= {name: mirror.mapped(environ[name]) for name in ("PYTHONPATH", "PWD") if name in environ}
        if not self.cwd.is_relative_to(self.root):
            return tuple(self._led(word, mirror) for word in words), self.cwd, environ
        return tuple(map(mirror.mapped, words)), mirror.at(self.cwd), environ

    def _led(self, word: str, mirror: Mirror) -> str:
        """A word of a command that is typed outside the root: a path into the root becomes one into the mirror."""
        head, equals, value = word.rpartition("=")
        real = Path(os.path.realpath(self.cwd / value))
        is_inside = bool(value) and real.is_relative_to(self.root) and real.exists()
        return f"{head}{equals}{mirror.at(real)}" if is_inside else mirror.mapped(word)


def free_resources() -> FreeResources:
    """The resources of this machine that two simultaneous runs may use now."""
    cpus = machine.num_cpus()
    return FreeResources(machine.memory_available(), 1.0 if cpus is None else cpus)


def fixed_hash_seed(environ: Mapping[str, str]) -> dict[str, str]:
    """The same hash seed for all runs: sets then have the same order, so that losses and times are comparable."""
    return {HASH_SEED: str(random.randrange(1, 2**32)), **environ}


def _ignore(status: collect.Status) -> None:
    """The live status shows one run."""


def _patient(request: collect.Request) -> collect.Request:
    """Twice the limits: the run gets half of the time."""
    return replace(request, time_limit_s=2 * request.time_limit_s, startup_limit_s=2 * request.startup_limit_s)


def _own_s(every: Sequence[collect.Collected], waited_s: float) -> float | None:
    """CPU seconds of these runs; None where unknown."""
    known = [one.sampled.cpu_s for one in every if one.sampled is not None and one.sampled.cpu_s is not None]
    # Readings miss what a worker did after its last one; what was waited for misses those that were killed.
    return max(sum(known), waited_s) if len(known) == len(every) else None


def _ran(side: str, collected: collect.Collected, busy: Busy, paused: PausedGroup | None, cpus: float | None) -> Ran:
    """`cpus` are those that it may use; None where unknown."""
    if not collected.recordings or collected.recordings[0].window is None:
        return collected, None, None
    derived = derive.derive(collected.recordings)
    start = _result(side, collected, derived, busy, paused, cpus)
    return collected, start and steady_state_ms(start, collected.recordings[0]), derived


def _result(
    side: str,
    collected: collect.Collected,
    derived: Derived,
    busy: Busy,
    paused: PausedGroup | None,
    cpus: float | None,
) -> RunResult | None:
    first, step, sampled = collected.recordings[0], derived.step, collected.sampled
    if step is None or first.window is None:
        return None
    least, is_alone = _own(first, paused.least_s if paused is not None else None), len(collected.recordings) == 1
    reads = [one.io["read_bytes"] if one.io else None for one in collected.recordings]
    peaks = [one.memory.get("peak_reserved_bytes") for one in collected.recordings]
    device = max((peak for peak in peaks if peak is not None), default=None)
    return RunResult(
        side=side,
        step_ms=step.mean_ms if paused is None else _step_ms(first.window, _own(first, paused.own_s)),
        steps=step.steps,
        warmup=first.window.warmup_steps,
        wall_s=collected.wall_s if paused is None else paused.own_s(math.inf),
        samples=step.samples_per_s * step.mean_ms / 1000 if step.samples_per_s else None,
        cpu_ms=clocks.cpu_ms(first) if is_alone else None,
        loader_ms=clocks.loader_ms(first, cpus) if is_alone else None,
        asleep_share=clocks.sleep_share(first, least) if is_alone else None,
        workers=clocks.num_workers(first),
        cpus=clocks.cpus(collected.recordings, least),
        losses=first.losses,
        memory_bytes=device or (sampled.rss_peak_bytes if sampled is not None else None),
        is_on_device=bool(device),
        may_be_stopped=may_be_stopped(collected),
        wait_s=wait_s(first, derived) if paused is None else None,
        read_bytes=_sum(reads),
        others_share=busy[0],
        busy_share=busy[1],
        throttled_share=sampled.throttled_share if sampled is not None else None,
        slowed_share=sampled.gpu_throttled_share if sampled is not None and device else None,
        epoch_steps=epoch_windows.observed_epochs(derived),
        escaped=collected.effects.escaped,
        kernel_refusal=collected.effects.why,
    )


def _own(recording: Recording, turns_s: Callable[[float], float] | None) -> clocks.Own:
    """Time without pauses: `turns_s` gives the seconds that the process ran before a moment."""
    if turns_s is None:
        return lambda begin, end: end - begin

    def own_ns(at_ns: int) -> float:
        return turns_s((recording.origin_ns + at_ns) / 1e9) * 1e9

    return lambda begin, end: own_ns(end) - own_ns(begin)


def _step_ms(window: RecordedWindow, own: clocks.Own) -> float:
    """The mean measured step."""
    ends = window.step_ends_ns[window.warmup_steps - 1 : window.warmup_steps + window.steps]
    return own(ends[0], ends[-1]) / 1e6 / (len(ends) - 1)


def _sum(reads: Sequence[int | None]) -> int | None:
    """The sum; None where one is unknown, e.g. because workers ended in the window with their counters."""
    known = [read for read in reads if read is not None and read >= 0]
    return sum(known) if len(known) == len(reads) else None
