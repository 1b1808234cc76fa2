"""Loads the probe at interpreter start. This folder stands first on PYTHONPATH of the processes of one job.

Only modules that every interpreter has already imported are used here: a user's own `json.py` or `queue.py` must
still win over the standard library's, so nothing may be imported before the script's folder is on sys.path.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_here = os.path.dirname(os.path.abspath(__file__))
_package = os.path.dirname(_here)


def _run_shadowed(folders: list[str]) -> None:
    """Run the sitecustomize that the environment has of its own, if there is one."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec("sitecustomize", folders)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _loader() -> "dict[str, Any]":
    """The functions of `load.py`."""
    path = os.path.join(_package, "load.py")
    names: dict[str, Any] = {"__name__": "_autotune_load"}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    return names


def _end(error: BaseException) -> None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
        from _autotune_probe.bug import leave_note  # type: ignore[import-not-found]  # its name in this process

        leave_note(error)
    finally:
        os._exit(70)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]
if os.environ.get("AUTOTUNE_REQUEST"):
    try:
        _loader()["load"](_package, lambda module: module.start(os.environ["AUTOTUNE_REQUEST"]))
    except BaseException as error:
        # Without the probe the script would train for real and write into its own folders: end here.
        _end(error)
elif os.environ.get("AUTOTUNE_WATCH"):
    _loader()["watch"](_package)
_run_shadowed(list(sys.path))
_imported = sys.modules.get("sitecustomize")
if _imported is not None and vars(_imported) is globals():
    # Natively there is no such module. `site` takes this for "there is none", and the import system forgets us.
    raise ImportError("no sitecustomize but autotune's", name="sitecustomize")
