"""The full name of an expression, "torch.utils.data.DataLoader" however it was imported, and libraries by name."""

from __future__ import annotations

import ast
import builtins
import sys

from autotune.catalogue.frameworks import aliases, script_packages
from autotune.pycode.index import Index

_READ = """
    torch torchvision torchaudio torchtext torchdata torchmetrics torch_geometric datasets tokenizers
    peft bitsandbytes evaluate
    safetensors huggingface_hub numpy pandas scipy sklearn matplotlib seaborn PIL cv2 skimage albumentations timm kornia
    einops tqdm rich wandb tensorboard tensorboardX mlflow click typer fire tyro absl jsonargparse yaml omegaconf hydra
    requests psutil nltk spacy tiktoken sentencepiece h5py lmdb pyarrow polars packaging dotenv loguru termcolor
    librosa soundfile diffusers gymnasium gym networkx numba setuptools six pkg_resources
"""

READ_LIBRARIES = frozenset(_READ.split())
"""Packages that do nothing in a script's stead that the facts here speak of, as the trainer frameworks."""

MAX_ALIASES = 8


def full_name(index: Index, node: ast.AST, depth: int = 0) -> str | None:
    """The dotted name with its package; None for a name of the script itself, and where imports disagree."""
    if depth or not isinstance(node, ast.Name | ast.Attribute):
        return _full_name(index, node, depth)
    if node not in index.nodes.names:
        index.nodes.names[node] = _full_name(index, node, depth)
    return index.nodes.names[node]


def _full_name(index: Index, node: ast.AST, depth: int) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        index.work.spend()
        parts.append(node.attr)
        node = node.value
    root = _root(index, node, depth) if isinstance(node, ast.Name) else None
    if root is None:
        return None
    package, dot, rest = ".".join([root, *reversed(parts)]).partition(".")
    return aliases().get(package, package) + dot + rest


def package_and_name(name: str | None) -> tuple[str, str]:
    """The first and the last part of a full name: a library re-exports its classes under many modules."""
    parts = (name or "").split(".")
    return parts[0], parts[-1]


def is_whole(index: Index) -> bool:
    """Whether everything that the script runs is in it: no import of its own modules, and no exec."""
    roots = {module.split(".")[0] for module in index.imports}
    runs_more = any(index.called.get(name) for name in ("exec", "__import__", "import_module"))
    read = READ_LIBRARIES | script_packages()
    return not runs_more and all(root in read or root in sys.stdlib_module_names for root in roots)


def _root(index: Index, node: ast.Name, depth: int) -> str | None:
    bindings = index.lookup(node)
    if not bindings:
        stars = index.at(node).stars
        return node.id if len(stars) != 1 or hasattr(builtins, node.id) else f"{stars[0]}.{node.id}"
    if all(binding.kind == "import" for binding in bindings):
        names = {_normal(binding.text) for binding in bindings}
        return names.pop() if len(names) == 1 else None
    value = bindings[0].value
    if len(bindings) == 1 and bindings[0].kind == "value" and isinstance(value, ast.Attribute | ast.Name):
        return full_name(index, value, depth + 1) if depth < MAX_ALIASES else None
    return None


def _normal(name: str) -> str:
    package, dot, rest = name.partition(".")
    return aliases().get(package, package) + dot + rest
