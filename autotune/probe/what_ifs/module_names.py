"""What the script calls its modules: by the variables that hold them where it trains."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    from ..session import ProbeSession

MOST_FRAMES = 8
MOST_NAMES = 4


class ModuleNames:
    """Modules by name: those of variables, then the root models that no variable holds, by their class."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._roots: dict[str, Any] = {}
        self._owners: dict[int, tuple[str, str]] | None = None

    def look_in(self, frame: FrameType) -> None:
        """Note the modules that the variables of `frame` and of its callers hold."""
        import torch

        frames: list[FrameType] = []
        at: FrameType | None = frame
        while at is not None and len(frames) < MOST_FRAMES:
            frames.append(at)
            at = at.f_back
        for scope in _scopes(frames):
            for name, value in list(scope.items()):
                if isinstance(value, torch.nn.Module) and not name.startswith("_"):
                    self._roots.setdefault(name, value)

    def _all(self) -> dict[str, Any]:
        modules = [row["object"]() for row in self._session.models]
        others = {type(module).__name__: module for module in modules if module is not None}
        return {**self._roots, **{name: one for name, one in others.items() if name not in self._roots}}

    def have_backward_hooks(self) -> bool:
        """Whether a function waits for gradients of a module's inputs or outputs."""
        every = (module for root in self._all().values() for module in root.modules())
        return any(module._backward_hooks or getattr(module, "_backward_pre_hooks", None) for module in every)

    def module_of(self, parameter: int) -> object:
        """What tells the module that has the parameter of this id from others; of a tensor in none, the tensor."""
        if self._owners is None:
            self._owners = {}
            for name, root in self._all().items():
                for path, tensor in root.named_parameters():
                    self._owners.setdefault(id(tensor), (name, _module_path(path)))
        return self._owners.get(parameter, parameter)

    def of(self, parameters: Iterable[int]) -> str:
        """The largest modules all of whose trained parameters are among `parameters`, e.g. "model.encoder.*"."""
        left, found = set(parameters), []
        for name, root in sorted(self._all().items(), key=lambda item: -_size(item[1])):
            found += _whole(name, root, left)
        more = len(found) - MOST_NAMES
        return ", ".join([*found[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])])


def variable(frame: FrameType | None, value: Any) -> str:
    """What the script calls `value` in `frame`, e.g. "self.table"; "" where no variable is it."""
    if frame is None:
        return ""
    own = getattr(frame.f_locals.get("self"), "__dict__", {})
    attributes = {**own, **own.get("_buffers", {}), **own.get("_parameters", {})}
    named = {**{f"self.{name}": each for name, each in attributes.items()}, **frame.f_globals, **frame.f_locals}
    return next((name for name, each in named.items() if each is value), "")


def _scopes(frames: list[FrameType]) -> Iterator[dict[str, Any]]:
    """Local variables and attributes of `self` of each frame, from the inside out, and then the globals."""
    for frame in frames:
        yield dict(frame.f_locals)
        owner = frame.f_locals.get("self")
        yield dict(getattr(owner, "__dict__", {}))
    for frame in frames:
        yield dict(frame.f_globals)


def _module_path(path: str) -> str:
    """The module that a parameter is of; a parametrized one has several tensors in modules of their own."""
    return path.split(".parametrizations.")[0] if ".parametrizations." in path else path.rpartition(".")[0]


def _size(module: Any) -> int:
    return sum(1 for _ in module.parameters())


def _whole(name: str, module: Any, left: set[int]) -> list[str]:
    """Names of the largest modules in `module` that `left` has all of; theirs are taken out of `left`."""
    trained = {id(tensor) for tensor in module.parameters() if tensor.requires_grad}
    if not trained & left:
        return []
    if trained <= left:
        left -= trained
        return [f"{name}.*"]
    found = []
    for child, below in module.named_children():
        found += _whole(f"{name}.{child}", below, left)
    for parameter, tensor in module.named_parameters(recurse=False):
        if id(tensor) in left:
            left.discard(id(tensor))
            found.append(f"{name}.{parameter}")
    return found
