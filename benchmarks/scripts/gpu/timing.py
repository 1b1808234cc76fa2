"""Times the steps of the scripts beside it by CUDA events; on a CPU by the host's clock."""

from __future__ import annotations

import argparse
import json
import time

import torch

WARMUP = 10


class Steps:
    """Ends the training after WARMUP and --steps steps, and writes the time of the latter to --result."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.steps, self.result = args.steps, args.result
        self.count = 0
        self.is_cuda = torch.cuda.is_available()

    def done(self) -> bool:
        """A step has ended; whether it was the last one."""
        self.count += 1
        if self.result and self.count == WARMUP:
            self.begin = self.mark()
        if self.count < WARMUP + self.steps:
            return False
        if self.result:
            self.write()
        return True

    def mark(self) -> tuple[float, torch.cuda.Event | None]:
        """The host's time when the device has done all that was queued, and an event of the device."""
        event = None
        if self.is_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            torch.cuda.synchronize()
        return time.perf_counter(), event

    def write(self) -> None:
        begin, first = self.begin
        queued_s = time.perf_counter() - begin
        end, last = self.mark()
        device_s = first.elapsed_time(last) / 1e3 if first is not None else end - begin
        memory = torch.cuda.max_memory_allocated() if self.is_cuda else 0
        reserved = torch.cuda.max_memory_reserved() if self.is_cuda else 0
        times = {"device_ms": device_s, "host_ms": end - begin, "queued_ms": queued_s}
        row = {name: 1e3 * value / self.steps for name, value in times.items()}
        with open(self.result, "w", encoding="utf-8") as file:
            json.dump({**row, "steps": self.steps, "allocated": memory, "reserved": reserved}, file)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--result", help="File for the measured times, as JSON.")
    parser.add_argument("--small", action="store_true", help="Sizes for a CPU.")
    return parser.parse_args()
