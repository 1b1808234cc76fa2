"""The file operations that a patch is made of. Tests put in a Disk that fails, or dies, at each of them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path


class Disk:
    """The real file system. Every method raises OSError as the system does, and has then changed nothing."""

    def read(self, path: Path) -> bytes:
        """The bytes of a file; a symbolic link is followed."""
        return path.read_bytes()

    def create(self, path: Path, data: bytes, like: Path | None = None) -> None:
        """Make a new file that holds `data`, on the disk before this returns, with the rights of `like`.

        PermissionError when the group of `like` cannot be kept and another group would have its rights.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if like is not None:
                _take_rights(path, like)
        except BaseException:
            self.remove(path)
            raise

    def replace(self, source: Path, target: Path) -> None:
        """Let `target` be the file `source`: a reader sees the old file or the new one. Both lie in one folder."""
        source.replace(target)
        _sync_folder(target.parent)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()

    def make_folder(self, path: Path) -> None:
        """Make a new folder. Raises FileExistsError when it is there."""
        path.mkdir(parents=True)
        _sync_folder(path.parent)


def _take_rights(path: Path, like: Path) -> None:
    """Group, owner, mode, extended attributes and access lists of `like`, as far as this user may give them."""
    about = like.stat()
    for uid, gid in ((-1, about.st_gid), (about.st_uid, -1)):  # who may not give a file away may still give its group
        with contextlib.suppress(PermissionError):
            os.chown(path, uid, gid)
    group, others = (about.st_mode & stat.S_IRWXG) >> 3, about.st_mode & stat.S_IRWXO
    if path.stat().st_gid != about.st_gid and group & ~others:
        raise PermissionError(errno.EPERM, f"you are not in its group ({about.st_gid}), which would lose it", str(like))
    shutil.copystat(like, path)
    os.utime(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
