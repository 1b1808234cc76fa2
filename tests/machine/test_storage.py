from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from autotune.machine import storage
from autotune.machine.storage import FileSystem

TABLE = r"""
1 0 0:1 / / rw - overlay overlay rw,lowerdir=/a
2 1 0:2 / /mnt-autotune rw - ext4 /dev/sda1 rw
3 2 0:3 / /mnt-autotune/nfs rw - nfs4 fs01:/vol rw
4 2 0:4 / /mnt-autotune/nfs/cache rw - ext4 /dev/sdb1 rw
5 2 0:5 /home/me /mnt-autotune/bind rw - xfs /dev/sdc1 rw
6 2 0:6 / /mnt-autotune/my\040disk rw - cifs //srv/share rw
7 2 0:7 / /mnt-autotune/over rw - ext4 /dev/sdd1 rw
8 2 0:8 / /mnt-autotune/over rw - tmpfs tmpfs rw
""".strip()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr", FileSystem("overlay", "overlay", "/", False)),
        ("/usr/no-such-folder/x", FileSystem("overlay", "overlay", "/", False)),
        ("/no-such-folder/x", None),
        ("/mnt/no-such-lustre/x", None),
        ("/mnt-autotune/data", FileSystem("ext4", "/dev/sda1", "/mnt-autotune", False)),
        ("/mnt-autotune/nfs", FileSystem("nfs4", "fs01:/vol", "/mnt-autotune/nfs", True)),
        ("/mnt-autotune/nfs/deep/x.bin", FileSystem("nfs4", "fs01:/vol", "/mnt-autotune/nfs", True)),
        ("/mnt-autotune/nfs-local/x", FileSystem("ext4", "/dev/sda1", "/mnt-autotune", False)),
        ("/mnt-autotune/nfs/cache/x", FileSystem("ext4", "/dev/sdb1", "/mnt-autotune/nfs/cache", False)),
        ("/mnt-autotune/nfs/../x", FileSystem("ext4", "/dev/sda1", "/mnt-autotune", False)),
        ("/mnt-autotune/bind/x", FileSystem("xfs", "/dev/sdc1", "/mnt-autotune/bind", False)),
        ("/mnt-autotune/my disk/x", FileSystem("cifs", "//srv/share", "/mnt-autotune/my disk", True)),
        ("/mnt-autotune/over/x", FileSystem("tmpfs", "tmpfs", "/mnt-autotune/over", False)),
    ],
)
def test_file_system(fake_root, path, expected):
    root = fake_root({"proc/self/mountinfo": TABLE})
    assert storage.file_system(Path(path), root) == expected


def test_a_link_counts_where_it_leads(fake_root, tmp_path):
    root = fake_root({"proc/self/mountinfo": TABLE})
    (tmp_path / "link").symlink_to("/mnt-autotune/nfs")
    assert storage.file_system(tmp_path / "link" / "x", root).type == "nfs4"


@pytest.mark.parametrize(
    ("type_", "network"),
    [
        *((name, True) for name in ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "ceph", "9p", "beegfs", "afs")),
        *((f"fuse.{name}", True) for name in ("sshfs", "s3fs", "gcsfuse", "rclone", "juicefs", "unheard-of")),
        ("fuse", True),
        *((f"fuse.{name}", False) for name in ("mergerfs", "fuse-overlayfs", "squashfuse")),
        *((name, False) for name in ("ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuseblk", "apfs", "nfsd")),
    ],
)
def test_is_network(type_, network):
    assert storage.is_network(type_) is network


def test_without_mountinfo_psutil_is_asked(tmp_path, monkeypatch):
    parts = [
        SimpleNamespace(mountpoint="/", fstype="apfs", device="/dev/disk1"),
        SimpleNamespace(mountpoint="/no-such-volume", fstype="smbfs", device="//srv/share"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: parts)
    assert storage.file_system(Path("/no-such-volume/x"), tmp_path).is_network
    assert storage.file_system(tmp_path, tmp_path) == FileSystem("apfs", "/dev/disk1", "/", False)
    parts.clear()
    assert storage.file_system(tmp_path, tmp_path) is None


def test_free_bytes_of_a_place_that_is_yet_to_come(tmp_path, monkeypatch):
    asked = []

    def usage(folder):
        asked.append(folder)
        if not folder.exists():
            raise FileNotFoundError(folder)
        return SimpleNamespace(free=123)

    monkeypatch.setattr(storage.shutil, "disk_usage", usage)
    assert storage.free_bytes(tmp_path / "out" / "run") == 123
    assert asked == [tmp_path / "out" / "run", tmp_path / "out", tmp_path]


def test_free_bytes_is_unknown_when_nobody_may_ask(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(folder)

    monkeypatch.setattr(storage.shutil, "disk_usage", refuse)
    assert storage.free_bytes(tmp_path) is None


def test_shm(fake_root, tmp_path):
    assert storage.facts(tmp_path) == ()
    (fact,) = storage.facts(fake_root({"dev/shm/x": ""}))
    assert fact.name == "machine.shm_free_bytes"
    assert fact.value > 0


@pytest.mark.parametrize(
    ("folder", "is_local"), [("data", True), ("nfs", False), ("over", False)], ids=["disk", "network", "memory"]
)
def test_the_local_disk(fake_root, monkeypatch, folder, is_local):
    root, place = fake_root({"proc/self/mountinfo": TABLE}), Path("/mnt-autotune", folder)
    monkeypatch.setattr(storage.tempfile, "gettempdir", lambda: str(place))
    monkeypatch.setattr(storage, "free_bytes", lambda path: 7 if path == place else None)
    assert storage.local_disk(root) == ((place, 7) if is_local else None)
    monkeypatch.setattr(storage, "free_bytes", lambda path: None)
    assert storage.local_disk(root) is None
