"""Starts a script with the lines in it that a peer documents, put in at run time.

python edited.py PEER STEPS FOLDER SCRIPT [ARGS]

After STEPS optimizer steps the script is left as by sys.exit(). What the peer has to keep lies in FOLDER. The files of
the case stay as they are, so that one harness serves every script; each edit stands where its documentation puts it.
"""

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class Outermost:
    """The module that a training step calls: whichever is called while no other one runs."""

    def __init__(self, called: Callable[[nn.Module], None] = lambda module: None) -> None:
        self.depth, self.module, self.called = 0, None, called
        register_module_forward_pre_hook(self.enter)
        register_module_forward_hook(self.leave, always_call=True)

    def enter(self, module: nn.Module, inputs: object) -> None:
        if self.depth == 0 and torch.is_grad_enabled() and module.training:
            self.module = module
            self.called(module)
        self.depth += 1

    def leave(self, module: nn.Module, inputs: object, output: object) -> None:
        self.depth -= 1


@contextmanager
def gpuprof(folder: Path) -> Iterator[None]:
    """`with gpuprof.profile(NAME):` around the training."""
    import gpuprof

    with gpuprof.profile("case", db_path=str(folder / "gpuprof.db")):
        yield


@contextmanager
def pytscope(folder: Path) -> Iterator[None]:
    """`prof = AutoProfiler(FOLDER, model, optimizer)`, `prof.start()` and `prof.finish()` around the loop."""
    from pytscope.auto import AutoProfiler

    outermost, started = Outermost(), []

    def start(optimizer: Optimizer, args: object, kwargs: object) -> None:
        if not started and outermost.module is not None:
            started.append(AutoProfiler(str(folder), outermost.module, optimizer, warmup=5).start())

    register_optimizer_step_pre_hook(start)
    try:
        yield
    finally:
        for profiler in started:
            profiler.finish()


@contextmanager
def traceml(folder: Path) -> Iterator[None]:
    """`traceml.init()`, and `with traceml.trace_step(model):` around each step up to the update."""
    import traceml_ai

    traceml_ai.init()
    open_steps: list[Any] = []

    def enter(module: nn.Module) -> None:
        if not open_steps:
            open_steps.append(traceml_ai.trace_step(module))
            open_steps[0].__enter__()

    def leave(optimizer: Optimizer, args: object, kwargs: object) -> None:
        if open_steps:
            open_steps.pop().__exit__(None, None, None)

    Outermost(enter)
    register_optimizer_step_post_hook(leave)
    yield


EDITS = {"gpuprof": gpuprof, "pytscope": pytscope, "traceml": traceml, "none": lambda folder: nullcontext()}
"""The documented lines of each peer; "none" where it needs none."""


def stop_after(steps: int) -> None:
    left = [steps]

    def count(optimizer: Optimizer, args: object, kwargs: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise SystemExit(0)

    register_optimizer_step_post_hook(count)


def main() -> None:
    peer, steps, folder, script, *arguments = sys.argv[1:]
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    with EDITS[peer](Path(folder)):
        # Behind the hooks of the peer: its own step is over by then.
        stop_after(int(steps))
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
