"""Plans the mounts that keep a script's writes away from the real files: overlays over all that it could write.

Every real folder is covered by an overlay whose upper layer, the scratch, lies on the same file system, so that a
redirected write takes as long as a real one. Caches, temporary files, devices and our run folder stay real. The kernel
refuses an overlay whose scratch lies below the folder that it covers. Two ways lead around that: a read-only overlay
over the folder is covered in its place (`OverlayMount.below`), or the folder is replaced by a *stand-in*: a folder in
scratch with a copy of its few small files, over whose subfolders the overlays are mounted.

Without privileges two things are impossible, and the plan goes around them: to cover a folder below which something is
mounted, and to change what belongs to another user or group (copying it up fails with EOVERFLOW). A stand-in is then
the only way.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from autotune.collect.artefacts import MANIFEST, write_json
from autotune.machine import identity
from autotune.machine.mounts import Mount

SCRATCH = ".autotune-scratch-"
"""How the name of a scratch folder begins; the id of its run follows. Its run.json names the process that made it."""

MOST_COPIED = 64 << 20
"""Bytes that the stand-ins of a plan copy, where the file system cannot share them between two files."""

MOST_ENTRIES = 4096
"""Entries of all folders that the stand-ins of a plan replace."""

MOST_MOUNTS = 4096

FOREIGN_DEPTH, FOREIGN_ENTRIES = 2, 256
"""Without privileges: how far below a mount, and in how many folders of others, folders of the user are looked for."""

# fmt: off
_VIRTUAL = frozenset((
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "debugfs", "tracefs",
    "securityfs", "pstore", "bpf", "configfs", "fusectl", "autofs", "binfmt_misc", "efivarfs", "rpc_pipefs", "nsfs",
    "squashfs", "iso9660",
))
# fmt: on
_REFUSED = frozenset(["vfat", "msdos", "exfat", "ntfs", "ntfs3", "hfs", "hfsplus"])
"""File systems that the kernel lets no overlay cover: their names have no case."""

_UPPER = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "zfs", "bcachefs"])
"""File systems that can hold an upper layer; the network ones cannot."""

_SUBVOLUMES = frozenset(["btrfs", "bcachefs"])
"""File systems whose subvolumes have device numbers of their own."""

_SPECIAL = ("/dev", "/proc", "/sys", "/run", "/var/run", "/var/tmp")

_SHARE = 0x40049409
"""FICLONE, ioctl_ficlone(2): a copy that shares its blocks with the file."""


class NotPossibleError(Exception):
    """The kernel layer cannot hold this run; the text says why, for the report."""


class OverlayMount(Struct, frozen=True):
    """An overlay at `at` over the real folder `lower`; what is written lands in `upper`.

    `below` is a folder in scratch, "" where that does not lie in `lower`: a read-only overlay over `lower` is made
    there and covered in its place. `is_needed` says that a protected folder is held by this one; where the kernel
    refuses another, its folder stays real.
    """

    at: str
    lower: str
    upper: str
    work: str
    below: str = ""
    is_needed: bool = False
    kind: str = "overlay"


class Bind(Struct, frozen=True):
    """The folder or file `source` shown at `at`."""

    at: str
    source: str
    read_only: bool = False
    kind: str = "bind"


class ReplacementFolder(Struct, frozen=True):
    """A folder in scratch, `copy`, that replaces the real folder `real`."""

    real: str
    copy: str


class OverlayPlan(Struct, frozen=True):
    """The mounts in their order. `stage` is the folder that becomes the root, "" when the root stays.

    `scratch` are the folders to delete afterwards, `gaps` writable folders that stay real although the script might
    write them, `other_devices` mount points whose scratch lies on another file system.
    """

    user_namespace: bool
    mounts: tuple[OverlayMount | Bind, ...]
    stand_ins: tuple[ReplacementFolder, ...]
    scratch: tuple[str, ...]
    stage: str = ""
    gaps: tuple[str, ...] = ()
    other_devices: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What mount_namespace.py reads."""
        return {
            "user_namespace": self.user_namespace,
            "stage": self.stage,
            "mounts": to_builtins(self.mounts),
        }


class OverlayRequest(Struct, frozen=True):
    """What the plan is for. All paths are real paths (no link in them).

    `protected` are folders that must be covered, `exempt` those that stay real; of a folder in several the deepest
    decides. `run_dir` stays real wherever it lies. `nearby` are folders in which a scratch may be made, `sockets` those
    that a process of this machine listens on: through an overlay nobody would answer. `is_privileged`: mounting needs
    no user namespace.
    """

    run_dir: str
    protected: tuple[str, ...]
    exempt: tuple[str, ...]
    nearby: tuple[str, ...]
    sockets: tuple[str, ...]
    is_privileged: bool
    user: int
    group: int


def plan(wanted: OverlayRequest, table: Sequence[Mount]) -> OverlayPlan:
    """The mounts for `wanted` on a machine with the mount table `table`; makes the scratch folders.

    Raises NotPossibleError when a protected folder cannot be covered; scratch that was made is deleted again.
    """
    planner = _Planner(wanted, {mount.mount_point: mount for mount in table})
    try:
        return planner.plan()
    except NotPossibleError:
        remove(planner.scratch.values())
        raise
    except OSError as error:
        remove(planner.scratch.values())
        raise NotPossibleError(f"{error.filename or 'the scratch folder'}: {error.strerror}") from error


def remove(folders: Iterable[str]) -> None:
    """Delete scratch folders."""
    for folder in folders:
        unlock(Path(folder))
        shutil.rmtree(folder, ignore_errors=True)


def unlock(scratch: Path) -> None:
    """Let the user delete what the kernel leaves in the scratch of each overlay: a folder without permissions."""
    for work in (folder / "work" for folder in scratch.glob("*/work")):
        if work.exists() and not any(path.is_symlink() for path in (work, work.parent, work.parent.parent)):
            work.chmod(0o700)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _Planner(Struct):
    """The plan while it is made: one walk from the root to what has to be covered."""

    wanted: OverlayRequest
    mounts_at: dict[str, Mount]
    scratch: dict[int, str] = field(default_factory=dict)
    mounts: list[OverlayMount | Bind] = field(default_factory=list)
    stand_ins: list[ReplacementFolder] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    other_devices: list[str] = field(default_factory=list)
    stage: str = ""
    num_layers: int = 0
    num_entries: int = 0
    num_copied: int = 0

    def plan(self) -> OverlayPlan:
        self._choose_scratch()
        if self._is_writable("/"):
            self.stage = self._new_layer(self._any_scratch()) + "/root"
            Path(self.stage).mkdir()
        self._visit("/", is_hidden=bool(self.stage), foreign=0)
        for path in self.wanted.sockets:
            if isinstance(self._nearest(path), OverlayMount):
                self._bind(path)
        self._check_protected()
        needed = self._needed()
        return OverlayPlan(
            user_namespace=not self.wanted.is_privileged,
            mounts=tuple(replace(row, is_needed=True) if row in needed else row for row in self.mounts),
            stand_ins=tuple(self.stand_ins),
            scratch=tuple(self.scratch.values()),
            stage=self.stage,
            gaps=tuple(self.gaps),
            other_devices=tuple(self.other_devices),
        )

    def _check_protected(self) -> None:
        copies = {stand_in.copy for stand_in in self.stand_ins}
        for path in self.wanted.protected:
            row = self._nearest(path)
            is_held = isinstance(row, OverlayMount) or (row is not None and row.source in copies)
            if not is_held and not _is_read_only(path):
                raise NotPossibleError(f"{path} cannot be covered by an overlay")
        for gap in self.gaps:
            if self._is_protected(gap):
                raise NotPossibleError(f"{gap} cannot be covered by an overlay")

    def _needed(self) -> set[OverlayMount]:
        """The overlays that hold a protected folder, and those in one."""
        rows = [row for row in self.mounts if isinstance(row, OverlayMount)]
        holding = {row for row in map(self._nearest, self.wanted.protected) if isinstance(row, OverlayMount)}
        return holding | {row for row in rows if self._is_protected(row.lower)}

    # -- scratch -------------------------------------------------------------------------------------------------

    def _choose_scratch(self) -> None:
        """One scratch folder on each file system of protected and nearby folders that can hold one."""
        inside = [point for point in self.mounts_at if self._is_protected(point) and not self._is_real(point)]
        for path in (*self.wanted.protected, *inside, *self.wanted.nearby):
            device, mount = _device(path), self.mounts_at.get(self._mount_of(path))
            if device is None or device in self.scratch or mount is None or mount.type not in _UPPER:
                continue
            self._make_scratch(device, path)
        if not self.scratch:
            raise NotPossibleError("no local file system has room for the writes of the script")

    def _any_scratch(self) -> str:
        """The scratch of the first protected folder, where there is one."""
        return next(iter(self.scratch.values()))

    def _mount_of(self, path: str) -> str:
        return max((point for point in self.mounts_at if is_below(path, point)), key=len, default="/")

    def _make_scratch(self, device: int, path: str) -> None:
        """Make a scratch folder on the file system of `path`, outside of the protected folders if possible."""
        own = [self._mount_of(path)] if self.wanted.is_privileged else []
        above = [_highest_writable(each, device) for each in (*self.wanted.protected, path)]
        places = [place for place in (*own, *self.wanted.nearby, *above) if place and _device(place) == device]
        for place in sorted(dict.fromkeys(places), key=self._is_protected):
            scratch = f"{place.rstrip('/')}/{SCRATCH}{Path(self.wanted.run_dir).name}"
            try:
                os.mkdir(scratch, 0o700)
            except OSError:
                continue
            self.scratch[device] = scratch
            write_json(Path(scratch, MANIFEST), identity())
            return

    def _new_layer(self, scratch: str) -> str:
        self.num_layers += 1
        if self.num_layers > MOST_MOUNTS:
            raise NotPossibleError(f"more than {MOST_MOUNTS} overlays would be needed")
        path = f"{scratch}/{self.num_layers}"
        os.mkdir(path, 0o700)
        return path

    # -- the walk ------------------------------------------------------------------------------------------------

    def _visit(self, folder: str, *, is_hidden: bool, foreign: int) -> None:
        """Cover `folder`, or leave it as it is. `is_hidden` says that what was mounted above it hides it.

        `foreign` counts the folders of others that were passed since the last mount point, without privileges.
        """
        if self._is_real(folder):
            self._leave(folder, is_hidden)
        elif not _is_folder(folder):
            if is_hidden or self._is_writable(folder):
                self._bind(folder, read_only=os.path.isfile(folder))
        elif self._is_refused(folder):
            if self._is_writable(folder):
                self.gaps.append(folder)
            self._leave(folder, is_hidden)
        elif self._can_be_covered(folder):
            self._overlay(folder)
            for path in self._topmost(self._special_below(folder)):
                self._visit(path, is_hidden=True, foreign=0)
        elif self._is_writable(folder):
            self._stand_in(folder, is_hidden=is_hidden, foreign=foreign)
        else:
            if is_hidden:
                self._bind(folder)
            self._visit_children(folder, foreign)

    def _leave(self, folder: str, is_hidden: bool) -> None:
        """Keep `folder` real, and cover what is protected or mounted below it."""
        if is_hidden:
            self._bind(folder)
        inside = (*self.wanted.protected, *self.mounts_at)
        below = [path for path in inside if path != folder and is_below(path, folder) and os.path.lexists(path)]
        for path in self._topmost([path for path in below if not self._is_real(path)]):
            self._visit(path, is_hidden=False, foreign=0)

    def _visit_children(self, folder: str, foreign: int) -> None:
        """Look for what can be written below a folder that cannot be."""
        wanted = (*self.wanted.protected, *self.wanted.nearby, *self.mounts_at)
        names = [name for name in _names(folder) if not name.startswith(SCRATCH)]
        is_far = foreign >= FOREIGN_DEPTH or len(names) > FOREIGN_ENTRIES
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            at_mount = path in self.mounts_at
            is_on_the_way = any(is_below(each, path) for each in wanted)
            if (is_on_the_way or not is_far) and (_is_folder(path) or at_mount):
                self._visit(path, is_hidden=False, foreign=0 if at_mount or folder == "/" else foreign + 1)

    def _can_be_covered(self, folder: str) -> bool:
        """Whether an overlay can be made over `folder`, and is not dearer than a stand-in."""
        if not self.wanted.is_privileged:
            if any(point != folder and is_below(point, folder) for point in self.mounts_at):
                return False
            if not self._is_own(folder):
                return False
        return not (self._holds_scratch(folder) and self._is_small(folder))

    def _holds_scratch(self, folder: str) -> bool:
        kind, inside = self._within(folder)
        scratch = [self._within(path) for path in self.scratch.values()]
        return any(other == kind and is_below(path, inside) for other, path in scratch)

    def _within(self, path: str) -> tuple[tuple[str, str | int | None], str]:
        """A file system, and the path of `path` in it: a folder may be mounted at several places."""
        point = self._mount_of(path)
        mount = self.mounts_at.get(point)
        if mount is None:
            return ("", _device(path)), path
        place = mount.root.rstrip("/") + path[len(point.rstrip("/")) :] or "/"
        return (mount.type, mount.device if mount.type in _SUBVOLUMES else _device(path)), place

    def _is_small(self, folder: str) -> bool:
        """Whether a stand-in serves `folder` as well: not a folder of the script, and what it copies is little."""
        names = _names(folder)
        if self._is_protected(folder) or self.num_entries + len(names) > MOST_ENTRIES:
            return False
        num_bytes = 0
        for name in names:
            with suppress(OSError):
                about = os.lstat(f"{folder.rstrip('/')}/{name}")
                if stat.S_ISDIR(about.st_mode) or stat.S_ISLNK(about.st_mode):
                    continue
                if not stat.S_ISREG(about.st_mode):
                    return False
                num_bytes += about.st_size
        return self.num_copied + num_bytes <= MOST_COPIED

    def _is_own(self, folder: str) -> bool:
        about = os.stat(folder)
        return (about.st_uid, about.st_gid) == (self.wanted.user, self.wanted.group)

    def _is_writable(self, folder: str) -> bool:
        return self.wanted.is_privileged or os.access(folder, os.W_OK)

    def _overlay(self, folder: str) -> None:
        device = os.stat(folder).st_dev
        scratch = self.scratch.get(device)
        if scratch is None:
            scratch = self._any_scratch()
            self.other_devices.append(folder)
        layer = self._new_layer(scratch)
        below = f"{layer}/below" if self._holds_scratch(folder) else ""
        for path in (f"{layer}/upper", f"{layer}/work", *([below] if below else [])):
            os.mkdir(path)
        for path in self.scratch.values():
            if os.path.dirname(path) == folder:
                with suppress(OSError):  # a whiteout (overlayfs): the script does not see its own scratch
                    os.mknod(f"{layer}/upper/{os.path.basename(path)}", stat.S_IFCHR | 0o600, os.makedev(0, 0))
        _take_looks(folder, f"{layer}/upper")
        self.mounts.append(OverlayMount(self._at(folder), folder, f"{layer}/upper", f"{layer}/work", below))

    def _bind(self, path: str, source: str | None = None, read_only: bool = False) -> None:
        self.mounts.append(Bind(self._at(path), path if source is None else source, read_only))

    def _stand_in(self, folder: str, *, is_hidden: bool, foreign: int) -> None:
        names = _names(folder)
        is_lost = not self.wanted.is_privileged and not self._is_own(folder) and foreign >= FOREIGN_DEPTH
        if is_lost or self.num_entries + len(names) > MOST_ENTRIES:
            self.gaps.append(folder)
            self._leave(folder, is_hidden)
            return
        self.num_entries += len(names)
        copy = self._new_layer(self.scratch.get(_device(folder) or 0, self._any_scratch())) + "/copy"
        os.mkdir(copy)
        self._bind(folder, copy)
        self.stand_ins.append(ReplacementFolder(folder, copy))
        for name in names:
            self._stand_in_entry(f"{folder.rstrip('/')}/{name}", f"{copy}/{name}", foreign)
        _take_looks(folder, copy)

    def _stand_in_entry(self, path: str, copy: str, foreign: int) -> None:
        try:
            about = os.lstat(path)
        except FileNotFoundError:  # it was deleted meanwhile
            return
        if Path(path).name.startswith(SCRATCH):  # this run's, or that of another run at this moment
            return
        if stat.S_ISDIR(about.st_mode):
            os.mkdir(copy)
            self._visit(path, is_hidden=True, foreign=foreign + (not self._is_own(path)))
        elif stat.S_ISLNK(about.st_mode):
            os.symlink(os.readlink(path), copy)
        elif stat.S_ISREG(about.st_mode) and self._copy(path, about.st_size, copy):
            _take_owner(about, copy)
        elif stat.S_ISREG(about.st_mode) and self._is_protected(path):
            raise NotPossibleError(f"{path} is too large to copy, and its folder cannot be covered by an overlay")
        else:
            Path(copy).touch()
            self._bind(path, read_only=stat.S_ISREG(about.st_mode))

    def _copy(self, path: str, size: int, copy: str) -> bool:
        """Copy a file into a stand-in; False where it cannot be read or would be too much."""
        if not os.access(path, os.R_OK):
            return False
        if _share(path, copy):
            return True
        if self.num_copied + size > MOST_COPIED:
            return False
        self.num_copied += size
        shutil.copy2(path, copy)
        return True

    def _nearest(self, path: str) -> OverlayMount | Bind | None:
        """The mount of the plan that `path` is seen through, None where nothing above it is mounted."""
        above = [mount for mount in self.mounts if is_below(self._at(path), mount.at)]
        return max(above, key=lambda mount: len(mount.at), default=None)

    def _at(self, path: str) -> str:
        return self.stage + path if path != "/" or not self.stage else self.stage

    # -- what stays real -----------------------------------------------------------------------------------------

    def _is_real(self, path: str) -> bool:
        if is_below(path, self.wanted.run_dir) or any(is_below(path, special) for special in _SPECIAL):
            return True
        mount = self.mounts_at.get(path)
        if mount is not None and (mount.type in _VIRTUAL or _is_read_only(path)):
            return True
        return _depth(path, self.wanted.exempt) > _depth(path, self.wanted.protected)

    def _is_protected(self, path: str) -> bool:
        return any(is_below(path, folder) for folder in self.wanted.protected)

    def _is_refused(self, folder: str) -> bool:
        mount = self.mounts_at.get(folder)
        return mount is not None and mount.type in _REFUSED

    def _special_below(self, folder: str) -> list[str]:
        """What differs below a covered folder: mount points, and what stays real."""
        inside = (self.wanted.run_dir, *_SPECIAL, *self.wanted.exempt, *self.mounts_at)
        return [path for path in inside if path != folder and is_below(path, folder) and self._differs(path)]

    def _differs(self, path: str) -> bool:
        if path in self.mounts_at:
            return os.path.lexists(path)
        return _is_folder(path) and self._is_real(path)

    def _topmost(self, paths: Sequence[str]) -> list[str]:
        unique = list(dict.fromkeys(paths))
        return [path for path in unique if not any(path != other and is_below(path, other) for other in unique)]


def _depth(path: str, folders: Iterable[str]) -> int:
    """The length of the deepest of `folders` that `path` lies in, -1 where it is in none."""
    return max((len(folder) for folder in folders if is_below(path, folder)), default=-1)


def _highest_writable(path: str, device: int) -> str | None:
    """The highest folder that this user can write of `path` and those above it, on the file system `device`."""
    above = [str(folder) for folder in (Path(path), *Path(path).parents) if _device(str(folder)) == device]
    return next((folder for folder in reversed(above) if os.access(folder, os.W_OK | os.X_OK)), None)


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return True


def _share(path: str, copy: str) -> bool:
    """Make `copy` share the blocks of `path`; False where the file system cannot."""
    import fcntl  # no Windows has it

    with open(path, "rb") as file, open(copy, "wb") as other:
        try:
            fcntl.ioctl(other.fileno(), _SHARE, file.fileno())
        except OSError:
            return False
    shutil.copystat(path, copy)
    return True


def _take_looks(folder: str, copy: str) -> None:
    """Mode, times and attributes of `folder`, and its owner where this user may give files away."""
    about = os.stat(folder)
    _take_owner(about, copy)
    shutil.copystat(folder, copy)


def _take_owner(about: os.stat_result, copy: str) -> None:
    try:
        os.chown(copy, about.st_uid, about.st_gid)
    except PermissionError:
        return
