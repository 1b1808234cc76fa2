"""Counts optimizer steps of the process it is imported by; after enough of them it writes their seconds and ends it.

measure.py puts this folder first on PYTHONPATH. ACCURACY_WINDOW is "WARMUP STEPS", ACCURACY_RESULT the file for the
result. The clock starts at the end of step WARMUP; with WARMUP 0 at the start of the process.
"""

import importlib.abc
import importlib.machinery
import os
import signal
import sys
import time

BEGAN = time.perf_counter()
OPTIMIZER = "torch.optim.optimizer"


class Counter:
    def __init__(self, warmup, steps, result):
        self.warmup, self.steps, self.result = warmup, steps, result
        self.seen, self.start = 0, BEGAN

    def count(self, *_):
        self.seen += 1
        if self.seen == self.warmup:
            wait()
            self.start = time.perf_counter()
        if self.seen == self.warmup + self.steps:
            wait()
            seconds = time.perf_counter() - self.start
            # Whole or not at all: of processes that a script spawns each counts, and the first one ends all.
            part = f"{self.result}.{os.getpid()}"
            with open(part, "w", encoding="utf-8") as file:
                file.write(repr(seconds))
            os.replace(part, self.result)
            # Loader workers and launchers belong to the group that measure.py made for this start.
            os.killpg(os.getpgrp(), signal.SIGKILL)


def wait():
    """Until a CUDA device has done all that was queued."""
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Finder(importlib.abc.MetaPathFinder):
    """Registers the counter once torch's optimizers are there."""

    def find_spec(self, name, path=None, target=None):
        if name != OPTIMIZER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            warmup, steps = map(int, os.environ["ACCURACY_WINDOW"].split())
            counter = Counter(warmup, steps, os.environ["ACCURACY_RESULT"])
            module.register_optimizer_step_post_hook(counter.count)

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("ACCURACY_RESULT") and os.environ.get("RANK", "0") == "0":
    sys.meta_path.insert(0, Finder())
