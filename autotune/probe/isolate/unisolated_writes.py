"""Names writes of this process that pass below the hooks (io.FileIO, `posix.*`, `_io.open`, UNIX sockets, ctypes, SQL)
and the programs that it starts.

Python audits them all (PEP 578). What other compiled code and other programs write shows up in the look at the
project's files that the parent takes before and after.
"""

from __future__ import annotations

import os
import sys

from ..overlay.read import is_opening
from ..overlay.world import is_below
from ..patches import standing_for
from .commands import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..overlay.world import World
    from ..shapes import AfterImport, Function
    from .isolated import Isolated

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_PATHS = {
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.remove": (0,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "os.setxattr": (0,),
    "os.removexattr": (0,),
}
"""Audited events whose arguments at these places are paths that are changed."""


# fmt: off
_C_WRITERS = frozenset((
    "open", "open64", "openat", "openat64", "creat", "creat64", "fopen", "fopen64", "freopen", "rename", "renameat",
    "renameat2", "unlink", "unlinkat", "remove", "rmdir", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat",
    "truncate", "truncate64", "mknod", "mkfifo", "chmod", "fchmodat", "chown", "lchown", "utime", "utimes", "utimensat",
    "system", "popen", "execv", "execve", "execvp", "execl", "execlp", "posix_spawn", "posix_spawnp", "syscall",
))
# fmt: on
"""Functions of the C library that change files or start what does."""

_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""The probe's folder. Python keeps the bytecode of what it imports from there in it (`uv tool install` compiles
nothing): a write of autotune's, not of the script."""

_ATTACH = 24
"""SQLite's code for ATTACH, which VACUUM INTO uses as well (sqlite.org/c3ref/c_alter_table.html)."""


def install(world: World, isolated: Isolated) -> AfterImport:
    """Audit this process from now on: an audit hook cannot be taken off. Returns {module name: callback(module)}."""
    names = _Names(world, isolated)
    sys.addaudithook(lambda event, args: names.look(event, args) if event in _EVENTS else None)

    def on_sqlite(module: Any) -> None:
        module.connect = module.dbapi2.connect = names.of_statements(module.connect)

    return {"sqlite3": on_sqlite}


class _Names:
    """Tells which audited events are writes that nothing holds."""

    def __init__(self, world: World, isolated: Isolated) -> None:
        self._world, self._isolated = world, isolated

    def look(self, event: str, args: tuple[Any, ...]) -> None:
        """Name what `event` changes; a path that the system will refuse itself is left to it."""
        try:
            for path in _changed(event, args):
                self._path(path, "a write below the hooks")
            if event == "ctypes.dlsym" and args[1] in _C_WRITERS:
                self._isolated.not_isolated(f"ctypes: {args[1]}() of a C library")
            program = _program(event, args)
            if program is not None:
                self._isolated.not_isolated(f"{event}: {program}")
        except (OSError, ValueError, TypeError):
            pass

    def of_statements(self, original: Function) -> Function:
        """sqlite3.connect, whose connections tell which databases their statements attach."""

        def connect(*args: Any, **kwargs: Any) -> Any:
            connection = original(*args, **kwargs)
            connection.set_authorizer(self._authorized)
            return connection

        return standing_for(original, connect)

    def _path(self, path: Any, how: str) -> None:
        place = self._world.place(path)
        if not self._world.is_free(place) and not _is_bytecode(place):
            self._isolated.not_isolated(f"{how}: {os.fsdecode(path)}")

    def _authorized(self, action: int, path: str | None, *rest: object) -> int:
        """SQLite asks this about each statement; 0 allows it. The path of ATTACH is None unless it is a literal."""
        try:
            if action == _ATTACH and path is None:
                self._isolated.not_isolated("sqlite3 ATTACH: a database that a parameter of the statement names")
            elif action == _ATTACH and _is_database(path):
                self._path(path, "sqlite3 ATTACH")
        except (OSError, ValueError, TypeError):
            pass
        return 0


_EVENTS = frozenset((
    "open", "socket.bind", "ctypes.dlsym", "sqlite3.connect", "os.system", "os.exec", "os.posix_spawn", *_PATHS,
))  # fmt: skip


def _program(event: str, args: tuple[Any, ...]) -> str | None:
    """What to say about a program that an event starts; None for another event, and for a harmless program."""
    if event == "os.system":
        return describe(args[0], shell=True)
    if event in ("os.exec", "os.posix_spawn"):
        path, words, environ = args
        return describe([path, *list(words)[1:]], environ=environ)
    return None


def _changed(event: str, args: tuple[Any, ...]) -> list[Any]:
    """The paths that an event changes."""
    if event == "open":
        is_write = args[2] is not None and args[2] & _WRITES and not isinstance(args[0], int)
        return [args[0]] if is_write and not is_opening() else []
    if event == "socket.bind":
        is_path = isinstance(args[1], (str, bytes)) and args[1][:1] not in ("\0", b"\0", "", b"")
        return [args[1]] if is_path else []
    if event == "sqlite3.connect":
        return [args[0]] if _is_database(args[0]) else []
    return [args[place] for place in _PATHS.get(event, ()) if not isinstance(args[place], int)]


def _is_bytecode(place: str) -> bool:
    """Whether it is bytecode of the probe, or in the folder that the user gave Python for any bytecode."""
    prefix = sys.pycache_prefix
    if prefix is not None and is_below(place, (os.path.realpath(prefix),)):
        return True
    return is_below(place, (_OWN,)) and "__pycache__" in place[len(_OWN) :].split("/")


def _is_database(path: Any) -> bool:
    """Whether SQLite takes it for a file; a URI was mapped by its own rules."""
    return path not in (None, "", b"", ":memory:") and not (isinstance(path, str) and path.startswith("file:"))
