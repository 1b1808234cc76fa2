"""What the installed libraries say of claims about their interfaces or about numbers (benchmarks/claims.py)."""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import math
import time
from collections.abc import Callable

import torch
import transformers
import trl
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

SCALE = 65_536.0
"""The scale that GradScaler begins with."""


def prefetch_without_workers() -> str:
    try:
        DataLoader(TensorDataset(torch.zeros(2)), prefetch_factor=4)
    except ValueError as error:
        return f"{type(error).__name__}: {str(error).partition('.')[0]}"
    return "accepted"


def old_and_new_tf32_switches() -> str:
    torch.backends.fp32_precision = "tf32"
    try:
        return f"accepted: {torch.backends.cuda.matmul.allow_tf32}"
    except RuntimeError as error:
        return f"raises {type(error).__name__}"
    finally:
        torch.backends.fp32_precision = "none"


def accumulated_gradients() -> str:
    """Largest difference of any gradient, relative to the largest gradient: one batch of 16, and four of 4."""
    model, x = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)), torch.randn(16, 32)
    model(x).square().mean().backward()
    whole = [tensor.grad.clone() for tensor in model.parameters() if tensor.grad is not None]
    model.zero_grad()
    for part in x.split(4):
        (model(part).square().mean() / 4).backward()
    parts = [tensor.grad for tensor in model.parameters() if tensor.grad is not None]
    largest = max(float(tensor.abs().max()) for tensor in whole)
    difference = max(float((a - b).abs().max()) for a, b in zip(whole, parts, strict=True))
    return f"gradients differ by {difference / largest:.0e} of the largest"


def clipped_while_scaled() -> str:
    """The norm that is left after unscaling, of gradients with a norm of 0.5 that were clipped to 1.0 while scaled."""
    tensor = nn.Parameter(torch.zeros(4))
    tensor.grad = torch.full((4,), 0.25) * SCALE
    nn.utils.clip_grad_norm_([tensor], 1.0)
    return f"a norm of 0.5 becomes {float(tensor.grad.norm()) / SCALE:.1e}"


def adam_bytes() -> str:
    """Bytes a parameter of fp32 weights, gradients and Adam's state under bf16 autocast."""
    model = nn.Linear(512, 512, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.ones(4, 512)).square().mean().backward()
    optimizer.step()
    weight = model.weight
    held = [weight, weight.grad, *optimizer.state[weight].values()]
    whole = sum(one.numel() * one.element_size() for one in held if isinstance(one, torch.Tensor) and one.numel() > 1)
    return f"{whole / weight.numel():.0f} bytes a parameter"


def collection() -> str:
    """Of everything that a script holds which imported these libraries."""
    gc.collect()
    began = time.perf_counter()
    gc.collect()
    return f"{1e3 * (time.perf_counter() - began):.0f} ms for {len(gc.get_objects()):,} objects"


class Operations(TorchDispatchMode):
    """Counts what is dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, called, types, args=(), kwargs=None):
        self.count += 1
        return called(*args, **(kwargs or {}))


def operations_of_an_update() -> str:
    counts = []
    for options in ({"foreach": False}, {"fused": True}):
        tensors = [nn.Parameter(torch.zeros(4)) for _ in range(200)]
        for tensor in tensors:
            tensor.grad = torch.ones_like(tensor)
        optimizer = torch.optim.Adam(tensors, **options)
        optimizer.step()
        with Operations() as seen:
            optimizer.step()
        counts.append(seen.count)
    return f"200 parameters take {counts[0]:,} operations one by one, {counts[1]:,} fused"


def width_of_a_batch() -> str:
    """Of two samples of 5 and 9 tokens."""
    collate = trl.trainer.sft_trainer.DataCollatorForLanguageModeling(pad_token_id=0)
    batch = collate([{"input_ids": [1] * length} for length in (5, 9)])
    return f"samples of 5 and 9 tokens become {list(batch['input_ids'].shape)}"


def compilations() -> str:
    """How often five widths are compiled with fullgraph=False, once with dynamic=False and once with True."""
    counts = []
    for dynamic in (False, True):
        seen: list[object] = []

        def backend(graph: torch.fx.GraphModule, _: object, seen: list[object] = seen) -> Callable[..., object]:
            seen.append(graph)
            return graph.forward

        torch._dynamo.reset()
        compiled = torch.compile(lambda x: x.sin() + 1, fullgraph=False, dynamic=dynamic, backend=backend)
        for width in (3, 5, 7, 9, 11):
            compiled(torch.ones(width))
        counts.append(len(seen))
    return f"five shapes are compiled {counts[0]} times with dynamic=False, {counts[1]} times with dynamic=True"


def mode_options() -> str:
    return str(torch._inductor.list_mode_options()["reduce-overhead"])


def defaults_of(owner: type, *names: str) -> str:
    fields = {field.name: field.default for field in dataclasses.fields(owner)}
    return ", ".join(f"{name}={fields[name]!r}" if name in fields else f"no {name}" for name in names)


def significant_bits() -> str:
    return f"{1 - math.log2(torch.finfo(torch.bfloat16).eps):.0f}"


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


VALUES: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("0.11", "TrainingArguments", lambda: defaults_of(transformers.TrainingArguments, "dataloader_pin_memory")),
    ("0.12", "prefetch_factor=4 without workers", prefetch_without_workers),
    ("0.16, 3.7", "one batch of 16 and four equal ones of 4", accumulated_gradients),
    ("0.19", "trl's SFTConfig", lambda: defaults_of(trl.SFTConfig, "max_seq_length", "max_length")),
    ("1.20", "TrainingArguments", lambda: defaults_of(transformers.TrainingArguments, "bf16_full_eval")),
    ("1.24", "significant bits of bf16", significant_bits),
    ("2.14, 3.2, 3.20", "one step of AdamW under bf16 autocast", adam_bytes),
    ("2.16", "torch's options of reduce-overhead", mode_options),
    ("3.8", "one garbage collection", collection),
    ("3.4", "clipping to 1.0 while scaled", clipped_while_scaled),
    ("3.12", "the old TF32 switch read after the new one was set", old_and_new_tf32_switches),
    ("3.28", "torch.utils.bottleneck", lambda: "is there" if has("torch.utils.bottleneck") else "is not there"),
    ("4.13", "torch.compile", compilations),
    ("4.17", "trl's collator", width_of_a_batch),
    ("4.31", "an update of Adam", operations_of_an_update),
)
"""Claims, what was looked at, and what tells it."""
