"""Names of phases, rules and places as the reader sees them."""

from __future__ import annotations

import re

from autotune.model.evidence import Location
from autotune.model.rule import Rule

PHASES = {
    "data_wait": "data wait",
    "h2d": "copy to device",
    "forward": "forward",
    "recompute": "recompute",
    "backward": "backward",
    "rank_wait": "wait for ranks",
    "optimizer": "optimizer",
    "checkpoint": "checkpoint",
    "evaluation": "evaluation",
    "logging": "logging",
    "other": "other",
}

_FACT_PHASES = {
    "loader.wait_share": "data_wait",
    "loader.input_share": "data_wait",
    "loader.epoch_start_share": "data_wait",
    "optimizer.step_share": "optimizer",
    "checkpoint.cost_share": "checkpoint",
    "evaluation.cost_share": "evaluation",
    "calls.empty_cache_share": "other",
    "calls.gc_share": "other",
}
_WHAT_IF_PHASES = {"measured_ceiling": "data_wait"}
_STEP_FACT = re.compile(r"\bstep\.(\w+?)_(?:share|ms)\b")
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")


def words(rule: Rule) -> str:
    """The rule's kebab-case name in words."""
    return rule.name.replace("-", " ")


def phases(rule: Rule) -> frozenset[str]:
    """The phases of the step that the rule's gain comes from, from the facts that its `[gain]` reads."""
    if rule.gain is None:
        return frozenset()
    text = " ".join(rule.gain.arguments.values())
    named = {phase for phase in _STEP_FACT.findall(text) if phase in PHASES}
    named |= {phase for fact, phase in _FACT_PHASES.items() if re.search(rf"\b{re.escape(fact)}\b", text)}
    if rule.gain.what_if in _WHAT_IF_PHASES:
        named.add(_WHAT_IF_PHASES[rule.gain.what_if])
    return frozenset(named)


def path(file: str, folder: str) -> str:
    """`file` below the project root (the run's `folder` is in its .autotune), or below site-packages."""
    root = folder.split(".autotune/")[0] if ".autotune/" in folder else ""
    if root and file.startswith(root):
        return file[len(root) :]
    return _PACKAGES.sub("", file)


def place(location: Location, folder: str) -> str:
    """ "train.py:23"."""
    return f"{path(location.file, folder)}:{location.line}"
