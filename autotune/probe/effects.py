"""Side effects of the script, by the layer that isolates its files: the kernel, or the hooks of overlay/.

install(settings)  returns {module name: [callback(module)]} for the import hook
report()           {"blocked", "not_isolated"} of this process so far
"""

from __future__ import annotations

import sys

from .isolate import commands, hub, network, trackers
from .isolate.isolated import Isolated
from .patches import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .overlay.world import World
    from .shapes import AfterImport, IsolateSettings, OnImport, Row

KERNEL = "kernel"

_installed: list[Isolated] = []
"""What was blocked and named in this process."""


def install(settings: IsolateSettings) -> dict[str, list[OnImport]]:
    """Block pushes and trackers and name what is not isolated; with the layer "hooks" redirect every write, too."""
    patches, isolated = Patches(), Isolated(settings["run_dir"])
    world: World | None = None
    of_files: list[AfterImport] = []
    if settings["layer"] == KERNEL:
        _install_beside_the_kernel(settings, patches, isolated)
    else:
        world, of_files = _install_hooks(settings, patches, isolated)
    _installed.append(isolated)
    others = [module.callbacks(patches, isolated) for module in (network, trackers, hub)]
    return _merged([*of_files, *others, commands.callbacks(world, patches, isolated)])


def _install_hooks(settings: IsolateSettings, patches: Patches, isolated: Isolated) -> tuple[World, list[AfterImport]]:
    from .isolate import unisolated_writes
    from .overlay import native, stand_ins

    world = stand_ins.install(settings, patches)
    # The import system writes past the overlay: no __pycache__ may appear beside the user's modules.
    sys.dont_write_bytecode = True
    return world, [native.callbacks(world, patches, isolated), unisolated_writes.install(world, isolated)]


def _install_beside_the_kernel(settings: IsolateSettings, patches: Patches, isolated: Isolated) -> None:
    from .overlay import across_devices

    across_devices.install(patches, settings["mount_points"])
    commands.install(patches, isolated)


def _merged(tables: list[AfterImport]) -> dict[str, list[OnImport]]:
    found: dict[str, list[OnImport]] = {}
    for table in tables:
        for name, callback in table.items():
            found.setdefault(name, []).append(callback)
    return found


def report() -> dict[str, list[Row]]:
    """What this process blocked and could not isolate; empty lists with --keep-going."""
    return _installed[-1].rows() if _installed else {"blocked": [], "not_isolated": []}
