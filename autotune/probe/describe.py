"""What the models, optimizers, the device and torch itself are set to. Reads, computes nothing."""

from __future__ import annotations

import functools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .session import ProbeSession
    from .shapes import Row

_MONITORING: Any = getattr(sys, "monitoring", None)

MODULES = {
    "torch": "torch", "peft": "peft", "datasets": "datasets", "numpy": "numpy", "deepspeed": "deepspeed",
    "flash_attn": "flash-attn", "xformers": "xformers", "bitsandbytes": "bitsandbytes",
}  # fmt: skip
"""Imported module -> distribution name."""


def software(frameworks: dict[str, str]) -> dict[str, str]:
    """Versions of the known modules that this process imported; `frameworks` are those of the Request."""
    known = {**MODULES, **frameworks}.items()
    loaded = {name: sys.modules[module] for module, name in known if sys.modules.get(module) is not None}
    versions = {name: getattr(module, "__version__", None) for name, module in loaded.items()}
    return {name: str(version) for name, version in versions.items() if version is not None}


def num_threads() -> int | None:
    """torch.get_num_threads()."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else None


def model(module: Any) -> Row:
    """The Model fields of a root module."""
    kind = type(inner(module))
    parameters = list(module.parameters())
    dtypes: dict[str, int] = {}
    for parameter in parameters:
        name = str(parameter.dtype).replace("torch.", "")
        dtypes[name] = dtypes.get(name, 0) + parameter.numel()
    return {
        "type": kind.__name__,
        "module": kind.__module__,
        "num_params": sum(dtypes.values()),
        "num_trainable": sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        "param_bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        "dtypes": dtypes,
        "num_batchnorm": sum(1 for part in module.modules() if "BatchNorm" in type(part).__name__),
        "checkpointing": any(getattr(part, "gradient_checkpointing", False) is True for part in module.modules()),
        "compiled": hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None,
        "parallel": _parallel(module),
        **_transformers(inner(module)),
    }


def inner(module: Any) -> Any:
    """The user's model inside the wrappers of compile and of data parallelism."""
    while True:
        wrapped = getattr(module, "_orig_mod", None)
        if wrapped is None and "Parallel" in type(module).__name__:
            wrapped = getattr(module, "module", None)
        if wrapped is None:
            return module
        module = wrapped


def _parallel(module: Any) -> str | None:
    """Name of the wrapper that shares a model among processes or devices, None without one."""
    while module is not None and "Parallel" not in type(module).__name__:
        module = getattr(module, "_orig_mod", None)
    return type(module).__name__ if module is not None else None


def _transformers(module: Any) -> Row:
    """What a transformers model (also inside PEFT) says of itself; empty for others."""
    base = module.get_base_model() if hasattr(module, "get_base_model") else module
    config = getattr(base, "config", None)
    model_type = getattr(config, "model_type", None)
    if not isinstance(model_type, str) or "transformers" not in sys.modules:
        return {}
    mapping = getattr(sys.modules.get("transformers.models.auto.configuration_auto"), "CONFIG_MAPPING", {})
    return {
        "model_type": model_type,
        "attention": getattr(config, "_attn_implementation", None),
        "supports_sdpa": getattr(base, "_supports_sdpa", None),
        "output_attentions": bool(getattr(config, "output_attentions", False)),
        "has_native_class": model_type in mapping,
        "is_remote_code": type(base).__module__.startswith("transformers_modules"),
    }


def padding_indices(module: Any) -> list[int]:
    """Padding indices of the embeddings of a model."""
    found = [getattr(part, "padding_idx", None) for part in module.modules() if type(part).__name__ == "Embedding"]
    return [index for index in found if index is not None]


def optimizer(instance: Any) -> Row:
    """The Optimizer fields of an optimizer."""
    kind = type(instance)
    group = instance.param_groups[0]
    names = ("fused", "foreach", "capturable", "amsgrad", "weight_decay", "momentum")
    named = {name: group.get(name) for name in names}
    parameters = [parameter for group in instance.param_groups for parameter in group["params"]]
    return {
        "type": kind.__name__,
        "module": kind.__module__,
        "arguments": {name: value for name, value in named.items() if isinstance(value, (bool, int, float))},
        "num_params": sum(parameter.numel() for parameter in parameters),
        "has_fused": _has_fused(instance, parameters),
        "state_bytes": _state_bytes(instance),
    }


def _state_bytes(instance: Any) -> dict[str, int] | None:
    """{type of device: bytes} of the tensors that an optimizer keeps here; None when they cannot be read."""
    try:
        return _num_bytes({id(tensor): tensor for tensor in _tensors(dict(instance.state))}.values())
    except Exception:  # the user's own class may do anything here
        return None


def _num_bytes(tensors: Iterable[Any]) -> dict[str, int] | None:
    """{type of device: bytes}; None when a tensor does not take what its elements do, as a quantised one."""
    torch = sys.modules["torch"]
    sizes: dict[str, int] = {}
    for tensor in tensors:
        own = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # the shard of a DTensor
        if type(own) not in (torch.Tensor, torch.nn.Parameter):
            return None
        sizes[own.device.type] = sizes.get(own.device.type, 0) + own.numel() * own.element_size()
    return sizes


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in dicts and lists."""
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item)


def _has_fused(instance: Any, parameters: list[Any]) -> bool | None:
    """Whether torch has a fused kernel for this class on these parameters; None when torch does not say."""
    if type(instance).__module__.startswith("torch.optim") is False or "fused" not in instance.defaults:
        return False
    try:
        from torch.utils._foreach_utils import _get_fused_kernels_supported_devices
    except ImportError:
        return None
    devices = _get_fused_kernels_supported_devices()
    return all(p.device.type in devices and p.is_floating_point() and not _has_sparse_gradient(p) for p in parameters)


def _has_sparse_gradient(parameter: Any) -> bool:
    """The fused kernels take none."""
    gradient = parameter.grad
    return gradient is not None and gradient.layout is not sys.modules["torch"].strided


def device(module: Any) -> Row | None:
    """The Device of a model's first parameter; None without parameters."""
    parameter = next(module.parameters(), None)
    if parameter is None:
        return None
    kind, torch = parameter.device.type, sys.modules["torch"]
    row = {"type": kind, "index": parameter.device.index, "name": None, "capability": None}
    if kind == "cuda":
        row["name"] = torch.cuda.get_device_name(parameter.device)
        row["capability"] = ".".join(map(str, torch.cuda.get_device_capability(parameter.device)))
    return row


def torch_state() -> Row:
    """Switches of torch that rules ask for."""
    torch = sys.modules["torch"]
    return {
        "matmul_precision": _matmul_precision(torch),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "anomaly": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "num_threads": torch.get_num_threads(),
        "legacy_amp": False,
        "grad_scaler": False,
        "clips_scaled": False,
    }


def is_profiling() -> bool:
    """Whether a profiler records now: torch's own, or one of Python's calls (cProfile)."""
    return _torch_records()() or records_calls()


@functools.cache
def _torch_records() -> Callable[[], bool]:
    """Looked for once: a chain of attributes that a step has driven out of the cache takes 30 us."""
    records: Callable[[], bool] = sys.modules["torch"].autograd._profiler_enabled
    return records


def records_calls() -> bool:
    """Whether a profiler of Python's calls is on; from Python 3.12 on cProfile is a tool of sys.monitoring."""
    is_tool = _MONITORING is not None and _MONITORING.get_tool(_MONITORING.PROFILER_ID) is not None
    return is_tool or sys.getprofile() is not None


def _matmul_precision(torch: Any) -> Any:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # the new fp32_precision switches were used, and reading the old one raises
        return _new_precision(torch)


PRECISIONS = {"ieee": "highest", "tf32": "high", "bf16": "medium", "none": "highest"}
"""Old words for the new ones; "none" is what no switch was set to."""


def _new_precision(torch: Any) -> Any:
    """Of products on CUDA; where they have no switch of their own, that of CUDA or of all backends."""
    switches = [getattr(torch.backends.cuda.matmul, "fp32_precision", None)]
    switches += [getattr(of, "fp32_precision", None) for of in (torch.backends.cudnn, torch.backends)]
    told = [switch for switch in switches if switch is not None]
    first = next((switch for switch in told if switch != "none"), told[0] if told else None)
    return PRECISIONS.get(first, first) if first is not None else None


def compiler(session: ProbeSession) -> Row | None:
    """Dynamo's counters, or None when nothing was compiled."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None or not utils.counters["stats"]["unique_graphs"]:
        return None
    return {
        "graph_breaks": sum(utils.counters["graph_break"].values()),
        "recompiles_at_start": session.graphs_at_start,
        "recompiles_at_end": int(utils.counters["stats"]["unique_graphs"]),
        "compiling_steps": session.window.compiling_steps,
    }


def resident_bytes(name: str) -> int | None:
    """VmHWM (peak) or VmRSS of this process in bytes, None where /proc has none."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


_STATM: dict[int, int] = {}
"""{process: a descriptor of its statm}: opening it takes longer than reading it."""


def used_bytes(on_cuda: bool) -> int | None:
    """What the CUDA allocator has given out on the current device, or else resident memory; None where unknown.

    Some microseconds: it is asked after a step.
    """
    if on_cuda:
        stats = sys.modules["torch"].cuda.memory_stats_as_nested_dict()
        return int(stats["allocated_bytes"]["all"]["current"]) if stats else None
    try:
        if os.getpid() not in _STATM:
            _STATM[os.getpid()] = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        return int(os.pread(_STATM[os.getpid()], 64, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def cuda_memory() -> dict[str, int]:
    """The CUDA allocator's figures of the current device."""
    cuda = sys.modules["torch"].cuda
    return {
        "peak_allocated_bytes": cuda.max_memory_allocated(),
        "peak_reserved_bytes": cuda.max_memory_reserved(),
        "total_bytes": cuda.get_device_properties(cuda.current_device()).total_memory,
        "num_alloc_retries": cuda.memory_stats().get("num_alloc_retries", 0),
    }


def reset_resident_peak() -> None:
    """Start VmHWM afresh."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:  # not Linux, or not allowed: the peak then covers the whole run
        return


def io_bytes(pids: list[int]) -> dict[str, int] | None:
    """{"read_bytes", "read_chars"} summed over processes, None where /proc has none."""
    total = {"read_bytes": 0, "read_chars": 0}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/io", encoding="ascii") as file:
                rows = dict(line.split(": ") for line in file.read().splitlines())
        except OSError:
            if pid == os.getpid():
                return None
            continue
        total["read_bytes"] += int(rows["read_bytes"])
        total["read_chars"] += int(rows["rchar"])
    return total


def has_compiled_code() -> bool:
    """Whether torch.compile has compiled a graph in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["stats"]["unique_graphs"])
