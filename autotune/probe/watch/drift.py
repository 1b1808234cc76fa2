"""What has drifted since the first window, by how much, since which step, and a sentence that says it.

Arithmetic only, on what the windows and the clock between them brought. Nothing is said of a run that is as it was.
"""

from __future__ import annotations

from . import levels
from .levels import Blocks, Level
from .phases import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..shapes import Row

NAMED = 0.25
"""Of what all phases changed by, to that side: a phase with less is not named."""

LARGE = 0.15
"""Of the first window's step: phases that count where all of them are asked to have changed alike."""

ALIKE = 0.5
"""Of the relative change of the step, in each large phase: then it is the machine and no phase of its own."""

QUEUED = 0.5
"""Of what a step got longer by, in the wait for a CPU: with less, others on the machine are not the cause."""

LEAST_MEMORY_SHARE, LEAST_MEMORY = 0.1, 64 << 20
"""Of the first window's memory, and bytes: allocators and caches fill up by less in every run."""


def of_step(first: Row, now: Row, start: Level, blocks: Blocks) -> Row | None:
    """The drift of the step time between the windows `first` and `now`, None where there is none.

    `start` is the level before the first one; of `blocks` those after it count.
    """
    newest = [block for block in blocks.newest if block.step > first["step"]]
    if not levels.has_moved(start, newest):
        return None
    last = newest[-1]
    longer = last.mean > start.mean
    is_alike = is_alike_in_all(first["phases_ms"], now["phases_ms"], longer=longer)
    queued = _queued_longer(first, now, (last.mean - start.mean) / 1e6) if longer else None
    named = (
        [] if is_alike or queued is not None else changed_phases(first["phases_ms"], now["phases_ms"], longer=longer)
    )
    rows = [row for row in blocks.rows if row.step > first["step"]]
    even = [start, *rows, *([last] if not rows or rows[-1].step < last.step else [])]
    steady = levels.is_steady([(each.step, each.mean) for each in even])
    fine = [start, *(row for row in rows if row.step < newest[0].step), *newest]
    jump = levels.jump([each.mean for each in fine])
    since = first["step"] if steady or jump == 1 else fine[jump - 1].step  # where the block before it ended
    row: Row = {
        "what": "step_time",
        "since_step": since,
        "said_at_step": now["step"] + now["steps"],
        "is_steady": steady,
        "is_alike": is_alike,
        "queued_ms": queued,
        "first": start.mean / 1e6,
        "now": last.mean / 1e6,
        "phases": named,
        "place": now["places"].get(named[0]["phase"]) if named else None,
    }
    return {**row, "text": _text_of_step(row, first["step"])}


def changed_phases(first: dict[str, float], now: dict[str, float], *, longer: bool) -> list[Row]:
    """The phases that the change is due to, the largest part first; none where the windows do not show it."""
    sign = 1 if longer else -1
    by = {name: sign * (now.get(name, 0.0) - first.get(name, 0.0)) for name in sorted({*first, *now})}
    total = sum(part for part in by.values() if part > 0)
    ranked = sorted((name for name in by if by[name] > 0 and by[name] >= NAMED * total), key=lambda name: -by[name])
    return [{"phase": name, "first_ms": first.get(name, 0.0), "now_ms": now.get(name, 0.0)} for name in ranked]


def _queued_longer(first: Row, now: Row, change_ms: float) -> float | None:
    """Milliseconds per step for which the thread waits longer for a CPU, where that is most of the change, and a step
    without that wait has not moved by a tenth: then it is no phase. Else, and where nothing tells, None."""
    if first["queued_ms"] is None or now["queued_ms"] is None:
        return None
    own_first, own_now = (sum(row["phases_ms"].values()) - row["queued_ms"] for row in (first, now))
    queued: float = now["queued_ms"] - first["queued_ms"]
    return queued if queued >= QUEUED * change_ms and own_now < (1 + levels.MOVED) * own_first else None


def is_alike_in_all(first: dict[str, float], now: dict[str, float], *, longer: bool) -> bool:
    """Whether all phases that take a good part of a step changed about as the step did, and the others hardly."""
    sign = 1 if longer else -1
    whole = sum(first.values())
    change = sign * (sum(now.values()) / whole - 1)
    large = [name for name, part in first.items() if part >= LARGE * whole]
    least = min((sign * (now.get(name, 0.0) / first[name] - 1) for name in large), default=0.0)
    small = sum(max(0.0, sign * (part - first.get(name, 0.0))) for name, part in now.items() if name not in large)
    return len(large) > 1 and change > 0 and least >= ALIKE * change and small <= NAMED * change * whole


def of_memory(samples: Sequence[tuple[int, int]]) -> Row | None:
    """The drift of memory over (step, bytes), from the first window on; None where it does not rise all along."""
    if len(samples) < levels.LEAST_VALUES:
        return None
    (begin, first), (end, now) = samples[0], samples[-1]
    more = now - first
    if more < max(LEAST_MEMORY, LEAST_MEMORY_SHARE * first) or not levels.is_steady(samples):
        return None
    text = (
        f"memory rises steadily: {size(first)} at step {begin:,}, {size(now)} now, {size(more / (end - begin))} a step"
    )
    return {
        "what": "memory",
        "since_step": begin,
        "said_at_step": end,
        "is_steady": True,
        "is_alike": False,
        "queued_ms": None,
        "first": float(first),
        "now": float(now),
        "phases": [],
        "place": None,
        "text": text,
    }


def _text_of_step(row: Row, first_step: int) -> str:
    ratio = row["now"] / row["first"]
    when = (
        f"steadily since step {row['since_step']:,}" if row["is_steady"] else f"since about step {row['since_step']:,}"
    )
    change = f"{ratio:.2f} times as long as at step {first_step:,}, {when}"
    if row["queued_ms"] is not None:
        return f"a step takes {change}: it waits {ms(row['queued_ms'])} longer for a CPU, so others use the machine"
    if row["is_alike"]:
        return f"a step takes {change}: all phases alike, so it is the machine: its clocks, or others that use it"
    if not row["phases"]:
        return f"a step takes {change}; the window shows no phase that changed"
    verb = "rose" if ratio > 1 else "fell"
    parts = [f"{word(one['phase'])} {verb} from {ms(one['first_ms'])} to {ms(one['now_ms'])}" for one in row["phases"]]
    at = f" (mostly {row['place']})" if row["place"] else ""
    return f"a step takes {change}: {', '.join(parts)}{at}"


def ms(value: float) -> str:
    """A time of a step: "3.62 s", "168 ms", "0.42 ms"."""
    if value >= 999.5:
        return f"{value / 1000:.2f} s"
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} ms"


def size(num_bytes: float) -> str:
    """Bytes: "1.9 GiB", "431 MiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if num_bytes < 1023.5:
            return f"{num_bytes:.0f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} GiB"
