"""The trials of a search, kept as an Optuna study: they outlive a kill, and several tuners may share them.

Optuna is imported here and nowhere else. Its study holds the points of a candidate as labels (its dashboard shows
them), the speed as the value that is maximised, and the rest of a Trial as attributes.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from autotune.errors import UsageError
from autotune.model.evidence import Value
from autotune.model.tuned import Candidate, Outcome, Space, Trial

HEARTBEAT_S, GRACE_S = 5, 30
"""A tuner says this often that its trial is running; after so much silence it is taken to be dead."""

LOCK_S = 60
"""So long a tuner waits for another that writes."""

TRIES, BETWEEN_TRIES_S = 40, 0.05
"""A tuner that begins a trial has said what it tries by then, or died; one that makes tables has made them."""

RECORD, SPACE = "trial", "space"
"""Attributes: a trial as JSON, and the axes that the study is of."""

STATES = {Outcome.COMPLETED: TrialState.COMPLETE, Outcome.PRUNED: TrialState.PRUNED}


@dataclass(frozen=True, slots=True)
class Asked:
    """A trial that has begun: its number in the study, and what it is to try."""

    number: int
    candidate: Candidate
    trial: optuna.Trial


class Study:
    """An open study of one space. Trials that other tuners make in it show up as they end."""

    def __init__(self, space: Space, url: str = "", name: str = "autotune") -> None:
        """Open or make the study `name` in the storage `url` ("" keeps it in memory).

        Raises UsageError when the storage cannot be used, or holds a study of another space under this name.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._name, self._sampler = space, name, _Chosen()
        self._labels = {axis.name: [_label(point) for point in axis.points] for axis in space.axes}
        self._known: set[int] = set()
        self._storage, self._study = _opened(url, name, self._sampler)
        if self._study.user_attrs.get(SPACE, self._labels) != self._labels:
            raise UsageError(
                f"the study {name} is of another script, machine or set of knobs",
                where=url,
                to_do="Name another storage, or leave out --resume.",
            )
        self._study.set_user_attr(SPACE, self._labels)

    def trials(self) -> tuple[Trial, ...]:
        """The trials that ended, of all tuners, by number; those that died with their tuner are not among them."""
        with _unwarned():
            fail_stale_trials(self._study)
        ended = [one for one in self._study.get_trials(deepcopy=False) if _is_told(one)]
        self._known = {one.number for one in ended}
        return tuple(_trial(one.user_attrs[RECORD], self._space) for one in ended)

    def running(self) -> frozenset[Candidate]:
        """What tuners, this one included, are trying now."""
        found = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return frozenset(self._candidate(one.params) for one in found if self._is_whole(one))

    @contextmanager
    def attempt(self, candidate: Candidate) -> Iterator[Asked | None]:
        """Begin a trial, which `tell` ends: None when another tuner began the same a moment before.

        One that somebody put into the study's queue comes first. A trial that is left without having been told is
        withdrawn.
        """
        self._sampler.chosen = {
            name: labels[at] for (name, labels), at in zip(self._labels.items(), candidate, strict=True)
        }
        with _unwarned():
            trial = self._study.ask({name: CategoricalDistribution(labels) for name, labels in self._labels.items()})
        asked = Asked(trial.number, self._candidate(trial.params), trial)
        try:
            with self._alive(asked):
                yield None if self._is_taken(asked) else asked
        finally:
            self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)

    def _is_taken(self, asked: Asked) -> bool:
        """Whether a trial of the same began before, and was not known when this one was chosen."""
        others = [one for one in self._before(asked) if one.number not in self._known]
        return any(self._candidate(one.params) == asked.candidate for one in others)

    def _before(self, asked: Asked) -> list[FrozenTrial]:
        """The trials with a lower number that run or were told. What another tuner just begins is waited for."""
        every: list[FrozenTrial] = []
        for _ in range(TRIES):
            every = [one for one in self._study.get_trials(deepcopy=False) if one.number < asked.number]
            if all(self._is_whole(one) for one in every if one.state == TrialState.RUNNING):
                break
            time.sleep(BETWEEN_TRIES_S)
        return [one for one in every if _is_told(one) or (one.state == TrialState.RUNNING and self._is_whole(one))]

    def _is_whole(self, one: FrozenTrial) -> bool:
        """Whether its tuner has said what it tries."""
        return one.params.keys() == self._labels.keys()

    def tell(self, asked: Asked, trial: Trial) -> None:
        """How the trial ended."""
        try:
            for name, value in _constraints(trial, self._space).items():
                asked.trial.set_constraint(name, value)
            asked.trial.set_user_attr(RECORD, asdict(trial))
        except optuna.exceptions.UpdateFinishedTrialError:
            return  # another tuner took this one for dead
        state = STATES.get(trial.outcome, TrialState.FAIL)
        speed = trial.samples_per_s if state == TrialState.COMPLETE else None
        self._study.tell(asked.trial, speed, state=state, skip_if_finished=True)

    def _candidate(self, params: Mapping[str, Any]) -> Candidate:
        return tuple(labels.index(params[name]) for name, labels in self._labels.items())

    @contextmanager
    def _alive(self, asked: Asked) -> Iterator[None]:
        """Other tuners hear meanwhile that the trial goes on."""
        storage, ended = self._storage, threading.Event()
        if not isinstance(storage, RDBStorage):
            yield
            return
        number = storage.get_trial_id_from_study_id_trial_number(
            storage.get_study_id_from_name(self._name), asked.number
        )

        def beat() -> None:
            while not ended.wait(HEARTBEAT_S):
                storage.record_heartbeat(number)

        storage.record_heartbeat(number)
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class _Chosen(optuna.samplers.BaseSampler):
    """Gives a trial what was chosen for it."""

    def __init__(self) -> None:
        self.chosen: Mapping[str, str] = {}

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.chosen[param_name]


def _opened(url: str, name: str, sampler: _Chosen) -> tuple[optuna.storages.BaseStorage, optuna.Study]:
    try:
        with _unwarned():
            storage = _storage(url)
            study = optuna.create_study(
                storage=storage, study_name=name, sampler=sampler, direction="maximize", load_if_exists=True
            )
    except (ImportError, ValueError, RuntimeError, SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        raise UsageError(
            f"the study cannot be kept there: {str(error).splitlines()[0]}",
            where=url,
            to_do="A storage is written as SQLAlchemy does: sqlite:///study.db, postgresql://host/name ...",
        ) from error
    return storage, study


def _storage(url: str, tries: int = TRIES) -> optuna.storages.BaseStorage:
    """The storage. A fresh one is tried again while another tuner is just making its tables."""
    if not url:
        return optuna.storages.InMemoryStorage()
    try:
        return RDBStorage(url, _engine(url), heartbeat_interval=HEARTBEAT_S, grace_period=GRACE_S)
    except SQLAlchemyError as error:
        if tries == 1 or not (isinstance(error, IntegrityError) or "already exists" in str(error)):
            raise
    time.sleep(BETWEEN_TRIES_S)
    return _storage(url, tries - 1)


def _engine(url: str) -> dict[str, Any]:
    """SQLite has one writer at a time; the others wait for it."""
    return {"connect_args": {"timeout": LOCK_S}} if url.startswith("sqlite") else {}


@contextmanager
def _unwarned() -> Iterator[None]:
    """Without the warnings that heartbeats are experimental, and meant for another way of running trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield


def _label(point: Mapping[str, Value]) -> str:
    """A point as the study's reader sees it: "num_workers=2 prefetch_factor=8"."""
    return " ".join(f"{name.partition('.')[2]}={value}" for name, value in point.items())


def _is_told(one: FrozenTrial) -> bool:
    """A trial that ended, and not with its tuner."""
    return one.state.is_finished() and RECORD in one.user_attrs


def _trial(row: Mapping[str, Any], space: Space) -> Trial:
    """The trial as it was told; what it changes is seen from what the user has now."""
    candidate = tuple(row["candidate"])
    kept = {"candidate": candidate, "changes": space.changes(candidate), "outcome": Outcome(row["outcome"])}
    return Trial(**{**row, **kept})


def _constraints(trial: Trial, space: Space) -> Mapping[str, float]:
    """Bytes above the limit: a trial keeps it at 0 or less. One that ran out of memory is above it by what it may."""
    limit = space.memory_limit_bytes
    if limit is None:
        return {}
    if trial.outcome == Outcome.OUT_OF_MEMORY:
        return {"memory": float(limit)}
    return {} if trial.memory_bytes is None else {"memory": float(trial.memory_bytes - limit)}
