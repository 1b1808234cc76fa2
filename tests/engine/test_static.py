from __future__ import annotations

import pytest
from engine_builders import rule

from autotune.catalogue import facts
from autotune.engine.static import READ_OFF_FILES_TOO, decides_without_a_run, needs_a_run
from autotune.model.rule import Severity, Static


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("loader.wait_share", True),
        ("device.type", True),
        ("machine.throttled_share", True),
        ("machine.gpu_capability", False),
        ("software.torch", False),
        ("code.uses_cuda", False),
        ("loader.is_train", False),
        ("loader.num_workers", False),
    ],
)
def test_what_needs_a_run(name: str, needed: bool) -> None:
    assert needs_a_run(name) is needed


def test_the_exceptions_are_facts_that_a_run_observes_too() -> None:
    assert all(facts()[name].supplier.startswith("derive.") for name in READ_OFF_FILES_TOO)


@pytest.mark.parametrize(
    ("when", "static", "decides"),
    [
        ("loader.num_workers == 0 and loader.is_train", None, True),
        ("loader.num_workers == 0 and loader.wait_ms > 0", None, False),
        (
            "loader.num_workers == 0 and loader.wait_ms > 0",
            Static("loader.num_workers == 0", "none", Severity.LOW, "low", ()),
            True,
        ),
    ],
)
def test_a_rule_decides_without_a_run(when: str, static: Static | None, decides: bool) -> None:
    assert decides_without_a_run(rule(when=when, limits={}, static=static)) is decides
