"""What one attack came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One attack. `failure` says what autotune let happen, "" when it held. `detail` is shown only when asked for."""

    name: str
    failure: str = ""
    detail: str = ""
