"""Programs that the script starts, named by the program and, for git, the subcommand: arguments may hold secrets.

The hooks do not reach them: each one that may write is named. The kernel layer holds their files: only those are named
that are made to send something to another machine.
"""

from __future__ import annotations

import os
from os.path import basename

from ..patches import standing_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..overlay.world import World
    from ..patches import Patches
    from ..shapes import AfterImport, Function
    from .isolated import Isolated

# fmt: off
HARMLESS = frozenset((
    "uname", "ldconfig", "lscpu", "nvidia-smi", "rocm-smi", "which", "hostname", "lsb_release", "getconf",
    "true", "free", "df", "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "objdump", "nvcc", "ptxas",
    "c++filt",
))
"""Programs that libraries ask about the machine, and compilers that write into caches."""

SENDING = frozenset((
    "git", "rsync", "scp", "sftp", "ssh", "curl", "wget", "aws", "gsutil", "gcloud", "az", "azcopy", "rclone", "s3cmd",
    "s5cmd", "mc", "kaggle", "huggingface-cli", "hf", "wandb", "dvc", "ftp", "nc", "ncat", "kubectl", "docker",
    "podman", "sbatch", "srun", "qsub", "mail", "sendmail",
))
# fmt: on
"""Programs whose work is on another machine, or done for them by a service of this one."""

GIT_READS = frozenset(["rev-parse", "status", "log", "diff", "describe", "show", "ls-files", "remote", "version"])
GIT_WRITES = frozenset(["push", "commit", "add", "clone", "pull", "init", "checkout", "tag", "fetch", "lfs", "config"])


def describe(
    command: Any, shell: bool = False, environ: Iterable[Any] | None = None, holds_programs: bool = False
) -> str | None:
    """What to say about a command (str, bytes, PathLike or a list of them): "git push", "rsync", or None when it is
    harmless or a Python that carries the probe itself. `environ` is the environment that it gets, None: this one.
    `holds_programs` says that the kernel holds its files."""
    words = _words(command, shell)
    if not words:
        return None
    program = basename(words[0])
    if holds_programs and not any(basename(word) in SENDING for word in (words if shell else words[:1])):
        return None
    if program in HARMLESS or (program.startswith("python") and not shell and _carries_probe(words, environ)):
        return None
    if program != "git":
        return f"{program} (in a shell)" if shell else program
    verb = next((word for word in words[1:] if word in GIT_READS or word in GIT_WRITES), None)
    if verb in GIT_READS:
        return None
    return f"git {verb}" if verb else "git"


def _words(command: Any, shell: bool) -> list[str]:
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


def _carries_probe(words: list[str], environ: Iterable[Any] | None = None) -> bool:
    """A Python child starts the probe by PYTHONPATH, unless it is told to ignore that or gets another environment."""
    for word in words[1:]:
        if not word.startswith("-") or word in ("-m", "-c"):
            break
        if not word.startswith("--") and set(word[1:]) & set("IES"):
            return False
    given = {os.fsdecode(name) for name in (os.environ if environ is None else environ)}
    return {"AUTOTUNE_REQUEST", "PYTHONPATH"} <= given


def callbacks(world: World | None, patches: Patches, isolated: Isolated) -> AfterImport:
    """{"subprocess": ...}"""

    def on_subprocess(module: Any) -> None:
        original = module.Popen.__init__

        def __init__(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
            what = describe(args, bool(kwargs.get("shell")), kwargs.get("env"), holds_programs=world is None)
            if what is not None:
                isolated.not_isolated(f"subprocess: {what}")
            if world is not None and kwargs.get("cwd") is not None and world.shared.view[0]:
                kwargs["cwd"] = _folder(world, kwargs["cwd"])
            original(self, args, *rest, **kwargs)

        patches.set(module.Popen, "__init__", standing_for(original, __init__))

    return {"subprocess": on_subprocess}


def _folder(world: World, cwd: Any) -> Any:
    """A working folder that only exists in scratch must be given as such; any other as the script gave it."""
    place = world.place(cwd)
    return cwd if world.has_real(place) or world.status(place) is None else world.physical(place)


def install(patches: Patches, isolated: Isolated) -> None:
    """Beside the kernel layer, name what os.system, os.exec*, os.spawn* and os.posix_spawn start that sends."""
    for name, shell in _STARTERS:
        original = getattr(os, name, None)
        if original is not None:
            patches.set(os, name, _named(isolated, original, name, shell))


_STARTERS = (("system", True), ("execv", False), ("execve", False), ("posix_spawn", False), ("posix_spawnp", False))
"""(name, whether its first argument is a shell's line). exec*p and spawn* end in execv or execve."""

_WITH_ENVIRONMENT = ("execve", "posix_spawn", "posix_spawnp")


def _named(isolated: Isolated, original: Function, name: str, shell: bool) -> Function:
    def named(*args: Any, **kwargs: Any) -> Any:
        command = args[0] if args else kwargs.get("command", kwargs.get("path", ""))
        argv = args[1] if name != "system" and len(args) > 1 else command
        environ = args[2] if name in _WITH_ENVIRONMENT and len(args) > 2 else kwargs.get("env")
        line = [command, *list(argv)[1:]] if argv is not command else command
        what = describe(line, shell, environ, holds_programs=True)
        if what is not None:
            isolated.not_isolated(f"os.{name}: {what}")
        return original(*args, **kwargs)

    return standing_for(original, named)
