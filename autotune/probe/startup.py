"""What the process does until its first step: stack samples from the start of the interpreter on, by cause.

Only built-in modules at first: it begins before the script's folder is on sys.path. A thread of its own samples until
torch is there; then the StackSampler's takes over.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from time import CLOCK_BOOTTIME, clock_gettime_ns, monotonic_ns, process_time_ns, sleep

from . import call_sites
from .early_imports import import_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable

    from .shapes import LibraryEntry, RequestDocument, Row

    Place = tuple[str, str, str, int, str]

INTERVAL_S = 0.02
NOTE_S = 5.0
"""So often the table is written for a process that may be ended before it writes a Recording."""

MOST_ROWS = 100
BY_PHASE = {
    "iter": "workers",
    "fetch": "batch",
    "evaluation": "evaluation",
    "checkpoint": "save",
    "forward": "step",
    "recompute": "step",
    "backward": "step",
    "optimizer": "step",
}
"""What a phase says where no entry of a library is met; the rest is the script's own code."""

CERTAIN = ("workers", "batch", "evaluation", "save")
"""What a phase says whatever runs in it: a batch is prepared by code that elsewhere loads a dataset or a model."""


USER, IMPORT, PROBE = "user", "import", "probe"
"""What code can be, beside an entry of a library: the user's, an import, what the probe does when torch is there."""


class StartUp:
    """Times by Place, (cause, detail, file, line, function): [wall ns, CPU ns of all threads of the process].

    A sample stands for the time since the one before, however late the interpreter let it come.
    """

    def __init__(self, request: RequestDocument) -> None:
        self._by_name: dict[str, list[LibraryEntry]] = {}
        for entry in request["startup_entries"]:
            for name in entry["functions"]:
                self._by_name.setdefault(name, []).append(entry)
        self._kinds: dict[int, tuple[LibraryEntry | str, CodeType]] = {}
        self._run_dir = request["run_dir"]
        self._pid = os.getpid()
        self._thread = get_ident()
        self._is_over = False
        self._ended = allocate_lock()
        self._times: dict[Place, list[int]] = {}
        self._arguments: dict[Place, Row] = {}
        self._began = _process_start_ns()
        self._last = self._looked = monotonic_ns()
        self._cpu = process_time_ns()
        self._noted = self._last
        # Now: a thread that imports it later would take it away from a script that does the same.
        self._quote: Callable[[str], str] = import_early("_json").encode_basestring_ascii

    def start(self) -> None:
        """Sample the calling thread until `stop`."""
        self._ended.acquire()
        start_new_thread(self._run, ())

    def stop(self) -> None:
        """Torch is there, or the process ends: no thread of ours may run when the interpreter shuts down."""
        self._is_over = True
        if self._pid == os.getpid() and get_ident() == self._thread and self._ended.acquire(timeout=1.0):
            self._ended.release()

    def _run(self) -> None:
        try:
            while not self._is_over:
                sleep(INTERVAL_S)
                stack = call_sites.stack_of(self._thread)
                if stack and not self._is_over:
                    self.take(stack, "", True)
                stack = []
        except Exception:  # an interpreter that shuts down takes its modules away; nobody misses this sample
            return
        finally:
            self._ended.release()

    def take(self, stack: list[FrameType], phase: str, has_grad: bool) -> None:
        """One sample of the training thread in `phase` ("" for none); a forked process has its parent's start."""
        if os.getpid() != self._pid:
            return
        now, cpu = monotonic_ns(), process_time_ns()
        key, arguments = self._place(stack, "evaluation" if phase == "forward" and not has_grad else phase)
        times = self._times.setdefault(key, [0, 0])
        times[0] += now - self._last
        times[1] += cpu - self._cpu
        self._last, self._cpu = now, cpu
        if arguments:
            self._arguments[key] = arguments
        if now - self._noted > NOTE_S * 1e9:
            self._noted = now
            self._note()

    def _place(self, stack: list[FrameType], phase: str) -> tuple[Place, Row]:
        """(cause, detail, file, line, function), and the arguments of the library's call."""
        by_phase = BY_PHASE.get(phase, "")
        cause, detail, inside, arguments = self._known(stack, by_phase in CERTAIN)
        own = _own(stack[inside:]) or _own(stack)
        if not cause:
            cause = by_phase or ("code" if own is not None else "library")
            detail = _package(stack[0]) if not by_phase else ""
        if own is None or cause == PROBE:
            return (cause, detail, "", 0, ""), arguments
        return (cause, detail, own.f_code.co_filename, call_sites.line_of(own), own.f_code.co_name), arguments

    def _known(self, stack: list[FrameType], is_certain: bool) -> tuple[str, str, int, Row]:
        """(cause, detail, the place of the frame that the user's line is around, arguments); "" where nothing on the
        stack tells.

        From the innermost frame outwards, the first entry of a library is the cause. What is imported while no code of
        the user's runs inside is an import. With `is_certain` the phase already says what entries would say.
        """
        imported: list[str] = []
        at = 0
        while at < len(stack) and (kind := self._kind(stack[at])) != USER:
            if kind == IMPORT:
                imported.append(str(stack[at].f_locals.get("name")).partition(".")[0])
            elif kind == PROBE:
                return PROBE, "", 0, {}
            elif isinstance(kind, dict) and not imported and not is_certain:
                return kind["cause"], kind["waits"] if at == 0 else "", at, _arguments(stack[at], kind)
            at += 1
        if imported:
            inner, outer = imported[0], imported[-1]
            return IMPORT, outer if inner == outer else f"{outer} > {inner}", at, {}
        for place in range(at, len(stack)):
            kind = self._kind(stack[place])
            if isinstance(kind, dict) and not is_certain:
                return kind["cause"], "", place, _arguments(stack[place], kind)
        return "", "", 0, {}

    def _kind(self, frame: FrameType) -> LibraryEntry | str:
        """What the code of a frame is: looked at once, as deep stacks are looked at fifty times a second."""
        code = frame.f_code
        known = self._kinds.get(id(code))
        if known is None:
            # With the code: while that lives, no other has its id.
            known = self._kinds[id(code)] = (self._kind_of(frame), code)
        return known[0]

    def _kind_of(self, frame: FrameType) -> LibraryEntry | str:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if call_sites.is_user(file):
            return USER
        if name == "_find_and_load" and file.startswith("<frozen importlib"):
            return IMPORT
        if name == "_on_torch" and call_sites.is_probe(file):
            return PROBE
        module = str(frame.f_globals.get("__name__"))
        # The body of a module that is imported is none of its functions.
        of_all = self._by_name.get("*", []) if name != "<module>" else []
        entries: list[LibraryEntry] = [*self._by_name.get(name, []), *of_all]
        for entry in entries:
            if module == entry["module"] or module.startswith(entry["module"] + "."):
                return entry
        return ""

    def row(self) -> Row | None:
        """StartUp of the Recording, times on the monotonic clock; None in a fork, whose start this is not."""
        if self._pid != os.getpid():
            return None
        ranked = sorted(self._times.items(), key=lambda item: -item[1][0])
        names = ("cause", "detail", "file", "line", "function")
        return {
            "process_ns": self._began,
            "sampled_from_ns": self._looked,
            "sampled_until_ns": self._last,
            "unhashed_map": _unhashed_map(),
            "rows": [
                {**dict(zip(names, key)), "ns": ns, "cpu_ns": cpu, "arguments": self._arguments.get(key, {})}
                for key, (ns, cpu) in ranked[:MOST_ROWS]
            ],
        }

    def _note(self) -> None:
        """startup-<pid>, for the parent of a process that reaches no step."""
        path = os.path.join(self._run_dir, f"startup-{self._pid}")
        try:
            with open(path + "~", "w", encoding="utf-8") as file:
                file.write(_json(self.row(), self._quote))
            os.replace(path + "~", path)
        except OSError:  # the run folder is gone: the parent was killed
            self._is_over = True


def _process_start_ns() -> int | None:
    """When this process began, on the monotonic clock (proc_pid_stat: its field 22, in ticks since the boot)."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    since_boot = ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return monotonic_ns() - (clock_gettime_ns(CLOCK_BOOTTIME) - since_boot)


def _own(stack: list[FrameType]) -> FrameType | None:
    """The innermost frame of the user's files."""
    return next((frame for frame in stack if call_sites.is_user(frame.f_code.co_filename)), None)


def _arguments(frame: FrameType, entry: LibraryEntry) -> Row:
    """What the entry names of the local variables of its frame, "name" or "name.attribute": plain values alone."""
    known: Row = {}
    for name in entry["arguments"]:
        first, _, attribute = name.partition(".")
        value = frame.f_locals.get(first)
        if attribute:
            value = getattr(value, "__dict__", {}).get(attribute)
        if value is None or isinstance(value, (bool, int, str)):
            known[name] = value
    return known


def _package(frame: FrameType) -> str:
    """The top-level package whose code runs; "" for the user's own files."""
    if call_sites.is_user(frame.f_code.co_filename):
        return ""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _unhashed_map() -> bool | None:
    """Whether datasets could not hash what a map was given, and so never finds its result again.

    None for a release of it that does not note this.
    """
    module = sys.modules.get("datasets.fingerprint")
    if module is None:
        return False
    warned = getattr(module, "fingerprint_warnings", None)
    return bool(warned.get("update_fingerprint_transform_hash_failed")) if isinstance(warned, dict) else None


def _json(value: Any, quote: Callable[[str], str]) -> str:
    """JSON of plain values: the `json` module may not be imported yet, as a user's own must win."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote(name)}: {_json(each, quote)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_json(each, quote) for each in value) + "]"
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
