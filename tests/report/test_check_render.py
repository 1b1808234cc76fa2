from __future__ import annotations

import subprocess
import sys

import pytest
from check_builders import CASES

from autotune.errors import UsageError
from autotune.report import CHECK_RENDERERS, render_check


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        render_check(CASES["nothing"](), "html")
    expected = "--format: unknown format 'html'\nChoose one of: text, json, markdown, sarif, github, gitlab."
    assert str(caught.value) == expected


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", CHECK_RENDERERS)
def test_every_output_ends_in_a_newline(name: str, case: str) -> None:
    assert render_check(CASES[case](), name).endswith("\n")


def test_the_text_loads_nothing_of_the_report_on_a_run() -> None:
    loaded = "import sys, autotune.report.text.check; print(*(name for name in sys.modules if 'report' in name))"
    names = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert {"autotune.model.report", "autotune.report.text.diagnose", "autotune.report.json.diagnose"}.isdisjoint(names)
    assert "autotune.report.findings" in names
