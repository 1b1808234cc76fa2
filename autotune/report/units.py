"""Numbers as a reader writes them: "7 h 51 min", "3.62 s", "46.1 %", "31 GiB", "$19.61"."""

from __future__ import annotations

import math

from autotune.model.evidence import Value
from autotune.model.source import SCRIPTS

_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")


def duration(seconds: float) -> str:
    """A time of a run: "7 h 51 min", "51 min", "3 min 20 s", "12 s", "0.8 s"."""
    if seconds < 0.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "under 0.1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def step_time(ms: float) -> str:
    """A time inside a step, three digits: "3.62 s", "168 ms", "0.42 ms"."""
    if ms >= 999.5:
        return f"{ms / 1000:,.2f} s" if ms < 99_950 else f"{ms / 1000:,.0f} s"
    return f"{ms:.{2 if ms < 9.995 else 1 if ms < 99.95 else 0}f} ms"


def rate(ms: float) -> str:
    """A step time as a progress bar writes it: "3.33 s/it", or "5.95 it/s" below a second."""
    return f"{ms / 1000:.2f} s/it" if ms >= 1000 else f"{1000 / ms:.2f} it/s"


def percent(share: float) -> str:
    """A share in prose: "72 %", "0.6 %"."""
    return f"{share * 100:.1f} %" if abs(share) < 0.0995 else f"{share * 100:.0f} %"


def number(value: float) -> str:
    """ "0.4", "8.5", "120", "12,300": two digits at least."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def money(usd: float) -> str:
    """USD: "$19.61"."""
    return f"${usd:,.2f}" if usd >= 0.005 else "under $0.01"


def size(num_bytes: float) -> str:
    """Bytes in binary units: "31 GiB", "1.9 GiB", "512 bytes"."""
    power = 0 if num_bytes < 1024 else min(int(math.log2(num_bytes) // 10), len(_SIZES) - 1)
    amount = num_bytes / 1024**power
    return f"{amount:.1f} {_SIZES[power]}" if power and amount < 9.95 else f"{amount:,.0f} {_SIZES[power]}"


def literal(value: Value | None, file: str) -> str:
    """A setting's value as `file` writes it: True and quotes in Python, true and bare text elsewhere."""
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    if file.endswith(SCRIPTS) or not file:
        return f'"{value}"' if isinstance(value, str) else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
