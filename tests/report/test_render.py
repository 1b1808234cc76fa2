from __future__ import annotations

import pytest
from report_builders import report, run

from autotune.errors import UsageError
from autotune.report import RENDERERS, render


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        render(report(run=run(), step=None), "html")
    assert str(caught.value) == "--format: unknown format 'html'\nChoose one of: text, json."


@pytest.mark.parametrize("name", RENDERERS)
def test_every_output_renders_a_report_of_nothing(name: str) -> None:
    made = report(run=run("no_step", wall_s=None, overhead_share=None), step=None, machine={}, software={})
    assert render(made, name).endswith("\n")
