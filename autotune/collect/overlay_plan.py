"""Plans the mounts that keep a script's writes away from the real files: overlays over all that it could write.

Every real folder is covered by an overlay whose upper layer, the scratch, lies on the same file system, so that a
redirected write takes as long as a real one. Caches, temporary files, devices and our run folder stay real. The kernel
refuses an overlay whose scratch lies below the folder that it covers. A folder above the scratch is therefore replaced
by a *stand-in*: a folder in scratch with a copy of its files, over whose subfolders the overlays are mounted.

Without privileges two things are impossible, and the plan goes around them: to cover a folder below which something is
mounted, and to change what belongs to another user or group (copying it up fails with EOVERFLOW).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autotune.machine.mounts import Mount

SCRATCH = ".autotune-scratch-"
"""How the name of a scratch folder begins; the id of its run follows."""

LARGEST_COPY = 16 << 20
"""Bytes of a file that a stand-in copies; a larger one is shown read-only."""

MOST_ENTRIES = 4096
"""Entries of a folder that a stand-in can replace."""

MOST_MOUNTS = 4096

FOREIGN_DEPTH, FOREIGN_ENTRIES = 2, 256
"""Without privileges: how far below a mount, and in how many folders of others, folders of the user are looked for."""

# fmt: off
_VIRTUAL = frozenset((
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "debugfs", "tracefs",
    "securityfs", "pstore", "bpf", "configfs", "fusectl", "autofs", "binfmt_misc", "efivarfs", "rpc_pipefs", "nsfs",
    "ramfs", "squashfs", "iso9660",
))
# fmt: on
_UPPER = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "zfs", "bcachefs"])
"""File systems that can hold an upper layer; the network ones cannot."""

_SPECIAL = ("/dev", "/proc", "/sys", "/run", "/var/run", "/var/tmp")


class NotPossibleError(Exception):
    """The kernel layer cannot hold this run; the text says why, for the report."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """An overlay at `at` over the real folder `lower`; what is written lands in `upper`."""

    at: str
    lower: str
    upper: str
    work: str
    kind: str = "overlay"


@dataclass(frozen=True, slots=True)
class Bind:
    """The folder or file `source` shown at `at`."""

    at: str
    source: str
    read_only: bool = False
    kind: str = "bind"


@dataclass(frozen=True, slots=True)
class StandIn:
    """A folder in scratch, `copy`, that replaces the real folder `real`."""

    real: str
    copy: str


@dataclass(frozen=True, slots=True)
class OverlayPlan:
    """The mounts in their order. `stage` is the folder that becomes the root, "" when the root stays.

    `scratch` are the folders to delete afterwards, `gaps` writable folders that stay real although the script might
    write them, `other_devices` mount points whose scratch lies on another file system.
    """

    user_namespace: bool
    mounts: tuple[Overlay | Bind, ...]
    stand_ins: tuple[StandIn, ...]
    scratch: tuple[str, ...]
    stage: str = ""
    gaps: tuple[str, ...] = ()
    other_devices: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What mount_namespace.py reads."""
        return {
            "user_namespace": self.user_namespace,
            "stage": self.stage,
            "mounts": [asdict(mount) for mount in self.mounts],
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the plan is for. All paths are real paths (no link in them).

    `protected` are folders that must be covered, `exempt` those that stay real outside of them, `run_dir` stays real
    wherever it lies. `nearby` are folders below which a scratch may be made, `sockets` those that a process of this
    machine listens on: through an overlay nobody would answer. `is_privileged`: mounting needs no user namespace.
    """

    run_dir: str
    protected: tuple[str, ...]
    exempt: tuple[str, ...]
    nearby: tuple[str, ...]
    sockets: tuple[str, ...]
    is_privileged: bool
    user: int
    group: int


def plan(wanted: Wanted, table: Sequence[Mount]) -> OverlayPlan:
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
    for work in scratch.glob("*/work/work"):
        work.chmod(0o700)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@dataclass(slots=True)
class _Planner:
    """The plan while it is made: one walk from the root to what has to be covered."""

    wanted: Wanted
    mounts_at: dict[str, Mount]
    scratch: dict[int, str] = field(default_factory=dict)
    mounts: list[Overlay | Bind] = field(default_factory=list)
    stand_ins: list[StandIn] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    other_devices: list[str] = field(default_factory=list)
    stage: str = ""
    num_layers: int = 0

    def plan(self) -> OverlayPlan:
        self._choose_scratch()
        if self._is_writable("/"):
            self.stage = self._new_layer(next(iter(self.scratch.values()))) + "/root"
            Path(self.stage).mkdir()
        self._visit("/", is_hidden=bool(self.stage), foreign=0)
        for path in self.wanted.sockets:
            if self._is_covered(path):
                self._bind(path)
        overlaid = [mount.lower for mount in self.mounts if isinstance(mount, Overlay)]
        overlaid += [stand_in.real for stand_in in self.stand_ins]
        for path in self.wanted.protected:
            if not any(is_below(path, folder) for folder in overlaid) or path in self.gaps:
                raise NotPossibleError(f"{path} cannot be covered by an overlay")
        return OverlayPlan(
            user_namespace=not self.wanted.is_privileged,
            mounts=tuple(self.mounts),
            stand_ins=tuple(self.stand_ins),
            scratch=tuple(self.scratch.values()),
            stage=self.stage,
            gaps=tuple(self.gaps),
            other_devices=tuple(self.other_devices),
        )

    # -- scratch -------------------------------------------------------------------------------------------------

    def _choose_scratch(self) -> None:
        """One scratch folder on each file system that is covered and can hold one."""
        for mount in self._covered_mounts():
            device = os.stat(mount.mount_point).st_dev
            if device in self.scratch or mount.type not in _UPPER:
                continue
            folder = self._scratch_on(device, mount.mount_point)
            if folder is not None:
                self.scratch[device] = folder
        if not self.scratch:
            raise NotPossibleError("no local file system has room for the writes of the script")

    def _covered_mounts(self) -> list[Mount]:
        places = [mount for mount in self.mounts_at.values() if not self._is_real(mount.mount_point)]
        needed = {self._mount_of(path) for path in (*self.wanted.protected, *self.wanted.nearby)}
        known = {mount.mount_point for mount in places}
        return places + [self.mounts_at[point] for point in needed if point not in known and point in self.mounts_at]

    def _mount_of(self, path: str) -> str:
        return max((point for point in self.mounts_at if is_below(path, point)), key=len, default="/")

    def _scratch_on(self, device: int, mount_point: str) -> str | None:
        own = [mount_point] if self.wanted.is_privileged else []
        above = [_highest_writable(path, device) for path in self.wanted.protected]
        for folder in (*own, *self.wanted.nearby, *above):
            if folder is not None and _device(folder) == device and os.access(folder, os.W_OK | os.X_OK):
                path = f"{folder.rstrip('/')}/{SCRATCH}{Path(self.wanted.run_dir).name}"
                try:
                    os.mkdir(path, 0o700)
                except OSError:
                    continue
                return path
        return None

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
            if is_hidden:
                self._bind(folder)
            for path in self._topmost(self._protected_below(folder)):
                self._visit(path, is_hidden=False, foreign=0)
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

    def _visit_children(self, folder: str, foreign: int) -> None:
        """Look for what can be written below a folder that cannot be."""
        wanted = (*self.wanted.protected, *self.wanted.nearby, *self.mounts_at)
        names = [name for name in _names(folder) if not name.startswith(SCRATCH)]
        is_far = foreign >= FOREIGN_DEPTH or len(names) > FOREIGN_ENTRIES
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            is_on_the_way = any(is_below(each, path) for each in wanted)
            if (is_on_the_way or not is_far) and _is_folder(path):
                at_mount = path in self.mounts_at
                self._visit(path, is_hidden=False, foreign=0 if at_mount or folder == "/" else foreign + 1)

    def _can_be_covered(self, folder: str) -> bool:
        if any(is_below(path, folder) for path in self.scratch.values()):
            return False
        if self.wanted.is_privileged:
            return True
        if any(point != folder and is_below(point, folder) for point in self.mounts_at):
            return False
        return self._is_own(folder)

    def _is_own(self, folder: str) -> bool:
        about = os.stat(folder)
        return (about.st_uid, about.st_gid) == (self.wanted.user, self.wanted.group)

    def _is_writable(self, folder: str) -> bool:
        return self.wanted.is_privileged or os.access(folder, os.W_OK)

    def _overlay(self, folder: str) -> None:
        device = os.stat(folder).st_dev
        scratch = self.scratch.get(device)
        if scratch is None:
            scratch = next(iter(self.scratch.values()))
            self.other_devices.append(folder)
        layer = self._new_layer(scratch)
        for name in ("upper", "work"):
            os.mkdir(f"{layer}/{name}")
        _take_looks(folder, f"{layer}/upper")
        self.mounts.append(Overlay(self._at(folder), folder, f"{layer}/upper", f"{layer}/work"))

    def _bind(self, path: str, source: str | None = None, read_only: bool = False) -> None:
        self.mounts.append(Bind(self._at(path), path if source is None else source, read_only))

    def _stand_in(self, folder: str, *, is_hidden: bool, foreign: int) -> None:
        names = _names(folder)
        is_lost = not self.wanted.is_privileged and not self._is_own(folder) and foreign >= FOREIGN_DEPTH
        scratch = self.scratch.get(_device(folder) or 0, next(iter(self.scratch.values())))
        if is_lost or len(names) > MOST_ENTRIES:
            self.gaps.append(folder)
            if is_hidden:
                self._bind(folder)
            return
        copy = self._new_layer(scratch) + "/copy"
        os.mkdir(copy)
        self._bind(folder, copy)
        self.stand_ins.append(StandIn(folder, copy))
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
        elif stat.S_ISREG(about.st_mode) and about.st_size <= LARGEST_COPY and os.access(path, os.R_OK):
            shutil.copy2(path, copy)
            _take_owner(about, copy)
        else:
            Path(copy).touch()
            self._bind(path, read_only=stat.S_ISREG(about.st_mode))

    def _is_covered(self, path: str) -> bool:
        """Whether the nearest mount above `path` is an overlay."""
        above = [mount for mount in self.mounts if is_below(self._at(path), mount.at)]
        return bool(above) and isinstance(max(above, key=lambda mount: len(mount.at)), Overlay)

    def _at(self, path: str) -> str:
        return self.stage + path if path != "/" or not self.stage else self.stage

    # -- what stays real -----------------------------------------------------------------------------------------

    def _is_real(self, path: str) -> bool:
        if is_below(path, self.wanted.run_dir) or any(is_below(path, special) for special in _SPECIAL):
            return True
        mount = self.mounts_at.get(path)
        if mount is not None and (mount.type in _VIRTUAL or _is_read_only(path)):
            return True
        if any(is_below(path, folder) for folder in self.wanted.protected):
            return False
        return any(is_below(path, folder) for folder in self.wanted.exempt)

    def _special_below(self, folder: str) -> list[str]:
        """What differs below a covered folder: mount points, and what stays real."""
        inside = (self.wanted.run_dir, *_SPECIAL, *self.wanted.exempt, *self.mounts_at)
        return [path for path in inside if path != folder and is_below(path, folder) and self._differs(path)]

    def _differs(self, path: str) -> bool:
        return _is_folder(path) and (self._is_real(path) or path in self.mounts_at)

    def _protected_below(self, folder: str) -> list[str]:
        return [path for path in self.wanted.protected if path != folder and is_below(path, folder)]

    def _topmost(self, paths: Sequence[str]) -> list[str]:
        unique = list(dict.fromkeys(paths))
        return [path for path in unique if not any(path != other and is_below(path, other) for other in unique)]


def _highest_writable(path: str, device: int) -> str | None:
    """The highest folder above `path` on its file system that this user can write."""
    above = [str(folder) for folder in Path(path).parents if _device(str(folder)) == device]
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
