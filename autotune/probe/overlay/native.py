"""Libraries whose compiled code opens a path by itself: the path is mapped before it gets there.

PATHS says which argument of which function is a path and what becomes of the file, FOLDERS which function gives one;
UNMAPPED names what is known to write behind our back, so that the report can say so.
"""

from __future__ import annotations

import os
from os.path import dirname

from ..patches import standing_for
from . import actions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..isolate.isolated import Isolated
    from ..patches import Patches
    from ..shapes import AfterImport, Function, OnImport
    from .layer import Layer
    from .world import World

READ, WRITE, UPDATE, FOLDER, BY_MODE = "read", "write", "update", "folder", "by mode"

PATHS = {
    "torch": (("from_file", 0, "filename", UPDATE),),
    "torch.serialization": (
        ("_open_zipfile_writer_file.__init__", 1, "name", WRITE),
        ("torch._C.PyTorchFileWriter.__init__", 1, "name", WRITE),
        ("torch._C.PyTorchFileReader.__init__", 1, "name", READ),
    ),
    "torch.storage": (("UntypedStorage.from_file", 0, "filename", READ),),
    "torch.autograd.profiler": (("torch._C._autograd._ProfilerResult.save", 1, "path", WRITE),),
    "torch.profiler.profiler": (("_add_execution_trace_observer", 0, "output_file_path", WRITE),),
    "ctypes": (("CDLL.__init__", 1, "name", READ),),
    "torch.jit._script": (("RecursiveScriptModule.save", 1, "f", WRITE), ("ScriptModule.save", 1, "f", WRITE)),
    "torch.jit._serialization": (("save", 1, "f", WRITE), ("load", 0, "f", READ)),
    "safetensors": (
        ("serialize_file", 1, "filename", WRITE),
        ("safe_open", 0, "filename", READ),
        ("_safe_open_handle", 0, "filename", READ),
    ),
    "tokenizers": (
        ("Tokenizer.save", 1, "path", WRITE),
        ("Tokenizer.from_file", 0, "path", READ),
        ("models.Model.save", 1, "folder", FOLDER),
    ),
    "sqlite3.dbapi2": (("connect", 0, "database", UPDATE),),
    "pyarrow": (
        ("OSFile", 0, "path", BY_MODE),
        ("memory_map", 0, "path", BY_MODE),
        ("create_memory_map", 0, "path", WRITE),
    ),
    "pyarrow.parquet.core": (
        ("ParquetWriter.__init__", 1, "where", WRITE),
        ("ParquetFile.__init__", 1, "source", READ),
        ("read_table", 0, "source", READ),
    ),
    "h5py._hl.files": (("File.__init__", 1, "name", BY_MODE),),
    "cv2": (("imwrite", 0, "filename", WRITE), ("imread", 0, "filename", READ)),
    "soundfile": (("write", 0, "file", WRITE), ("read", 0, "file", READ)),
}

FOLDERS = {"torch._inductor.runtime.cache_dir_utils": "cache_dir"}
"""Functions that say in which folder a compiler, another program, finds and leaves its files."""

UNMAPPED = {
    "lmdb": ("open", "Environment"),
    "faiss": ("write_index",),
    "torchaudio": ("save",),
    "tensorstore": ("open",),
    "polars": (
        *("DataFrame.write_parquet", "DataFrame.write_ipc", "DataFrame.write_csv", "DataFrame.write_ndjson"),
        *("LazyFrame.sink_parquet", "LazyFrame.sink_ipc", "LazyFrame.sink_csv", "LazyFrame.sink_ndjson"),
    ),
    "duckdb": ("connect", "sql", "execute"),
    "pyarrow.dataset": ("write_dataset",),
    "pyarrow.csv": ("write_csv", "CSVWriter"),
    "pyarrow.feather": ("write_feather",),
    "pyarrow.ipc": ("new_file", "new_stream"),
    "pyarrow.fs": ("LocalFileSystem",),
    "pyarrow.orc": ("write_table", "ORCWriter"),
    "xgboost": ("Booster.save_model", "DMatrix.save_binary"),
    "lightgbm": ("Booster.save_model", "Dataset.save_binary"),
    "netCDF4": ("Dataset",),
}


def callbacks(world: World, patches: Patches, isolated: Isolated) -> AfterImport:
    """{module name: function(module)} that patch a module right after its import."""
    found = {name: _mapper(world, patches, rows) for name, rows in PATHS.items()}
    # These two took the functions of `safetensors` by name if they were imported before us.
    for name in ("safetensors.torch", "safetensors.numpy"):
        found[name] = _mapper(world, patches, PATHS["safetensors"])
    found["sqlite3"] = _mapper(world, patches, PATHS["sqlite3.dbapi2"])
    found.update({name: _namer(isolated, patches, attributes) for name, attributes in UNMAPPED.items()})
    found.update({name: _teller(world, patches, attribute) for name, attribute in FOLDERS.items()})
    return found


def _teller(world: World, patches: Patches, name: str) -> OnImport:
    def on_import(module: Any) -> None:
        original = getattr(module, name, None)
        if original is None:
            return

        def mapped(*args: Any, **kwargs: Any) -> Any:
            folder = original(*args, **kwargs)
            return map_path(world, folder, FOLDER) or folder

        patches.set(module, name, standing_for(original, mapped))

    return on_import


def _mapper(world: World, patches: Patches, rows: Iterable[tuple[str, int, str, str]]) -> OnImport:
    def on_import(module: Any) -> None:
        for dotted, position, keyword, use in rows:
            owner, name = _owner(module, dotted)
            original = getattr(owner, name, None)
            if original is not None and not getattr(original, "maps_path", False):
                mapped = _mapped(world, original, position, keyword, use)
                is_static = isinstance(owner, type) and position == 0
                patches.set(owner, name, staticmethod(mapped) if is_static else mapped)

    return on_import


def _owner(module: Any, dotted: str) -> tuple[Any, str]:
    """The object that holds the last part of `dotted`, looked up from `module` (None when something is missing)."""
    *folders, name = dotted.split(".")
    owner = module
    if folders and folders[0] == module.__name__.partition(".")[0] and not hasattr(module, folders[0]):
        import sys

        owner, folders = sys.modules[folders[0]], folders[1:]
    for part in folders:
        owner = getattr(owner, part, None)
    return owner, name


def _mapped(world: World, original: Function, position: int, keyword: str, use: str) -> Any:
    """`original` with its path argument mapped. An argument that is no path (a buffer, an open file) passes through."""

    def mapped(*args: Any, **kwargs: Any) -> Any:
        given = args[position] if len(args) > position else kwargs.get(keyword)
        if not isinstance(given, (str, bytes, os.PathLike)):
            return original(*args, **kwargs)
        rest = args[position + 1 :]
        path = map_path(world, given, _use(use, rest, kwargs), kwargs.get("uri", False))
        if path is None:
            return original(*args, **kwargs)
        try:
            if len(args) > position:
                return original(*args[:position], path, *rest, **kwargs)
            return original(*args, **{**kwargs, keyword: path})
        finally:
            world.shared.bump()

    stand_in: Any = standing_for(original, mapped)
    stand_in.maps_path = True
    return stand_in


def _use(use: str, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if use != BY_MODE:
        return use
    mode = rest[0] if rest else kwargs.get("mode", "r")
    if not isinstance(mode, str) or mode in ("r", "rb"):
        return READ
    return WRITE if mode.startswith("w") and "+" not in mode else UPDATE


def map_path(world: World, given: Any, use: str, is_uri: bool = False) -> str | None:
    """The path that native code shall use for `given`, or None when that is `given` itself."""
    text = os.fsdecode(given)
    if is_uri and text.startswith("file:"):
        return _map_uri(world, text, use)
    if text in ("", ":memory:"):
        return None
    if use == READ:
        return world.reading(given) if world.shared.view[0] else None
    place = world.place(given)
    if world.is_free(place):
        return None
    return _prepare(world, place, use)


def _map_uri(world: World, text: str, use: str) -> str | None:
    path, mark, query = text[len("file:") :].partition("?")
    if not path or path == ":memory:" or "mode=memory" in query:
        return None
    path = "/" + path.lstrip("/") if path.startswith("//") else path
    physical = map_path(world, path, READ if "mode=ro" in query or "immutable=1" in query else use)
    return None if physical is None else f"file:{physical}{mark}{query}"


def _prepare(world: World, place: str, use: str) -> str:
    """Make `place` ready to be written by native code, and give its path in scratch.

    Where there is no folder for it, that path has none either: the library fails in its own way.
    """
    layer = world.layer_to_write(dirname(place))
    try:
        _make_ready(world, layer, place, use)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return layer.upper + place


def _make_ready(world: World, layer: Layer, place: str, use: str) -> None:
    status = world.status(place)
    if status is None:
        actions.parent(world, place)
    elif use == WRITE:
        os.close(actions.open_file(world, place, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666))
    else:
        for suffix in ("", "-wal", "-shm", "-journal"):  # the last three are SQLite's
            if world.status(place + suffix) is not None:
                actions.own(world, place + suffix)


def _namer(isolated: Isolated, patches: Patches, attributes: Iterable[str]) -> OnImport:
    def on_import(module: Any) -> None:
        for dotted in attributes:
            owner, name = _owner(module, dotted)
            original = getattr(owner, name, None)
            if callable(original):
                patches.set(owner, name, _named(isolated, original, f"{module.__name__}.{dotted}"))

    return on_import


def _named(isolated: Isolated, original: Any, what: str) -> Any:
    wrap = _named_class if isinstance(original, type) else _named_call
    return wrap(isolated, original, what)


def _named_class(isolated: Isolated, original: Any, what: str) -> Any:
    """A subclass of `original` that is named when it is called; what is an `original` is an instance of it, too."""

    class Meta(type(original)):  # type: ignore[misc]  # the metaclass of a class of compiled code
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            isolated.not_isolated(f"{what} writes files from compiled code")
            return original(*args, **kwargs) if cls is named else super().__call__(*args, **kwargs)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original) if cls is named else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original) if cls is named else super().__subclasscheck__(subclass)

    named = Meta(original.__name__, (original,), {"__module__": original.__module__, "__doc__": original.__doc__})
    return named


def _named_call(isolated: Isolated, original: Function, what: str) -> Function:
    def named(*args: Any, **kwargs: Any) -> Any:
        isolated.not_isolated(f"{what} writes files from compiled code")
        return original(*args, **kwargs)

    return standing_for(original, named)
