"""Frames of Python as Kineto names them: "train.py(12): step"; and which of them are the user's own."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import PurePosixPath

FRAME = re.compile(r"(?P<file>[^;<>]+?)\((?P<line>\d{1,9})\): (?P<function>.+)")

INSTALLED = re.compile(r"(site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^[A-Za-z]:.*[/\\]Lib[/\\]|<frozen")

LIBRARIES = frozenset(
    """
    accelerate aiohttp apex bitsandbytes composer dask datasets deepspeed diffusers einops fairscale fbgemm_gpu
    fire flash_attn functorch hydra ignite jax joblib kornia lightning lightning_fabric megatron mlflow mmcv
    mmengine monai nvidia numpy omegaconf optuna pandas peft PIL pytorch_lightning ray scipy sentence_transformers
    sklearn tensorboard tensordict timm tokenizers torch torch_geometric torch_xla torchaudio torchdata
    torchmetrics torchrec torchvision tqdm transformer_engine transformers triton trl unsloth vllm wandb
    webdataset xformers
    """.split()  # noqa: SIM905 (sixty lines)
)
"""Their paths begin with the package: Kineto takes the folder of sys.path off."""


@functools.cache
def user_place(frame: str) -> str:
    """ "train.py:12 (step)" of a frame in the user's own code, "" of any other."""
    found = FRAME.fullmatch(frame.strip())
    if found is None or not is_user_file(found["file"]):
        return ""
    return f"{found['file'].replace(chr(92), '/')}:{found['line']} ({found['function']})"


def is_user_file(file: str) -> bool:
    """Whether a path is neither of an installed package nor of the standard library, as far as it tells."""
    if INSTALLED.search(file):
        return False
    path = PurePosixPath(file.replace("\\", "/"))
    top = path.parts[0].removesuffix(".py") if path.parts else ""
    return bool(top) and top not in LIBRARIES and top not in sys.stdlib_module_names


def innermost(stack: str) -> str:
    """The place of the innermost frame of a stack that is the user's; "" for none."""
    return next((place for frame in stack.split(";") if (place := user_place(frame))), "")
