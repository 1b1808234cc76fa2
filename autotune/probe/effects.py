"""Side effects of the script, by the layer that isolates its files: the kernel, or the hooks of overlay/.

install(settings)  returns {module name: [callback(module)]} for the import hook
report()           {"blocked", "not_isolated"} of this process so far
"""

from __future__ import annotations

import posix
import sys

from .isolate import commands, hub, network, trackers
from .isolate.isolated import Isolated
from .patches import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .overlay.world import World
    from .shapes import AfterImport, IsolateSettings, OnImport, Row

KERNEL = "kernel"
PLACE, OUTSIDE = "mount-namespace", "outside-"
"""Files of the run folder: which mounts hold the writes, and the notes of processes that these do not reach."""

BOOT = "/proc/sys/kernel/random/boot_id"

_installed: list[Isolated] = []
"""What was blocked and named in this process."""


def install(settings: IsolateSettings) -> dict[str, list[OnImport]]:
    """Block pushes and trackers and name what is not isolated; with the layer "hooks" redirect every write, too."""
    patches, isolated = Patches(), Isolated(settings["run_dir"])
    world: World | None = None
    of_files: list[AfterImport] = []
    if settings["layer"] == KERNEL and _is_inside(settings["run_dir"]):
        _install_beside_the_kernel(settings, patches, isolated)
    else:
        world, of_files = _install_hooks(settings, patches, isolated)
    _installed.append(isolated)
    others = [module.callbacks(patches, isolated) for module in (network, trackers, hub)]
    return _merged([*of_files, *others, commands.callbacks(world, patches, isolated)])


def _is_inside(run_dir: str) -> bool:
    """Whether the mounts that hold the writes are those of this process: srun and its like ask a daemon to start it,
    on this machine or another one, where they are not. Then hooks hold them, and a note says so. What is not known is
    another place: numbers of namespaces and processes are those of one boot of one kernel."""
    try:
        boot, numbers, first, mounts = _text(f"{run_dir}/{PLACE}").split(" ")
        if (
            boot
            and boot == _text(BOOT).strip()
            and (
                posix.readlink("/proc/self/ns/mnt") == mounts
                or (posix.readlink("/proc/self/ns/pid") == numbers and _is_below(int(first)))
            )
        ):
            return True
    except (OSError, ValueError):
        pass
    descriptor = posix.open(f"{run_dir}/{OUTSIDE}{posix.getpid()}", posix.O_CREAT | posix.O_WRONLY, 0o644)
    posix.close(descriptor)
    return False


def _is_below(pid: int) -> bool:
    """Whether a process is above this one; a container in between may have mounts of its own above ours."""
    mine = posix.getpid()
    while mine > 1:
        if mine == pid:
            return True
        mine = int(_text(f"/proc/{mine}/stat").rpartition(")")[2].split()[1])
    return False


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


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
