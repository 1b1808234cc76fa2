"""An IterableDataset of the script's own that every worker reads from its beginning to its end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.names import full_name, package_and_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.loaders import LoaderCall, dataset_argument
from autotune.syntax.python import last_name

SPLITS = re.compile(r"worker|rank|world|shard|split|replica|islice|num_parts|node", re.IGNORECASE)
"""What a class names that gives each worker its own part, or may."""

DRAWS = re.compile(r"rand|sample|choice|shuffle|env|queue|stream", re.IGNORECASE)
"""What a class names whose workers draw samples of their own."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `loader.repeats_stream`, of each loader over a stream whose class the script defines."""
    for loader in script.loaders:
        dataset = dataset_argument(loader.node)
        classes = (
            [_stream(script.view, one.node) for one in origins(script.view, dataset)] if dataset is not None else []
        )
        if classes and None not in classes:
            repeats = not any(_may_split(script.view, one) for one in classes if one is not None)
            if repeats and _may_be_split_elsewhere(script, loader):
                continue
            yield Fact("loader.repeats_stream", loader.subject, repeats, (loader.call.location,))


def _may_be_split_elsewhere(script: ScriptAnalysis, loader: LoaderCall) -> bool:
    """Whether workers may get their parts outside of the class: by worker_init_fn, or in a function of the script."""
    keywords = {one.arg for one in loader.node.keywords} if isinstance(loader.node, ast.Call) else set()
    asks = any(last_name(call.func) == "get_worker_info" for call in script.view.index.calls)
    return asks or None in keywords or "worker_init_fn" in keywords


def _stream(view: ScriptView, node: ast.AST) -> ast.ClassDef | None:
    """The class of a stream that an expression makes."""
    class_ = called_class(view.index, node.func) if isinstance(node, ast.Call) else None
    if class_ is None:
        return None
    bases = [base for one in with_bases(view.index, class_) for base in one.bases]
    names = [
        full_name(view.at(class_).index, base.value if isinstance(base, ast.Subscript) else base) for base in bases
    ]
    return class_ if any(package_and_name(name) == ("torch", "IterableDataset") for name in names) else None


def _may_split(view: ScriptView, class_: ast.ClassDef) -> bool:
    """Whether its code names workers or random draws."""
    for one in with_bases(view.index, class_):
        named = {last_name(node) for node in ast.walk(one)} | {
            node.arg for node in ast.walk(one) if isinstance(node, ast.arg)
        }
        if any(SPLITS.search(name) or DRAWS.search(name) for name in named):
            return True
    return False
