from __future__ import annotations

from autotune.model.evidence import RUN, Evidence, subject_order


def test_subjects_are_in_natural_order_whatever_was_stated_first() -> None:
    loaders = ("loader#eval", "loader#train", "loader#1", "loader#2", "loader#10")
    for stated in (loaders, loaders[::-1], loaders[2:] + loaders[:2]):
        evidence = Evidence({name: {} for name in (*stated, RUN, "model#main")})
        assert evidence.subjects("loader") == loaders
    mixed = [*reversed(loaders), "call#1", RUN]
    assert sorted(mixed, key=subject_order) == [RUN, "call#1", *loaders]
