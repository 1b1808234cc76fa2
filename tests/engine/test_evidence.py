"""The facts and settings of a run and of its files, joined: which value wins, and which location it gets."""

from __future__ import annotations

import pytest

from autotune.engine.evidence import join, observed_over
from autotune.model.evidence import RUN, Fact, Location, Setting

HERE = Location("/p/train.py", 12, "DataLoader", end_line=12)
IN_FILE = Location("/p/args.yaml", 3, key="num_workers")


def test_facts_and_settings_by_subject() -> None:
    workers = Setting("loader.num_workers", "loader#train", 0, "observed")
    facts = [
        Fact("loader.wait_ms", "loader#train", 168.0),
        Fact("loader.wait_ms", "loader#2", 3),
        Fact("software.torch", RUN, (2, 13)),
    ]
    evidence = join(facts, [workers])
    assert evidence.lookup("loader#train", "loader.wait_ms") == 168.0
    assert evidence.lookup("loader#2", "loader.wait_ms") == 3
    assert evidence.lookup("loader#2", "software.torch") == (2, 13)
    assert evidence.lookup("loader#2", "loader.num_workers") is None
    assert evidence.setting("loader#train", "loader.num_workers") is workers
    assert evidence.subjects("loader") == ("loader#train", "loader#2")


def test_places_of_facts_are_kept_by_subject() -> None:
    here = (Location("train.py", 3), Location("train.py", 9))
    facts = [Fact("loader.shuffles", "loader#train", True, here), Fact("code.uses_cuda", RUN, True)]
    assert join(facts, []).places == {("loader#train", "loader.shuffles"): here}


@pytest.mark.parametrize(
    ("facts", "settings", "what"),
    [
        ([Fact("loader.nope", RUN, 1)], [], r"loader\.nope is not in the catalogue"),
        ([], [Setting("loader.nope", RUN, 1, "observed")], r"loader\.nope is not in the catalogue"),
        ([Fact("step.mean_ms", RUN, 1.0)] * 2, [], r"fact step\.mean_ms of run is stated twice"),
        ([], [Setting("train.compile", RUN, True, "observed")] * 2, r"setting train\.compile of run is stated twice"),
        ([Fact("step.mean_ms", RUN, "fast")], [], r"step\.mean_ms is of type ms, and cannot be 'fast'"),
        ([Fact("step.mean_ms", RUN, True)], [], "cannot be True"),
        ([Fact("loader.is_train", RUN, 1)], [], "is of type bool, and cannot be 1"),
        ([Fact("software.torch", RUN, "2.13")], [], "is of type version, and cannot be '2.13'"),
        ([Fact("device.type", RUN, 1)], [], "is of type text, and cannot be 1"),
        ([], [Setting("train.compile", RUN, "yes", "observed")], "is of type bool, and cannot be 'yes'"),
    ],
)
def test_a_supplier_s_mistake_is_an_error(facts, settings, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        join(facts, settings)


def test_a_setting_that_is_unset_is_unknown() -> None:
    evidence = join([], [Setting("loader.prefetch_factor", "loader#train", None, "default")])
    assert evidence.lookup("loader#train", "loader.prefetch_factor") is None
    assert evidence.subjects("loader") == ("loader#train",)


def test_a_fact_of_the_run_wins_over_the_files() -> None:
    read = join([Fact("code.uses_cuda", RUN, True), Fact("run.framework", RUN, "raw")], [])
    observed = join([Fact("run.framework", RUN, "lightning"), Fact("loader.wait_ms", "loader#2", 3.0)], [])
    found = observed_over(read, observed)
    assert found.lookup(RUN, "run.framework") == "lightning"
    assert found.lookup(RUN, "code.uses_cuda") is True
    assert found.lookup("loader#2", "loader.wait_ms") == 3.0


def test_facts_of_other_loaders_and_optimizers_of_the_files_are_left_out() -> None:
    read = join([Fact("loader.shuffles", "loader#1", True), Fact("loader.shuffles", "loader#train", True)], [])
    found = observed_over(read, join([], []))
    assert "loader#1" not in found.facts
    assert found.lookup("loader#train", "loader.shuffles") is True


def test_an_observed_setting_gets_the_place_whose_value_it_has() -> None:
    read = join([], [Setting("loader.num_workers", "loader#train", 2, "static", IN_FILE, spelling="num_workers")])
    observed = join([], [Setting("loader.num_workers", "loader#train", 2, "observed", HERE)])
    setting = observed_over(read, observed).setting("loader#train", "loader.num_workers")
    assert setting is not None
    assert (setting.value, setting.origin, setting.location, setting.trusted) == (2, "observed", IN_FILE, True)


def test_a_setting_that_the_run_did_not_show_is_known_and_not_trusted() -> None:
    read = join(
        [],
        [
            Setting("train.checkpoint_use_reentrant", RUN, True, "static", IN_FILE),
            Setting("loader.num_workers", "loader#1", 2, "static", IN_FILE),
        ],
    )
    found = observed_over(read, join([], []))
    setting = found.setting(RUN, "train.checkpoint_use_reentrant")
    assert setting is not None
    assert (setting.value, setting.location, setting.trusted) == (True, IN_FILE, False)
    assert setting.why_not == "only the files state it; the run did not show it"
    assert found.setting("loader#1", "loader.num_workers") is None


def test_places_of_facts_are_those_of_the_files() -> None:
    read = join([Fact("loader.shuffles", "loader#train", True, (HERE,))], [])
    assert observed_over(read, join([], [])).places == {("loader#train", "loader.shuffles"): (HERE,)}


def test_what_a_run_measured_of_lines_keeps_its_place_and_that_of_the_files_wins() -> None:
    line = Location("/p/train.py", 40)
    read = join([Fact("loader.shuffles", "loader#train", True, (HERE,))], [])
    observed = join(
        [Fact("loader.shuffles", "loader#train", True, (line,)), Fact("line.share", "line#1", 0.4, (line,))], []
    )
    found = observed_over(read, observed)
    assert found.places["line#1", "line.share"] == (line,)
    assert found.places["loader#train", "loader.shuffles"] == (HERE,)
