"""Names writes of this process that pass below the hooks: io.FileIO, `posix.*`, `_io.open`, UNIX sockets.

Python audits them all (PEP 578). What compiled code and other programs write shows up in the look at the project's
files that the parent takes before and after.
"""

import os
import sys

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


def install(world, isolated) -> None:
    """Audit this process from now on; an audit hook cannot be taken off."""

    def name(path) -> None:
        if isinstance(path, int) or world.is_free(world.place(path)):
            return
        isolated.not_isolated(f"a write below the hooks: {os.fsdecode(path)}")

    def audited(event: str, args: tuple) -> None:
        try:
            if event == "open":
                if args[2] is not None and args[2] & _WRITES:
                    name(args[0])
            elif event in _PATHS:
                for place in _PATHS[event]:
                    name(args[place])
            elif event == "socket.bind" and isinstance(args[1], (str, bytes)) and args[1][:1] not in ("\0", b"\0", ""):
                name(args[1])
        except (OSError, ValueError, TypeError):
            pass  # a path that the system will refuse itself

    sys.addaudithook(audited)
