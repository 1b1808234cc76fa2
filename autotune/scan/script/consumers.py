"""The calls whose arguments are settings: which dialect they are in, and what their arguments are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue import frameworks
from autotune.catalogue.dialects import dialects, methods
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.index import Index
from autotune.pycode.names import full_name, package_and_name
from autotune.syntax.python import last_name

DATALOADER = (
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
)
"""Its positional arguments."""

LOADER_PACKAGES = frozenset({"torch", "torchdata"})

NO_MODEL = re.compile(r"Tokenizer(Fast)?$|Config$|Processor$|FeatureExtractor$|^GenerationConfig$")
"""Classes of transformers whose from_pretrained loads no model."""


class ConsumerSpec(Struct, frozen=True):
    """`name` is what is called, `kind` the subject of its settings, `parameters` the names of positional arguments."""

    dialect: str
    name: str
    kind: str = "run"
    parameters: tuple[str, ...] = ()
    is_open: bool = False


CLASSES: Mapping[tuple[str, str], ConsumerSpec] = {
    ("transformers", "BitsAndBytesConfig"): ConsumerSpec("torch", "BitsAndBytesConfig"),
    ("torch", "DistributedDataParallel"): ConsumerSpec(
        "torch", "DistributedDataParallel", parameters=("module", "device_ids", "output_device")
    ),
    ("torch", "DataParallel"): ConsumerSpec("torch", "torch.nn.DataParallel", parameters=("module",)),
}
"""By package and class, as those of the frameworks: a library re-exports its classes."""

SWITCHES: Mapping[str, str] = {
    "torch.set_float32_matmul_precision": "precision",
    "torch.set_num_threads": "int",
    "torch.autograd.set_detect_anomaly": "mode check_nan",
    "torch.use_deterministic_algorithms": "mode",
}
"""Functions that set something for the whole process."""

CHOICES = frozenset({"BitsAndBytesConfig", "torch.compile", *SWITCHES})
"""Calls that change the run by being made: below a condition that is not known, nothing is known of them."""

_DEVICE_SCALER = "device init_scale growth_factor backoff_factor growth_interval enabled"
_CUDA_SCALER = "init_scale growth_factor backoff_factor growth_interval enabled"

PARAMETERS_OF_SCALERS: Mapping[str, str] = {
    "torch.amp.GradScaler": _DEVICE_SCALER,
    "torch.amp.grad_scaler.GradScaler": _DEVICE_SCALER,
    "torch.GradScaler": _DEVICE_SCALER,
    "torch.cuda.amp.GradScaler": _CUDA_SCALER,
    "torch.cuda.amp.grad_scaler.GradScaler": _CUDA_SCALER,
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": _DEVICE_SCALER,
}
"""GradScalers of torch under all their names, with their positional arguments."""

FUNCTIONS: Mapping[str, ConsumerSpec] = {
    name: ConsumerSpec("torch", name, parameters=tuple(parameters.split()))
    for name, parameters in {
        **SWITCHES,
        "torch.compile": "model",
        "torch.autocast": "device_type dtype enabled cache_enabled",
        "torch.amp.autocast": "device_type dtype enabled cache_enabled",
        "torch.cuda.amp.autocast": "enabled dtype cache_enabled",
        **PARAMETERS_OF_SCALERS,
        "torch.utils.checkpoint.checkpoint": "function",
    }.items()
}
"""By full name."""

CAPTIONS = frozenset({"CLIPTokenizer", "CLIPTokenizerFast"})
"""Tokenizers of text encoders that condition a model of images."""

AUTOCASTS = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"})
SCALERS = frozenset(PARAMETERS_OF_SCALERS)


PLAIN_GRAPH_LOADERS = frozenset({"DataLoader", "DataListLoader", "DenseDataLoader"})
"""Loaders of torch_geometric that hand on their keywords to torch's; others sample, and have arguments of their own."""

HANDED_ON = frozenset({"dataset", "collate_fn"})
"""What a class that extends a loader may give it itself, beside the keywords that it hands on."""

TORCHS_OWN = frozenset(
    {
        *DATALOADER,
        "multiprocessing_context",
        "generator",
        "prefetch_factor",
        "persistent_workers",
        "pin_memory_device",
        "in_order",
    }
)
TORCHS_OWN -= HANDED_ON
"""What a class that extends a loader may neither take, define nor set itself, if it is read as a plain loader."""

HARMLESS = frozenset({"__init__", "__new__", "__len__", "__repr__", "__str__", "__doc__", "__slots__", "__module__"})
"""Names with __ that a class may define and still make its batches as torch does."""

INNER_PARTS = frozenset({"_get_iterator", "_iterator", "_index_sampler", "_auto_collation", "_dataset_kind"})
"""Attributes of torch's loader by which it makes its iterator."""


def consumer(index: Index, call: ast.Call) -> ConsumerSpec | None:
    """What a call is to the settings; None for any other call."""
    name = full_name(index, call.func)
    if name is None:
        class_ = called_class(index, call.func)
        if class_ is not None:
            return of_class(index, class_)
        return _loader_of_several(index, call.func) or _method(index, call)
    return of_name(name) or _config(call, name) or _method(index, call)


def of_name(name: str) -> ConsumerSpec | None:
    """The same, for a full name."""
    package, last = package_and_name(name)
    if last in ("DataLoader", "StatefulDataLoader") and package in LOADER_PACKAGES:
        return ConsumerSpec("torch", "DataLoader", "loader", DATALOADER)
    if package == "torch_geometric" and last in PLAIN_GRAPH_LOADERS:
        return ConsumerSpec("torch", "DataLoader", "loader", DATALOADER[:3])
    if package == "torch_geometric" and last.endswith("Loader"):
        return ConsumerSpec("torch", "DataLoader", "loader", is_open=True)
    if name.startswith("torch.optim.") and last[0].isupper() and "lr_scheduler" not in name:
        return ConsumerSpec("torch", f"torch.optim.{last}", "optimizer", ("params", "lr"))
    if (framework := frameworks.of_class(package, last)) is not None:
        parameters = frameworks.frameworks()[framework].positional.get(last, ())
        return ConsumerSpec(framework, last, parameters=parameters)
    return CLASSES.get((package, last)) or FUNCTIONS.get(name)


def of_class(index: Index, class_: ast.ClassDef) -> ConsumerSpec | None:
    """What a class of the file extends. It may take arguments of its own, and pass on what it likes."""
    for one in with_bases(index, class_):
        for base in one.bases:
            found = of_name(full_name(index, base) or "")
            if found is not None and found.kind != "optimizer":
                is_plain = found.kind == "loader" and _is_plain(index, class_)
                is_bare = is_plain and not any(_constructors(each) for each in with_bases(index, class_))
                return replace(found, is_open=not is_plain, parameters=found.parameters if is_bare else ())
    return None


def _is_plain(index: Index, class_: ast.ClassDef) -> bool:
    """Whether a class that extends a loader makes its batches as that loader does with the same keywords."""
    for one in with_bases(index, class_):
        bases = [base for base in one.bases if called_class(index, base) is None]
        are_known = all(of_name(full_name(index, base) or "") or last_name(base) == "object" for base in bases)
        if one.decorator_list or one.keywords or not are_known or _sets_up_itself(one) or not _hands_on(one):
            return False
    return True


def _sets_up_itself(class_: ast.ClassDef) -> bool:
    """Whether a class defines how its batches come, or sets an argument of the loader past its constructor."""
    names = {one.name for one in ast.walk(class_) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    written = [one for one in ast.walk(class_) if isinstance(one, ast.Name | ast.Attribute)]
    names |= {last_name(one) for one in written if isinstance(one.ctx, ast.Store)}
    is_changed = any(name in TORCHS_OWN | INNER_PARTS for name in names)
    is_special = any(name.startswith("__") and name.endswith("__") and name not in HARMLESS for name in names)
    by_name = {last_name(one) for one in written} & {"setattr", "__setattr__", "__dict__", "__class__", "vars"}
    return is_changed or is_special or bool(by_name)


def _config(call: ast.Call, name: str) -> ConsumerSpec | None:
    """A config of transformers that says how its model attends, as in `ViTConfig(attn_implementation="eager")`."""
    package, last = package_and_name(name)
    is_told = any(keyword.arg == "attn_implementation" for keyword in call.keywords)
    is_config = package == "transformers" and last.endswith("Config")
    return ConsumerSpec("torch", "config of a model") if is_told and is_config else None


def _hands_on(class_: ast.ClassDef) -> bool:
    """Whether a class that extends a loader gives it all keywords that it gets, and none of its own."""
    methods = _constructors(class_)
    if not methods:
        return True
    taken = methods[0].args
    rest = taken.kwarg
    if TORCHS_OWN & {one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)}:
        return False
    names = [one for one in ast.walk(methods[0]) if isinstance(one, ast.Name) and rest and one.id == rest.arg]
    calls = [one for one in ast.walk(methods[0]) if isinstance(one, ast.Call) and last_name(one.func) == "__init__"]
    if len(methods) > 1 or len(names) != 1 or len(calls) != 1:
        return False
    unpacked = [keyword.value for keyword in calls[0].keywords if keyword.arg is None]
    own = {keyword.arg for keyword in calls[0].keywords if keyword.arg is not None}
    return unpacked == names and own <= HANDED_ON and len(calls[0].args) <= 1


def _constructors(class_: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in class_.body if isinstance(one, ast.FunctionDef) and one.name in ("__init__", "__new__")]


def _loader_of_several(index: Index, func: ast.expr) -> ConsumerSpec | None:
    """The loader that a name stands for which is one of several classes: `DataListLoader if cuda else DataLoader`."""
    bound = index.lookup(func) if isinstance(func, ast.Name) else ()
    values = [one.value for one in bound if one.kind == "value" and isinstance(one.value, ast.IfExp)]
    if not values or len(values) != len(bound):
        return None
    found = []
    for node in (each for one in values for each in (one.body, one.orelse)):
        class_ = called_class(index, node)
        found.append(of_class(index, class_) if class_ is not None else of_name(full_name(index, node) or ""))
    if any(one is None or one.kind != "loader" for one in found):
        return None
    return next((one for one in found if one is not None and one.is_open), found[0])


def _method(index: Index, call: ast.Call) -> ConsumerSpec | None:
    """`AutoModel.from_pretrained(...)`, a method that trains, and the call of a tokenizer that pads."""
    if last_name(call.func) == "from_pretrained" and isinstance(call.func, ast.Attribute):
        package, class_ = package_and_name(full_name(index, call.func.value))
        is_model = package == "transformers" and not NO_MODEL.search(class_)
        return ConsumerSpec("torch", "from_pretrained") if is_model else None
    dialect = methods().get(last_name(call.func)) if isinstance(call.func, ast.Attribute) and call.keywords else None
    if dialect is not None:
        package, own = dialects()[dialect]["package"], {*dialects()[dialect]["arguments"], None}  # None: **more
        is_its = any(module.split(".")[0] == package for module in index.imports)
        is_told = any(keyword.arg in own for keyword in call.keywords)
        return ConsumerSpec(dialect, last_name(call.func)) if is_its and is_told else None
    is_tokenizer = "tokenizer" in last_name(call.func).lower() and full_name(index, call.func) is None
    is_told = any(keyword.arg in ("padding", "max_length") for keyword in call.keywords)
    if is_tokenizer and is_told and not _is_caption(index, call):
        return ConsumerSpec("torch", "tokenizer", parameters=("text", "text_pair"))
    return None


def _is_caption(index: Index, call: ast.Call) -> bool:
    """Whether the tokens are a caption, whose padding a text encoder reads like words: it is no setting then."""
    if any(module.split(".")[0] == "diffusers" for module in index.imports) or index.reads.keys() & CAPTIONS:
        return True
    widths = [last_name(keyword.value) for keyword in call.keywords if keyword.arg == "max_length"]
    words = {*index.reads, *index.attributes, *(str(one.value) for one in index.strings)}
    return widths == ["model_max_length"] and "attention_mask" not in words
