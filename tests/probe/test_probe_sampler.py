from __future__ import annotations

import sys

import pytest

from autotune.probe import sampler


@pytest.fixture
def stopped(probed):
    """The session's sampler without its thread, and without samples."""
    probed.sampler.stop()
    probed.sampler.reset()
    return probed.sampler


def busy():
    return sys._getframe()


LIBRARY = "/env/lib/python3.11/site-packages/tokenizers/x.py"


def frame_in(path):
    names = {"busy": busy, "frame": lambda: sys._getframe(1)}
    exec(compile("def tokenise():\n    return frame()\n", path, "exec"), names)
    return names["tokenise"]()


@pytest.mark.parametrize(
    ("stack", "phase"),
    [
        ([], "other"),
        (["fetch"], "fetch"),
        (["forward"], None),
        (["backward"], "backward"),
        (["checkpoint", "fetch"], "fetch"),
        (["fetch", "logging"], None),
        (["optimizer"], None),
        (["optimizer", "closure"], "other"),
    ],
)
def test_unexplained_time_and_two_phases_are_sampled(probed, stopped, stack, phase):
    probed.recorder.stack = stack
    stopped._take(busy())
    assert [row["phase"] for row in stopped.rows()] == ([] if phase is None else [phase])


def test_samples_of_one_place_are_counted_the_most_frequent_first(stopped):
    for frame in (busy(), frame_in(LIBRARY), frame_in(LIBRARY)):
        stopped._take(frame)
    first, second = stopped.rows()
    assert (first["count"], first["leaf_file"], first["leaf_function"]) == (2, LIBRARY, "tokenise")
    assert (second["count"], second["leaf_function"], second["user_file"]) == (1, "busy", __file__)


def test_a_library_leaf_names_the_users_frame_above_it():
    leaf_file, leaf, user_file, line, function = sampler.describe(frame_in(LIBRARY))
    assert (leaf_file, leaf) == (LIBRARY, "tokenise")
    assert (user_file, function) == (__file__, "frame_in")
    assert line > 0


def test_a_stack_without_a_user_frame_has_none(monkeypatch):
    monkeypatch.setattr(sampler.sites, "is_user", lambda filename: False)
    assert sampler.describe(busy())[2:] == ("", 0, "")


def test_the_sampler_counts_its_own_time(probed):
    deadline = sampler.time.monotonic() + 20
    while not probed.sampler.spent_ns and sampler.time.monotonic() < deadline:
        sampler.time.sleep(0.01)
    assert probed.sampler.spent_ns > 0


class Board:
    def add(self):
        return busy()


def test_of_the_scripts_own_code_the_path_is_kept(probed, stopped):
    probed.recorder.stack = []
    stopped._take(Board().add())
    (row,) = stopped.rows()
    names = row["path"].split(sampler.SEPARATOR)
    assert names[-1] == "busy"
    assert names[-2] in ("add", "Board.add")  # Python 3.11 says the class too
    assert names[-3].startswith("test_of_the_scripts")


def test_of_a_fetch_no_path_is_kept(probed, stopped):
    probed.recorder.stack = ["fetch"]
    stopped._take(busy())
    assert stopped.rows()[0]["path"] == ""
