"""What a rule can decide without a run: from what files, the machine and installed packages show."""

from __future__ import annotations

from autotune.catalogue import facts
from autotune.engine.expr import compile_expression
from autotune.model.rule import Rule

CODE = "code."
"""What the name of a fact about code begins with."""

SUPPLIERS = ("scan.", "machine.")
OF_A_RUN = ("machine.sampler",)
"""Of those suppliers, what watches a run."""

READ_OFF_FILES_TOO = (
    "run.framework",
    "run.autocast",
    "run.grad_scaler",
    "run.clips_scaled_gradients",
    "run.legacy_amp",
    "loader.is_train",
    "loader.is_map_style",
)
"""Facts that derive/ observes in a run, and that scan/ states where the files leave no doubt."""


def needs_a_run(name: str) -> bool:
    """Whether only a run can tell the fact `name`; every setting can be read off files."""
    fact = facts().get(name)
    if fact is None or name in READ_OFF_FILES_TOO:
        return False
    return not fact.supplier.startswith(SUPPLIERS) or fact.supplier in OF_A_RUN


def is_of_code(name: str) -> bool:
    """Whether nothing but the reading of code tells the fact `name`."""
    return name.startswith(CODE)


def decides_without_a_run(rule: Rule) -> bool:
    """Whether `check` can use `rule`: it has a [static] part, or reads nothing that needs a run."""
    if rule.static is not None:
        return True
    return not any(map(needs_a_run, compile_expression(rule.when, rule.limits).names))
