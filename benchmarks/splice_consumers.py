"""The syntaxes of data files that splice_corpus edits, and what the consumers of such files read."""

from __future__ import annotations

import copy
import io
import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from autotune.model.source import Document, Path, Scalar
from autotune.syntax import edit_json, edit_toml, edit_yaml, toml, yaml
from autotune.syntax import json as json_reader


@dataclass(frozen=True, slots=True)
class Format:
    """A syntax of data files: its reader, its editor, and the loaders of its consumers."""

    name: str
    read: Callable[[bytes, str], Document]
    editor: Any
    loaders: Sequence[Callable[[bytes], Any]]


def _pyyaml(data: bytes) -> Any:
    import yaml

    return yaml.safe_load(data)


def _ruamel(data: bytes) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(data)


def _omegaconf(data: bytes) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.load(io.BytesIO(data)), resolve=False)


def _toml(data: bytes) -> Any:
    return tomllib.loads(data.decode())


YAML_FILES = Format("yaml", yaml.read, edit_yaml, (_pyyaml, _ruamel, _omegaconf))
FORMATS = {
    ".yaml": YAML_FILES,
    ".yml": YAML_FILES,
    ".json": Format("json", json_reader.read, edit_json, (json.loads,)),
    ".toml": Format("toml", toml.read, edit_toml, (_toml,)),
}


def trees(load: Callable[[bytes], Any], data: bytes) -> list[Any]:
    """What a consumer reads; nothing when it does not read this file (comments in JSON, OmegaConf not installed)."""
    return copy.deepcopy(_read_once(load, data))


@cache
def _read_once(load: Callable[[bytes], Any], data: bytes) -> list[Any]:
    try:
        return [load(data)]
    except Exception:
        return []


def put(tree: Any, path: Path, value: Scalar) -> Any:
    """The tree with `value` at `path`."""
    if not path:
        return value
    tree = {} if tree is None else tree
    key: Any = path[0] if isinstance(tree, list) else next((key for key in tree if str(key) == str(path[0])), path[0])
    inner = tree[key] if isinstance(tree, list) else tree.get(key)
    tree[key] = put(inner, path[1:], value)
    return tree
