"""Parameters without memory: a parameter becomes fake in place, so that whoever holds it holds the fake one."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..patches import Patches

REAL_BYTES = 2**30
"""Parameters until here are real, as the script makes them; those after them are fake from their registration on."""


class FakeParameters:
    """The fake mode of this process, and the modules whose parameters it has taken."""

    def __init__(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._registered = 0

    def install(self, patches: Patches) -> None:
        """From REAL_BYTES on, a parameter is fake once a module has it: its initial values cost nothing."""
        import torch

        register = torch.nn.Module.register_parameter

        @functools.wraps(register)
        def register_parameter(module: Any, name: str, param: Any) -> None:
            register(module, name, param)
            if param is not None and not is_fake(param):
                self._registered += param.numel() * param.element_size()
                if self._registered > REAL_BYTES:
                    self.take(param)

        patches.set(torch.nn.Module, "register_parameter", register_parameter)
        swap_tensors = torch.utils.swap_tensors

        @functools.wraps(swap_tensors)
        def swap(one: Any, other: Any) -> None:
            """Module.to() swaps a fake parameter for what it made of it."""
            (_swap if is_fake(one) or is_fake(other) else swap_tensors)(one, other)

        patches.set(torch.utils, "swap_tensors", swap)

    def take(self, tensor: Any) -> None:
        """Make `tensor` fake, with the size and type that it has. It stays the same object."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensor

        if is_fake(tensor) or tensor.device.type == "meta":
            return
        with torch.no_grad():
            empty = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        other: Any = FakeTensor(self.mode, empty, torch.device("cpu")).requires_grad_(tensor.requires_grad)
        if isinstance(tensor, torch.nn.Parameter):
            other._is_param = True
        _swap(tensor, other)
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if getattr(tensor, name, None):  # the object has them still, its new content does not
                setattr(tensor, name, getattr(tensor, name))

    def take_module(self, module: Any) -> list[Any]:
        """Make all parameters and buffers of `module` fake; these tensors."""
        tensors = [*module.parameters(), *module.buffers()]
        for each in tensors:
            self.take(each)
        return tensors


def _swap(one: Any, other: Any) -> None:
    """torch.utils.swap_tensors, but for its refusal of weak references: fake tensors always have some."""
    import torch

    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = {**other.__dict__}, {**one.__dict__}
    torch._C._swap_tensor_impl(one, other)


def is_fake(tensor: Any) -> bool:
    """Whether it has no memory."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)
