"""How the probe gets into a process, under a name of its own. This file is executed, not imported.

`boot/sitecustomize.py`, `watch/_autotune_watch.py` and `autotune/in_process.py` do it. Only modules that every
interpreter has already imported are used here: a user's own `json.py` or `queue.py` must still win over the standard
library's, so nothing may be imported before the script's folder is on sys.path.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Callable

_NAME = "_autotune_probe"


def load(package: str, begin: "Callable[[ModuleType], object]") -> None:
    """Execute the probe in the folder `package`, unless this process has it, and let `begin` start it."""
    known = "__future__" in sys.modules
    begin(sys.modules.get(_NAME) or _execute(package))
    if not known:
        # The probe's modules import it for their annotations; the script finds sys.modules as natively.
        sys.modules.pop("__future__", None)


def _execute(package: str) -> "ModuleType":
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    spec = spec_from_file_location(_NAME, os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    assert spec is not None and spec.loader is not None
    module = sys.modules[_NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attach(package: str, asked: "dict[str, object]") -> None:
    """Measure one window of this process, which runs already (watch/remote.py). Raises where that cannot be."""
    if os.environ.get("AUTOTUNE_REQUEST") or os.environ.get("AUTOTUNE_WATCH", "0") not in ("", "0"):
        raise RuntimeError("autotune measures or watches this process already")
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # it may be another user's, in autotune's folder
    try:
        load(package, lambda module: module.import_window())
    finally:
        sys.dont_write_bytecode = before
    load(package, lambda module: module.measure_window(asked))


def watch(package: str) -> None:
    """Watch this process, as AUTOTUNE_WATCH asks. Where that fails the script runs all the same.

    A process that is measured, or watched already, stays so.
    """
    if os.environ.get("AUTOTUNE_REQUEST") or os.environ.get("AUTOTUNE_WATCH", "0") in ("", "0") or _NAME in sys.modules:
        return
    try:
        load(package, lambda module: module.start_watch())
    except Exception as error:
        sys.stderr.write(f"autotune: not watched: {type(error).__name__}: {error}\n")
