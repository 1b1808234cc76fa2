"""Side effects of the script, by the layer that holds them: the kernel's (files are nothing to us) or the hooks.

install(settings)  returns {module name: callback(module)} for the import hook
report()           {"redirected", "blocked", "not_isolated"} of this process so far
"""

import sys

from .isolate import install as isolate

KERNEL = "kernel"

_installed = []


def install(settings: dict) -> dict:
    """Block pushes and trackers and name what is not held; with the layer "hooks" redirect every write, too."""
    if settings["layer"] != KERNEL:
        return _install_hooks(settings)
    return _install_beside_the_kernel(settings)


def _install_hooks(settings: dict) -> dict:
    from .isolate import unisolated_writes
    from .overlay import install as overlay

    overlay.install(settings)
    after = dict(overlay.AFTER_IMPORT)
    for name, callback in unisolated_writes.install(overlay.world(), overlay.isolated()).items():
        after[name] = _both(after.get(name), callback)
    # The import system writes past the overlay: no __pycache__ may appear beside the user's modules.
    sys.dont_write_bytecode = True
    return after


def _both(first, second):
    def callback(module) -> None:
        if first is not None:
            first(module)
        second(module)

    return callback


def _install_beside_the_kernel(settings: dict) -> dict:
    from .overlay import across_devices
    from .patches import Patches

    isolated, patches = isolate.Isolated(settings["run_dir"]), Patches()
    _installed.append(isolated)
    across_devices.install(patches, settings["mount_points"])
    isolate.install(None, patches, isolated)
    return isolate.callbacks(None, patches, isolated)


def report() -> dict:
    """What this process redirected, blocked and could not isolate; empty lists with --keep-going."""
    if _installed:
        return {"redirected": [], **_installed[-1].rows()}
    overlay = sys.modules.get(__package__ + ".overlay.install")
    return overlay.report() if overlay is not None else {"redirected": [], "blocked": [], "not_isolated": []}
