"""Loads the probe at interpreter start. This folder stands first on PYTHONPATH of the processes of one job.

Only modules that every interpreter has already imported are used here: a user's own `json.py` or `queue.py` must
still win over the standard library's, so nothing may be imported before the script's folder is on sys.path.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


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


def _start_probe() -> None:
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    package = os.path.dirname(_here)
    spec = spec_from_file_location(
        "_autotune_probe", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules["_autotune_probe"] = module_from_spec(spec)
    known = "__future__" in sys.modules
    spec.loader.exec_module(module)
    module.start(os.environ["AUTOTUNE_REQUEST"])
    if not known:
        # The probe's modules import it for their annotations; the script finds sys.modules as natively.
        sys.modules.pop("__future__", None)


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
        _start_probe()
    except BaseException as error:
        # Without the probe the script would train for real and write into its own folders: end here.
        _end(error)
_run_shadowed(list(sys.path))
_imported = sys.modules.get("sitecustomize")
if _imported is not None and vars(_imported) is globals():
    # Natively there is no such module. `site` takes this for "there is none", and the import system forgets us.
    raise ImportError("no sitecustomize but autotune's", name="sitecustomize")
