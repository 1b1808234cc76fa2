"""The changes themselves, made in scratch: what each system call does to the merged view.

Every function takes places (see world.py) and raises what the kernel would raise for the real tree; the caller
puts the script's own spelling of the path into the error.
"""

from __future__ import annotations

import errno
import os
import posix
from os.path import dirname
from stat import S_IFIFO, S_IMODE, S_ISDIR, S_ISREG

from .layer import may
from .world import is_below, os_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .layer import Layer
    from .world import World


def parent(world: World, place: str) -> Layer:
    """The layer in which `place` can be made; its folder must exist and be writable for this user."""
    folder = _folder(world, place)
    if world.has_real(folder) and not may(folder, os.W_OK | os.X_OK):
        raise _denied(folder, place)
    layer = world.layer_to_write(folder)
    layer.mirror(folder)
    return layer


def _folder(world: World, place: str) -> str:
    folder = dirname(place)
    if not S_ISDIR(existing(world, folder).st_mode):
        raise os_error(errno.ENOTDIR, place)
    return folder


def _denied(real: str, place: str) -> OSError:
    is_read_only = posix.statvfs(real).f_flag & posix.ST_RDONLY
    return os_error(errno.EROFS if is_read_only else errno.EACCES, place)


def existing(world: World, place: str) -> os.stat_result:
    """lstat of `place`, which must exist."""
    return posix.lstat(world.physical(place))


def new(world: World, place: str) -> str:
    """Where to make `place`, which must not exist yet."""
    _folder(world, place)
    if world.status(place) is not None:
        raise os_error(errno.EEXIST, place)
    return parent(world, place).upper + place


def own(world: World, place: str) -> str:
    """The scratch copy of the existing `place`, made now if there is none: what the script changes from here on."""
    physical = world.physical(place)
    status = posix.lstat(physical)
    if physical != place:
        return physical
    layer = world.layer_to_write(dirname(place))
    layer.mirror(dirname(place))
    if S_ISDIR(status.st_mode):
        layer.mirror(place)
    else:
        layer.copy_up(place)
    world.shared.bump()
    return layer.upper + place


def own_tree(world: World, place: str) -> str:
    """The same for a folder with everything in it."""
    target = own(world, place)
    if S_ISDIR(posix.lstat(target).st_mode):
        for name in world.names(place):
            own_tree(world, place + "/" + name)
    return target


def open_file(world: World, place: str, flags: int, mode: int) -> int:
    """os.open for writing or creating."""
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        return posix.open(dirname(parent(world, place + "/x").upper + place + "/x"), flags, mode)
    status = world.status(place)
    if status is None:
        return _create(world, place, flags, mode)
    physical = world.physical(place)
    is_ours = physical != place
    if is_ours or not S_ISREG(status.st_mode) or _only_reads(flags) or _is_refused(flags):
        return posix.open(physical, flags, mode)
    if not may(place, _needed(flags)):
        raise _denied(place, place)
    return _overwrite(world, place, flags, status)


def _needed(flags: int) -> int:
    return os.W_OK | (os.R_OK if flags & os.O_ACCMODE == os.O_RDWR else 0)


def _only_reads(flags: int) -> bool:
    return flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_TRUNC


def _is_refused(flags: int) -> bool:
    """Whether the kernel refuses to open an existing file so, before it changes anything."""
    must_be_new = flags & os.O_CREAT and flags & os.O_EXCL
    return bool(must_be_new or flags & os.O_DIRECTORY)


def _create(world: World, place: str, flags: int, mode: int) -> int:
    if not flags & os.O_CREAT:
        _folder(world, place)
        raise os_error(errno.ENOENT, place)
    layer = parent(world, place)
    descriptor = posix.open(layer.upper + place, flags, mode)
    world.shared.bump()
    return descriptor


def _overwrite(world: World, place: str, flags: int, status: os.stat_result) -> int:
    """Open an existing real file for writing: a copy of it, or an empty one when its content goes anyway."""
    if not flags & os.O_TRUNC:
        return posix.open(own(world, place), flags)
    layer = world.layer_to_write(dirname(place))
    layer.mirror(dirname(place))
    descriptor = posix.open(layer.upper + place, flags | os.O_CREAT, 0o600)
    posix.fchmod(descriptor, S_IMODE(status.st_mode))
    world.shared.bump()
    return descriptor


def make_folder(world: World, place: str, mode: int = 0o777) -> None:
    """os.mkdir."""
    posix.mkdir(new(world, place), mode)
    world.shared.bump()


def make_link(world: World, place: str, target: Any) -> None:
    """os.symlink; the text of the link is the script's."""
    posix.symlink(target, new(world, place))
    world.shared.bump()


def make_node(world: World, place: str, *args: Any, **kwargs: Any) -> None:
    """os.mknod."""
    posix.mknod(new(world, place), *args, **kwargs)
    world.shared.bump()


def make_fifo(world: World, place: str, mode: int = 0o666) -> None:
    """os.mkfifo."""
    make_node(world, place, mode | S_IFIFO)


def remove_file(world: World, place: str) -> None:
    """os.unlink."""
    status = existing(world, place)
    layer = parent(world, place)
    if S_ISDIR(status.st_mode):
        raise os_error(errno.EISDIR, place)
    _take_away(world, layer, place)


def remove_folder(world: World, place: str) -> None:
    """os.rmdir."""
    status = existing(world, place)
    layer = parent(world, place)
    if not S_ISDIR(status.st_mode):
        raise os_error(errno.ENOTDIR, place)
    if world.names(place):
        raise os_error(errno.ENOTEMPTY, place)
    _take_away(world, layer, place)


def _take_away(world: World, layer: Layer, place: str) -> None:
    """First hide what is real, then remove the copy: nobody may see the real one again in between."""
    if world.has_real(place):
        layer.hide(place)
    physical = layer.upper + place
    try:
        is_folder = S_ISDIR(posix.lstat(physical).st_mode)
    except FileNotFoundError:
        is_folder = None
    if is_folder is not None:
        (posix.rmdir if is_folder else posix.unlink)(physical)
    world.shared.bump()


def rename(world: World, source: str, target: str) -> None:
    """os.rename, os.replace. A real file or folder is copied first: its first rename costs a copy."""
    status = _ends(world, source, target)
    if source == target:
        return
    _check_rename(world, source, target, status)
    from_layer, to_layer = parent(world, source), parent(world, target)
    if from_layer is not to_layer:
        raise os_error(errno.EXDEV, source, target)
    own_tree(world, source)
    # What was really at the target stays out of sight: a file by the new one, an emptied folder's files by their marks.
    posix.rename(from_layer.upper + source, to_layer.upper + target)
    if world.status(source) is not None and world.has_real(source):
        from_layer.hide(source)
    world.shared.bump()


def _ends(world: World, source: str, target: str) -> os.stat_result:
    """lstat of `source`; what is missing is found in the kernel's order."""
    for place in (source, target):
        _folder(world, place)
    return existing(world, source)


def _check_rename(world: World, source: str, target: str, status: os.stat_result) -> None:
    is_folder = S_ISDIR(status.st_mode)
    if is_folder and is_below(target, (source,)):
        raise os_error(errno.EINVAL, source, target)
    old = world.status(target)
    if old is None:
        return
    if is_folder and not S_ISDIR(old.st_mode):
        raise os_error(errno.ENOTDIR, source, target)
    if S_ISDIR(old.st_mode) and not is_folder:
        raise os_error(errno.ENOTEMPTY if is_below(source, (target,)) else errno.EISDIR, source, target)
    if is_folder and world.names(target):
        raise os_error(errno.ENOTEMPTY, source, target)


def move_out(world: World, source: str, target: str) -> None:
    """Rename into a folder that may really be written."""
    _ends(world, source, target)
    posix.rename(own_tree(world, source), target)
    if world.has_real(source):
        parent(world, source).hide(source)
    world.shared.bump()


def move_in(world: World, source: str, target: str) -> None:
    """Rename from a folder that may really be written."""
    status = _ends(world, source, target)
    _check_rename(world, source, target, status)
    layer = parent(world, target)
    posix.rename(source, layer.upper + target)
    world.shared.bump()


def link(world: World, source: str, target: str) -> None:
    """os.link: a second name in scratch; a real file is copied first."""
    status = existing(world, source)
    path = new(world, target)
    if S_ISDIR(status.st_mode):
        raise os_error(errno.EPERM, source, target)
    posix.link(own(world, source), path)
    world.shared.bump()


def link_in(world: World, source: str, target: str) -> None:
    """os.link to a file that may really be written."""
    existing(world, source)
    posix.link(source, new(world, target))
    world.shared.bump()


def link_out(world: World, source: str, target: str) -> None:
    """os.link from a file of the tree: the new name is that of its copy."""
    posix.link(own(world, source), target)
