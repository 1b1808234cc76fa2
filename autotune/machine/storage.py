"""Which file system a path is on, and how much room is left there."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path, PurePath

from msgspec import Struct

from autotune.machine.mounts import Mount, mounts
from autotune.model.evidence import RUN, Fact

_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)
_LOCAL_FUSE = frozenset(
    {"bindfs", "encfs", "fuse-overlayfs", "gocryptfs", "lxcfs", "mergerfs", "ntfs", "ntfs-3g", "portal"}
    | {"snapfuse", "squashfuse", "unionfs"}
)
"""FUSE over local disks; every other "fuse.*" (sshfs, s3fs, gcsfuse, rclone ...) talks to a server."""


_IN_MEMORY = frozenset({"ramfs", "tmpfs"})
_MOUNTED_IN = frozenset({"/", "/mnt", "/media", "/net", "/Volumes"})
"""Folders in which other file systems are mounted: being on one of them says nothing of what is not there."""


class FileSystem(Struct, frozen=True):
    """Type as the kernel names it ("ext4", "nfs4", "fuse.sshfs"), device or server, and mount point."""

    type: str
    device: str
    mount_point: str
    is_network: bool


def facts(root: Path = Path("/")) -> tuple[Fact, ...]:
    """Room in /dev/shm, through which DataLoader workers hand over their batches."""
    free = shm_free_bytes(root)
    return (Fact("machine.shm_free_bytes", RUN, free),) if free is not None else ()


def file_system(path: Path, root: Path = Path("/")) -> FileSystem | None:
    """The file system of `path`, which need not exist yet; None when nobody can say.

    A place that does not exist will be made on the file system of its nearest parent that does, unless that is a
    folder in which others are mounted: /mnt/lustre/x without /mnt/lustre is a disk that is not here.
    """
    place = path.resolve()
    best: Mount | None = None
    for mount in mounts(root) or _partitions():
        covers = place.is_relative_to(PurePath(mount.mount_point))
        # A later mount at the same place hides the earlier one, hence >=.
        if covers and (best is None or len(mount.mount_point) >= len(best.mount_point)):
            best = mount
    if best is None or (best.mount_point in _MOUNTED_IN and str(_nearest(place)) in _MOUNTED_IN):
        return None
    return FileSystem(best.type, best.device, best.mount_point, is_network(best.type))


def _nearest(place: Path) -> Path:
    """`place`, or its nearest parent that exists. A folder that may not be looked into exists."""
    for folder in (place, *place.parents):
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            break
        return folder
    return folder


def is_network(type_: str) -> bool:
    """Whether a file system of this type reaches its data over a network; an overlay (container) is local."""
    kind, _, program = type_.partition(".")
    if kind == "fuse":
        return program not in _LOCAL_FUSE
    return kind in _NETWORK


def free_bytes(path: Path) -> int | None:
    """Free bytes for an ordinary user where `path` is, or will be; None when nobody can say."""
    place = path.absolute()
    for folder in (place, *place.parents):
        try:
            return shutil.disk_usage(folder).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def local_disk(root: Path = Path("/")) -> tuple[Path, int] | None:
    """The folder for temporary files and its free bytes; None when that is in memory, on a network, or not known."""
    folder = Path(tempfile.gettempdir())
    system, free = file_system(folder, root), free_bytes(folder)
    if system is None or system.is_network or system.type in _IN_MEMORY or free is None:
        return None
    return folder, free


def shm_free_bytes(root: Path = Path("/")) -> int | None:
    """Free bytes in /dev/shm, or None where the system has no such folder."""
    shm = root / "dev/shm"
    return free_bytes(shm) if shm.is_dir() else None


def _partitions() -> tuple[Mount, ...]:
    """The mount table of a system without mountinfo (macOS)."""
    import psutil  # of the extra "train": what reads a stored run does without

    return tuple(Mount("/", part.mountpoint, part.fstype, part.device) for part in psutil.disk_partitions(all=True))
