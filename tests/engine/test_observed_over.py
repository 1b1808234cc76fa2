"""What a run observed, with the places that the files give to it, and what only the files say."""

from __future__ import annotations

from autotune.engine.evidence import join, observed_over
from autotune.model.evidence import RUN, Fact, Location, Setting

HERE = Location("/p/train.py", 12, "DataLoader", end_line=12)
IN_FILE = Location("/p/args.yaml", 3, key="num_workers")


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
