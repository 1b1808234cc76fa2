"""A raw loop of steps of about the same length, which takes the probe off and puts it on again: for overhead.py.

`--calibrate MS` prints the batch size at which a step takes about MS milliseconds. Otherwise it trains rounds of two
blocks of `--block` steps, under the probe a native and a probed one in random order, and writes what each round took to
--result. Without the probe it trains as many steps and writes their count alone.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 2048 if DEVICE == "cuda" else 128
BLOCKS = 12
SAMPLES = 4096
SETTLING = 2
"""Steps at the head of a block that are not measured."""


def make_model() -> nn.Module:
    """49 modules: as many calls for the probe to look at as a small transformer makes."""
    blocks = [nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(BLOCKS)]
    return nn.Sequential(*blocks)


class Training:
    """Model, optimizer and endless batches; `step` makes one optimizer step."""

    def __init__(self, batch_size: int) -> None:
        torch.manual_seed(0)
        samples = TensorDataset(torch.randn(SAMPLES, WIDTH))
        self.loader = DataLoader(samples, batch_size=batch_size, shuffle=True, pin_memory=DEVICE == "cuda")
        self.batches = iter(self.loader)
        self.model = make_model().to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)

    def step(self) -> None:
        try:
            (inputs,) = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            (inputs,) = next(self.batches)
        inputs = inputs.to(DEVICE, non_blocking=True)
        loss = (self.model(inputs) - inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class Switch:
    """The probe of this process: its patches and its wrapper of the step, taken off and put on again.

    The sampler stays: it learns over a second how dear a sample is, and a new one would sample too often at first.
    This knows the probe's inside, so that the probe needs no switch for a benchmark.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._hooked = torch.optim.AdamW.step
        self.is_on = True

    def turn(self, on: bool) -> None:
        if on == self.is_on:
            return
        self.is_on = on
        if on:
            self._session.patches.resume()
        else:
            self._session.patches.suspend()
        torch.optim.AdamW.step = self._hooked if on else self._hooked._autotune_native

    def own_ns(self) -> int:
        """The hooks' own account so far; of the calls of submodules it knows at the window's end alone."""
        return int(self._session.recorder.own_ns)

    def sampler_ns(self) -> int:
        """CPU time of the sampler's thread so far."""
        return int(self._session.sampler.spent_ns)

    def calls_ns(self, model: nn.Module) -> float:
        """What the account puts down for the calls of submodules in one step."""
        overhead = sys.modules[type(self._session.overhead).__module__]
        return float(self._session.num_submodules(self._session.model_ids[id(model)]) * overhead._submodule_ns())


def session() -> Any | None:
    """The probe's session in this process, None natively."""
    found = [
        getattr(module, "_sessions", None) for name, module in sys.modules.items() if name.endswith("probe.session")
    ]
    return next((sessions[0] for sessions in found if sessions), None)


def wait() -> None:
    """Until the device has done all that was queued."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def block(training: Training, steps: int, switch: Switch | None = None) -> dict[str, float]:
    """Milliseconds per step: wall, CPU of the whole process, the hooks' own account, the sampler's CPU."""
    for _ in range(SETTLING):
        training.step()
    own, sampler = (switch.own_ns(), switch.sampler_ns()) if switch is not None else (0, 0)
    wait()
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        training.step()
    wait()
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    if switch is not None:
        own, sampler = switch.own_ns() - own, switch.sampler_ns() - sampler
    row = {"wall_ms": 1e3 * wall, "cpu_ms": 1e3 * cpu, "own_ms": own / 1e6, "sampler_ms": sampler / 1e6}
    return {name: value / steps for name, value in row.items()}


def measured(training: Training, rounds: int, steps: int) -> dict[str, Any]:
    """The rounds: what a step took natively and probed. Natively in the whole process there is nothing to compare."""
    probe = session()
    switch = Switch(probe) if probe is not None else None
    pairs = []
    for _ in range(rounds):
        took = {}
        for is_on in random.sample([False, True], 2):
            if switch is not None:
                switch.turn(is_on)
            took["probed" if is_on else "native"] = block(training, steps, switch)
        pairs.append(took)
    if switch is None:
        return {"steps": 2 * rounds * (SETTLING + steps)}
    switch.turn(True)
    return {
        "steps": 2 * rounds * (SETTLING + steps),
        "rounds": pairs,
        "calls_ms": switch.calls_ns(training.model) / 1e6,
    }


def calibrate(target_ms: float) -> int:
    """The batch size at which a step takes about `target_ms`: a line through two measured sizes."""
    small, large = block(Training(8), 40)["wall_ms"], block(Training(264), 20)["wall_ms"]
    per_sample = max(1e-6, (large - small) / 256)
    return min(SAMPLES, max(1, round(8 + (target_ms - small) / per_sample)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibrate", type=float, metavar="MS")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--block", type=int, default=20, help="Measured steps of a block.")
    parser.add_argument("--result", type=Path, help="File for what the rounds took, as JSON.")
    args = parser.parse_args()
    if args.calibrate is not None:
        print(calibrate(args.calibrate))
        return
    if args.result is None:
        parser.error("--result or --calibrate")
    training = Training(args.batch_size)
    for _ in range(args.warmup):
        training.step()
    result = measured(training, args.rounds, args.block)
    args.result.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
