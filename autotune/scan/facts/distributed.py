"""How a script spreads training over GPUs itself: DataParallel, DDP, and who gets which data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.escape import escapes
from autotune.pycode.names import package_and_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script import sample_order
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.syntax.python import last_name

SHARDING_CLASSES = frozenset({"DistributedSampler", "DistributedBatchSampler", "DistributedLengthGroupedSampler"})
SHARDING_FUNCTIONS = frozenset(
    {"split_dataset_by_node", "prepare", "setup_dataloaders", "prepare_data_loader", "shard"}
)

BY_RANK = re.compile(r"rank|world|shard|replica", re.IGNORECASE)
"""What names have in them where each process picks its own data."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.uses_data_parallel`, `code.uses_ddp`, `code.shards_data`, `code.distributed_backend` and
    `code.lacks_set_epoch`."""
    yield from _backend_facts(script)
    yield from _set_epoch_facts(script)
    parallel = [call for call in _torch_calls(script, "DataParallel") if is_reached(script.view, call)]
    parallel = [call for call in parallel if not _is_of_trainer(script, call)]
    all_parallel = _torch_calls(script, "DataParallel")
    if parallel or not all_parallel:
        yield from script.state_fact("code.uses_data_parallel", bool(parallel), *parallel)
    ddp = _torch_calls(script, "DistributedDataParallel")
    yield from script.state_fact("code.uses_ddp", bool(ddp), *ddp)
    sharding = _sharding_calls(script)
    if sharding:
        yield from script.state_fact("code.shards_data", True, *sharding)
    elif script.is_raw and _is_unsharded(script):
        yield from script.state_fact(
            "code.shards_data", False, *(loader.node for loader in script.loaders if loader.is_train)
        )


def _is_of_trainer(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether it stands in a copy of the Trainer's own code, which one process for each GPU passes by."""
    tests = (ast.unparse(one.test) for one in script.view.index.ancestors(call) if isinstance(one, ast.If))
    return any("self.args.n_gpu" in one for one in tests)


def _backend_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """The backend of the only process group, where it is written down."""
    calls = script.calls_of({"torch.distributed.init_process_group"})
    written = [one for call in calls for one in _first_argument(call, "backend")[:1]]
    found = values.written_value(script.view, written[0]) if len(calls) == 1 and written else None
    if found is not None and isinstance(found.value, str) and values.is_certain(script.view, found):
        yield from script.state_fact("code.distributed_backend", found.value, calls[0])


def _set_epoch_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """A DistributedSampler of a loop over epochs that is never told which epoch it is."""
    index = script.view.index
    made = [call for call in _torch_calls(script, "DistributedSampler") if is_reached(script.view, call)]
    has_epochs = script.is_raw and any(step.around for step in script.steps)
    shuffling = [call for call in made if sample_order.is_random(script.view, call)]
    if index.attributes.get("set_epoch"):
        yield from script.state_fact("code.lacks_set_epoch", False, is_certain=True)
    elif shuffling and has_epochs and len(made) == 1 and (script.is_whole or not escapes(script.view, made[0])):
        yield from script.state_fact("code.lacks_set_epoch", True, *shuffling)


def _first_argument(call: ast.Call, name: str) -> list[ast.expr]:
    """The first argument of a call, by place or by name."""
    return [*call.args[:1], *(one.value for one in call.keywords if one.arg == name)]


def _torch_calls(script: ScriptAnalysis, name: str) -> list[ast.Call]:
    """The calls of a class of torch, under whichever module it is imported from."""
    return script.calls_of([one for one in script.calls_by_name if package_and_name(one) == ("torch", name)])


def _sharding_calls(script: ScriptAnalysis) -> list[ast.Call]:
    index = script.view.index
    return [call for name in sorted(SHARDING_CLASSES | SHARDING_FUNCTIONS) for call in index.called.get(name, ())]


def _is_unsharded(script: ScriptAnalysis) -> bool:
    """Whether the train loader takes all of its dataset, in every process."""
    index = script.view.index
    train = [loader.call for loader in script.loaders if loader.is_train]
    if not train or any(one.is_open or any(name in one.arguments for name in sample_order.SAMPLERS) for one in train):
        return False
    if any(last_name(base) == "IterableDataset" for class_ in index.classes for base in class_.bases):
        return False
    return not any(_picks_by_rank(script, loader.node) for loader in script.loaders if loader.is_train)


def _picks_by_rank(script: ScriptAnalysis, loader: ast.Call) -> bool:
    """Whether anything that makes the dataset is named after ranks, as far as the names in it lead."""
    index = script.view.index
    waiting: list[ast.AST] = list(loader.args[:1]) or [one.value for one in loader.keywords if one.arg == "dataset"]
    seen: set[ast.AST] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for one in ast.walk(node):
            if isinstance(one, ast.Name | ast.Attribute) and BY_RANK.search(last_name(one)):
                return True
            if isinstance(one, ast.Name) and one in index.scopes:
                waiting += [
                    binding.node for binding in index.lookup(one) if binding.kind in ("value", "item", "function")
                ]
    return False
