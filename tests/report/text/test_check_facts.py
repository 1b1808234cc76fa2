from __future__ import annotations

from itertools import permutations

from autotune.model.checked import Checked, CheckedBundle
from autotune.model.evidence import Fact, Location, Setting
from autotune.model.scanned import Bundle
from autotune.report.text.check_facts import render

FACTS = (
    Fact("code.num_prints", "run", 2, (Location("train.py", 9), Location("train.py", 12))),
    Fact("loader.is_mapped", "loader#10", True),
    Fact("loader.is_mapped", "loader#2", False),
)
SETTINGS = (
    Setting("loader.batch_size", "loader#2", 8, "static", Location("train.py", 4)),
    Setting("loader.num_workers", "loader#2", None, "static"),
)


def test_facts_and_settings_are_in_the_order_of_subjects_and_names_however_they_were_found() -> None:
    for facts in permutations(FACTS):
        bundle = Bundle("train.py", ("train.py",), (), facts, SETTINGS)
        checked = Checked("", (CheckedBundle(bundle, (), (), 0),), (), 1, 0, None)
        assert render(checked, False, 80).splitlines() == [
            "# train.py",
            '"code.num_prints" = 2  # run, train.py:9',
            '"loader.batch_size" = 8  # loader#2, train.py:4',
            '"loader.is_mapped" = false  # loader#2',
            '"loader.is_mapped" = true  # loader#10',
        ]
