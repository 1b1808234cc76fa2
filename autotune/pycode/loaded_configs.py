"""Configs that a script reads itself, `yaml.safe_load(open(path))`, and what it asks of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.model.scanned import WrittenValue
from autotune.pycode.index import AttributeWrite
from autotune.pycode.mutations import later_values
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import LoadedConfig, ScriptView
from autotune.syntax.python import last_name

ValueReader = Callable[[ScriptView, ast.AST], WrittenValue]
"""What works out the value of an expression."""

READERS = frozenset(
    {
        *(f"yaml.{name}" for name in ("safe_load", "load", "full_load", "unsafe_load")),
        *(f"{name}.load" for name in ("omegaconf.OmegaConf", "json", "toml", "tomllib", "tomli")),
        *(f"{name}.loads" for name in ("json", "toml", "tomllib", "tomli")),
    }
)
"""Functions that give what a file holds, of which they get the path, the opened file or its text."""

WRAPPERS = frozenset(
    {
        *("Namespace", "SimpleNamespace", "EasyDict", "edict", "AttrDict", "Box", "DotMap", "Munch", "munchify"),
        *("ConfigDict", "dict", "create", "merge", "to_container", "deepcopy", "copy", "structured"),
    }
)
"""What gives the keys of a dict as they are: as attributes, in a copy, or put together with others."""

OVERRIDES = ("from_cli", "from_dotlist")
"""What puts `key=value` of the command line over a config."""

PATHS = frozenset(
    {"open", "Path", "str", "join", "abspath", "read_text", "read_bytes", "read", "resolve", "expanduser"}
)
"""What may stand around the path of a file."""

HYDRA = "hydra.main"

MAX_DEPTH = 12
"""Keys and wrappers around one file."""


def config_values(view: ScriptView, node: ast.AST, value: ValueReader) -> WrittenValue | None:
    """What a data file says that the expression `node` is asked of, at its place there; None where none does."""
    found = _config_asked(view, node, value, 0)
    if found is None:
        return None
    if _is_changed(view, found, value):
        return WrittenValue("", None, view.place(node), known=False)
    is_told = found.entries is view.composed or any(map(view.index.called.get, OVERRIDES))
    said = (view.flags or {}).get(found.prefix) if is_told else None
    return said or (found.entries.get(found.prefix) if found.is_there else _default_value(view, node, value))


def subtree(view: ScriptView, node: ast.AST, value: ValueReader) -> Mapping[str, WrittenValue] | None:
    """What a data file gives that the expression `node` holds, by the keys below it; None where it holds none."""
    found = _common_config(view, node, value, 0)
    if found is None:
        return None
    start = f"{found.prefix}." if found.prefix else ""
    return {
        key.removeprefix(start): given if not _is_changed(view, replace(found, prefix=key), value) else _unknown(given)
        for key, given in found.entries.items()
        if key.startswith(start)
    }


def _unknown(given: WrittenValue) -> WrittenValue:
    return replace(given, value=None, known=False)


class _ConfigHolder(Struct, frozen=True):
    """What holds the section of a config."""

    held: LoadedConfig
    section: str
    value: ValueReader

    def holds(self, view: ScriptView, node: ast.expr) -> bool:
        found = [(one, self.section) for one in _configs_of_origins(view, node, self.value, 0)]
        if self.section:
            around = self.section.rpartition(".")[0]
            found += [(one, around) for one in _configs_around(view, node, self.value)]
        return any(one is not None and one.prefix == prefix and bool(one.own & self.held.made) for one, prefix in found)

    def possible_writes(self, view: ScriptView, key: str) -> Sequence[AttributeWrite]:
        return view.index.writes.get(key, ())


def _is_changed(view: ScriptView, held: LoadedConfig, value: ValueReader) -> bool:
    """Whether the run changes what a file says of a key, or of one above it."""
    keys = held.prefix.split(".")
    changes = (
        later_values(view, key, _ConfigHolder(held, ".".join(keys[:place]), value), lambda at, store: False)
        for place, key in enumerate(keys)
    )
    return any(True for each in changes for _ in each)


def _configs_around(view: ScriptView, node: ast.expr, value: ValueReader) -> Iterator[LoadedConfig | None]:
    """What holds `node` as any of its values: `v` of `for k, v in cfg.items()`, `cfg[k]`."""
    owner, key = _owner_and_key(view, node, value)
    if owner is not None and key is None:
        yield from _configs_of_origins(view, owner, value, 0)
    for loop in [one.node for one in origins(view, node)]:
        if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension):
            over = loop.iter.func if isinstance(loop.iter, ast.Call) else None
            of_dict = over.value if isinstance(over, ast.Attribute) and over.attr in ("items", "values") else loop.iter
            yield from _configs_of_origins(view.at(loop), of_dict, value, 0)


def _config_asked(view: ScriptView, node: ast.AST, value: ValueReader, depth: int) -> LoadedConfig | None:
    """What is asked of a file's content, whether the file has the key or not."""
    owner, key = _owner_and_key(view, node, value)
    held = _common_config(view, owner, value, depth) if owner is not None and key is not None else None
    return held.below(key) if held is not None and key is not None else None


def _config_held(view: ScriptView, node: ast.AST, value: ValueReader, depth: int) -> LoadedConfig | None:
    """What an expression holds of a data file; None for what comes from none, or is not in it."""
    # Remembered: what is wrapped in each other, or gets itself, is come to along many ways.
    asked = (node, depth, bool(view.identified))
    if asked not in view.held:
        view.held[asked] = _held_config(view, node, value, depth)
    return view.held[asked]


def _held_config(view: ScriptView, node: ast.AST, value: ValueReader, depth: int) -> LoadedConfig | None:
    found = _config_asked(view, node, value, depth)
    if found is not None:
        return found if found.is_there else None
    if isinstance(node, ast.arg):
        made = frozenset({node})
        return (
            LoadedConfig(view.composed, "", made, made) if view.composed and _is_composed(view.at(node), node) else None
        )
    return _read_config(view.at(node), node, value, depth) if isinstance(node, ast.Call) else None


def _is_composed(view: ScriptView, parameter: ast.arg) -> bool:
    """Whether a function gets what Hydra puts together: `@hydra.main(...)`."""
    function = view.index.enclosing_function(parameter)
    decorators = function.decorator_list if function is not None else []
    called = [one.func for one in decorators if isinstance(one, ast.Call)]
    return any(full_name(view.index, one) == HYDRA for one in called)


def _common_config(view: ScriptView, node: ast.AST, value: ValueReader, depth: int) -> LoadedConfig | None:
    """What all hold that an expression comes from, where that is the same."""
    found = list(_configs_of_origins(view, node, value, depth))
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or any(not one.is_of(known[0]) for one in known):
        return None
    made, own = (frozenset().union(*sets) for sets in zip(*((one.made, one.own) for one in known), strict=True))
    return replace(known[0], made=made, own=own)


def _configs_of_origins(
    view: ScriptView, node: ast.AST, value: ValueReader, depth: int
) -> Iterator[LoadedConfig | None]:
    """What each holds that an expression may come from."""
    ends = [one for one in origins(view, node) if not one.path and one.option is None] if depth <= MAX_DEPTH else []
    yield from (_config_held(view.at(one.node), one.node, value, depth + 1) for one in ends)


def _owner_and_key(view: ScriptView, node: ast.AST, value: ValueReader) -> tuple[ast.expr | None, str | None]:
    """The object and the key in `cfg.data`, `cfg["data"]`, `cfg.get("data", 0)` and `getattr(cfg, "data")`."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Subscript):
        return node.value, _text(value(view, node.slice))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return node.func.value, _text(value(view, node.args[0]))
    if isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
        return node.args[0], _text(value(view, node.args[1]))
    return None, None


def _default_value(view: ScriptView, node: ast.AST, value: ValueReader) -> WrittenValue | None:
    """What is had where the file does not have the key: `cfg.get("workers", 4)`."""
    if not isinstance(node, ast.Call):
        return None
    asked = node.args[1:] if last_name(node.func) == "get" else node.args[2:]
    return value(view, asked[0]) if asked else None


def _text(known: WrittenValue) -> str | None:
    return known.value if known.known and isinstance(known.value, str) else None


def _read_config(view: ScriptView, call: ast.Call, value: ValueReader, depth: int) -> LoadedConfig | None:
    """The file that a call reads, or what it wraps."""
    if (full_name(view.index, call.func) or "") in READERS and call.args:
        try:
            reference = _path(view, call.args[0], value, 0)
        except _BesideScriptError:
            return None
        # A path that is not known is that of the config which the command names.
        entries = view.documents(reference, view.file) if reference else view.configured or None
        made = frozenset({call})
        return LoadedConfig(entries, "", made, made) if entries is not None else None
    if last_name(call.func) not in WRAPPERS:
        return None
    inside = [*call.args, *(one.value for one in call.keywords if one.arg is None)]
    found = [
        (at, one) for at, node in enumerate(inside) if (one := _common_config(view, node, value, depth)) is not None
    ]
    if len(found) != 1 or not all(_is_override(view, node) for node in inside[found[0][0] + 1 :]):
        return None
    held = found[0][1]
    return replace(held, made=held.made | {call}, own=frozenset({call}))


def _is_override(view: ScriptView, node: ast.AST) -> bool:
    """Whether what is put over a config is the command line, which is known by itself."""
    ends = [one.node for one in origins(view, node)]
    return bool(ends) and all(isinstance(end, ast.Call) and last_name(end.func) in OVERRIDES for end in ends)


class _BesideScriptError(Exception):
    """A path is built from `__file__` in a folder of the project: it may be seen from there, or from one above it."""


def _path(view: ScriptView, node: ast.AST, value: ValueReader, depth: int) -> str:
    """The file that an expression names, by its last parts: "configs/x.yaml" of `open(ROOT / "configs" / "x.yaml")`."""
    known = _text(value(view, node))
    if known is not None or depth > MAX_DEPTH:
        return known or ""
    if "/" in view.file and any(isinstance(one, ast.Name) and one.id == "__file__" for one in ast.walk(node)):
        raise _BesideScriptError
    parts: list[ast.AST] = []
    if isinstance(node, ast.Name):
        ends = [_opened_file(one.node) for one in origins(view, node)]
        parts = ends if len(ends) == 1 and ends[0] is not node else []
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Call) and last_name(node.func) in PATHS:
        is_method = isinstance(node.func, ast.Attribute) and full_name(view.index, node.func) is None
        parts = [node.func.value] if is_method and isinstance(node.func, ast.Attribute) else list(node.args)
        parts = parts[:1] if last_name(node.func) == "open" else parts
    return "/".join(filter(None, (_path(view.at(one), one, value, depth + 1) for one in parts)))


def _opened_file(node: ast.AST) -> ast.AST:
    """The call in `with open(path) as file`."""
    return node.context_expr if isinstance(node, ast.withitem) else node
