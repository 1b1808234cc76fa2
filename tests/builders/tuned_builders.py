"""A search as the outputs get it."""

from __future__ import annotations

from verified_builders import CHANGE, verified

from autotune.model.tuned import Axis, Outcome, SearchTrial, SkippedSetting, Space, Tuned

WORKERS = Axis("workers", "loader#train", ({"loader.num_workers": 0}, {"loader.num_workers": 4}), 0)
BATCH = Axis(
    "batch",
    "loader#train",
    (
        {"loader.batch_size": 8, "train.accumulation_steps": 4},
        {"loader.batch_size": 32, "train.accumulation_steps": 1},
    ),
    0,
)
SPACE = Space(
    (WORKERS, BATCH),
    (SkippedSetting("train.compile", "no file gives it"), SkippedSetting("data.packing", "no padding")),
)
OWN = SearchTrial(0, (0, 0), Outcome.COMPLETED, 6.0, 100.0, 120.0, 800 << 20)
FASTER = SearchTrial(1, (1, 0), Outcome.COMPLETED, 6.2, 150.0, 80.0, 1600 << 20, 1.45)
TOO_LARGE = SearchTrial(2, (0, 1), Outcome.OUT_OF_MEMORY, 3.0, error="RuntimeError: can't allocate memory")


def tuned(**fields) -> Tuned:
    """Workers won, a larger micro-batch did not fit; `fields` replace any part."""
    given = {
        "space": SPACE,
        "trials": (OWN, FASTER, TOO_LARGE),
        "best": {"loader.num_workers": 4},
        "verified": verified(changes=(CHANGE,)),
        "stopped": "nothing is left to try",
        "spent_s": 200.0,
        "probes_s": 20.0,
        "patch": "/home/me/.autotune/runs/r/patch.yaml",
        **fields,
    }
    return Tuned(**given)


def kept(**fields) -> Tuned:
    """Nothing won."""
    return tuned(best={}, patch="", **fields)
