"""The files as the script sees them, scratch over real: what a path names, what is redirected, what is where."""

from __future__ import annotations

import errno
import os
import posix
from os.path import dirname
from stat import S_ISDIR, S_ISLNK

from .layer import Layer, is_folder, make_folders, may
from .shared import Shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..shapes import IsolateSettings

SPECIAL = ("/dev", "/proc", "/sys")
MOST_LINKS = 40
MOST_CACHED = 100_000


def os_error(code: int, *names: object) -> OSError:
    """The error that the kernel would give, e.g. os_error(errno.ENOENT, path) is a FileNotFoundError."""
    paths = [names[0]] if len(names) == 1 else [names[0], None, names[1]]
    return OSError(code, os.strerror(code), *paths)


def is_below(path: str, roots: Iterable[str]) -> bool:
    """Whether `path` is one of `roots` or lies in one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _depth(path: str, roots: Iterable[str]) -> int:
    """The length of the deepest of `roots` that `path` lies in, -1 where it is in none."""
    return max((len(root) for root in roots if is_below(path, (root,))), default=-1)


def _parts(text: str) -> list[str]:
    """The names in a path, last first."""
    return [part for part in reversed(text.split("/")) if part not in ("", ".")]


class World:
    """Everything that the patched functions share. `settings` as in stand_ins.install.

    A *place* is an absolute path in the merged view whose folders hold no symbolic link.
    """

    def __init__(self, settings: IsolateSettings) -> None:
        self.run_dir = os.path.realpath(settings["run_dir"])
        self._run_id = settings["run_id"]
        self._protected = [os.path.realpath(path) for path in settings["protected"]]
        self._exempt = [os.path.realpath(path) for path in settings["exempt"]]
        self._registry = self.run_dir + "/scratch-folders"
        self.shared = Shared(self.run_dir + "/overlay-version")
        self._layers: dict[int, Layer] = {}
        self._registered = -1
        self._seen = b""
        self._devices: dict[str, int] = {}
        self._known: dict[object, bool] = {}

    # -- names ---------------------------------------------------------------------------------------------------

    def place(self, path: Any, dir_fd: int | None = None, follow: bool = True) -> str:
        """The place that `path` (str, bytes, PathLike or descriptor) names; `follow` a last link or not."""
        return self.find(path, dir_fd, follow)[0]

    def find(self, path: Any, dir_fd: int | None = None, follow: bool = True) -> tuple[str, bool]:
        """The place, and whether the kernel would understand `path` the same way."""
        self._refresh()
        if isinstance(path, int):
            return self.virtual(posix.readlink(f"/proc/self/fd/{path}")), True
        text = os.fsdecode(path)
        native = True
        if not text.startswith("/"):
            if not text:
                raise os_error(errno.ENOENT, path)
            base = posix.getcwd() if dir_fd is None else posix.readlink(f"/proc/self/fd/{dir_fd}")
            virtual = self.virtual(base)
            native = virtual == base and dir_fd is None
            text = virtual + "/" + text
        found, straight = self._canonical(text, follow or text.endswith("/"))
        return found, native and straight

    def _canonical(self, text: str, follow: bool) -> tuple[str, bool]:
        todo = _parts(text)
        current, straight, links = "", True, 0
        bare = None  # the layer that holds nothing at or below `current`
        while todo:
            part = todo.pop()
            if part == "..":
                self._require_folder(current, text)
                current, bare = dirname(current).rstrip("/"), None
                continue
            step = current + "/" + part
            if step in SPECIAL:
                special = "/".join([step, *reversed(todo)])
                led = _leads_out(special, follow)
                if led is None:
                    return special, straight
                current, straight, bare, links = "", False, None, links + 1
                todo = _parts(led)
                continue
            target = None
            if todo or follow:
                target, redirected, bare = self._link(current, step, bare)
            if target is None:
                current = step
                continue
            links += 1
            if links > MOST_LINKS:
                raise os_error(errno.ELOOP, text)
            straight = straight and not redirected
            current, bare = ("" if target.startswith("/") else current), None
            todo.extend(_parts(target))
        return current or "/", straight

    def _require_folder(self, place: str, text: str) -> None:
        if place and not S_ISDIR(posix.lstat(self.physical(place)).st_mode):
            raise os_error(errno.ENOTDIR, text)

    def _link(self, folder: str, place: str, bare: Layer | None) -> tuple[str | None, bool, Layer | None]:
        """The target of the link at `place` (None when it is no link), whether the link is in scratch, and the layer
        that holds nothing at `place` and, by the rule of Layer.hide, nothing below it."""
        layer = self.layer(folder or "/")
        physical = place if layer is bare else _physical(layer, place)
        try:
            is_link = S_ISLNK(posix.lstat(physical).st_mode)
        except OSError:
            is_link = False
        redirected = physical != place
        return posix.readlink(physical) if is_link else None, redirected, None if redirected else layer

    def virtual(self, physical: str) -> str:
        """The place whose content is kept at `physical`; `physical` itself when that is not in scratch."""
        for layer in self._layers.values():
            if is_below(physical, (layer.upper,)):
                return physical[len(layer.upper) :] or "/"
        return physical

    # -- policy --------------------------------------------------------------------------------------------------

    def is_free(self, place: str) -> bool:
        """Whether `place` may really be written: caches, temporary files, the run folder, devices."""
        if is_below(place, SPECIAL) or is_below(place, (self.run_dir,)):
            return True
        if any(is_below(place, (layer.folder,)) for layer in self._layers.values()):
            return True
        return _depth(place, self._exempt) > _depth(place, self._protected)

    # -- what is where -------------------------------------------------------------------------------------------

    def physical(self, place: str) -> str:
        """The path that holds what the script sees at `place`: in scratch, or `place` itself.

        For a place that does not exist any more it is a path that does not exist, with the kernel's own error.
        """
        return _physical(self.layer(dirname(place)), place)

    def status(self, place: str) -> os.stat_result | None:
        """lstat of what the script sees at `place`, or None when there is nothing."""
        try:
            return posix.lstat(self.physical(place))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has_real(self, place: str) -> bool:
        """Whether the real tree has something at `place` that is not hidden."""
        layer = self.layer(dirname(place))
        try:
            posix.lstat(place)
        except OSError:
            return False
        return layer is None or not layer.is_hidden(place)

    def names(self, folder: str) -> list[str]:
        """The names in a folder, merged, without our scratch; raises what listdir raises."""
        physical = self.physical(folder)
        found = dict.fromkeys(posix.listdir(physical))
        layer = self.layer(folder)
        if layer is not None and physical != folder and self.has_real(folder) and is_folder(folder):
            hidden = layer.hidden_names(folder)
            found.update(dict.fromkeys(name for name in posix.listdir(folder) if name not in hidden))
        scratch = {layer.folder for layer in self._layers.values()}
        return [name for name in found if folder.rstrip("/") + "/" + name not in scratch]

    def reading(self, path: Any, dir_fd: int | None = None, follow: bool = True) -> str | None:
        """Where to read `path`, or None when the kernel finds the same without us."""
        self._refresh()
        version = self._seen
        key = None
        if type(path) is str and dir_fd is None:
            key = (path if path.startswith("/") else (posix.getcwd(), path), follow)
        if key in self._known:
            return None
        place, native = self.find(path, dir_fd, follow)
        physical = self.physical(place)
        if physical != place or not native:
            return physical
        if key is not None and version == self.shared.version and len(self._known) < MOST_CACHED:
            self._known[key] = True
        return None

    # -- layers --------------------------------------------------------------------------------------------------

    def layer(self, folder: str) -> Layer | None:
        """The layer that keeps the entries of `folder`, or None while nothing on its device was redirected."""
        return self._layers.get(self._device(folder)) if self._layers else None

    def layer_to_write(self, folder: str) -> Layer:
        """The same, made when there is none yet."""
        return self.layer(folder) or self._make_layer(folder)

    def layers(self) -> list[Layer]:
        """All layers of the run, those of other processes too."""
        self._refresh()
        return list(self._layers.values())

    def _device(self, folder: str) -> int:
        """st_dev of the nearest real ancestor. Remembered for good: the real tree does not change."""
        device = self._devices.get(folder)
        if device is None:
            try:
                device = posix.stat(folder).st_dev
            except OSError:
                device = self._device(dirname(folder))
            self._devices[folder] = device
        return device

    def _make_layer(self, folder: str) -> Layer:
        device = self._device(folder)
        path = self._choose(folder, device)
        make_folders(path)
        descriptor = posix.open(self._registry, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)
        try:
            posix.write(descriptor, f"{device} {path}\n".encode("utf-8", "surrogateescape"))
        finally:
            posix.close(descriptor)
        self.shared.bump()
        self._refresh()
        layer = self._layers[device]
        for inner in (layer.upper, layer.gone):
            make_folders(inner)
        layer.mirror(dirname(layer.folder))  # so that a listing of that folder is a merged one, without our scratch
        return layer

    def _choose(self, folder: str, device: int) -> str:
        """A folder on `device`, so that a redirected save takes as long as a real one."""
        at_home = self.run_dir + "/scratch"
        if device == posix.stat(self.run_dir).st_dev:
            return at_home
        while folder != "/" and not (is_folder(folder) and may(folder, os.W_OK | os.X_OK)):
            folder = dirname(folder)
        if not may(folder, os.W_OK) or posix.stat(folder).st_dev != device:
            return f"{at_home}-{device}"
        return folder.rstrip("/") + "/.autotune-scratch-" + self._run_id

    def _refresh(self) -> None:
        """Forget what was remembered about paths when any process changed something; read new layers.

        The first line of a device counts: two ranks may have chosen at the same moment.
        """
        version = self.shared.version
        if version == self._seen:
            return
        self._known.clear()
        self._seen = version
        try:
            size = posix.stat(self._registry).st_size
        except FileNotFoundError:
            return
        if size != self._registered:
            self._registered = size
            for line in _read(self._registry).splitlines():
                device, _, path = line.partition(" ")
                self._layers.setdefault(int(device), Layer(path))


def _leads_out(path: str, follow: bool) -> str | None:
    """Where a path below /proc or /dev leads by a link out of these: /proc/self/root/..., /proc/self/fd/7, /dev/fd/7.

    None where it stays there, where it names the link itself, and for the standard streams, which are the user's.
    """
    current, todo = "", _parts(path)
    for _ in range(MOST_LINKS):
        if not todo:
            return None
        current += "/" + todo.pop()
        try:
            target = posix.readlink(current)
        except OSError:
            continue
        if not target.startswith("/"):
            current = dirname(current)
        elif is_below(target, SPECIAL):
            current = ""
        elif current.endswith(("/fd/0", "/fd/1", "/fd/2")) or not (todo or follow):
            return None
        else:
            return "/".join([target.rstrip("/"), *reversed(todo)]) if _is_there(target) else None
        todo.extend(_parts(target))
    return None


def _is_there(path: str) -> bool:
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def _physical(layer: Layer | None, place: str) -> str:
    if layer is None:
        return place
    upper = layer.upper + place
    try:
        posix.lstat(upper)
        return upper
    except FileNotFoundError:
        return upper if layer.is_hidden(place) else place
    except OSError:
        return upper


def _read(path: str) -> str:
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return posix.read(descriptor, 1 << 20).decode("utf-8", "surrogateescape")
    finally:
        posix.close(descriptor)
