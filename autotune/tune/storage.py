"""Where a study is kept: opened, and asked again when it does not answer at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from autotune.errors import UsageError

HEARTBEAT_S, GRACE_S = 5, 30
"""A tuner says this often that its trial is running; after so much silence it is taken to be dead."""

LOCK_S = 60
"""So long a tuner waits for another that writes."""

TRIES, BETWEEN_TRIES_S = 40, 0.05
"""A tuner that makes the tables of a fresh storage has made them by then."""

PAUSES_S = (0.5, 2.0, 5.0)
"""After which a storage is asked again: a server that begins anew, a disk that was full."""

Answer = TypeVar("Answer")

LOST = (SQLAlchemyError, optuna.exceptions.StorageInternalError)
"""How a storage fails."""


class Chosen(BaseSampler):
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


def opened(url: str, name: str, sampler: BaseSampler) -> tuple[BaseStorage, optuna.Study]:
    """The storage `url` ("" keeps it in memory) and the study `name` in it, made where there is none."""
    try:
        with unwarned():
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


def retried(action: Callable[[], Answer]) -> Answer:
    """What `action` gives, tried again while the storage fails. Raises what it failed with in the end."""
    for pause_s in PAUSES_S:
        try:
            return action()
        except LOST:
            time.sleep(pause_s)
    return action()


def reason(error: BaseException) -> str:
    """Why a storage failed, in one line."""
    return str(error.__cause__ or error).splitlines()[0]


@contextmanager
def unwarned() -> Iterator[None]:
    """Without the warnings that heartbeats are experimental and meant for another way of running trials, and that what
    is told again was told before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        warnings.filterwarnings("ignore", message="The constraint value is ignored")
        yield


def _storage(url: str, tries: int = TRIES) -> BaseStorage:
    """The storage. A fresh one is tried again while another tuner is just making its tables."""
    if not url:
        return InMemoryStorage()
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
