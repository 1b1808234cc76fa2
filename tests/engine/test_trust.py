"""An observed setting gets the place in a file whose value equals it, and no other."""

from __future__ import annotations

from msgspec.structs import replace

from autotune.engine.trust import located
from autotune.model.evidence import Location, Setting, Span

CALL = Location("/p/train.py", 20, "DataLoader", end_line=25)
OBSERVED = Setting("loader.num_workers", "loader#train", 4, "observed", Location("/p/train.py", 20, "DataLoader"))


def static(value: object, line: int, feeds: Location | None = CALL, file: str = "/p/train.py") -> Setting:
    place = Location(file, line, key="--workers")
    return Setting("loader.num_workers", "loader#1", value, "static", place, spelling="workers", feeds=feeds)  # type: ignore[arg-type]


def test_the_default_of_an_option_that_feeds_the_call_is_trusted() -> None:
    (found,) = located([OBSERVED], [static(4, 7)])
    assert found.trusted
    assert found.location == Location("/p/train.py", 7, key="--workers")
    assert found.spelling == "workers"
    assert found.subject == "loader#train"


def test_another_value_is_not_trusted_and_the_reason_names_both() -> None:
    (found,) = located([OBSERVED], [static(2, 7)])
    assert not found.trusted
    assert found.location == OBSERVED.location
    assert found.why_not == "/p/train.py:7 says 2, but the run had 4"


def test_the_value_of_another_call_is_no_candidate() -> None:
    other = Location("/p/train.py", 40, "DataLoader", end_line=41)
    (found,) = located([OBSERVED], [static(4, 8, feeds=other)])
    assert not found.trusted
    assert found.why_not == "no file that was read sets it"


def test_a_literal_on_another_line_of_its_call_is_trusted_and_that_of_another_call_is_not() -> None:
    (found,) = located([OBSERVED], [static(4, 23), static(4, 43, feeds=Location("/p/train.py", 40, end_line=45))])
    assert found.location == Location("/p/train.py", 23, key="--workers")


def test_a_call_of_another_file_is_no_candidate() -> None:
    (found,) = located([OBSERVED], [static(4, 20, feeds=Location("/p/other.py", 20), file="/p/other.py")])
    assert not found.trusted


def test_two_equal_places_are_not_trusted() -> None:
    (found,) = located([OBSERVED], [static(4, 7), static(4, 9)])
    assert not found.trusted
    assert found.why_not == "more than one place sets it: /p/train.py:7, /p/train.py:9"


def test_one_place_that_feeds_two_loaders_is_one_place() -> None:
    (found,) = located([OBSERVED], [static(4, 7), static(4, 7)])
    assert found.trusted


def test_a_config_that_feeds_no_call_of_its_own_is_a_candidate_for_all() -> None:
    (found,) = located([OBSERVED], [static(4, 3, feeds=None, file="/p/args.yaml")])
    assert found.location == Location("/p/args.yaml", 3, key="--workers")


def test_a_missing_argument_is_trusted_at_the_call() -> None:
    absent = Setting("loader.num_workers", "loader#1", 0, "default", None, feeds=CALL)
    observed = Setting("loader.num_workers", "loader#train", 0, "default", OBSERVED.location)
    (found,) = located([observed], [absent])
    assert found.trusted
    assert found.location == CALL


def test_true_is_not_one() -> None:
    (found,) = located([OBSERVED], [static(True, 7)])
    assert not found.trusted
    observed = Setting("loader.num_workers", "loader#train", 1, "observed", OBSERVED.location)
    (found,) = located([observed], [static(True, 7)])
    assert not found.trusted


def test_a_place_that_may_not_decide_is_not_trusted_and_says_why() -> None:
    doubted = replace(static(4, 7), why_not="the reason")
    (found,) = located([OBSERVED], [doubted])
    assert not found.trusted
    assert found.why_not == "the reason"
    assert found.location == doubted.location  # a person finds it there


THREADS = Setting("train.num_threads", "run", 2, "default")
LINE = Setting(
    "train.num_threads",
    "run",
    None,
    "default",
    Location("/p/train.py", 4, span=Span(30, 30)),
    spelling="torch.set_num_threads",
)


def test_what_nobody_gave_is_trusted_where_a_statement_would_stand() -> None:
    (found,) = located([THREADS], [LINE])
    assert (found.location, found.trusted, found.spelling) == (LINE.location, True, "torch.set_num_threads")
    (found,) = located([THREADS], [replace(LINE, location=None, why_not="no import")])
    assert (found.location, found.trusted, found.why_not) == (None, False, "no import")


def test_what_somebody_gave_elsewhere_gets_no_statement() -> None:
    (found,) = located([replace(THREADS, origin="observed")], [LINE])
    assert (found.location, found.trusted, found.why_not) == (None, False, "no file that was read sets it")
    (found,) = located([THREADS], [LINE, replace(LINE, value=3, location=Location("/p/train.py", 9))])
    assert found.why_not == "/p/train.py:9 says 3, but the run had 2"
