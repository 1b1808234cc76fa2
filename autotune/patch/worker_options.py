"""What is given for the workers of a loader, and refused by torch where it has none: it becomes None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune import catalogue
from autotune.catalogue.dialects import Version
from autotune.errors import UsageError
from autotune.model.evidence import Value
from autotune.model.finding import SettingChange
from autotune.model.scanned import ConsumerCall
from autotune.patch.dependencies import WORKERS

REFUSED = ("loader.prefetch_factor", "loader.start_method")
"""persistent_workers, which is refused too, is a setting that rules and searches change with the workers."""


def worker_arguments(
    change: SettingChange, parts: Sequence[ConsumerCall], framework: str, versions: Mapping[str, Version]
) -> dict[str, None]:
    """The arguments of the consumer of `parts` that become None with the change; none with any other change.

    Raises UsageError where one is given of which only a run knows whether it is None.
    """
    if change.setting != WORKERS or change.new != 0:
        return {}
    found: dict[str, None] = {}
    for key in worker_keys(framework, versions):
        given = next((part.arguments[key] for part in parts if key in part.arguments), None)
        if given is not None and not given.known:
            raise UsageError(f"{key} is given, which is refused without workers: leave it out too")
        if given is not None and given.value is not None:
            found[key] = None
    return found


def worker_keys(framework: str, versions: Mapping[str, Version]) -> tuple[str, ...]:
    """How the framework names them."""
    spellings = (catalogue.spelling(framework, name, versions) for name in REFUSED)
    return tuple(one.key for one in spellings if one is not None)


def remove_flag(flag: str, value: Value | None) -> None:
    """Raises UsageError for the None of a command line, where only leaving a flag out means that."""
    if value is None:
        raise UsageError(f"take {flag} away from the command too: it is refused without workers")
