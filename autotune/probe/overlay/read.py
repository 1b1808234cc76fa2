"""Patched functions that only read: they see scratch over real."""

from __future__ import annotations

import os
import posix
from _thread import _local
from stat import S_ISDIR, S_ISLNK, S_ISREG

from .patched_function import OverlaidFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

    from ..shapes import Function
    from .world import World

READ_MODES = frozenset(["r", "rb", "rt", "br", "tr"])


class Read(OverlaidFunction):
    """stat, access, readlink ...: one path first, `dir_fd` and `follow_symlinks` by keyword."""

    follow = True

    def __call__(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        world = self._world
        if not world.shared.view[0] or isinstance(path, int):
            return self._original(path, *args, **kwargs)
        try:
            physical = world.reading(path, kwargs.get("dir_fd"), kwargs.get("follow_symlinks", self.follow))
            if physical is None:
                return self._original(path, *args, **kwargs)
            kwargs.pop("dir_fd", None)
            return self._original(physical, *args, **kwargs)
        except OSError as error:
            error.filename = path
            raise


class ReadLink(Read):
    """The functions that never follow a last link."""

    follow = False


class ReadText(ReadLink):
    """readlink: the answer has the type of the question."""

    def __call__(self, path: Any, **kwargs: Any) -> Any:
        answer = super().__call__(path, **kwargs)
        return os.fsencode(answer) if isinstance(os.fspath(path), bytes) else os.fsdecode(answer)


_thread_state = _local()


def is_opening() -> bool:
    """Whether this thread is in an `open` whose file our opener chooses: Python audits the path that was asked for."""
    return getattr(_thread_state, "is_opening", False)


class Open(OverlaidFunction):
    """builtins.open. The original does everything but the opening itself, which our os.open does for it."""

    def __init__(self, module: str, name: str, original: Function, world: World, opener: Function) -> None:
        super().__init__(module, name, original, world)
        self._opener = opener

    def __call__(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Function | None = None,
    ) -> Any:
        rest = (buffering, encoding, errors, newline, closefd)
        if opener is not None or isinstance(file, int) or not self._is_ours(file, mode):
            return self._original(file, mode, *rest, opener)
        before, _thread_state.is_opening = is_opening(), True
        try:
            return self._original(file, mode, *rest, self._opener)
        finally:
            _thread_state.is_opening = before

    def _is_ours(self, file: Any, mode: str) -> bool:
        if mode not in READ_MODES:
            return True
        world = self._world
        try:
            return bool(world.shared.view[0]) and world.reading(file) is not None
        except (OSError, TypeError, ValueError):
            return True  # let the opener raise it, with the file's name


class ListDir(OverlaidFunction):
    """os.listdir over both trees."""

    def __call__(self, path: Any = None) -> Any:
        folder = merged_folder(self._world, path)
        if folder is None:
            return self._original(path)
        try:
            names = self._world.names(folder)
        except OSError as error:
            error.filename = path
            raise
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names


class ScanDir(OverlaidFunction):
    """os.scandir over both trees."""

    def __call__(self, path: Any = None) -> Any:
        world = self._world
        folder = merged_folder(world, path)
        if folder is None:
            return self._original(path)
        try:
            names = world.names(folder)
        except OSError as error:
            error.filename = path
            raise
        return OverlayScandir(OverlayDirEntry(world, folder, path, name) for name in names)


def merged_folder(world: World, path: Any) -> str | None:
    """The place of the folder `path` when its listing is not the real one, else None."""
    if not world.shared.view[0]:
        return None
    given = "." if path is None else path
    try:
        if isinstance(given, int):
            place = world.place(given)
            return place if place.startswith("/") and world.physical(place) != place else None
        return None if world.reading(given) is None else world.place(given)
    except OSError as error:
        error.filename = path
        raise


class OverlayScandir:
    """The iterator that os.scandir returns: iterable, closable, a context manager."""

    def __init__(self, entries: Iterator[OverlayDirEntry]) -> None:
        self._entries = entries

    def __iter__(self) -> OverlayScandir:
        return self

    def __next__(self) -> OverlayDirEntry:
        return next(self._entries)

    def __enter__(self) -> OverlayScandir:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


class OverlayDirEntry:
    """An os.DirEntry of a merged folder; what it says is looked up when first asked."""

    __slots__ = ("_place", "_status", "_world", "name", "path")

    def __init__(self, world: World, folder: str, given: Any, name: Any) -> None:
        self._world = world
        self._place = folder.rstrip("/") + "/" + name
        self._status: dict[bool, os.stat_result] = {}
        if isinstance(given, bytes):
            name = os.fsencode(name)
        self.name = name
        is_bare = given is None or isinstance(given, int)
        self.path = name if isinstance(given, int) else os.path.join("." if is_bare else os.fspath(given), name)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As DirEntry.stat: the first answer is kept."""
        if follow_symlinks not in self._status:
            world = self._world
            place = world.place(self._place) if follow_symlinks else self._place
            self._status[follow_symlinks] = posix.lstat(world.physical(place))
        return self._status[follow_symlinks]

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def _is(self, test: Callable[[int], bool], follow: bool) -> bool:
        try:
            return test(self.stat(follow_symlinks=follow).st_mode)
        except FileNotFoundError:
            return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(S_ISLNK, False)

    def is_junction(self) -> bool:
        return False


class GetCwd(OverlaidFunction):
    """os.getcwd, when the working folder was made by the script: it lies in scratch, the script knows its own name."""

    def __call__(self) -> Any:
        answer = self._original()
        if not self._world.shared.view[0]:
            return answer
        virtual = self._world.virtual(os.fsdecode(answer))
        return os.fsencode(virtual) if isinstance(answer, bytes) else virtual
