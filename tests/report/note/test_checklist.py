from __future__ import annotations

import note_cases
import report_cases
from report_builders import report, run, step

from autotune.model.report import Report
from autotune.report.note.checklist import after_restart


def items(made: Report) -> list[str]:
    boxes = after_restart(made)
    if boxes is None:
        return []
    assert boxes.is_checklist
    texts = [item.text if isinstance(item.text, tuple) else (item.text,) for item in boxes.items]
    return ["".join(part if isinstance(part, str) else part.text for part in text) for text in texts]


def test_speed_memory_losses_and_the_command_that_checks() -> None:
    found = items(note_cases.full())
    assert "2.58 s/it in your bar after 50 steps with 1; slower than 2.71 s/it: run autotune diagnose again" in found
    assert any(text.startswith('autotune report --at "LINE"') for text in found)
    assert "The peak of the GPU stays below 80 GiB (now 31 GiB)" in found
    assert "2, 3: compared with a run without it, the losses are as good" in found


def test_what_is_not_known_is_no_box() -> None:
    assert not any("peak" in text or "save" in text for text in items(report_cases.full()))


def test_without_a_change_or_a_step_there_is_no_list() -> None:
    assert items(report(run=run(), step=step(forward=1.0))) == []
    assert items(report_cases.out_of_memory()) == []
