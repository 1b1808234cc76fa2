"""Names of phases, rules and places as the reader sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autotune.catalogue import facts, what_ifs
from autotune.catalogue.dialects import functions
from autotune.model.evidence import Location, Value
from autotune.model.finding import SettingChange
from autotune.model.rule import Rule
from autotune.model.scanned import TYPED
from autotune.report.units import literal

PHASES = {
    "data_wait": "data wait",
    "h2d": "copy to device",
    "forward": "forward",
    "recompute": "recompute",
    "backward": "backward",
    "rank_wait": "wait for ranks",
    "communication": "communication",
    "optimizer": "optimizer",
    "checkpoint": "checkpoint",
    "evaluation": "evaluation",
    "logging": "logging",
    "other": "other",
}

_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")


def words(rule: Rule) -> str:
    """The rule's kebab-case name in words."""
    return rule.name.replace("-", " ")


def phases(rule: Rule) -> frozenset[str]:
    """The phases of the step that the change of a rule acts on, from its what-if and the facts that it reads."""
    if rule.gain is None:
        return frozenset()
    given = rule.gain.arguments
    # A part of a part: the whole says where it is.
    parts = [given["of"]] if "of" in given else given.values()
    measured = (phase for name in parts if name in facts() for phase in facts()[name].phases)
    return frozenset(
        what_ifs()[rule.gain.what_if].phases or [word for word in given.values() if word in PHASES] or measured
    )


def path(file: str, folder: str) -> str:
    """`file` below the project root (the run's `folder` is in its .autotune), or below site-packages."""
    root = folder.split(".autotune/")[0] if ".autotune/" in folder else ""
    if root and file.startswith(root):
        return file[len(root) :]
    return _PACKAGES.sub("", file)


def place(location: Location, folder: str) -> str:
    """ "train.py:23", "train.ipynb:57 (cell 4, line 3)", "command line"."""
    if location.file == TYPED:
        return TYPED[1:-1]
    line = f"{path(location.file, folder)}:{location.line}"
    return f"{line} ({cell(location)})" if location.cell else line


def cell(location: Location) -> str:
    """ "cell 4, line 3", "" for what is in no cell."""
    return f"cell {location.cell}, line {location.cell_line}" if location.cell else ""


def assignments(changes: Mapping[str, Value]) -> str:
    """The changes of a candidate: "num_workers=2 prefetch_factor=8"; "baseline" without any."""
    return " ".join(f"{name.partition('.')[2]}={value}" for name, value in changes.items()) or "baseline"


def edit(change: SettingChange, file: str) -> str:
    """What a person writes: "num_workers: 0 -> 4", "bf16=True", "torch.set_num_threads(4), now 2"."""
    new = literal(change.new, file)
    if "=" in change.spelling:  # the framework writes this value its own way: the spelling is the whole text
        return change.spelling
    if change.spelling in functions().values():
        is_new = change.location is not None and change.location.is_missing
        now = "" if is_new or change.old is None else f", now {literal(change.old, file)}"
        return f"{change.spelling}({new}){now}"
    return f"{change.spelling or change.setting}: {literal(change.old, file)} -> {new}"
