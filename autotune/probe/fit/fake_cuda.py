"""A CUDA device that is not there: the script asks for it and gets the host, so that it takes the way it takes there.

Devices in the arguments of torch's functions become the CPU, `torch.cuda` answers as for one card, autocast and the
optimizers choose as they do on CUDA, and what compiles or pins does nothing.
"""

from __future__ import annotations

import functools
import re
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..patches import Patches
    from ..shapes import Function

_CUDA = re.compile(r"cuda(:\d+)?")


class _Stream:
    """Stands for torch.cuda.Stream, Event and device: there is one device, on which everything is done at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.cuda_stream = 0
        self.device_index = 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: Any) -> None:
        return None

    def nothing(self, *args: Any, **kwargs: Any) -> None:
        return None

    record = wait = wait_stream = wait_event = synchronize = record_event = nothing

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 1.0


class _Properties:
    """Stands for what torch.cuda.get_device_properties gives."""

    multi_processor_count = 108
    warp_size = 32
    is_integrated = False

    def __init__(self, name: str, memory: int, capability: tuple[int, int]) -> None:
        self.name = name
        self.total_memory = memory
        self.major, self.minor = capability
        self.gcnArchName = ""


class CardUse:
    """What the script asks of the card: the types of its autocast, and whether it compiles anything."""

    def __init__(self) -> None:
        self.autocast: set[str] = set()
        self.compiles = False


def install(patches: Patches, name: str, memory: int, capability: tuple[int, int]) -> CardUse:
    """Pretend one card of `name`, with `memory` bytes, from here on. The result is filled as the script runs."""
    import torch

    cuda: Any = torch.cuda
    properties = _Properties(name, memory, capability)
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_name": name,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "is_bf16_supported": capability >= (8, 0),
        "mem_get_info": (memory, memory),
        "get_arch_list": [f"sm_{capability[0]}{capability[1]}"],
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "init": None,
        "get_rng_state_all": [],
        "set_rng_state_all": None,
        "current_stream": _Stream(),
        "default_stream": _Stream(),
        "stream": _Stream(),
        "set_stream": None,
        "memory_summary": "",
    }
    for key, value in answers.items():
        if hasattr(cuda, key):
            patches.set(cuda, key, functools.partial(_answer, value))
    for key in ("Stream", "Event", "device"):
        patches.set(cuda, key, _Stream)
    use = CardUse()
    _install_autocast(patches, use.autocast)
    _install_optimizers(patches)
    _install_functions(patches, use)
    mode = _devices_mode()
    mode.__enter__()
    patches.on_restore(lambda: mode.__exit__(None, None, None))
    _install_threads(patches)
    return use


def _answer(value: Any, *args: Any, **kwargs: Any) -> Any:
    return value


def _devices_mode() -> Any:
    """A function mode in which CUDA is the host."""
    import torch
    from torch.overrides import TorchFunctionMode

    unchanged = {torch.Tensor.cuda, torch.Tensor.pin_memory}
    of_values: set[Any] = {torch.Tensor.numpy, torch.Tensor.__array__}

    class Devices(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in unchanged:
                return args[0]
            if func is torch.Tensor.is_pinned:
                return False
            if func in of_values:
                return _values(func, args, kwargs or {})
            if func is torch.Tensor.__format__:
                return _formatted(func, args)
            if func is torch.Tensor.__deepcopy__:
                return _copied(func, args)
            if func is torch.device:  # the script may ask which kind it is
                is_number = not kwargs and len(args) == 1 and type(args[0]) is int
                return func("cuda", args[0]) if is_number else func(*args, **(kwargs or {}))
            args = tuple(map(_on_host, args))
            if func is torch.Tensor.to:
                args = (args[0], *_first_on_host(args[1:]))
            kwargs = {key: _on_host(value, is_device=key == "device") for key, value in (kwargs or {}).items()}
            return func(*args, **kwargs)

    return Devices()


def _install_threads(patches: Patches) -> None:
    """A function mode is that of one thread: those that the script starts, to load weights for example, get one."""
    start = threading.Thread.start

    @functools.wraps(start)
    def start_with_devices(self: Any) -> None:
        run = self.run

        def run_with_devices() -> None:
            with _devices_mode():
                run()

        self.run = run_with_devices
        start(self)

    patches.set(threading.Thread, "start", start_with_devices)


def _first_on_host(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `to`, whose first one may be a device."""
    return (_on_host(args[0], is_device=True), *args[1:]) if args else args


def _on_host(value: Any, is_device: bool = False) -> Any:
    """The host where `value` is a card; a whole number is one where a device is meant."""
    import torch

    if is_device and type(value) is int:
        return "cpu"
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if type(value) is str and _CUDA.fullmatch(value) else value


def _values(func: Any, args: Any, kwargs: Any) -> Any:
    """The values of a tensor that has none are ones."""
    import torch

    from .fake_parameters import is_fake

    if not is_fake(args[0]):
        return func(*args, **kwargs)
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():  # the fake mode would make these fake
        real = torch.ones(tuple(args[0].shape), dtype=args[0].dtype, device="cpu")
        return func(real, *args[1:], **kwargs)


def _formatted(func: Any, args: Any) -> Any:
    """A tensor of one value is written as its value, which a subclass of Tensor is not."""
    from .fake_parameters import is_fake

    tensor, form = args
    return format(tensor.item(), form) if is_fake(tensor) and tensor.dim() == 0 else func(*args)


def _copied(func: Any, args: Any) -> Any:
    """A deep copy: of a fake tensor a clone, of a real one a real one although a fake mode is entered."""
    from torch.utils._python_dispatch import _disable_current_modes

    from .fake_parameters import is_fake

    tensor, memo = args
    if not is_fake(tensor):
        with _disable_current_modes():
            return func(tensor, memo)
    made = memo.get(id(tensor))
    if made is None:
        made = memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return made


def _install_autocast(patches: Patches, asked: set[str]) -> None:
    """Autocast for CUDA becomes that of the host, which fit/cuda_operators.py gives CUDA's lists of operators.

    fp16 becomes bf16, which is as large: older releases of torch know no other type on the host. `asked` gets the type
    that the script wanted.
    """
    import torch

    kind = torch.amp.autocast_mode.autocast
    init = kind.__init__
    of_kind = getattr(torch, "get_autocast_dtype", None)  # from torch 2.4 on
    default = functools.partial(of_kind, "cuda") if of_kind is not None else torch.get_autocast_gpu_dtype

    @functools.wraps(init)
    def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            if kwargs.get("enabled", args[0] if args else True):
                asked.add(str(dtype or default()).removeprefix("torch."))
            device_type, dtype = "cpu", torch.bfloat16
        init(self, device_type, dtype, *args, **kwargs)

    patches.set(kind, "__init__", __init__)


def _install_optimizers(patches: Patches) -> None:
    """Optimizers take their foreach loops by default, as on CUDA; a GradScaler never skips a step."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.optim import optimizer

    supported = getattr(optimizer, "_get_foreach_kernels_supported_devices", None)
    if supported is not None:
        patches.set(optimizer, "_get_foreach_kernels_supported_devices", lambda: [*supported(), "cpu"])
    from torch.utils import _foreach_utils

    for module in (optimizer, _foreach_utils):
        types = getattr(module, "_foreach_supported_types", None)
        if types is not None:
            patches.set(module, "_foreach_supported_types", [*types, FakeTensor])
    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is not None and hasattr(scaler, "_maybe_opt_step"):

        def step(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            return optimizer.step(*args, **kwargs)

        patches.set(scaler, "_maybe_opt_step", step)


def _install_functions(patches: Patches, use: CardUse) -> None:
    import torch

    def not_compiled(model: Any = None, **options: Any) -> Function | Any:
        """torch.compile: what it is given, as a decorator too."""
        use.compiles = True
        return model if model is not None else lambda function: function

    patches.set(torch, "compile", not_compiled)
    patches.set(torch, "Generator", _generator_of_host(torch.Generator))
    move = torch.nn.Module.to

    @functools.wraps(move)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs = {key: _on_host(value, is_device=key == "device") for key, value in kwargs.items()}
        return move(self, *_first_on_host(args), **kwargs)

    patches.set(torch.nn.Module, "to", to)
    loader = torch.utils.data.DataLoader
    init = loader.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("pin_memory", None)
        init(self, *args, **kwargs)
        self.pin_memory = False

    patches.set(loader, "__init__", __init__)


def _generator_of_host(kind: Any) -> Any:
    """torch.Generator, which makes one of the host for any device."""

    class Kind(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, kind)

    class Generator(metaclass=Kind):
        def __new__(cls, device: Any = "cpu") -> Any:
            return kind(_on_host(device, is_device=True))

    return Generator
