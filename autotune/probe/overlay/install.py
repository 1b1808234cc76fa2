"""Copy-on-write files inside the probed process: the script writes, lists, reads back and deletes as it always does,
and the real tree does not change.

    install(settings)  patch os, open and, as they are imported, the libraries that open paths by themselves
    report()           what was redirected, what was blocked, what could not be isolated
    uninstall()        everything back

Policy: a write goes to the real tree only in an exempt folder, in the run folder, or below /dev, /proc, /sys; of exempt
and protected folders around a place the deepest decides; every other write goes to scratch on the device of its target,
so that it takes as long.

Limits: io.FileIO(path) called by name, `posix.*` called directly, modules that the script writes over existing ones,
UNIX sockets bound in the tree, compiled code of unknown libraries and child programs other than Python are outside:
they are named (unheld.py, isolate_commands.py), and the parent compares the project's files before and after.
Forked and spawned Python processes share the scratch. The first rename of a real file costs a copy of it.
"""

import builtins
import io
import os
import sys

from ..isolate import install as isolate
from ..patches import Patches
from . import actions, imports, native
from . import read as overlay_read
from . import write as overlay_write
from .world import World

AFTER_IMPORT = {}
"""{module name: callback(module)}, filled by `install`; the import hook calls each right after that module ran."""

_installed = []

_FOLLOWING = ("stat", "access", "statvfs", "pathconf", "getxattr", "listxattr")
_NOT_FOLLOWING = ("lstat",)
_TWO_PATHS = {
    "rename": (actions.rename, actions.move_in, actions.move_out),
    "replace": (actions.rename, actions.move_in, actions.move_out),
    "link": (actions.link, actions.link_in, actions.link_out),
}
_ONE_PATH = {
    "mkdir": actions.make_folder,
    "rmdir": actions.remove_folder,
    "unlink": actions.remove_file,
    "remove": actions.remove_file,
    "mknod": actions.make_node,
    "mkfifo": actions.make_fifo,
}
_ATTRIBUTES = {
    "chmod": (True, True),
    "chown": (True, True),
    "lchown": (True, False),
    "utime": (False, True),
    "setxattr": (False, True),
    "removexattr": (False, True),
}
"""{name: (needs the ownership, follows a last link)}"""


class _Installed:
    """What one `install` made."""

    def __init__(self, settings: dict) -> None:
        self.world = World(settings)
        self.patches = Patches()
        self.isolated = isolate.Isolated(settings["run_dir"])


def install(settings: dict) -> None:
    """Redirect every write of this process from now on.

    `settings`: protected and exempt (lists of absolute folders), run_id, run_dir (absolute, exists, exempt), and
    optionally scratch {str(st_dev): absolute folder}. Scratch folders are listed in `<run_dir>/scratch-folders`, one
    "<st_dev> <path>" a line, for the parent to delete.
    """
    state = _Installed(settings)
    calls = _calls(state.world)
    for name, call in calls.items():
        state.patches.set(os, name, call)
    opened = overlay_read.Open("io", "open", builtins.open, state.world, _opener(calls["open"]))
    state.patches.set(builtins, "open", opened)
    state.patches.set(io, "open", opened)
    _patch_early(state.patches, [*calls.values(), opened])
    AFTER_IMPORT.clear()
    AFTER_IMPORT.update(native.callbacks(state.world, state.patches, state.isolated))
    AFTER_IMPORT.update(isolate.callbacks(state.world, state.patches, state.isolated))
    isolate.install(state.world, state.patches, state.isolated)
    imports.install(state.world, state.patches)
    _installed.append(state)


def world() -> World:
    """The files as the script sees them; only after `install`."""
    return _installed[-1].world


def isolated() -> isolate.Isolated:
    """What is blocked and named; only after `install`."""
    return _installed[-1].isolated


def uninstall() -> None:
    """Put every patched function back. Scratch stays for the parent to delete."""
    while _installed:
        _installed.pop().patches.restore()
    AFTER_IMPORT.clear()


def report() -> dict:
    """{"redirected": [{path, kind, bytes}], "blocked": [{what}], "not_isolated": [{what}]} of this process so far."""
    if not _installed:
        return {"redirected": [], "blocked": [], "not_isolated": []}
    state = _installed[-1]
    return {"redirected": state.world.changes.rows(state.world), **state.isolated.rows()}


def _opener(os_open):
    """open() makes files with 0o666, os.open with 0o777."""

    def opener(path, flags):
        return os_open(path, flags, 0o666)

    return opener


def _calls(world) -> dict:
    """The stand-ins by their names in `os`."""
    calls = {name: overlay_read.Read("os", name, getattr(os, name), world) for name in _existing(_FOLLOWING)}
    for name in _NOT_FOLLOWING:
        calls[name] = overlay_read.ReadLink("os", name, getattr(os, name), world)
    for name, action in _ONE_PATH.items():
        calls[name] = overlay_write.Write(name, getattr(os, name), world, action)
    for name in _existing(_ATTRIBUTES):
        original = getattr(os, name)
        needs_owner, follow = _ATTRIBUTES[name]
        action = overlay_write.attribute(original, needs_owner)
        calls[name] = overlay_write.Write(name, original, world, action, follow)
    for name, ways in _TWO_PATHS.items():
        calls[name] = overlay_write.Two(name, getattr(os, name), world, ways)
    calls["truncate"] = overlay_write.Truncate("truncate", os.truncate, world, overlay_write.truncate, True)
    for name, kind in _OTHERS.items():
        calls[name] = kind("os", name, getattr(os, name), world)
    return calls


_OTHERS = {
    "readlink": overlay_read.ReadText,
    "listdir": overlay_read.ListDir,
    "scandir": overlay_read.ScanDir,
    "getcwd": overlay_read.GetCwd,
    "getcwdb": overlay_read.GetCwd,
    "open": overlay_write.OsOpen,
    "symlink": overlay_write.Symlink,
    "chdir": overlay_write.ChDir,
}


def _existing(names) -> list:
    """The names that this platform's `os` has."""
    return [name for name in names if hasattr(os, name)]


def _patch_early(patches, calls: list) -> None:
    """Modules that were imported before us may hold the originals under names of their own."""
    by_original = {call._original: call for call in calls}
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", None) in _UNTOUCHED or not isinstance(getattr(module, "__dict__", None), dict):
            continue
        for name, value in list(vars(module).items()):
            if type(value) is _BUILTIN and value in by_original:
                patches.set(module, name, by_original[value])


_BUILTIN = type(len)
_UNTOUCHED = ("posix", "_io", "os", "io", "builtins")
