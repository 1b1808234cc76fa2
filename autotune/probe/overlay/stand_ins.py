"""Copy-on-write files inside the probed process: the script writes, lists, reads back and deletes as it always does,
and the real tree does not change.

Policy: a write goes to the real tree only in an exempt folder, in the run folder, or below /dev, /proc, /sys; of exempt
and protected folders around a place the deepest decides; every other write goes to scratch on the device of its target,
so that it takes as long.

Limits: io.FileIO(path) called by name, `posix.*` called directly, modules that the script writes over existing ones,
UNIX sockets bound in the tree, compiled code of unknown libraries and child programs other than Python are outside:
they are named (isolate/), and the parent compares the project's files before and after.
Forked and spawned Python processes share the scratch. The first rename of a real file costs a copy of it.
"""

from __future__ import annotations

import builtins
import io
import os
import sys

from . import actions, imports, read, write
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..patches import Patches
    from ..shapes import Function, IsolateSettings
    from .patched_function import PatchedFunction

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


def install(settings: IsolateSettings, patches: Patches) -> World:
    """Redirect every write of this process until `patches` are restored; the files as the script sees them.

    `settings`: protected and exempt (lists of absolute folders), run_id, run_dir (absolute, exists, exempt). Scratch
    folders are listed in `<run_dir>/scratch-folders`, one "<st_dev> <path>" a line, for the parent to delete.
    """
    world = World(settings)
    calls = _calls(world)
    for name, call in calls.items():
        patches.set(os, name, call)
    opened = read.Open("io", "open", builtins.open, world, _opener(calls["open"]))
    patches.set(builtins, "open", opened)
    patches.set(io, "open", opened)
    _patch_early(patches, [*calls.values(), opened])
    imports.install(world, patches)
    return world


def _opener(os_open: Any) -> Function:
    """open() makes files with 0o666, os.open with 0o777."""

    def opener(path: Any, flags: int) -> Any:
        return os_open(path, flags, 0o666)

    return opener


def _calls(world: World) -> dict[str, PatchedFunction]:
    """The stand-ins by their names in `os`."""
    calls: dict[str, PatchedFunction] = {
        name: read.Read("os", name, getattr(os, name), world) for name in _existing(_FOLLOWING)
    }
    for name in _NOT_FOLLOWING:
        calls[name] = read.ReadLink("os", name, getattr(os, name), world)
    for name, action in _ONE_PATH.items():
        calls[name] = write.Write(name, getattr(os, name), world, action)
    for name in _existing(_ATTRIBUTES):
        original = getattr(os, name)
        needs_owner, follow = _ATTRIBUTES[name]
        action = write.attribute(original, needs_owner)
        calls[name] = write.Write(name, original, world, action, follow)
    for name, ways in _TWO_PATHS.items():
        calls[name] = write.Two(name, getattr(os, name), world, ways)
    calls["truncate"] = write.Truncate("truncate", os.truncate, world, write.truncate, True)
    for name, kind in _OTHERS.items():
        calls[name] = kind("os", name, getattr(os, name), world)
    return calls


_OTHERS = {
    "readlink": read.ReadText,
    "listdir": read.ListDir,
    "scandir": read.ScanDir,
    "getcwd": read.GetCwd,
    "getcwdb": read.GetCwd,
    "open": write.OsOpen,
    "symlink": write.Symlink,
    "chdir": write.ChDir,
}


def _existing(names: Iterable[str]) -> list[str]:
    """The names that this platform's `os` has."""
    return [name for name in names if hasattr(os, name)]


def _patch_early(patches: Patches, calls: list[PatchedFunction]) -> None:
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
