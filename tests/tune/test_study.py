from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
import threading
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise

import optuna
import pytest
from msgspec import to_builtins
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import IntegrityError, OperationalError

from autotune.errors import UsageError
from autotune.machine.storage import FileSystem
from autotune.model.tuned import Axis, Outcome, OutOfMemoryNote, SearchTrial, Space
from autotune.tune import study as module
from autotune.tune.parameters import labels
from autotune.tune.study import JOURNAL, Study

pytestmark = pytest.mark.usefixtures("few_beside")

WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 1, 2)), 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((WORKERS, FUSED), memory_limit_bytes=100)


@pytest.fixture
def storage(tmp_path) -> str:
    return f"{JOURNAL}{tmp_path / 'study.journal'}"


@pytest.fixture(params=["journal", "database"])
def any_storage(request, storage, tmp_path) -> str:
    return storage if request.param == "journal" else f"sqlite:///{tmp_path / 'study.db'}"


def unknown(settings) -> None:
    return None


def opened(storage: str = "", space: Space = SPACE, **fields) -> Study:
    return Study(space, unknown, storage, **fields)


def native(storage: str) -> optuna.Study:
    """The study as another program opens it."""
    file = storage.removeprefix(JOURNAL)
    found = JournalStorage(JournalFileBackend(file)) if file != storage else storage
    return optuna.load_study(study_name="autotune", storage=found)


def tried(study, candidate, outcome=Outcome.COMPLETED, speed=5.0, **more) -> SearchTrial:
    with study.attempt(candidate) as begun:
        speed = speed if outcome == Outcome.COMPLETED else None
        trial = SearchTrial(begun.number, begun.candidate, outcome, 2.0, samples_per_s=speed, **more)
        study.tell(begun, trial)
    return trial


def test_trials_are_read_as_they_were_written(any_storage) -> None:
    study = opened(any_storage)
    written = (
        tried(study, (0, 0), memory_bytes=120, forecast=1.0),
        tried(study, (1, 1), Outcome.OUT_OF_MEMORY, error="can't allocate memory", ran_out=OutOfMemoryNote.HOST),
        tried(study, (2, 0), Outcome.PRUNED),
    )
    assert study.trials() == written
    assert opened(any_storage).trials() == written


def test_fields_of_another_version_are_left_out(storage, monkeypatch) -> None:
    with monkeypatch.context() as other:
        beside = {"changes": {"loader.num_workers": 1}}
        other.setattr(module, "to_builtins", lambda trial: {**to_builtins(trial), **beside})
        trial = tried(opened(storage), (1, 0))
    assert opened(storage).trials() == (trial,)


def test_another_program_can_read_the_study(any_storage) -> None:
    study = opened(any_storage)
    tried(study, (0, 0), memory_bytes=120)
    tried(study, (1, 1), speed=7.0)
    tried(study, (2, 1), Outcome.FAILED)
    tried(study, (2, 0), Outcome.OUT_OF_MEMORY)
    read = native(any_storage)
    assert read.best_trial.params == {"workers": "num_workers=1", "fused": "fused=True"}
    assert [one.state.name for one in read.trials] == ["COMPLETE", "COMPLETE", "FAIL", "FAIL"]
    assert read.trials[0].user_attrs["trial"]["memory_bytes"] == 120


def test_what_a_tuner_tries_is_known_to_the_others(storage) -> None:
    mine, other = opened(storage, longest_s=60.0), opened(storage, longest_s=60.0)
    with mine.attempt((1, 0)) as begun:
        assert begun is not None
        assert mine.running() == other.running() == {(1, 0)}
        with other.attempt((1, 0)) as same:
            assert same is None
        with other.attempt((2, 0)) as elsewhere:
            assert elsewhere is not None
    assert mine.running() == other.running() == frozenset()


def test_what_another_tuner_ended_meanwhile_is_not_begun(storage) -> None:
    mine, other = opened(storage, longest_s=60.0), opened(storage, longest_s=60.0)
    tried(other, (1, 0))
    with mine.attempt((1, 0)) as begun:
        assert begun is None
    assert len(mine.trials()) == 1  # now it is known: this is a second measurement
    with mine.attempt((1, 0)) as second:
        assert second is not None


def test_a_trial_without_a_result_is_withdrawn(storage) -> None:
    study = opened(storage)
    with pytest.raises(KeyboardInterrupt), study.attempt((1, 0)):
        raise KeyboardInterrupt
    assert (study.trials(), study.running()) == ((), frozenset())
    assert [one.state.name for one in native(storage).trials] == ["FAIL"]


KILLED = {
    "as it enqueued": "optuna.Study.ask = killed",
    "before it set its parameters": "optuna.Trial._suggest = killed",
    "as it ran": "run = killed",
}


@pytest.mark.parametrize("when", KILLED)
def test_the_trial_of_a_killed_tuner_is_free(storage, when: str) -> None:
    script = textwrap.dedent(f"""
        import os, signal
        import optuna
        from autotune.model.tuned import Axis, Space, SearchTrial, Outcome
        from autotune.tune.study import Study

        def killed(*given, **more):
            os.kill(os.getpid(), signal.SIGKILL)

        study = Study({SPACE!r}, lambda settings: None, {storage!r})
        with study.attempt((0, 0)) as begun:
            study.tell(begun, SearchTrial(begun.number, (0, 0), Outcome.COMPLETED, 2.0, samples_per_s=5.0))
        run = print
        {KILLED[when]}
        with study.attempt((1, 0)) as begun:
            run(begun)
    """)
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    shared = opened(storage, longest_s=60.0)
    assert len(shared.trials()) == 1
    assert shared.running() == (frozenset() if when == "as it enqueued" else {(1, 0)})
    late = opened(storage, longest_s=0.0)
    assert late.running() == frozenset()
    alone = opened(storage)
    assert alone.running() == frozenset()
    trial = tried(alone, (1, 0))
    assert opened(storage).trials()[1:] == (trial,)


def test_a_result_is_not_lost_where_somebody_else_ended_the_trial(storage) -> None:
    study = opened(storage)
    with study.attempt((1, 0)) as begun:
        native(storage).tell(begun.number, state=optuna.trial.TrialState.FAIL)
        trial = SearchTrial(begun.number, (1, 0), Outcome.COMPLETED, 1.0, samples_per_s=1.0, memory_bytes=80)
        study.tell(begun, trial)
    assert study.trials() == opened(storage).trials() == (trial,)
    assert native(storage).best_trial.value == 1.0


def test_the_queue_of_another_program_comes_first(storage) -> None:
    study = opened(storage)
    native(storage).enqueue_trial({"workers": "num_workers=2", "fused": "fused=True"})
    with study.attempt((0, 0)) as begun:
        assert begun.candidate == (2, 1)


def test_a_study_of_another_space_or_kind_of_machine_is_refused(storage) -> None:
    opened(storage, machine="EPYC, A100")
    with pytest.raises(UsageError, match="of another script, machine or set of knobs"):
        opened(storage, Space((WORKERS,)), machine="EPYC, A100")
    with pytest.raises(UsageError, match="of another kind of machine: EPYC, A100"):
        opened(storage, machine="EPYC, H100")
    assert opened(storage, machine="EPYC, A100").trials() == ()


def test_a_study_of_an_earlier_version_is_continued_where_no_other_machine_could_use_it(storage) -> None:
    study = optuna.create_study(study_name="autotune", storage=module._storage(storage), direction="maximize")
    study.set_user_attr("space", labels(SPACE))
    with pytest.raises(UsageError, match="of another version, which shared studies between kinds of machines"):
        opened(storage, machine="EPYC", longest_s=60.0)
    assert opened(storage, machine="EPYC").trials() == ()
    assert opened(storage, machine="EPYC", longest_s=60.0).trials() == ()


@pytest.mark.parametrize(
    "storage",
    ["nonsense", "sqlite:////nowhere/at/all/study.db", "nosuchdb://host/name", "journal:/nowhere/at/all/study.journal"],
)
def test_a_storage_that_cannot_be_used_is_named(storage) -> None:
    with pytest.raises(UsageError, match="the study cannot be kept there") as raised:
        opened(storage)
    assert raised.value.where == storage
    assert "journal:study.journal" in raised.value.to_do


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ("journal:study.journal", "/p/study.journal"),
        ("journal:/shared/study.journal", "/shared/study.journal"),
        ("sqlite:///study.db", "/p/study.db"),
        ("sqlite:///file:study.db?uri=true", "/p/study.db"),
        ("sqlite:///file:a%2520b.db?mode=rwc&uri=1", "/p/a b.db"),
        ("sqlite:///file:///d/study.db?uri=true", "/d/study.db"),
        ("sqlite:///file:study.db", "/p/file:study.db"),
        ("sqlite:///file:x?mode=memory&cache=shared&uri=true", ""),
        ("sqlite:///file::memory:?cache=shared&uri=true", ""),
        ("sqlite:///:memory:", ""),
        ("sqlite://", ""),
        ("postgresql://me@host/name", ""),
        ("grpc://host:13000", ""),
        ("", ""),
        ("sqlite nonsense", ""),
    ],
)
def test_where_the_files_of_a_study_lie(storage, expected, monkeypatch) -> None:
    monkeypatch.setattr(module.Path, "resolve", lambda path: module.Path("/p").joinpath(path))
    assert module.place(storage) == expected


def test_an_error_names_no_password() -> None:
    with pytest.raises(UsageError, match="the study cannot be kept there") as raised:
        opened("nosuchdb://me:s3cret@host/name")
    assert raised.value.where == "nosuchdb://me:***@host/name"
    assert "s3cret" not in str(raised.value)


def test_sqlite_on_a_network_file_system_is_refused_with_the_way_out(tmp_path, monkeypatch) -> None:
    network = FileSystem("nfs4", "server:/home", "/home", is_network=True)
    monkeypatch.setattr(module.disks, "file_system", lambda path: network)
    with pytest.raises(UsageError, match=r"SQLite loses trials on a network file system \(nfs4 at /home\)") as raised:
        opened(f"sqlite:///{tmp_path / 'study.db'}")
    assert f"--study journal:{tmp_path / 'study.journal'}" in raised.value.to_do
    assert not list(tmp_path.iterdir())
    assert opened(f"{JOURNAL}{tmp_path / 'study.journal'}").trials() == ()


@pytest.mark.parametrize(
    "error",
    [
        IntegrityError("INSERT INTO alembic_version", {}, Exception("UNIQUE constraint failed")),
        OperationalError("CREATE TABLE studies", {}, Exception("table studies already exists")),
    ],
    ids=["row", "table"],
)
def test_a_database_whose_tables_another_tuner_creates_is_opened_again(tmp_path, monkeypatch, error) -> None:
    failures = [error, error]

    def create(*given, **more):
        if failures:
            raise failures.pop()
        return RDBStorage(*given, **more)

    monkeypatch.setattr(module, "RDBStorage", create)
    assert opened(f"sqlite:///{tmp_path / 'study.db'}").trials() == ()
    assert failures == []


def test_a_storage_that_does_not_answer_is_named_and_has_what_ended_before(tmp_path, monkeypatch) -> None:
    storage = f"{JOURNAL}{tmp_path / 'study.journal'}"
    study = opened(storage)
    first = tried(study, (0, 0))

    def full(self, logs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(JournalFileBackend, "append_logs", full)
        with pytest.raises(UsageError, match=r"does not answer: .*No space left") as raised, study.attempt((1, 0)):
            pass
    assert raised.value.where == storage
    assert "--resume" in raised.value.to_do
    assert opened(storage).trials() == (first,)


def test_a_result_is_announced_once_it_is_stored(storage) -> None:
    announced = []
    study = Study(SPACE, unknown, storage, on_result=lambda trial: announced.append((trial, opened(storage).trials())))
    trial = tried(study, (0, 0))
    assert announced == [(trial, (trial,))]


def test_many_tuners_lose_no_trial_and_try_nothing_twice(any_storage) -> None:
    every = [(workers, fused) for workers in range(3) for fused in range(2)]
    opened(any_storage)
    begun_by_all, together = [], threading.Barrier(4)

    def tune() -> None:
        study = opened(any_storage, longest_s=60.0)
        together.wait()
        for candidate in every * 3:
            if candidate in [one.candidate for one in study.trials()] or candidate in study.running():
                continue
            with study.attempt(candidate) as begun:
                if begun is not None:
                    begun_by_all.append(begun.candidate)
                    study.tell(
                        begun, SearchTrial(begun.number, begun.candidate, Outcome.COMPLETED, 1.0, samples_per_s=1.0)
                    )

    threads = [threading.Thread(target=tune) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted({one.candidate for one in opened(any_storage).trials()}) == every
    if any_storage.startswith(JOURNAL):  # Optuna's queue in SQLite may give one trial to two
        assert sorted(begun_by_all) == every


def test_a_journal_needs_no_link_of_the_file_system(storage, monkeypatch) -> None:
    """Nodes may mount its folder at different places, where the target of a link is not there."""

    def refused(*given):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.symlink", refused)
    tried(opened(storage), (1, 0))
    assert len(opened(storage).trials()) == 1


@pytest.mark.parametrize(
    ("url", "has_driver", "expected"),
    [
        ("postgresql://me:pw@host/db", True, "postgresql+psycopg://me:pw@host/db"),
        ("postgresql://host/db", False, "postgresql://host/db"),
        ("postgresql+psycopg2://host/db", True, "postgresql+psycopg2://host/db"),
        ("mysql://host/db", True, "mysql://host/db"),
    ],
)
def test_postgresql_gets_the_driver_of_the_extra(monkeypatch, url, has_driver, expected) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: object() if has_driver else None)
    assert module._with_driver(url) == expected


@pytest.mark.parametrize(
    ("storage", "package", "extra"),
    [("grpc://host:13000", "grpc", "grpc"), ("postgresql://host/db", "psycopg", "postgres")],
)
def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, storage, package, extra) -> None:
    def missing(*given, **more):
        raise ImportError(f"No module named '{package}'")

    monkeypatch.setattr(module, "GrpcStorageProxy", missing)
    monkeypatch.setattr(module, "RDBStorage", missing)
    with pytest.raises(UsageError, match=package) as raised:
        opened(storage)
    assert f'pip install "autotune-advisor[{extra}]"' in raised.value.to_do


@pytest.mark.parametrize("storage", ["grpc://", "grpc://host:many", "grpc://host/path"])
def test_an_address_of_a_proxy_that_is_none(storage) -> None:
    with pytest.raises(UsageError, match="the study cannot be kept there") as raised:
        opened(storage)
    assert raised.value.where == storage


MANY = Space((Axis("many", "run", tuple({"x.many": value} for value in range(40)), 0),), memory_limit_bytes=100)
LONGEST_S = 3.0
MOST_STOPPED = 2 * 2
"""Two locks that are left behind, and two tuners that go on."""

TUNER = """
import sys, time
from autotune.model.tuned import Axis, Space, SearchTrial, Outcome
from autotune.tune.study import Study

space = {space!r}
study = Study(space, lambda settings: None, {storage!r}, longest_s={longest})
print("opened", flush=True)
while len(trials := study.trials()) < 40:
    proposal = study.sampler.propose(trials, study.running())
    if proposal is None:
        time.sleep(0.2)
        continue
    with study.attempt(proposal.candidate) as begun:
        if begun is not None:
            time.sleep(0.25)
            result = SearchTrial(begun.number, begun.candidate, Outcome.COMPLETED, 0.1, samples_per_s=5.0)
            study.tell(begun, result)
            print(*begun.candidate, flush=True)
"""


def test_tuners_that_are_killed_at_any_moment_lose_nothing_that_ended_and_others_go_on(storage) -> None:
    """Four processes on one journal, of which two are killed without a warning."""
    code = TUNER.format(space=MANY, storage=storage, longest=LONGEST_S)
    tuners = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for one in tuners:
        assert one.stdout.readline() == "opened\n"
    told = [(one, one.stdout.readline()) for one in tuners[:2]]  # each has ended a trial
    for one, _ in told:
        one.kill()
    outputs = [one.communicate(timeout=120)[0] for one in tuners]
    assert [one.returncode for one in tuners] == [-9, -9, 0, 0]
    said = [line for _, line in told] + [line for out in outputs for line in out.splitlines(keepends=True)]
    ended = {trial.candidate for trial in opened(storage, MANY).trials()}
    assert {(int(line),) for line in said} <= ended == {(value,) for value in range(40)}
    # A tuner that is killed while it holds the journal's lock stops the others for 30 s. A trial that one of them had
    # begun then counts as lost, and may be tried again: once, and not before its longest time is over.
    starts = defaultdict(list)
    for one in native(storage).trials:
        if module.RECORD in one.user_attrs:
            starts[tuple(one.user_attrs[module.RECORD]["candidate"])].append(one.datetime_start)
    gaps = [later - earlier for times in starts.values() for earlier, later in pairwise(sorted(times))]
    assert len(gaps) <= MOST_STOPPED
    assert all(gap > timedelta(seconds=LONGEST_S) for gap in gaps)


PROXY = """
import sys
from optuna.storages import JournalStorage, run_grpc_proxy_server
from optuna.storages.journal import JournalFileBackend
run_grpc_proxy_server(JournalStorage(JournalFileBackend(sys.argv[1])), host="127.0.0.1", port=int(sys.argv[2]))
"""


def test_tuners_share_a_study_through_optunas_proxy(tmp_path) -> None:
    pytest.importorskip("grpc", reason="the extra [grpc] is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", PROXY, str(tmp_path / "study.journal"), str(port)])
    try:
        one, other = (opened(f"grpc://127.0.0.1:{port}", longest_s=60.0) for _ in range(2))
        trial = tried(one, (1, 0))
        assert other.trials() == (trial,)
        with one.attempt((2, 0)) as begun, other.attempt((2, 0)) as same:
            assert begun is not None and same is None
    finally:
        server.kill()
        server.wait()
    with pytest.raises(UsageError, match="the study does not answer"):
        other.trials()
