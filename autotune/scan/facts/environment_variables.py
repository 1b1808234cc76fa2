"""Environment variables that a script sets itself, os.environ["CUDA_LAUNCH_BLOCKING"] = "1", or hands to the processes
that it starts: {"env_vars": {"CUDA_LAUNCH_BLOCKING": "1"}}."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.index import AttributeWrite
from autotune.pycode.reachability import is_reached
from autotune.scan import environment
from autotune.scan.script.analysis import ScriptAnalysis

VISIBLE, GPUS = "CUDA_VISIBLE_DEVICES", re.compile(r"\d+(,\d+)*")


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.debug_variables` and `code.restricted_links`; none set is said of a script that is all there. And
    fact `code.num_visible_gpus`, where the script says itself which it uses."""
    found = [one for store in script.view.index.items.get("environ", ()) for one in _set_variables(script, store)]
    found += [one for name in script.view.index.strings for one in _handed_variables(script, name)]
    found = [one for one in found if one[0] != environment.BETWEEN_MACHINES]  # which machines is said elsewhere
    yield from (fact for fact in environment.variables_set("code", found) if fact.value or script.is_whole)
    stores = [one for one in script.view.index.items.get("environ", ()) if _names_gpus(one)]
    chosen = [one for store in stores for one in _set_variables(script, store)]
    if len(stores) == len(chosen) == 1 and GPUS.fullmatch(chosen[0][1]):
        yield from script.state_fact("code.num_visible_gpus", chosen[0][1].count(",") + 1, stores[0].node)


def _names_gpus(store: AttributeWrite) -> bool:
    key = store.node.slice if isinstance(store.node, ast.Subscript) else None
    return isinstance(key, ast.Constant) and key.value == VISIBLE


def _set_variables(script: ScriptAnalysis, store: AttributeWrite) -> Iterator[environment.Set]:
    """The variable that an assignment certainly sets to a text that is written down."""
    if (
        not isinstance(store.node, ast.Subscript)
        or store.value is None
        or is_reached(script.view, store.node) is not True
    ):
        return
    name, value = (values.written_value(script.view, node) for node in (store.node.slice, store.value))
    if isinstance(name.value, str) and isinstance(value.value, str) and values.is_certain(script.view, value):
        yield name.value, value.value, script.view.place(store.node)


def _handed_variables(script: ScriptAnalysis, name: ast.Constant) -> Iterator[environment.Set]:
    """The variable that a dict of texts gives a value."""
    outer = script.view.index.parents.get(name)
    if not isinstance(outer, ast.Dict) or not any(name.value in names for names in environment.VARIABLES.values()):
        return
    given = dict(zip(outer.keys, outer.values, strict=True)).get(name)
    if isinstance(given, ast.Constant) and isinstance(given.value, str) and is_reached(script.view, outer) is not False:
        yield str(name.value), given.value, script.view.place(name)
