"""Beside the kernel layer: renames and hard links between two overlays that are one file system natively.

The kernel answers EXDEV there, and without privileges also where an existing folder is renamed. The script would see an
error that it does not have without autotune; it gets a copy instead.
"""

from __future__ import annotations

import errno
import os
import posix

from .patched_function import PatchedFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..patches import Patches
    from ..shapes import Function


def install(patches: Patches, mount_points: list[str]) -> None:
    """Patch os.rename, os.replace and os.link. `mount_points` are those of the machine, without the overlays."""
    for name in ("rename", "replace", "link"):
        patches.set(os, name, _Across(name, getattr(os, name), mount_points))


class _Across(PatchedFunction):
    def __init__(self, name: str, original: Function, mount_points: list[str]) -> None:
        super().__init__("os", name, original)
        self._mount_points = mount_points

    def __call__(self, src: Any, dst: Any, **keywords: Any) -> Any:
        try:
            return self._original(src, dst, **keywords)
        except OSError as error:
            # Paths relative to a descriptor are left alone: they are too rare to be worth resolving.
            named = {key: value for key, value in keywords.items() if value is not None and key != "follow_symlinks"}
            if error.errno != errno.EXDEV or named or not self._is_one(src, dst):
                raise
        return _copied(os.fsdecode(src), os.fsdecode(dst), self.__name__ != "link")

    def _is_one(self, src: Any, dst: Any) -> bool:
        """Whether both lie on one mount of the machine."""
        return self._mount(src) == self._mount(dst)

    def _mount(self, path: Any) -> str:
        folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
        place = os.path.join(os.path.realpath(folder), name)
        inside = [point for point in self._mount_points if place == point or place.startswith(point.rstrip("/") + "/")]
        return max(inside, key=len, default="/")


def _copied(src: str, dst: str, is_moved: bool) -> None:
    """Let `dst` be a copy of `src`, whole or not at all; remove `src` when it is moved."""
    import shutil  # only such a rename needs it

    folder, name = os.path.split(os.path.abspath(dst))
    part = os.path.join(folder, f".{name}.{posix.getpid()}.autotune-part")
    is_folder = os.path.isdir(src) and not os.path.islink(src)
    try:
        if is_folder:
            shutil.copytree(src, part, symlinks=True)
        else:
            shutil.copy2(src, part, follow_symlinks=False)
        if is_moved:
            posix.rename(part, dst)
        else:
            posix.link(part, dst)
            posix.unlink(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True) if is_folder else _unlink(part)
        raise
    if is_moved:
        shutil.rmtree(src) if is_folder else posix.unlink(src)


def _unlink(path: str) -> None:
    try:
        posix.unlink(path)
    except OSError:
        pass
