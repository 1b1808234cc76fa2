"""What run.json keeps comes back as it was, places and spans included."""

from __future__ import annotations

import json
from pathlib import Path

from autotune.diagnose.manifest import ManifestData, from_json, to_json
from autotune.model.evidence import RUN, Fact, Location, Setting, Span
from autotune.model.report import RunSummary
from autotune.model.scanned import Pin

PLACE = Location("/p/args.yaml", 3, "TrainingArguments", 5, 9, "bf16", Span(12, 17))
RUN_OF = RunSummary(folder="/p/.autotune/runs/1", command=("train.py", "--lr", "1e-4"), outcome="completed", wall_s=2.5)


def test_what_is_stored_is_restored() -> None:
    known = ManifestData(
        run=RUN_OF,
        facts=(Fact("software.torch", RUN, (2, 13, 0)), Fact("machine.load", RUN, 0.5)),
        versions={"torch": "2.13.0+cpu"},
        static_facts=(Fact("code.uses_cuda", RUN, True, (Location("/p/train.py", 4),)),),
        static_settings=(
            Setting("train.precision", RUN, "bf16-mixed", "static", PLACE, spelling="bf16", feeds=PLACE),
            Setting("loader.num_workers", "loader#train", 0, "default"),
        ),
        pins=(Pin("transformers==4.40", "requirements.txt:3"),),
    )
    assert from_json(json.loads(json.dumps(to_json(known))), (), Path(RUN_OF.folder)) == known


def test_a_run_of_an_older_release_has_no_static_part() -> None:
    row = to_json(ManifestData(RUN_OF, (), {"torch": "2.13.0"}))
    del row["static_facts"], row["static_settings"], row["pins"]
    found = from_json(json.loads(json.dumps(row)), (), Path(RUN_OF.folder))
    assert (found.static_facts, found.static_settings, found.pins) == ((), (), ())
