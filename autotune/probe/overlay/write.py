"""Patched functions that change something: free places go to the kernel as they are, all others to scratch."""

from __future__ import annotations

import errno
import os
import posix

from . import actions
from .layer import may
from .patched_function import OverlaidFunction
from .world import os_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Function
    from .world import World

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class OsOpen(OverlaidFunction):
    """os.open."""

    def __call__(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        world = self._world
        try:
            if not flags & WRITE_FLAGS and flags & os.O_TMPFILE != os.O_TMPFILE:
                physical = world.reading(path, dir_fd, not flags & os.O_NOFOLLOW) if world.shared.view[0] else None
                if physical is None:
                    return self._original(path, flags, mode, dir_fd=dir_fd)
                return self._original(physical, flags, mode)
            return self._write(path, flags, mode, dir_fd)
        except OSError as error:
            error.filename = path
            raise

    def _write(self, path: Any, flags: int, mode: int, dir_fd: int | None) -> Any:
        must_be_new = flags & os.O_CREAT and flags & os.O_EXCL
        place, native = self._world.find(path, dir_fd, not (flags & os.O_NOFOLLOW or must_be_new))
        if self._world.is_free(place):
            return self._original(path if native else place, flags, mode)
        return actions.open_file(self._world, place, flags, mode)


class Write(OverlaidFunction):
    """A function of one path. `action(world, place, *args)` does it in scratch; a descriptor passes through."""

    def __init__(self, name: str, original: Function, world: World, action: Function, follow: bool = False) -> None:
        super().__init__("os", name, original, world)
        self._action, self._follow = action, follow

    def __call__(self, path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        world = self._world
        try:
            place, native = world.find(path, dir_fd, kwargs.get("follow_symlinks", self._follow))
            if world.is_free(place) or not place.startswith("/"):
                return self._original(path if native else place, *args, **kwargs)
            return self._action(world, place, *args, **kwargs)
        except OSError as error:
            error.filename = path if self.__name__ != "utime" else None  # CPython's utime names no file
            raise


class Truncate(Write):
    """os.truncate: a descriptor that can be written is scratch already, and a read-only one fails as it should."""

    def __call__(self, path: Any, length: int) -> Any:  # type: ignore[override]  # what os.truncate takes
        return self._original(path, length) if isinstance(path, int) else super().__call__(path, length)


class Symlink(OverlaidFunction):
    """os.symlink."""

    def __call__(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> Any:
        world = self._world
        try:
            place, native = world.find(dst, dir_fd, False)
            if world.is_free(place):
                return self._original(src, dst if native else place)
            return actions.make_link(world, place, os.fspath(src))
        except OSError as error:
            error.filename, error.filename2 = src, dst
            raise


class Two(OverlaidFunction):
    """rename, replace, link: a source and a target, either of which may be free. `ways` are the three others."""

    def __init__(self, name: str, original: Function, world: World, ways: tuple[Function, Function, Function]) -> None:
        super().__init__("os", name, original, world)
        self._inside, self._into, self._out_of = ways

    def __call__(
        self,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> Any:
        world = self._world
        try:
            source, from_native = world.find(src, src_dir_fd, False)
            target, to_native = world.find(dst, dst_dir_fd, False)
            if world.is_free(source):
                if world.is_free(target):
                    return self._original(src if from_native else source, dst if to_native else target)
                return self._into(world, source, target)
            if world.is_free(target):
                return self._out_of(world, source, target)
            return self._inside(world, source, target)
        except OSError as error:
            error.filename, error.filename2 = src, dst
            raise


class ChDir(OverlaidFunction):
    """os.chdir into a folder that only exists in scratch leads there."""

    def __call__(self, path: Any) -> Any:
        world = self._world
        if not world.shared.view[0] or isinstance(path, int):
            return self._original(path)
        try:
            place = world.place(path)
            return self._original(place if world.has_real(place) else world.physical(place))
        except OSError as error:
            error.filename = path
            raise


def attribute(original: Function, needs_owner: bool) -> Function:
    """The action of a function that changes an attribute of an existing file or folder.

    Without `needs_owner` the right to write is enough, as for utime.
    """

    def action(world: World, place: str, *args: Any, **kwargs: Any) -> Any:
        status = actions.existing(world, place)
        is_foreign = world.physical(place) == place and posix.geteuid() not in (0, status.st_uid)
        if is_foreign and (needs_owner or not may(place, os.W_OK)):
            raise os_error(errno.EPERM if needs_owner else errno.EACCES, place)
        return original(actions.own(world, place), *args, **kwargs)

    return action


def truncate(world: World, place: str, length: int) -> None:
    """os.truncate; needs the right to write, not the ownership."""
    descriptor = actions.open_file(world, place, os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        posix.ftruncate(descriptor, length)
    finally:
        posix.close(descriptor)
