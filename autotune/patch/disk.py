"""The file operations that a patch is made of. Tests put in a Disk that fails, or dies, at each of them."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


class Disk:
    """The real file system. Every method raises OSError as the system does, and has then changed nothing."""

    def read(self, path: Path) -> bytes:
        """The bytes of a file; a symbolic link is followed."""
        return path.read_bytes()

    def create(self, path: Path, data: bytes, like: Path | None = None) -> None:
        """Make a new file that holds `data`, on the disk before this returns, with the permissions of `like`."""
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
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """Make a new folder. Raises FileExistsError when it is there."""
        path.mkdir(parents=True)
        _sync_folder(path.parent)


def _take_rights(path: Path, like: Path) -> None:
    shutil.copymode(like, path)
    with contextlib.suppress(OSError):  # only root may give a file away
        about = like.stat()
        os.chown(path, about.st_uid, about.st_gid)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
