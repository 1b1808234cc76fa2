"""The peak of a fake step against the host allocator's own peak of a real one, on models of many kinds.

    python benchmarks/fit.py

Both steps run the same operators: those that `fit` puts in CUDA's place are in force for the real step, too. The truth
is the most bytes that torch's allocator of the host had given out at once, by the memory events of torch.profiler. What
CUDA adds to it (rounding, fragmentation, workspaces, the context) is not measured here. The host's convolutions are
oneDNN's, which work on copies of their tensors in a layout of their own: the estimate is given with these copies, which
are of the host alone, and without, as `fit` has it.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from autotune.probe.fit import cuda_operators, fake_cuda
from autotune.probe.fit.fake_parameters import FakeParameters
from autotune.probe.fit.live_storages import LiveStorages
from autotune.probe.patches import Patches

MIB = 2**20
BLOCK = 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8
"""Channels of a block of oneDNN's layout (nChw8c, nChw16c): numbers of channels are rounded up to it."""

FEW = 3
"""A convolution of so few channels, or less, takes its input as it is."""


class Recorder:
    """What a LiveStorages asks of the probe's recorder."""

    def __init__(self) -> None:
        self.stack: list[str] = []


class HostLedger(LiveStorages):
    """With the copies of oneDNN's convolutions (ATen/native/mkldnn/Conv.cpp), in the order in which they live."""

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.temporary(_of_forward(args))
        if func is torch.ops.aten.convolution_backward.default:
            self.temporary(_of_backward(args))
        return super().dispatch(func, args, kwargs)


def _blocked(size: Any, item: int) -> int:
    """Bytes of a tensor of `size` in blocks of channels."""
    samples, channels, *rest = size
    return samples * (-(-channels // BLOCK) * BLOCK) * math.prod(rest) * item


def _of_forward(args: Any) -> int:
    """Copies of input and weight beside the blocked result, then that beside the plain one; a transposed convolution
    adds its bias to one more."""
    x, weight, _, stride, padding, dilation, is_transposed, output_padding, groups = args
    out = torch.ops.aten.convolution(
        x.to("meta"), weight.to("meta"), None, stride, padding, dilation, is_transposed, output_padding, groups
    )
    blocked, plain = _blocked(out.shape, 4), out.numel() * 4
    taken = 0 if x.shape[1] <= FEW else _blocked(x.shape, 4) + _blocked(weight.shape, 4)
    return max(taken + blocked, blocked + plain * (2 if is_transposed else 1))


def _of_backward(args: Any) -> int:
    """The gradient of the input from copies of the other two, then that of the weight from copies of its two."""
    gradient, x, weight, *_, wanted = args
    copied = 0 if gradient.is_contiguous() else gradient.numel() * 4
    of_gradient, of_x, of_weight = (_blocked(each.shape, 4) for each in (gradient, x, weight))
    plain = x.numel() * 4 if wanted[0] else 0
    first = max(of_gradient + of_weight + of_x, of_x + plain) if wanted[0] else 0
    second = plain + of_gradient + (of_x if x.shape[1] > FEW else 0) + of_weight
    return copied + max(first, second)


@dataclass(frozen=True)
class Case:
    """A model with its batch and its loss; `make` gives (model, batch, loss of (model, batch))."""

    name: str
    make: Callable[[], tuple[nn.Module, Any, Callable[[nn.Module, Any], torch.Tensor]]]
    optimizer: Callable[[Any], torch.optim.Optimizer] = torch.optim.AdamW
    amp: bool = False


def classify(model: nn.Module, batch: Any) -> torch.Tensor:
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)


def of_transformers(model: nn.Module, batch: Any) -> torch.Tensor:
    loss: torch.Tensor = model(**batch).loss
    return loss


def images(size: int, side: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, 3, side, side), torch.randint(0, 10, (size,))


def tokens(size: int, length: int, vocabulary: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, vocabulary, (size, length))
    return {"input_ids": ids, "labels": ids.clone()}


def mlp() -> Any:
    layers = [nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 10)]
    return nn.Sequential(*layers), (torch.randn(512, 1024), torch.randint(0, 10, (512,))), classify


class Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(inner)) + self.short(x))


def resnet() -> Any:
    layers = [Residual(3, 64, 1), Residual(64, 128, 2), Residual(128, 256, 2), Residual(256, 512, 2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return model, images(16), classify


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [(3, 32), (32, 64), (64, 128)]
        self.down = nn.ModuleList([nn.Conv2d(a, b, 3, 1, 1) for a, b in widths])
        self.up = nn.ModuleList([nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(128, 32, 2, 2)])
        self.last = nn.Conv2d(64, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for layer in self.down:
            x = torch.relu(layer(x))
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2) if layer is not self.down[-1] else x
        for layer, other in zip(self.up, reversed(kept[:-1]), strict=True):
            x = torch.cat([layer(x), other], 1)
        return self.last(x)


def unet() -> Any:
    x = torch.randn(8, 3, 128, 128)
    return UNet(), (x, x.clone()), lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1])


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    x = torch.randn(16, 256, 256)
    return model, (x, x.clone()), lambda one, batch: nn.functional.mse_loss(one(batch[0]), batch[1])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.last = nn.Embedding(5000, 256), nn.GRUCell(256, 256), nn.Linear(256, 5000)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(ids.shape[0], 256)
        states = []
        for step in self.embed(ids).unbind(1):
            state = self.cell(step, state)
            states.append(state)
        return self.last(torch.stack(states, 1))


def recurrent() -> Any:
    ids = torch.randint(0, 5000, (32, 48))
    return (
        Recurrent(),
        ids,
        lambda model, batch: nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten()),
    )


def bert(attention: str, dropout: float = 0.1) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=8000, hidden_size=256, num_hidden_layers=2, num_attention_heads=8, intermediate_size=1024,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, attn_implementation=attention,
    )  # fmt: skip
    return BertForMaskedLM(config), tokens(4, 128, 8000), of_transformers


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return (
        GPT2LMHeadModel(GPT2Config(vocab_size=8000, n_embd=256, n_layer=2, n_head=8)),
        tokens(4, 128, 8000),
        of_transformers,
    )


def llama(*, checkpointing: bool = False, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=8000, hidden_size=256, intermediate_size=688, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=4, use_cache=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(dtype)
    if checkpointing:
        model.gradient_checkpointing_enable()
    return model, tokens(4, 128, 8000), of_transformers


def t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=8000, d_model=256, d_ff=1024, num_layers=2, num_heads=8, d_kv=32, decoder_start_token_id=0
    )
    return T5ForConditionalGeneration(config), tokens(4, 64, 8000), of_transformers


def vit() -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=192,
        num_hidden_layers=6,
        num_attention_heads=3,
        intermediate_size=768,
        image_size=112,
        num_labels=10,
    )
    pixels, labels = images(16, 112)
    return ViTForImageClassification(config), {"pixel_values": pixels, "labels": labels}, of_transformers


def adapters() -> Any:
    """A frozen model with low-rank additions to its projections."""
    model, batch, loss = llama()
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if name.endswith(("q_proj", "v_proj")):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], Adapted(module))
    return model, batch, loss


class Adapted(nn.Module):
    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Linear(inner.in_features, 8, bias=False)
        self.up = nn.Linear(8, inner.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.up(self.down(x))


MOMENTUM = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
CASES = (
    Case("MLP", mlp),
    Case("ResNet, SGD with momentum", resnet, MOMENTUM),
    Case("U-Net", unet),
    Case("nn.TransformerEncoder, dropout", encoder),
    Case("GRU cell over 48 steps", recurrent),
    Case("BERT, eager attention", functools.partial(bert, "eager")),
    Case("BERT, SDPA", functools.partial(bert, "sdpa")),
    Case("BERT, SDPA, autocast", functools.partial(bert, "sdpa"), amp=True),
    Case("GPT-2", gpt2),
    Case("Llama", llama),
    Case("Llama, bf16", functools.partial(llama, dtype=torch.bfloat16)),
    Case("Llama, checkpointing", functools.partial(llama, checkpointing=True)),
    Case("Llama, low-rank adapters", adapters),
    Case("Llama, autocast", llama, amp=True),
    Case("T5", t5),
    Case("ViT", vit),
)


def step(case: Case, model: nn.Module, batch: Any, loss: Any, optimizer: Any, recorder: Recorder) -> None:
    with torch.autocast("cuda", enabled=case.amp):
        value = loss(model, batch)
    value.backward()
    recorder.stack.append("optimizer")
    optimizer.step()
    recorder.stack.pop()
    optimizer.zero_grad()


def held(tensors: Any) -> int:
    """Bytes of the storages of all tensors in there."""
    found = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in _leaves(tensors)}
    return sum(found.values())


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if hasattr(value, "values") else value if isinstance(value, (list, tuple)) else ()
    return [leaf for item in items for leaf in _leaves(item)]


def measured(case: Case) -> int:
    """The allocator's peak of the second step."""
    torch.manual_seed(0)
    model, batch, loss = case.make()
    model.train()
    optimizer = case.optimizer([one for one in model.parameters() if one.requires_grad])
    step(case, model, batch, loss, optimizer, Recorder())
    start = held([*model.parameters(), *model.buffers(), *optimizer.state.values(), batch])
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        step(case, model, batch, loss, optimizer, Recorder())
    events = [one for one in found.profiler.kineto_results.events() if one.name() == "[memory]"]
    total = peak = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        total += event.nbytes()
        peak = max(peak, total)
    return start + peak


def estimated(case: Case, kind: type[LiveStorages] = LiveStorages) -> int:
    """The peak of the second fake step."""
    torch.manual_seed(0)
    model, batch, loss = case.make()
    model.train()
    optimizer = case.optimizer([one for one in model.parameters() if one.requires_grad])
    recorder, parameters = Recorder(), FakeParameters()
    ledger = kind(recorder)
    with parameters.mode, ledger.mode():
        for tensor in parameters.take_module(model):
            ledger.note(tensor)
        for tensor in _leaves(batch):
            parameters.take(tensor)
            ledger.note(tensor)
        step(case, model, batch, loss, optimizer, recorder)
        ledger.start_step()
        step(case, model, batch, loss, optimizer, recorder)
        live, changes = dict(ledger.live_at_start), list(ledger.changes)
    total = peak = sum(live.values())
    for key, size in changes:
        total += size if size else -live.pop(key)
        if size:
            live[key] = size
        peak = max(peak, total)
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    patches = Patches()
    fake_cuda.install(patches, "host", 2**40, (8, 0))
    cuda_operators.install(patches)
    errors = []
    print("| model | measured, MiB | estimated, MiB | error | without oneDNN's copies |\n|---|---|---|---|---|")
    for case in CASES:
        if only in case.name:
            truth, found, bare = measured(case), estimated(case, HostLedger), estimated(case)
            errors.append(found / truth - 1)
            less = f"{bare / MIB:,.1f} ({bare / truth - 1:+.1%})" if bare != found else ""
            print(f"| {case.name} | {truth / MIB:,.1f} | {found / MIB:,.1f} | {errors[-1]:+.1%} | {less} |", flush=True)
    worst = max(errors, key=abs)
    print(f"\nmedian of the absolute errors {statistics.median(map(abs, errors)):.1%}, worst {worst:+.1%}")


if __name__ == "__main__":
    main()
