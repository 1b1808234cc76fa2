from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import optuna
import pytest
from optuna.storages import RDBStorage
from sqlalchemy.exc import IntegrityError, OperationalError

from autotune.errors import UsageError
from autotune.model.tuned import Axis, Outcome, Space, Trial
from autotune.tune import study as studies
from autotune.tune.study import Study

WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 1, 2)), 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((WORKERS, FUSED), memory_limit_bytes=100)


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


def tried(study, candidate, outcome=Outcome.COMPLETED, **more) -> Trial:
    with study.attempt(candidate) as asked:
        speed = 5.0 if outcome == Outcome.COMPLETED else None
        trial = Trial(
            asked.number, asked.candidate, SPACE.changes(asked.candidate), outcome, 2.0, samples_per_s=speed, **more
        )
        study.tell(asked, trial)
    return trial


def test_trials_are_kept_as_they_were_told(url) -> None:
    study = Study(SPACE, url)
    told = (
        tried(study, (0, 0), memory_bytes=120, forecast=1.0),
        tried(study, (1, 1), Outcome.OUT_OF_MEMORY, error="can't allocate memory"),
        tried(study, (2, 0), Outcome.PRUNED),
    )
    assert study.trials() == told
    assert Study(SPACE, url).trials() == told


def test_what_a_trial_changes_is_seen_from_what_the_user_has_now(url) -> None:
    tried(Study(SPACE, url), (2, 0))
    now = Space((replace(WORKERS, current=2), FUSED), memory_limit_bytes=100)
    assert [trial.changes for trial in Study(now, url).trials()] == [{}]


def test_another_program_can_read_the_study(url) -> None:
    study = Study(SPACE, url, "mine")
    tried(study, (0, 0), memory_bytes=120)
    tried(study, (1, 1), memory_bytes=90)
    tried(study, (2, 1), Outcome.FAILED)
    read = optuna.load_study(study_name="mine", storage=url)
    assert read.best_trial.params == {"workers": "num_workers=1", "fused": "fused=True"}
    assert [one.state.name for one in read.trials] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert read.trials[0].constraints == {"memory": 20.0}


def test_what_runs_is_known_until_it_is_told(url) -> None:
    mine, other = Study(SPACE, url), Study(SPACE, url)
    with mine.attempt((1, 0)) as asked:
        assert other.running() == {(1, 0)}
        with other.attempt((1, 0)) as again:
            assert again is None
        with other.attempt((2, 0)) as elsewhere:
            assert elsewhere is not None
        assert asked is not None
    assert mine.running() == other.running() == frozenset()


def test_a_trial_that_is_interrupted_is_withdrawn(url) -> None:
    study = Study(SPACE, url)
    with pytest.raises(KeyboardInterrupt), study.attempt((1, 0)):
        raise KeyboardInterrupt
    assert study.trials() == ()
    assert study.running() == frozenset()


def test_the_trial_of_a_tuner_that_was_killed_is_free_again_after_a_while(url, monkeypatch) -> None:
    script = textwrap.dedent(f"""
        import os, signal
        from autotune.model.tuned import Axis, Space
        from autotune.tune.study import Study
        study = Study({SPACE!r}, {url!r})
        with study.attempt((1, 0)):
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert Study(SPACE, url).running() == {(1, 0)}
    monkeypatch.setattr(studies, "HEARTBEAT_S", 1)
    monkeypatch.setattr(studies, "GRACE_S", 1)
    later = Study(SPACE, url)
    for _ in range(50):
        later.trials()
        if not later.running():
            break
        threading.Event().wait(0.1)
    assert later.running() == frozenset()
    assert later.trials() == ()


def test_what_somebody_put_into_the_queue_comes_first(url) -> None:
    study = Study(SPACE, url)
    queue = optuna.load_study(study_name="autotune", storage=url)
    queue.enqueue_trial({"workers": "num_workers=2", "fused": "fused=True"})
    with study.attempt((0, 0)) as asked:
        assert asked.candidate == (2, 1)


def test_a_study_of_another_space_is_refused(url) -> None:
    Study(SPACE, url)
    with pytest.raises(UsageError, match="of another script, machine or set of knobs"):
        Study(Space((WORKERS,)), url)


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////nowhere/at/all/study.db", "nosuchdb://host/name"])
def test_a_storage_that_cannot_be_used_is_said(url) -> None:
    with pytest.raises(UsageError, match="the study cannot be kept there") as raised:
        Study(SPACE, url)
    assert raised.value.where == url


@pytest.mark.parametrize(
    "error",
    [
        IntegrityError("INSERT INTO alembic_version", {}, Exception("UNIQUE constraint failed")),
        OperationalError("CREATE TABLE studies", {}, Exception("table studies already exists")),
    ],
    ids=["row", "table"],
)
def test_a_storage_whose_tables_another_tuner_makes_at_the_moment_is_tried_again(url, monkeypatch, error) -> None:
    trips = [error, error]

    def storage(*given, **more):
        if trips:
            raise trips.pop()
        return RDBStorage(*given, **more)

    monkeypatch.setattr(studies, "RDBStorage", storage)
    assert Study(SPACE, url).trials() == ()
    assert trips == []


def test_a_result_that_comes_after_others_gave_the_trial_up_is_no_error(url) -> None:
    study = Study(SPACE, url)
    with study.attempt((1, 0)) as asked:
        optuna.load_study(study_name="autotune", storage=url).tell(asked.number, state=optuna.trial.TrialState.FAIL)
        study.tell(asked, Trial(asked.number, (1, 0), {}, Outcome.COMPLETED, 1.0, samples_per_s=1.0))
    assert study.trials() == ()
