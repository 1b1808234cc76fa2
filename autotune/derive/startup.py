"""What the process did until its first step, by cause and place, and what of it can be saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from autotune.derive.recording_view import S
from autotune.model.evidence import RUN, Fact, Value
from autotune.model.recording import Recording, StartUp, StartUpTime
from autotune.model.report import StartUpPart

Key = TypeVar("Key")

MOST_CPUS_OF_ONE = 1.2
"""CPUs that code of one thread keeps busy; tokenizers that run in threads of their own keep more busy."""

SAME_WORK = 0.5
"""A rank that spends this part of another's time on the same map does it itself, and does not read its result."""

_WITHIN = 3
_LEAST_WITHIN_S = 0.1


def parts(startup: StartUp, ended_ns: int | None) -> tuple[StartUpPart, ...]:
    """The time of the process until `ended_ns`, its first step (None: as far as it was sampled), the longest first.

    They sum to it: what was not sampled is "rest", what came before the first sample "python".
    """
    found = [_part(rows) for rows in _grouped(startup.rows, _place).values()]
    if startup.process_ns is not None:
        found.append(StartUpPart("python", (startup.sampled_from_ns - startup.process_ns) / S))
    rest_s = total_s(startup, ended_ns) - sum(part.seconds for part in found)
    if rest_s > 0:
        found.append(StartUpPart("rest", rest_s))
    return tuple(sorted(found, key=lambda part: -part.seconds))


def total_s(startup: StartUp, ended_ns: int | None) -> float:
    """Seconds from the start of the process, else from the first sample, until `ended_ns` or the last sample."""
    began = startup.sampled_from_ns if startup.process_ns is None else startup.process_ns
    return ((startup.sampled_until_ns if ended_ns is None else ended_ns) - began) / S


def first_step_ns(recording: Recording) -> int | None:
    """The end of the first step; None where none was made."""
    ends = recording.window.step_ends_ns if recording.window is not None else ()
    return ends[0] if ends else None


def facts(recordings: Sequence[Recording], cpus_per_rank: float | None) -> Iterator[Fact]:
    """Facts `startup.*` of the first of the Recordings, with what the others do as well."""
    first = recordings[0]
    if first.startup is None:
        return
    for name, value in {
        "startup.s": total_s(first.startup, first_step_ns(first)),
        **_imports(first.startup),
        **_maps(first.startup, cpus_per_rank),
        **_repeated(recordings),
        **_requests(first.startup),
        **_code(first.startup),
    }.items():
        if value is not None:
            yield Fact(name, RUN, value)


def _imports(startup: StartUp) -> Mapping[str, Value | None]:
    rows = _of(startup, "import")
    packages = _grouped(rows, lambda row: row.detail.split(" > ")[0])
    slowest = max(packages, key=lambda name: _seconds(packages[name]), default=None)
    return {
        "startup.import_s": _seconds(rows),
        "startup.import_cpu_s": _cpu_s(rows),
        "startup.import_package": slowest,
        "startup.import_package_s": None if slowest is None else _seconds(packages[slowest]),
    }


def _maps(startup: StartUp, cpus: float | None) -> Mapping[str, Value | None]:
    rows = _of(startup, "map")
    uncached = [row for row in rows if row.arguments.get("load_from_cache_file") is False]
    single = [row for row in rows if _is_single(row)]
    single_s = _seconds(single)
    return {
        "startup.map_s": _seconds(rows),
        "startup.map_at": _at(rows),
        "startup.uncached_map_s": _seconds(uncached),
        "startup.uncached_map_at": _at(uncached),
        "startup.single_map_s": single_s,
        "startup.single_map_cpu_s": _cpu_s(single),
        "startup.single_map_at": _at(single),
        "startup.parallel_map_saves_s": None if cpus is None else single_s * (1 - 1 / max(1, int(cpus))),
        "startup.unhashed_map": startup.unhashed_map,
    }


def _is_single(row: StartUpTime) -> bool:
    """Whether one process makes the map, and one thread of it; one whose arguments are not known is not."""
    if "num_proc" not in row.arguments:
        return False
    processes = row.arguments["num_proc"]
    is_alone = processes is None or (isinstance(processes, int) and processes <= 1)
    return is_alone and row.cpu_ns <= MOST_CPUS_OF_ONE * row.ns


def _repeated(recordings: Sequence[Recording]) -> Mapping[str, Value | None]:
    """Maps of the same data by several ranks: the first one's time with them, and how many ranks make them.

    Nothing where a rank is missing, as those of other machines are.
    """
    if recordings[0].process["world_size"] != len(recordings) or any(one.startup is None for one in recordings):
        return {}
    first, *others = [_by_data(one.startup) for one in recordings if one.startup is not None]
    repeated = {
        data: 1 + sum(other.get(data, 0) >= SAME_WORK * ns for other in others) for data, ns in first.items() if ns
    }
    shared = {data: ranks for data, ranks in repeated.items() if ranks > 1}
    return {
        "startup.repeated_map_s": sum(first[data] for data in shared) / S,
        "startup.num_mapping_ranks": max(shared.values(), default=1),
    }


def _by_data(startup: StartUp) -> Mapping[tuple[Value, ...], int]:
    """Nanoseconds of maps, by the data and the line that maps it; those whose data is not known are left out."""
    times: dict[tuple[Value, ...], int] = defaultdict(int)
    for row in _of(startup, "map"):
        data = row.arguments.get("self._fingerprint")
        if isinstance(data, str):
            times[data, row.file, row.line] += row.ns
    return times


def _requests(startup: StartUp) -> Mapping[str, Value | None]:
    rows = _of(startup, "download")
    return {
        "startup.request_s": _seconds(rows),
        "startup.request_wait_s": _seconds(row for row in rows if row.detail),
        "startup.request_at": _at(rows),
    }


def _code(startup: StartUp) -> Mapping[str, Value | None]:
    """The function of the script's own that takes longest."""
    functions = _grouped(_of(startup, "code"), _place)
    longest = max(functions.values(), key=_seconds, default=[])
    return {
        "startup.code_s": _seconds(longest),
        "startup.code_cpu_s": _cpu_s(longest),
        "startup.code_at": _at(longest),
        "startup.code_function": longest[0].function if longest else None,
    }


def _of(startup: StartUp, cause: str) -> list[StartUpTime]:
    return [row for row in startup.rows if row.cause == cause]


def _seconds(rows: Iterable[StartUpTime]) -> float:
    return sum(row.ns for row in rows) / S


def _cpu_s(rows: Iterable[StartUpTime]) -> float:
    return sum(row.cpu_ns for row in rows) / S


def _at(rows: Sequence[StartUpTime]) -> str | None:
    """ "train.py:12": the line that takes longest; None where none of the user's is known."""
    lines = _grouped((row for row in rows if row.file), lambda row: (row.file, row.line))
    most = max(lines, key=lambda line: _seconds(lines[line]), default=None)
    return f"{PurePath(most[0]).name}:{most[1]}" if most is not None else None


def _place(row: StartUpTime) -> tuple[object, ...]:
    """What makes one part: a function of the script's own, a package that is imported, or the line that calls."""
    if row.cause == "import":
        return row.cause, row.detail.split(" > ")[0]
    return row.cause, row.file, row.function if row.cause == "code" else row.line


def _grouped(rows: Iterable[StartUpTime], key: Callable[[StartUpTime], Key]) -> dict[Key, list[StartUpTime]]:
    groups: dict[Key, list[StartUpTime]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _part(rows: Sequence[StartUpTime]) -> StartUpPart:
    lines = _grouped(rows, lambda row: (row.file, row.line, row.function))
    file, line, function = max(lines, key=lambda place: _seconds(lines[place]))
    first = rows[0]
    of = first.detail.split(" > ")[0] if first.cause == "import" else ""
    inner = _grouped((row for row in rows if row.detail), lambda row: row.detail.split(" > ")[-1])
    within = {name: _seconds(found) for name, found in inner.items() if name != of}
    longest = sorted(within, key=lambda name: -within[name])[:_WITHIN]
    arguments = max(rows, key=lambda row: row.ns).arguments
    return StartUpPart(
        cause=first.cause,
        seconds=_seconds(rows),
        cpu_s=_cpu_s(rows),
        of=of,
        file=file,
        line=line,
        function=function,
        within=tuple((name, within[name]) for name in longest if within[name] >= _LEAST_WITHIN_S),
        num_processes=_num_processes(arguments),
        reads_cache=_flag(arguments.get("load_from_cache_file")),
    )


def _num_processes(arguments: Mapping[str, Value | None]) -> int | None:
    if "num_proc" not in arguments:
        return None
    value = arguments["num_proc"]
    return value if isinstance(value, int) and value > 0 else 1


def _flag(value: Value | None) -> bool | None:
    return value if isinstance(value, bool) else None
