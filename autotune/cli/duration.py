"""Times as they are typed: 60, 60s, 10m, 1.5h."""

from __future__ import annotations

import re

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """The seconds of an option; None where it was not given."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration; write e.g. 60s or 10m", context, parameter)
    return float(found[1]) * _SECONDS[found[2]]
