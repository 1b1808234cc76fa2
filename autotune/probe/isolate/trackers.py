"""Experiment trackers: each has its own way to run without a server, which is switched on at the call that starts a
run. What a tracker writes to files (tensorboard, mlruns, csv) goes to scratch like every other file.

No environment variable is set: the script would see it.
"""

import sys

KEYWORDS = {
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


def callbacks(patches, isolated) -> dict:
    """{module name: function(module)}"""
    found = {name: _on_tracker(patches, isolated) for name in {**KEYWORDS, **INERT}}
    found["clearml"] = _on_clearml(patches, isolated)
    for name in ("_tracking_service", "_model_registry"):
        found[f"mlflow.tracking.{name}.utils"] = _on_mlflow(patches, isolated)
    return found


class Inert:
    """Stands in for a run of a tracker that cannot be disabled: takes every call, attribute and item, keeps nothing."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        return None

    def __getitem__(self, key):
        return self

    def __setitem__(self, key, value) -> None:
        return None

    def __iter__(self):
        return iter(())

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return ""


def _on_tracker(patches, isolated):
    def on_import(module) -> None:
        name, keywords = KEYWORDS.get(module.__name__, (None, {}))
        if name is not None and hasattr(module, name):
            what = f"{module.__name__}.{name} (disabled)"
            patches.set(module, name, _with(isolated, getattr(module, name), what, keywords))
        for attribute in INERT.get(module.__name__, ()):
            if hasattr(module, attribute):
                patches.set(module, attribute, _inert(module, patches, isolated, attribute))

    return on_import


def _with(isolated, original, what: str, keywords: dict):
    def started(*args, **kwargs):
        isolated.blocked(what)
        return original(*args, **{**kwargs, **keywords})

    started.__wrapped__ = original
    started.__doc__ = original.__doc__
    return started


def _inert(module, patches, isolated, attribute: str):
    what = f"{module.__name__}.{attribute}"

    def blocked(*args, **kwargs):
        isolated.blocked(what)
        run = Inert()
        if attribute == "init":
            _mute(module, patches, run)
        return run

    return blocked


def _mute(module, patches, run) -> None:
    """The module's own log, finish ... would miss the run that was never started."""
    for name in ("log", "log_system", "log_artifact", "log_model", "save", "finish", "alert"):
        if hasattr(module, name):
            patches.set(module, name, run)


def _on_clearml(patches, isolated):
    def on_import(module) -> None:
        module.Task.set_offline(offline_mode=True)
        patches.on_restore(lambda: module.Task.set_offline(offline_mode=False))
        isolated.blocked("clearml (offline)")

    return on_import


def _on_mlflow(patches, isolated):
    """A remote server's address becomes mlflow's local default, which the overlay redirects."""

    def on_import(module) -> None:
        for name in ("_resolve_tracking_uri", "get_tracking_uri", "_resolve_registry_uri", "get_registry_uri"):
            original = getattr(module, name, None)
            if original is not None:
                patches.set(module, name, _local(isolated, original))

    return on_import


def _local(isolated, original):
    def resolve(*args, **kwargs):
        address = original(*args, **kwargs)
        if not str(address).startswith(REMOTE):
            return address
        isolated.blocked("mlflow: remote tracking server (local files instead)")
        defaults = sys.modules.get("mlflow.store.tracking")
        return getattr(defaults, "DEFAULT_TRACKING_URI", "mlruns")

    resolve.__wrapped__ = original
    return resolve
