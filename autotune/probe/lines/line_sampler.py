"""Stack samples of a few live steps, at a fine interval and with all of the user's lines in each.

The window's own sampler has to cost nothing. Here the weights are thrown away, and the interpreter lock is asked for
often: with Python's own switch interval a sample waits for the next call that lets the lock go, and would be put down
to the line of that call (a conversion of a list would be seen as the matrix product after it).
"""

from __future__ import annotations

import sys
import threading
import time

from .. import call_sites, clock
from . import loops, statements
from .modules import ModuleStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Row

INTERVAL_S = 0.001
SWITCH_S = 0.0002
ENOUGH_S = 2.0
"""So long the steps are sampled: 1 to 2 thousand samples tell a share to 1.5 points."""

LEAST_STEPS = 2
MANY_STEPS = 200
"""After this many steps a quarter of that time is enough: a short script has steps left for the what-ifs."""

HOT_SHARE = 0.03
FROZEN_SHARE = 0.1
MOST_ROWS = 400
MOST_FRAMES = 10
"""The innermost frames of the user's that a sample keeps."""


class LineSampler:
    """Samples from its making until `table`."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._steps = 0
        self._counts: dict[tuple[Any, ...], int] = {}
        self._whole: tuple[dict[tuple[Any, ...], int], int] = {}, 0
        self._modules = session.recorder.modules = ModuleStack()
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._stop = threading.Event()
        self._began = clock.now()
        self._thread = threading.Thread(target=self._run, name="autotune-lines", daemon=True)
        self._thread.start()

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one."""
        self._steps += 1
        self._whole = dict(self._counts), clock.now() - self._began
        enough_s = ENOUGH_S if self._steps < MANY_STEPS else ENOUGH_S / 4
        return self._steps >= LEAST_STEPS and clock.now() - self._began >= enough_s * 1e9

    def table(self) -> Row | None:
        """The Recording's `lines.sampled`; None when not one step was whole."""
        self._stop.set()
        self._thread.join(timeout=2.0)
        sys.setswitchinterval(self._switch_s)
        self._session.recorder.modules = None
        if not self._steps:
            return None
        # What came after the last step is none: the script may have ended there.
        self._counts, wall = self._whole
        ranked = sorted(self._counts.items(), key=lambda item: -item[1])
        modules = self._modules.rows(self._session)
        roots = {id(row["object"]()): row["id"] for row in self._session.models}
        rows = [
            {
                "phase": phase,
                "frames": [(code.co_filename, line, code.co_name, code.co_firstlineno) for code, line in frames],
                "callee": callee,
                "module": modules[module]["name"] if module in modules else "",
                "root": roots.get(root, -1),
                "count": count,
            }
            for (phase, frames, callee, module, root), count in ranked[:MOST_ROWS]
        ]
        return {
            "steps": self._steps,
            "wall_ns": wall,
            "count": sum(self._counts.values()),
            "rows": rows,
            "modules": list(modules.values()),
            "statements": statements.of_lines((file, line) for row in rows for file, line, *_ in row["frames"]),
            "loops": loops.of_lines((file, line) for row in rows for file, line, *_ in row["frames"]),
        }

    def hot(self) -> tuple[dict[CodeType, float], dict[tuple[CodeType, int], float]]:
        """The user's functions, and their lines (code, line), in which HOT_SHARE of the samples and more were taken,
        with all that they call; each with its share."""
        functions: dict[CodeType, int] = {}
        lines: dict[tuple[CodeType, int], int] = {}
        for (_, frames, _, _, _), count in self._counts.items():
            for code in {code for code, _ in frames}:
                functions[code] = functions.get(code, 0) + count
            for place in set(frames):
                lines[place] = lines.get(place, 0) + count
        total = sum(self._counts.values())
        return (
            {code: count / total for code, count in functions.items() if count >= HOT_SHARE * total},
            {place: count / total for place, count in lines.items() if count >= HOT_SHARE * total},
        )

    def frozen(self) -> list[Any]:
        """Frozen modules, without those inside another one, with at least FROZEN_SHARE of the samples."""
        counts: dict[int, int] = {}
        for (_, _, _, module, _), count in self._counts.items():
            counts[module] = counts.get(module, 0) + count
        least = FROZEN_SHARE * sum(counts.values())
        return [
            module
            for module in self._modules.frozen()
            if sum(counts.get(id(part), 0) for part in module.modules()) >= least
        ]

    def _run(self) -> None:
        recorder, counts = self._session.recorder, self._counts
        while not self._stop.is_set():
            time.sleep(INTERVAL_S)
            stack = call_sites.stack_of(recorder.thread)
            if not stack:
                continue
            kind = recorder.phase()
            where = (self._modules.innermost(), self._modules.outermost())
            key = ("other" if kind == "closure" else kind, *_places(stack), *where)
            del stack  # it would keep the script's local tensors alive
            counts[key] = counts.get(key, 0) + 1


def _places(stack: list[FrameType]) -> tuple[tuple[tuple[Any, int], ...], str]:
    """The user's frames of a stack (code, line), the innermost last; and which function of a library, if any, the
    innermost one has called."""
    found: list[tuple[Any, int]] = []
    callee = ""
    for each in stack:
        code = each.f_code
        if call_sites.is_user(code.co_filename):
            found.append((code, call_sites.line_of(each)))
        elif not found and not call_sites.is_probe(code.co_filename):
            callee = f"{each.f_globals.get('__name__', '')}.{getattr(code, 'co_qualname', code.co_name)}"
        if len(found) == MOST_FRAMES:
            break
    return tuple(reversed(found)), callee
