"""Launchers that pass --local-rank to a script whose parser knows only the older spelling, --local_rank."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from autotune.catalogue.dialects import Version, is_before
from autotune.model.evidence import RUN, Fact
from autotune.pycode.script_view import ScriptView
from autotune.scan.launch import Launch
from autotune.scan.ranges import Range

FOUND = "code.knows_old_local_rank"

OLD, NEW = "--local_rank", "--local-rank"

SINCE = (2, 0)
"""The release of torch whose launcher passes the new spelling (torch/distributed/launch.py)."""

OLD_PYTHON = (3, 8)
"""Which torch 2.0 needs."""


def facts(views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Fact `code.knows_old_local_rank` of a script whose parser takes the old spelling alone, and refuses what it does
    not know; none where it does not."""
    flags = [
        (view, call, [one.value for one in call.args if isinstance(one, ast.Constant)])
        for view in views
        for call in view.index.called.get("add_argument", ())
    ]
    is_strict = not any(view.index.called.get("parse_known_args") for view in views)
    parses = any(view.index.called.get("parse_args") for view in views)
    old = [(view, call) for view, call, names in flags if OLD in names]
    if old and parses and is_strict and not any(NEW in names for _, _, names in flags):
        view, call = old[0]
        yield Fact(FOUND, RUN, True, (view.place(call),))


def refused(
    launches: Sequence[Launch], found: Iterable[Fact], versions: Mapping[str, Version], ranges: Mapping[str, Range]
) -> Iterator[Fact]:
    """Fact `job.passes_unknown_local_rank`, where a command starts such a script so that it ends at once."""
    knows_old = next((one for one in found if one.name == FOUND), None)
    passes = any(launch.passes_local_rank for launch in launches)
    if knows_old is not None and passes and not _is_older(versions, ranges):
        yield Fact("job.passes_unknown_local_rank", RUN, True, knows_old.places)


def _is_older(versions: Mapping[str, Version], ranges: Mapping[str, Range]) -> bool:
    """Whether only releases of torch are used that pass the old spelling."""
    if "torch" in versions:
        return is_before(versions["torch"], SINCE)
    asked = ranges.get("torch")
    if asked is not None and asked.high is not None:
        return not is_before(SINCE, asked.high)
    return "python" in versions and is_before(versions["python"], OLD_PYTHON)
