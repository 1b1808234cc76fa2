"""The trials of a search in an Optuna study: they survive a kill, and several tuners may share them.

Optuna's queue decides who tries what: each proposal is enqueued and the next of the queue is run, so that what a tuner
tries is known to the others in the moment in which it begins. Only Optuna's databases have a heartbeat, its journal has
none. One rule serves both: a trial that runs longer than any trial may has lost its tuner, and what it tries is free.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import optuna
from msgspec import Struct, convert, to_builtins
from optuna.exceptions import ExperimentalWarning, OptunaError, UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, GrpcStorageProxy, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from autotune.errors import UsageError
from autotune.machine import storage as disks
from autotune.model.tuned import Candidate, Outcome, SearchTrial, Space
from autotune.tune.parameters import candidate, distributions, labels, params
from autotune.tune.surrogate import Forecaster, SurrogateSampler

JOURNAL = "journal:"
"""Prefix of the path of a file of Optuna's journal."""

GRPC = "grpc://"
"""Prefix of the host and port of Optuna's proxy; any other storage is a database URL."""

FORMS = (
    "a journal (journal:study.journal), a database (postgresql://host/name, sqlite:///study.db) or Optuna's proxy "
    "(grpc://host:13000)"
)
MEMORY = ":memory:"
"""Name of an SQLite database that is no file."""

TRUE = frozenset({"true", "yes", "on", "y", "t", "1"})
"""Spellings of what is true in the query of a URL, as SQLAlchemy reads them."""

GRPC_PORT, GRPC_WAIT_S = 13000, 20.0

RECORD, SPACE, MACHINE = "trial", "space", "machine"
"""Attributes of a trial (the SearchTrial as JSON) and of a study: the axes, and the kind of machine."""

TIMES = "times"
"""Attribute of a trial in the queue: how often its candidate had been tried when it was proposed."""

QUEUED = "fixed_params"
"""Optuna's attribute of a trial that was taken from the queue."""

STATES = {Outcome.COMPLETED: TrialState.COMPLETE, Outcome.PRUNED: TrialState.PRUNED}

LOCK_S = 60
"""SQLite has one writer at a time: how long the others wait for it."""

TRIES, BETWEEN_TRIES_S = 40, 0.05
"""Two tuners that make the tables of a new database at once: the second one tries again."""


class Begun(Struct, frozen=True):
    """A trial that has begun: its number in the study, and what it tries."""

    number: int
    candidate: Candidate
    trial: optuna.Trial


class Study:
    """An open study of one space. Trials of other tuners show up as they end.

    Its methods raise UsageError where the storage does not answer. What ended before is in it.
    """

    def __init__(
        self,
        space: Space,
        forecast: Forecaster,
        storage: str = "",
        name: str = "autotune",
        machine: str = "",
        longest_s: float | None = None,
        on_result: Callable[[SearchTrial], None] = lambda trial: None,
    ) -> None:
        """Open or create the study `name` in `storage`: a journal, a database URL, or "" for memory.

        A trial that has run for `longest_s` is dead; None where no other tuner uses the study: then every trial is that
        still runs. `on_result` is called once a result is stored. Raises UsageError when the storage cannot be used, or
        holds a study of another space or of another kind of machine under this name.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space, self._where, self._longest_s, self._on_result = space, _shown(storage), longest_s, on_result
        self.sampler = SurrogateSampler(space, forecast, lambda study: (self.trials(), self.running()))
        self._study = _opened(storage, name, self.sampler)
        self._own: set[int] = set()
        self._read: dict[int, SearchTrial] = {}
        self._times = Counter[Candidate]()
        with self._reached():
            known = self._study.user_attrs
            if known.get(SPACE, labels(space)) != labels(space):
                raise _of_another("script, machine or set of knobs", name, self._where)
            if known.get(MACHINE, machine) != machine:
                raise _of_another(f"kind of machine: {known[MACHINE]}", name, self._where)
            if SPACE in known and MACHINE not in known and longest_s is not None:
                raise _of_another("version, which shared studies between kinds of machines", name, self._where)
            # In this order: a study with a space has a machine, however many tuners create it at once.
            self._study.set_user_attr(MACHINE, machine)
            self._study.set_user_attr(SPACE, labels(space))

    def trials(self) -> tuple[SearchTrial, ...]:
        """The trials that ended, of all tuners, by number."""
        with self._reached():
            trials = tuple(trial for _, trial in self._ended())
        self._times = Counter(trial.candidate for trial in trials)
        return trials

    def running(self) -> frozenset[Candidate]:
        """What the tuners try at the moment."""
        with self._reached():
            return frozenset(found for _, found in self._running())

    @contextmanager
    def attempt(self, proposed: Candidate) -> Iterator[Begun | None]:
        """Begin a trial, which `tell` ends. None where another tuner has begun the same.

        What was in the queue before comes first. A trial that is left without a result is withdrawn.
        """
        with self._reached():
            self._study.enqueue_trial(params(self._space, proposed), user_attrs={TIMES: self._times[proposed]})
            trial = self._next()
            begun = Begun(trial.number, candidate(self._space, trial.params) or self._space.current, trial)
            is_taken = self._times_before(begun) > trial.user_attrs.get(TIMES, math.inf)
        try:
            yield None if is_taken else begun
        finally:
            with suppress(UsageError), self._reached():
                self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)

    def _next(self) -> optuna.Trial:
        """The next trial of the queue. Where others were faster at each of its trials, Optuna creates one, which they
        cannot see until its parameters are set: it is withdrawn, and what this tuner enqueued still waits. SQLite may
        hand a trial to two tuners: where the other one has ended it already, the next one is taken."""
        while True:
            try:
                trial = self._study.ask(distributions(self._space))
            except UpdateFinishedTrialError:
                continue
            self._own.add(trial.number)
            if QUEUED in self._study.get_trials(deepcopy=False)[trial.number].system_attrs:
                return trial
            self._study.tell(trial, state=TrialState.FAIL)

    def tell(self, begun: Begun, trial: SearchTrial) -> None:
        """How the trial ended. Where somebody else has ended it, the result is added as another one."""
        state = STATES.get(trial.outcome, TrialState.FAIL)
        speed = trial.samples_per_s if state == TrialState.COMPLETE else None
        with self._reached():
            try:
                begun.trial.set_user_attr(RECORD, to_builtins(trial))
                self._study.tell(begun.trial, speed, state=state)
            except (UpdateFinishedTrialError, ValueError):
                self._study.add_trial(
                    create_trial(
                        state=state,
                        value=speed,
                        params=begun.trial.params,
                        distributions=begun.trial.distributions,
                        user_attrs={RECORD: to_builtins(trial)},
                    )
                )
        self._on_result(trial)

    def _ended(self) -> list[tuple[int, SearchTrial]]:
        every = self._study.get_trials(deepcopy=False)
        return [(one.number, self._record(one)) for one in every if _has_result(one)]

    def _record(self, one: FrozenTrial) -> SearchTrial:
        """What a trial that ended was: it stays so, and is read once."""
        if one.number not in self._read:
            self._read[one.number] = convert(one.user_attrs[RECORD], SearchTrial)
        return self._read[one.number]

    def _times_before(self, begun: Begun) -> int:
        """How often the candidate was begun before."""
        every = (*self._running(), *((number, trial.candidate) for number, trial in self._ended()))
        return sum(number < begun.number and found == begun.candidate for number, found in every)

    def _running(self) -> Iterator[tuple[int, Candidate]]:
        """The trials that run, by number, without those whose tuner is dead."""
        for one in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            # Optuna sets the parameters one by one; what was taken from the queue has all of them from the start.
            found = candidate(self._space, one.system_attrs.get(QUEUED, one.params))
            if found is not None and not self._is_dead(one):
                yield one.number, found

    def _is_dead(self, one: FrozenTrial) -> bool:
        if one.number in self._own or one.datetime_start is None:
            return False
        return self._longest_s is None or datetime.now() - one.datetime_start > timedelta(seconds=self._longest_s)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Say where the storage does not answer."""
        try:
            yield
        except _failures() as error:
            raise UsageError(
                f"the study does not answer: {_reason(error)}",
                where=self._where,
                to_do="Repair it, then continue with the same command and --resume: it has all trials that ended.",
            ) from error


def _opened(storage: str, name: str, sampler: BaseSampler) -> optuna.Study:
    """The study `name`, created where there is none."""
    try:
        return optuna.create_study(
            storage=_storage(storage), study_name=name, sampler=sampler, direction="maximize", load_if_exists=True
        )
    except (ImportError, RuntimeError) as error:
        raise _not_opened(storage, error) from error
    except _failures() as error:
        raise _not_opened(storage, error) from error


def _storage(storage: str) -> BaseStorage:
    if not storage:
        return InMemoryStorage()
    if storage.startswith(JOURNAL):
        return _journal(Path(place(storage)))
    if storage.startswith(GRPC):
        return _proxy(storage)
    _check(storage)
    engine = {"connect_args": {"timeout": LOCK_S}} if storage.startswith("sqlite") else {"pool_pre_ping": True}
    for tries_left in reversed(range(TRIES)):
        try:
            return RDBStorage(_with_driver(storage), engine)
        except SQLAlchemyError as error:
            if not tries_left or not (isinstance(error, IntegrityError) or "already exists" in str(error)):
                raise
            time.sleep(BETWEEN_TRIES_S)
    raise AssertionError


def place(storage: str) -> str:
    """The real path of the file of a storage; "" where it has none here."""
    if storage.startswith(JOURNAL):
        return str(Path(storage.removeprefix(JOURNAL)).expanduser().resolve())
    if not storage.startswith("sqlite"):
        return ""
    try:
        file = _sqlite_file(make_url(storage))
    except ArgumentError:
        return ""
    return str(file.resolve()) if file is not None else ""


def _sqlite_file(url: URL) -> Path | None:
    """The file of an SQLite database; None for one in memory. Its name may be a URI: `file:study.db?uri=true`."""
    name = url.database or MEMORY
    if str(url.query.get("uri", "")).lower() in TRUE and name.startswith("file:"):
        if url.query.get("mode") == "memory" or "mode=memory" in urlsplit(name).query.split("&"):
            return None
        name = unquote(urlsplit(name).path)
    return Path(name) if name not in ("", MEMORY) else None


def _journal(file: Path) -> JournalStorage:
    """The lock is a file that is created exclusively: atomic on NFS from version 3 on, and no link, whose target other
    machines may have at another path, or may not have at all."""
    return JournalStorage(JournalFileBackend(str(file), JournalFileOpenLock(str(file))))


def _proxy(url: str) -> GrpcStorageProxy:
    found = urlsplit(url)
    if not found.hostname or found.path.strip("/"):
        raise ValueError("this is not grpc://host:port")
    with warnings.catch_warnings():  # that Optuna may change its interface is for us to know
        warnings.simplefilter("ignore", ExperimentalWarning)
        proxy = GrpcStorageProxy(host=found.hostname, port=found.port or GRPC_PORT)
    proxy.wait_server_ready(timeout=GRPC_WAIT_S)
    return proxy


def _with_driver(url: str) -> str:
    """A PostgreSQL URL without a driver gets the one that the extra brings, where it is there."""
    found = make_url(url)
    if found.drivername != "postgresql" or find_spec("psycopg") is None:
        return url
    return found.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _failures() -> tuple[type[Exception], ...]:
    """What a storage that does not answer raises."""
    grpc = sys.modules.get("grpc")
    return (OSError, ValueError, SQLAlchemyError, OptunaError, *([grpc.RpcError] if grpc is not None else []))


def _not_opened(storage: str, error: Exception) -> UsageError:
    """Why a storage cannot be used; where a package is missing, how to get it."""
    extra = "grpc" if storage.startswith(GRPC) else "postgres" if storage.startswith("postgres") else ""
    if not extra or not isinstance(error, ImportError):
        why = f"the study cannot be kept there: {_reason(error)}"
        return UsageError(why, where=_shown(storage), to_do=f"Name {FORMS}.")
    return UsageError(
        f"this storage needs a package that is not installed ({_reason(error)})",
        where=_shown(storage),
        to_do=f'Install it beside autotune: pip install "autotune-advisor[{extra}]"',
    )


def _check(url: str) -> None:
    """Raises UsageError where SQLite would be on a network file system, whose locks it cannot rely on."""
    found = make_url(url)
    file = _sqlite_file(found) if found.get_backend_name() == "sqlite" else None
    if file is None:
        return
    disk = disks.file_system(file)
    if disk is not None and disk.is_network:
        raise UsageError(
            f"SQLite loses trials on a network file system ({disk.type} at {disk.mount_point})",
            where=url,
            to_do=f"Use Optuna's journal, which is made for it: --study {JOURNAL}{file.with_suffix('.journal')}",
        )


def _shown(storage: str) -> str:
    """The storage as an error names it: without the password of a URL."""
    try:
        return (
            storage if storage.startswith((JOURNAL, GRPC)) else make_url(storage).render_as_string(hide_password=True)
        )
    except ArgumentError:
        return storage


def _of_another(what: str, name: str, where: str) -> UsageError:
    return UsageError(
        f"the study {name} is of another {what}", where=where, to_do="Name another storage, or leave out --resume."
    )


def _reason(error: BaseException) -> str:
    """In one line."""
    return (str(error.__cause__ or error) or type(error).__name__).splitlines()[0]


def _has_result(one: FrozenTrial) -> bool:
    return one.state.is_finished() and RECORD in one.user_attrs
