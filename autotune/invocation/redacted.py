"""A command as it may be kept and printed: without what may be a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.invocation import Invocation, invoked
from autotune.model.source import NOTEBOOK

HIDDEN, _LEFT_OUT = "***", "..."

_LAUNCHER = re.compile(
    r"--?[a-zA-Z][a-z_-]*(=\d+)?|\d+|launch|run|python[\d.]*|torchrun|accelerate|[a-z]+\.[a-z.]+|bf16|fp16|fp8|no|auto|localhost:\d+"
    r"|[\w./-]{1,60}\.(ya?ml|json|toml)"
)
"""A launcher's flags, their numbers, its verb, the name of a module, and its config."""

_VERB = re.compile(r"[a-z]+(_[a-z]+)*")
"""What the user wants of a program: "train" of llamafactory-cli, "finetune_lora" of litgpt."""

_SHOWN = re.compile(r"(CUDA|NCCL|GLOO|OMP|MKL|KMP|OPENBLAS|PYTORCH|TORCH|TOKENIZERS|PYTHON|ACCELERATE|NVIDIA)_?[A-Z_]*")
_SECRET = re.compile("KEY|TOKEN(?!IZ)|SECRET|PASS|AUTH|CRED")
_VALUE = re.compile(r"[\w.,:/+-]{0,60}")


def shown(words: Sequence[str], cwd: Path, argv: Sequence[str] | None) -> tuple[str, ...]:
    """The command without secrets: the probe hides them in `argv`; before it ran (None), only the program is shown.

    What stands before the script is shown where it is nothing but a launcher with its flags and numbers, and so is the
    verb that a program took out of its argv. "..." stands for what is left out, HIDDEN for the value of a variable.
    """
    called = invoked(words, cwd)
    if argv is None or called.parts is None:
        return (called.program,) if called.words else ()
    if called.file is not None and called.file.suffix == NOTEBOOK:
        argv = argv[:1]  # those of the kernel
    head = called.words[: called.at + 1]
    is_named = called.file is not None or called.module is not None or called.parts.target is not None
    is_hidden = HIDDEN in argv[0] and called.module is None
    if not is_named or is_hidden or not all(map(_LAUNCHER.fullmatch, head[1:-1])):
        return (*_front(called), called.words[0], _LEFT_OUT, *argv[1:])[: len(words) + 2]
    return (*_front(called), *head, *_arguments(called, argv))


def _front(called: Invocation) -> Iterator[str]:
    """What stands in front, with the values of variables that say how a run computes and nothing else."""
    for word in called.front:
        name, is_assigned, value = word.partition("=")
        is_shown = _SHOWN.fullmatch(name) and not _SECRET.search(name) and _VALUE.fullmatch(value)
        yield word if is_shown or not is_assigned else f"{name}={HIDDEN}"


def _arguments(called: Invocation, argv: Sequence[str]) -> tuple[str, ...]:
    """What stands behind the script: as its process got it; what a shell script is given, where all of it got there."""
    given, got = called.words[called.at + 1 :], tuple(argv[1:])
    if called.is_shell:
        return given if set(given) <= set(got) else (_LEFT_OUT, *got)
    if got[:1] == called.words[called.at : called.at + 1]:  # the verb of a program that keeps it
        got = got[1:]
    taken = given[: max(0, len(given) - len(got))]
    return (*(taken if all(map(_VERB.fullmatch, taken)) else (_LEFT_OUT,)), *got)


def is_whole(command: Sequence[str]) -> bool:
    """Whether a run kept its command as it was typed: nothing is hidden or left out."""
    return bool(command) and not any(HIDDEN in word or word == _LEFT_OUT for word in command)
