"""The scratch of one device: what was written there, and what of the real files is hidden.

    <folder>/upper/<absolute path>   files and folders as the script left them
    <folder>/gone/<absolute path>    an empty file hides the real path and everything below it

The state lies on disk only, so that all processes of a run (ranks, forked and spawned workers) see the same files.
Everything here calls `posix`, which is never patched; paths are absolute and have no symbolic link but the last part.
"""

from __future__ import annotations

import os
import posix
from _thread import get_ident
from os.path import dirname
from stat import S_IMODE, S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG

COPY_BYTES = 1 << 24


class Layer:
    """One scratch folder. `upper + path` is where the script's own `path` is kept."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.upper = folder + "/upper"
        self.gone = folder + "/gone"

    def is_hidden(self, path: str) -> bool:
        """Whether the real `path` was deleted or replaced. One call decides: a hidden ancestor gives ENOTDIR."""
        try:
            return not S_ISDIR(posix.lstat(self.gone + path).st_mode)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            return True

    def hide(self, path: str) -> None:
        """Hide the real `path`. Its folder is mirrored, so that whoever has marks has an upper folder too."""
        self.mirror(dirname(path))
        marker = self.gone + path
        try:
            make_folders(dirname(marker))
        except NotADirectoryError:
            return
        if is_folder(marker):
            remove_tree(marker)
        posix.close(posix.open(marker, posix.O_CREAT | posix.O_WRONLY, 0o600))

    def hidden_names(self, folder: str) -> set[str]:
        """The names in `folder` that are hidden one by one."""
        try:
            with posix.scandir(self.gone + folder) as entries:
                return {entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def mirror(self, folder: str) -> None:
        """Make the upper twin of an existing folder, with the real one's mode and times."""
        if is_folder(self.upper + folder):
            return
        if folder == "/":
            make_folders(self.upper)
            return
        parent = dirname(folder)
        self.mirror(parent)
        before = posix.stat(self.upper + parent)
        _make_folder(self.upper + folder)
        if not self.is_hidden(folder) and is_folder(folder):
            copy_status(posix.stat(folder), self.upper + folder)
        posix.utime(self.upper + parent, ns=(before.st_atime_ns, before.st_mtime_ns))

    def copy_up(self, path: str) -> None:
        """Copy the real file, link or fifo `path` to the upper tree, whole or not at all. Its folder is mirrored."""
        status = posix.lstat(path)
        target = self.upper + path
        if S_ISLNK(status.st_mode):
            posix.symlink(posix.readlink(path), target)
        elif S_ISFIFO(status.st_mode):
            posix.mkfifo(target, S_IMODE(status.st_mode))
        elif S_ISREG(status.st_mode):
            part = f"{self.folder}/copy-{posix.getpid()}-{get_ident()}"
            copy_bytes(path, part)
            copy_status(status, part)
            posix.rename(part, target)


def copy_bytes(source: str, target: str) -> None:
    """The content of a file; the kernel copies, and shares the blocks where the file system can."""
    reader = posix.open(source, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        writer = posix.open(target, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o600)
        try:
            while _copy_some(reader, writer):
                pass
        finally:
            posix.close(writer)
    finally:
        posix.close(reader)


def _copy_some(reader: int, writer: int) -> int:
    copy_range = getattr(posix, "copy_file_range", None)
    if copy_range is not None:
        try:
            copied: int = copy_range(reader, writer, COPY_BYTES)
            return copied
        except OSError:
            pass  # another device or an old kernel: read and write
    block = memoryview(posix.read(reader, COPY_BYTES))
    done = 0
    while done < len(block):
        done += posix.write(writer, block[done:])
    return done


def copy_status(status: os.stat_result, target: str) -> None:
    """Mode and times; the owner where this process may give files away."""
    try:
        posix.chown(target, status.st_uid, status.st_gid)
    except PermissionError:
        pass
    posix.chmod(target, S_IMODE(status.st_mode))
    posix.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def is_folder(path: str) -> bool:
    """Whether `path` itself (not the target of a link) is a folder."""
    try:
        return S_ISDIR(posix.lstat(path).st_mode)
    except OSError:
        return False


def may(path: str, mode: int) -> bool:
    """os.access for the user that the process acts as."""
    return posix.access(path, mode, effective_ids=True)


def make_folders(path: str) -> None:
    """mkdir -p, visible to this user only. An ancestor that is a file raises NotADirectoryError."""
    try:
        posix.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        make_folders(dirname(path))
        make_folders(path)


def remove_tree(path: str) -> None:
    """Remove a folder of ours with everything in it."""
    with posix.scandir(path) as entries:
        rows = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for inner, inner_is_folder in rows:
        if inner_is_folder:
            remove_tree(inner)
        else:
            posix.unlink(inner)
    posix.rmdir(path)


def _make_folder(path: str) -> None:
    """mkdir below a mirrored folder, which may carry the mode of a folder that cannot be written."""
    try:
        posix.mkdir(path)
    except FileExistsError:
        pass
    except PermissionError:
        parent = dirname(path)
        mode = S_IMODE(posix.stat(parent).st_mode)
        posix.chmod(parent, mode | 0o300)
        posix.mkdir(path)
        posix.chmod(parent, mode)
