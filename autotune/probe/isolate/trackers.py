"""Experiment trackers: each has its own way to run without a server, which is switched on at the call that starts a
run. What a tracker writes to files (tensorboard, mlruns, csv) goes to scratch like every other file.

No environment variable is set: the script would see it.
"""

from __future__ import annotations

import sys

from ..patches import standing_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..patches import Patches
    from ..shapes import AfterImport, Function, OnImport
    from .isolated import Isolated

KEYWORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "wandb": ("init", {"mode": "disabled"}),
    "swanlab": ("init", {"mode": "disabled"}),
    "neptune": ("init_run", {"mode": "debug"}),
    "comet_ml": ("Experiment", {"disabled": True}),
}
"""{module: (its function or class that starts a run, the arguments that keep it on this machine)}"""

INERT = {
    "wandb": ("login",),
    "comet_ml": ("login", "start"),
    "trackio": ("init",),
    "aim": ("Run",),
    "swanlab": ("login",),
}
"""{module: functions without such a way}: they return an object that takes every call."""

REMOTE = ("http://", "https://", "databricks", "uc:", "azureml:")


def callbacks(patches: Patches, isolated: Isolated) -> AfterImport:
    """{module name: function(module)}"""
    found = {name: _on_tracker(patches, isolated) for name in {**KEYWORDS, **INERT}}
    found["clearml"] = _on_clearml(patches, isolated)
    for name in ("_tracking_service", "_model_registry"):
        found[f"mlflow.tracking.{name}.utils"] = _on_mlflow(patches, isolated)
    return found


class Inert:
    """Stands in for a run of a tracker that cannot be disabled: takes every call, attribute and item, keeps nothing."""

    def __getattr__(self, name: str) -> Inert:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Inert:
        return self

    def __enter__(self) -> Inert:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __getitem__(self, key: object) -> Inert:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return ""


def _on_tracker(patches: Patches, isolated: Isolated) -> OnImport:
    def on_import(module: Any) -> None:
        name, keywords = KEYWORDS.get(module.__name__, ("", {}))
        if hasattr(module, name):
            what = f"{module.__name__}.{name} (disabled)"
            patches.set(module, name, _with(isolated, getattr(module, name), what, keywords))
        for attribute in INERT.get(module.__name__, ()):
            if hasattr(module, attribute):
                patches.set(module, attribute, _inert(module, patches, isolated, attribute))

    return on_import


def _with(isolated: Isolated, original: Function, what: str, keywords: dict[str, Any]) -> Function:
    def started(*args: Any, **kwargs: Any) -> Any:
        isolated.blocked(what)
        return original(*args, **{**kwargs, **keywords})

    return standing_for(original, started)


def _inert(module: Any, patches: Patches, isolated: Isolated, attribute: str) -> Function:
    what = f"{module.__name__}.{attribute}"

    def blocked(*args: Any, **kwargs: Any) -> Any:
        isolated.blocked(what)
        run = Inert()
        if attribute == "init":
            _mute(module, patches, run)
        return run

    return blocked


def _mute(module: Any, patches: Patches, run: Inert) -> None:
    """The module's own log, finish ... would miss the run that was never started."""
    for name in ("log", "log_system", "log_artifact", "log_model", "save", "finish", "alert"):
        if hasattr(module, name):
            patches.set(module, name, run)


def _on_clearml(patches: Patches, isolated: Isolated) -> OnImport:
    def on_import(module: Any) -> None:
        module.Task.set_offline(offline_mode=True)
        patches.on_restore(lambda: module.Task.set_offline(offline_mode=False))
        isolated.blocked("clearml (offline)")

    return on_import


def _on_mlflow(patches: Patches, isolated: Isolated) -> OnImport:
    """A remote server's address becomes mlflow's local default, which the overlay redirects."""

    def on_import(module: Any) -> None:
        for name in ("_resolve_tracking_uri", "get_tracking_uri", "_resolve_registry_uri", "get_registry_uri"):
            original = getattr(module, name, None)
            if original is not None:
                patches.set(module, name, _local(isolated, original))

    return on_import


def _local(isolated: Isolated, original: Function) -> Function:
    def resolve(*args: Any, **kwargs: Any) -> Any:
        address = original(*args, **kwargs)
        if not str(address).startswith(REMOTE):
            return address
        isolated.blocked("mlflow: remote tracking server (local files instead)")
        defaults = sys.modules.get("mlflow.store.tracking")
        return getattr(defaults, "DEFAULT_TRACKING_URI", "mlruns")

    return standing_for(original, resolve)
