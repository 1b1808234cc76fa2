from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from dataclasses import asdict, replace

import optuna
import pytest
from optuna.storages import RDBStorage
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError, OperationalError

from autotune.errors import UsageError
from autotune.model.tuned import Axis, Outcome, RanOut, Space, Trial
from autotune.tune import storage
from autotune.tune import study as studies
from autotune.tune.search import done, fastest
from autotune.tune.study import Study

WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 1, 2)), 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((WORKERS, FUSED), memory_limit_bytes=100)


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


def tried(study, candidate, outcome=Outcome.COMPLETED, speed=5.0, **more) -> Trial:
    with study.attempt(candidate) as asked:
        speed = speed if outcome == Outcome.COMPLETED else None
        trial = Trial(asked.number, asked.candidate, outcome, 2.0, samples_per_s=speed, **more)
        study.tell(asked, trial)
    return trial


def test_trials_are_kept_as_they_were_told(url) -> None:
    study = Study(SPACE, url)
    told = (
        tried(study, (0, 0), memory_bytes=120, forecast=1.0),
        tried(study, (1, 1), Outcome.OUT_OF_MEMORY, error="can't allocate memory", ran_out=RanOut.HOST),
        tried(study, (2, 0), Outcome.PRUNED),
    )
    assert study.trials() == told
    assert Study(SPACE, url).trials() == told


def test_what_another_version_kept_beside_is_left_out(url, monkeypatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(studies, "asdict", lambda trial: {**asdict(trial), "changes": {"loader.num_workers": 1}})
        told = tried(Study(SPACE, url), (1, 0))
    assert Study(SPACE, url).trials() == (told,)


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


KILLED = {
    "as it began": "study._beat = killed",
    "before it said what it tries": "optuna.Trial.suggest_categorical = killed",
    "before its first heartbeat was renewed": "study._is_taken = killed",
    "as it ran": "run = killed",
}


@pytest.mark.parametrize("when", KILLED)
def test_the_trial_of_a_tuner_that_was_killed_is_free_again_after_a_while(url, monkeypatch, when: str) -> None:
    script = textwrap.dedent(f"""
        import os, signal
        import optuna
        from autotune.model.tuned import Axis, Space
        from autotune.tune.study import Study

        def killed(*given, **more):
            os.kill(os.getpid(), signal.SIGKILL)

        study = Study({SPACE!r}, {url!r})
        run = print
        {KILLED[when]}
        with study.attempt((1, 0)) as asked:
            run(asked)
    """)
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    states = [one.state for one in optuna.load_study(study_name="autotune", storage=url).get_trials()]
    assert states == [optuna.trial.TrialState.RUNNING]
    for module, name in ((storage, "HEARTBEAT_S"), (storage, "GRACE_S"), (studies, "GRACE_S"), (studies, "BEGIN_S")):
        monkeypatch.setattr(module, name, 1)
    later = Study(SPACE, url)
    for _ in range(50):
        assert later.trials() == ()
        if not optuna.load_study(study_name="autotune", storage=url).get_trials(
            states=(optuna.trial.TrialState.RUNNING,)
        ):
            break
        threading.Event().wait(0.1)
    assert later.running() == frozenset()
    assert tried(later, (1, 0)) in later.trials()
    assert [one.state.name for one in optuna.load_study(study_name="autotune", storage=url).get_trials()] == [
        "FAIL",
        "COMPLETE",
    ]


def test_a_trial_that_is_interrupted_as_it_begins_is_withdrawn(url, monkeypatch) -> None:
    study = Study(SPACE, url)

    def interrupted(number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "_beat", interrupted)
    with pytest.raises(KeyboardInterrupt), study.attempt((1, 0)):
        pass
    read = optuna.load_study(study_name="autotune", storage=url)
    assert [one.state.name for one in read.get_trials()] == ["FAIL"]


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

    def made(*given, **more):
        if trips:
            raise trips.pop()
        return RDBStorage(*given, **more)

    monkeypatch.setattr(storage, "RDBStorage", made)
    assert Study(SPACE, url).trials() == ()
    assert trips == []


def test_a_result_that_comes_after_others_gave_the_trial_up_is_kept_for_all(url) -> None:
    study = Study(SPACE, url)
    with study.attempt((1, 0)) as asked:
        optuna.load_study(study_name="autotune", storage=url).tell(asked.number, state=optuna.trial.TrialState.FAIL)
        trial = Trial(asked.number, (1, 0), Outcome.COMPLETED, 1.0, samples_per_s=1.0, memory_bytes=80)
        study.tell(asked, trial)
    assert study.trials() == Study(SPACE, url).trials() == (trial,)
    kept = optuna.load_study(study_name="autotune", storage=url).best_trial
    assert (kept.value, kept.constraints) == (1.0, {"memory": -20.0})


@pytest.fixture
def broken(monkeypatch):
    """broken(times): the storage fails so often from now on; `pauses` are those of the tuner between its tries."""
    native, left, pauses = Engine.connect, [0], []

    def connect(self, *given, **more):
        if not left[0]:
            return native(self, *given, **more)
        left[0] -= 1
        raise OperationalError("SELECT", {}, Exception("disk I/O error"))

    monkeypatch.setattr(Engine, "connect", connect)
    monkeypatch.setattr(storage.time, "sleep", pauses.append)

    def fail(times: int) -> list[float]:
        left[0] = times
        return pauses

    return fail


def test_a_storage_that_does_not_answer_at_once_is_asked_again(url, broken) -> None:
    study = Study(SPACE, url)
    with study.attempt((1, 0)) as asked:
        pauses = broken(2)
        trial = Trial(asked.number, (1, 0), Outcome.OUT_OF_MEMORY, 1.0, ran_out=RanOut.DEVICE)
        study.tell(asked, trial)
    assert len(pauses) == 2
    assert study.trials() == Study(SPACE, url).trials() == (trial,)
    assert study.lost == ""


@pytest.mark.parametrize("when", ["begins", "runs", "is told"])
def test_a_search_goes_on_in_memory_without_its_storage_and_says_so(url, broken, when: str) -> None:
    study = Study(SPACE, url)
    first = tried(study, (0, 0))
    if when == "begins":
        broken(10**6)
    with study.attempt((1, 0)) as asked:
        if when == "runs":
            broken(10**6)
            assert study.trials() == (first,)
        broken(10**6)
        second = Trial(asked.number, (1, 0), Outcome.COMPLETED, 1.0, samples_per_s=7.0)
        study.tell(asked, second)
    assert study.trials() == (first, second)
    third = tried(study, (2, 0))
    assert study.trials() == (first, second, third)
    assert study.running() == frozenset()
    assert study.lost.startswith("the study could not be reached any more (")
    assert "disk I/O error" in study.lost
    assert study.lost.endswith("will know what was tried after trial 0")
    broken(0)
    assert Study(SPACE, url).trials() == (first,)


def test_a_heartbeat_that_fails_does_not_end_the_trial(url, broken, monkeypatch) -> None:
    monkeypatch.setattr(studies, "HEARTBEAT_S", 0.01)
    study = Study(SPACE, url)
    with study.attempt((1, 0)):
        broken(3)
        threading.Event().wait(0.3)
        assert study.running() == {(1, 0)}
    assert study.lost == ""


def test_each_machine_measures_the_users_own_and_shares_the_rest(url) -> None:
    fast, slow = (Study(SPACE, url, machine=name) for name in ("fast", "slow"))
    tried(fast, (0, 0), speed=20.0)
    slower = tried(fast, (1, 0), speed=16.0)
    assert slow.trials() == ()
    with fast.attempt((0, 0)):
        assert (fast.running(), slow.running()) == ({(0, 0)}, frozenset())
        own = tried(slow, (0, 0), speed=10.0)
    assert slow.trials() == (replace(slower, samples_per_s=8.0), own)
    trials = slow.trials()
    assert fastest(SPACE, lambda settings: None, trials, done(SPACE, trials)) == (0, 0)
    with fast.attempt((2, 0)) as asked:
        assert asked is not None
        assert slow.running() == {(2, 0)}
        with slow.attempt((2, 0)) as again:
            assert again is None
