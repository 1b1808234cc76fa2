"""The trials of a search, kept as an Optuna study: they outlive a kill, and several tuners may share them.

Optuna is imported here and in storage.py, and nowhere else. Its study holds the points of a candidate as labels (its
dashboard shows them), the speed as the value that is maximised, and the rest of a Trial as attributes.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState

from autotune.errors import UsageError
from autotune.machine import limits
from autotune.model.evidence import Value
from autotune.model.tuned import Candidate, Outcome, RanOut, Space, Trial
from autotune.tune.machines import Told, as_here
from autotune.tune.storage import (
    BETWEEN_TRIES_S,
    GRACE_S,
    HEARTBEAT_S,
    LOST,
    Chosen,
    opened,
    reason,
    retried,
    unwarned,
)

RECORD, SPACE, MACHINE = "trial", "space", "machine"
"""Attributes: a trial as JSON, the axes that the study is of, and whose trial it is."""

BEGIN_S = 2.0
"""A tuner that begins a trial has said what it tries by then, or died."""

STATES = {Outcome.COMPLETED: TrialState.COMPLETE, Outcome.PRUNED: TrialState.PRUNED}

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asked:
    """A trial that has begun: its number in the study, and what it is to try."""

    number: int
    candidate: Candidate
    trial: optuna.Trial


class Study:
    """An open study of one space. Trials that other tuners make in it show up as they end.

    `lost` says why its storage does not answer any more, "" while it does. The search goes on in memory then, with all
    that was known.
    """

    def __init__(self, space: Space, url: str = "", name: str = "autotune", machine: str = "") -> None:
        """Open or make the study `name` in the storage `url` ("" keeps it in memory), for trials of `machine` ("" is
        this one).

        Raises UsageError when the storage cannot be used, or holds a study of another space under this name.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._name, self._sampler = space, name, Chosen()
        self._machine = machine or f"{platform.node()}, {limits.cpu_name()}"
        self._labels = {axis.name: [_label(point) for point in axis.points] for axis in space.axes}
        self._distributions: dict[str, BaseDistribution] = {
            axis: CategoricalDistribution(labels) for axis, labels in self._labels.items()
        }
        self._told: list[Told] = []
        self._known: set[int] = set()
        self._silent: dict[int, float] = {}
        self.lost = ""
        self._storage, self._study = opened(url, name, self._sampler)
        if self._study.user_attrs.get(SPACE, self._labels) != self._labels:
            raise UsageError(
                f"the study {name} is of another script, machine or set of knobs",
                where=url,
                to_do="Name another storage, or leave out --resume.",
            )
        self._study.set_user_attr(SPACE, self._labels)

    def trials(self) -> tuple[Trial, ...]:
        """The trials that ended, of all tuners, by number and as fast as they would be on this machine; those that died
        with their tuner are not among them."""
        self._reach(self._read)
        return tuple(as_here(self._space, self._told, self._machine))

    def running(self) -> frozenset[Candidate]:
        """What tuners, this one included, are trying now. Each machine measures the user's own itself."""
        return frozenset(self._candidate(one.params) for one in self._reach(self._running) if self._counts(one))

    @contextmanager
    def attempt(self, candidate: Candidate) -> Iterator[Asked | None]:
        """Begin a trial, which `tell` ends: None when another tuner began the same a moment before.

        One that somebody put into the study's queue comes first. A trial that is left without having been told is
        withdrawn.
        """
        self._sampler.chosen = {
            name: labels[at] for (name, labels), at in zip(self._labels.items(), candidate, strict=True)
        }
        asked = self._reach(self._begun)
        try:
            with self._alive(asked):
                yield None if self._reach(lambda: self._is_taken(asked)) else asked
        finally:
            _withdraw(asked.trial)

    def tell(self, asked: Asked, trial: Trial) -> None:
        """How the trial ended. No result is lost: what cannot be kept in the storage is kept in memory."""
        self._reach(lambda: self._tell(asked, trial))
        self._told.append((self._machine, trial))

    def _reach(self, action: Callable[[], Answer]) -> Answer:
        """What `action` gives: of the storage, or of memory once that does not answer."""
        try:
            return retried(action)
        except LOST as error:
            self._leave(error)
        return action()

    def _leave(self, error: BaseException) -> None:
        since = f" after trial {max(trial.number for _, trial in self._told)}" if self._told else ""
        self.lost = (
            f"the study could not be reached any more ({reason(error)}): neither --resume nor another tuner will know "
            f"what was tried{since}"
        )
        self._storage, self._study = opened("", self._name, self._sampler)
        for machine, trial in self._told:
            self._add(machine, trial)
        self._known = set(range(len(self._told)))

    def _read(self) -> None:
        """See what was told, and free what died."""
        with unwarned():
            fail_stale_trials(self._study)
        for one in self._running():
            if not self._is_whole(one) and self._silent_s(one) > GRACE_S:
                self._study.tell(one.number, state=TrialState.FAIL, skip_if_finished=True)
        ended = [one for one in self._study.get_trials(deepcopy=False) if _is_told(one)]
        self._known = {one.number for one in ended}
        self._told = [(one.user_attrs.get(MACHINE, ""), _trial(one.user_attrs[RECORD])) for one in ended]

    def _silent_s(self, one: FrozenTrial) -> float:
        """How long this tuner has seen of a trial only that it began: who died so early leaves no heartbeat."""
        now = time.monotonic()
        return now - self._silent.setdefault(one.number, now)

    def _running(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def _counts(self, one: FrozenTrial) -> bool:
        """Whether a trial stands for the same one on this machine, as far as its tuner has said what it is."""
        if not self._is_whole(one):
            return False
        is_own = self._candidate(one.params) == self._space.current
        return not is_own or one.user_attrs.get(MACHINE) == self._machine

    def _begun(self) -> Asked:
        """A trial of which the other tuners know that it runs, where, and what it tries."""
        with unwarned():
            trial = self._study.ask()
        try:
            self._beat(trial.number)
            trial.set_user_attr(MACHINE, self._machine)
            params = {name: trial.suggest_categorical(name, labels) for name, labels in self._labels.items()}
        except BaseException:
            _withdraw(trial)
            raise
        return Asked(trial.number, self._candidate(params), trial)

    def _is_taken(self, asked: Asked) -> bool:
        """Whether a trial of the same began before, and was not known when this one was chosen."""
        others = [one for one in self._before(asked) if one.number not in self._known and self._counts(one)]
        return any(self._candidate(one.params) == asked.candidate for one in others)

    def _before(self, asked: Asked) -> list[FrozenTrial]:
        """The trials with a lower number that run or were told. What another tuner just begins is waited for."""
        while True:
            every = [one for one in self._study.get_trials(deepcopy=False) if one.number < asked.number]
            running = [one for one in every if one.state == TrialState.RUNNING]
            if all(self._is_whole(one) or self._silent_s(one) > BEGIN_S for one in running):
                return [*running, *filter(_is_told, every)]
            time.sleep(BETWEEN_TRIES_S)

    def _is_whole(self, one: FrozenTrial) -> bool:
        """Whether its tuner has said what it tries."""
        return one.params.keys() == self._labels.keys()

    def _tell(self, asked: Asked, trial: Trial) -> None:
        """Into the trial that was begun; into another one where that was taken for dead, or its storage is lost."""
        state, speed = _ended(trial)
        if asked.trial.study is self._study:
            with suppress(optuna.exceptions.UpdateFinishedTrialError), unwarned():
                for name, value in _constraints(trial, self._space).items():
                    asked.trial.set_constraint(name, value)
                asked.trial.set_user_attr(RECORD, asdict(trial))
                self._study.tell(asked.trial, speed, state=state, skip_if_finished=True)
                return
        self._add(self._machine, trial)

    def _add(self, machine: str, trial: Trial) -> None:
        state, speed = _ended(trial)
        points = zip(self._labels.items(), trial.candidate, strict=True)
        self._study.add_trial(
            optuna.trial.create_trial(
                state=state,
                value=speed,
                params={name: labels[at] for (name, labels), at in points},
                distributions=self._distributions,
                user_attrs={RECORD: asdict(trial), MACHINE: machine},
                constraints=dict(_constraints(trial, self._space)),
            )
        )

    def _candidate(self, params: Mapping[str, Any]) -> Candidate:
        return tuple(labels.index(params[name]) for name, labels in self._labels.items())

    def _beat(self, number: int) -> None:
        """Say that a trial goes on."""
        if isinstance(self._storage, RDBStorage):
            study = self._storage.get_study_id_from_name(self._name)
            self._storage.record_heartbeat(self._storage.get_trial_id_from_study_id_trial_number(study, number))

    @contextmanager
    def _alive(self, asked: Asked) -> Iterator[None]:
        """Other tuners hear meanwhile that the trial goes on. A storage that is busy hears it the next time."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT_S):
                with suppress(*LOST):
                    self._beat(asked.number)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _withdraw(trial: optuna.Trial) -> None:
    """End a trial that was not told; where its storage does not answer its silence does."""
    with suppress(*LOST):
        trial.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)


def _label(point: Mapping[str, Value]) -> str:
    """A point as the study's reader sees it: "num_workers=2 prefetch_factor=8"."""
    return " ".join(f"{name.partition('.')[2]}={value}" for name, value in point.items())


def _is_told(one: FrozenTrial) -> bool:
    """A trial that ended, and not with its tuner."""
    return one.state.is_finished() and RECORD in one.user_attrs


def _ended(trial: Trial) -> tuple[TrialState, float | None]:
    """As the study's reader sees how it ended."""
    state = STATES.get(trial.outcome, TrialState.FAIL)
    return state, trial.samples_per_s if state == TrialState.COMPLETE else None


def _trial(row: Mapping[str, Any]) -> Trial:
    """A trial as it was kept, by another version too: what that had beside is left out."""
    ran_out = RanOut(row["ran_out"]) if row.get("ran_out") else None
    kept = {"candidate": tuple(row["candidate"]), "outcome": Outcome(row["outcome"]), "ran_out": ran_out}
    known = {one.name: row[one.name] for one in fields(Trial) if one.name in row}
    return Trial(**{**known, **kept})


def _constraints(trial: Trial, space: Space) -> Mapping[str, float]:
    """Bytes above the limit: a trial keeps it at 0 or less. One that ran out of it is above it by what it may use."""
    limit = space.memory_limit_bytes
    if limit is None:
        return {}
    if trial.outcome == Outcome.OUT_OF_MEMORY:
        is_of_other = space.is_on_device and trial.ran_out == RanOut.HOST
        return {} if is_of_other else {"memory": float(limit)}
    return {} if trial.memory_bytes is None else {"memory": float(trial.memory_bytes - limit)}
