"""Programs that the script starts. They see the real tree and cannot be isolated, so they are named: the program and,
for git, the subcommand; no other argument, since arguments may hold secrets."""

import os
import sys
from os.path import basename

# fmt: off
HARMLESS = frozenset((
    "uname", "ldconfig", "lscpu", "nvidia-smi", "rocm-smi", "which", "hostname", "lsb_release", "getconf",
    "true", "free", "df", "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "objdump", "nvcc", "ptxas",
    "c++filt",
))
# fmt: on
"""Programs that libraries ask about the machine, and compilers that write into caches."""

GIT_READS = frozenset(["rev-parse", "status", "log", "diff", "describe", "show", "ls-files", "remote", "version"])
GIT_WRITES = frozenset(["push", "commit", "add", "clone", "pull", "init", "checkout", "tag", "fetch", "lfs", "config"])


def describe(command, shell: bool = False):
    """What to say about a command (str, bytes, PathLike or a list of them): "git push", "rsync", or None when it is
    harmless or a Python that carries the probe itself."""
    words = _words(command, shell)
    if not words:
        return None
    program = basename(words[0])
    if program in HARMLESS or (program.startswith("python") and not shell and _carries_probe(words)):
        return None
    if program != "git":
        return f"{program} (in a shell)" if shell else program
    verb = next((word for word in words[1:] if word in GIT_READS or word in GIT_WRITES), None)
    if verb in GIT_READS:
        return None
    return f"git {verb}" if verb else "git"


def _words(command, shell: bool) -> list:
    if isinstance(command, (str, bytes, os.PathLike)):
        text = os.fsdecode(command)
        words = text.split() if shell else [text]
    else:
        words = [os.fsdecode(word) for word in command]
        if shell and words:
            words = words[0].split()
    # `NAME=value program`: the assignment may be a secret, and is not the program.
    while shell and words and "=" in words[0]:
        words = words[1:]
    return words


def _carries_probe(words: list) -> bool:
    """A Python child starts the probe by PYTHONPATH, unless it is told to ignore that."""
    for word in words[1:]:
        if not word.startswith("-") or word in ("-m", "-c"):
            break
        if not word.startswith("--") and set(word[1:]) & set("IES"):
            return False
    return "AUTOTUNE_REQUEST" in os.environ


def callbacks(world, patches, isolated) -> dict:
    """{"subprocess": ...}"""

    def on_subprocess(module) -> None:
        original = module.Popen.__init__

        def __init__(self, args, *rest, **kwargs):
            what = describe(args, bool(kwargs.get("shell")))
            if what is not None:
                isolated.not_isolated(f"subprocess: {what}")
            if kwargs.get("cwd") is not None and world.shared.view[0]:
                kwargs["cwd"] = _folder(world, kwargs["cwd"])
            original(self, args, *rest, **kwargs)

        __init__.__wrapped__ = original
        patches.set(module.Popen, "__init__", __init__)

    return {"subprocess": on_subprocess}


def _folder(world, cwd):
    """A working folder that only exists in scratch must be given as such; any other as the script gave it."""
    place = world.place(cwd)
    return cwd if world.has_real(place) or world.status(place) is None else world.physical(place)


def install(patches, isolated) -> None:
    """Name what os.system, os.exec*, os.spawn* and os.posix_spawn start."""
    for name, position, shell in _STARTERS:
        original = getattr(os, name, None)
        if original is not None:
            patches.set(os, name, _named(isolated, original, name, position, shell))


_STARTERS = (
    ("system", 0, True),
    ("execv", 0, False),
    ("execve", 0, False),
    ("posix_spawn", 0, False),
    ("posix_spawnp", 0, False),
)
"""(name, position of the program, whether it is a shell's line). exec*p and spawn* end in execv or execve."""


def _named(isolated, original, name: str, position: int, shell: bool):
    def named(*args, **kwargs):
        command = args[position] if len(args) > position else kwargs.get("command", kwargs.get("path", ""))
        argv = args[1] if name != "system" and len(args) > 1 else command
        what = describe([command, *list(argv)[1:]] if argv is not command else command, shell)
        if what is not None and not (name != "system" and os.fsdecode(command) == sys.executable):
            isolated.not_isolated(f"os.{name}: {what}")
        return original(*args, **kwargs)

    named.__wrapped__ = original
    named.__name__ = name
    named.__doc__ = original.__doc__
    return named
