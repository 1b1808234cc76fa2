"""One start of one side: the command with the probe, and what its Recordings say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from autotune import collect, derive
from autotune.model.derived import Derived
from autotune.model.recording import Window
from autotune.model.verified import Start
from autotune.verify import contention
from autotune.verify.mirror import Mirror
from autotune.verify.scratch import start_folder
from autotune.verify.sides import Sides

Show = Callable[[collect.Status], None]
Ran = tuple[collect.Collected, Start | None, Derived | None]
MESSAGES = "stderr"
"""In the folder of a start: what the script wrote there, as ten starts would repeat it on the user's terminal."""


@dataclass(frozen=True, slots=True)
class Runner:
    """What every start needs. `python` runs scripts that name none; `mirror` is None where no file differs."""

    root: Path
    cwd: Path
    environ: Mapping[str, str]
    python: str
    sides: Sides
    mirror: Mirror | None
    show: Show

    def run(self, side: str, request: collect.Request) -> Ran:
        """Start `side` once; no Start when no step was measured."""
        with start_folder(self.root) as folder:
            return self.run_in(folder, side, request)

    def run_in(self, folder: Path, side: str, request: collect.Request) -> Ran:
        """The same in a run folder that the caller keeps."""
        if self.mirror is not None:
            self.mirror.show(self.sides.files[side])
        words, cwd, environ = self._placed(side)
        command = collect.plan_command(words, self.python, cwd, environ)
        if self.mirror is not None:
            # The probe protects the script's folder: that of the real files, to which the mirror's links lead.
            command = replace(command, script=self.root / "script")
        with Path(os.devnull).open("w") as nowhere:
            before, waited_s = contention.read(), contention.waited_s()
            collected = collect.collect(
                request, command, folder, cwd=cwd, environ=environ, show=self.show, stdout=nowhere.fileno(),
                stderr=folder / MESSAGES,
            )  # fmt: skip
            busy, waited_s = (before, contention.read()), contention.waited_s() - waited_s
        if not collected.recordings or collected.recordings[0].window is None:
            return collected, None, None
        derived = derive.derive(collected.recordings)
        return collected, _start(side, collected, derived, busy, waited_s), derived

    def told(self, text: str) -> str:
        """`text` with the real paths in it."""
        return text if self.mirror is None else text.replace(str(self.mirror.place), str(self.root))

    def _placed(self, side: str) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        """The command, working folder and environment of `side`, led into the mirror."""
        words, mirror = self.sides.words[side], self.mirror
        if mirror is None:
            return words, self.cwd, dict(self.environ)
        environ = dict(self.environ)
        environ |= {name: mirror.mapped(environ[name]) for name in ("PYTHONPATH", "PWD") if name in environ}
        return tuple(map(mirror.mapped, words)), mirror.at(self.cwd), environ


def _start(
    side: str,
    collected: collect.Collected,
    derived: Derived,
    busy: tuple[contention.Reading | None, contention.Reading | None],
    waited_s: float,
) -> Start | None:
    first, step, sampled = collected.recordings[0], derived.step, collected.sampled
    if step is None or first.window is None:
        return None
    # Readings miss what a worker did after its last one; what was waited for misses those that were killed.
    own_s = max(sampled.cpu_s, waited_s) if sampled is not None and sampled.cpu_s is not None else None
    others, all_busy = contention.shares(*busy, own_s)
    reads = [one.io["read_bytes"] if one.io else None for one in collected.recordings]
    peaks = [one.memory.get("peak_reserved_bytes") for one in collected.recordings]
    device = max((peak for peak in peaks if peak is not None), default=None)
    return Start(
        side=side,
        step_ms=step.mean_ms,
        steps=step.steps,
        warmup=first.window.warmup_steps,
        wall_s=collected.wall_s,
        samples=step.samples_per_s * step.mean_ms / 1000 if step.samples_per_s else None,
        times_ms=_times_ms(first.window),
        losses=first.losses,
        memory_bytes=device or (sampled.rss_peak_bytes if sampled is not None else None),
        is_on_device=bool(device),
        read_bytes=_sum(reads),
        others_share=others,
        busy_share=all_busy,
        throttled_share=sampled.throttled_share if sampled is not None else None,
        slowed_share=sampled.gpu_throttled_share if sampled is not None and device else None,
    )


def _times_ms(window: Window) -> tuple[float, ...]:
    ends = window.step_ends_ns[window.warmup_steps - 1 : window.warmup_steps + window.steps]
    return tuple((end - begin) / 1e6 for begin, end in pairwise(ends))


def _sum(reads: Sequence[int | None]) -> int | None:
    """None where one is unknown: also where workers ended in the window and took their counters along."""
    known = [read for read in reads if read is not None and read >= 0]
    return sum(known) if len(known) == len(reads) else None
