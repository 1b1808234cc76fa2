from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.api.outcome import interpreter
from autotune.collect import Collected

NONE = Collected(Path("/run"), (), "probe", 0, 1.0, 0.5, None)


@pytest.mark.parametrize(
    ("seen", "why", "expected"),
    [
        pytest.param("/one/bin/python", "--python", "--python", id="as planned"),
        pytest.param("/one/bin/python3.11", "--python", "the training process", id="another name of it"),
        pytest.param(
            "/two/bin/python",
            "--python",
            "the training process; --python /one/bin/python did not reach it",
            id="a shell found another one",
        ),
        pytest.param("/two/bin/python", "the active environment (VIRTUAL_ENV)", "the training process", id="no wish"),
    ],
)
def test_which_interpreter_trained(seen: str, why: str, expected: str) -> None:
    recording = SimpleNamespace(process={"executable": seen})
    collected = replace(NONE, recordings=(recording,))  # type: ignore[arg-type]
    assert interpreter(collected, "/one/bin/python", why) == (seen, expected)


def test_without_a_recording_it_is_the_planned_one() -> None:
    assert interpreter(NONE, "/one/bin/python", "--python") == ("/one/bin/python", "--python")
