"""Handlers that catch whatever ends a training and let the process end, or the loop go on, as if nothing had."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.model.source import NOTEBOOK
from autotune.pycode.functions import called_function, with_callers
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis, training_starts
from autotune.syntax.python import last_name

BROAD = frozenset({"Exception", "BaseException"})
"""What every error of a training is; a handler of a RuntimeError is as broad for the errors of a step."""

ENDS = re.compile(r"^_?(exit|abort|quit|kill|killpg|raise_signal|terminate)$|fail|crash", re.IGNORECASE)
"""How functions are called that end the process, or tell others that the run failed."""

PARSER = re.compile(r"parser$", re.IGNORECASE)
"""How what parses a command line is called, and its class: its `error` ends the process."""

NOTES = frozenset({"append", "appendleft", "add", "extend", "insert", "put", "put_nowait", "set", "setdefault"})
"""Methods that keep what they are given where others look: in a list, a set, a queue, an event."""

SERVERS = frozenset({"gradio", "streamlit", "flask", "fastapi", "tkinter", "PyQt5", "PySide6", "unittest", "pytest"})
"""Packages whose programs go on after a training that failed."""

LOOPS = (ast.For, ast.AsyncFor, ast.While)

RUN, STEP = "the training", "a step"


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.swallows_errors`, where there is such a handler: whether of the training or of one of its steps."""
    index = script.view.index
    roots = {module.partition(".")[0] for module in index.imports}
    if roots & SERVERS or script.view.file.endswith(NOTEBOOK):
        return
    found = {**dict.fromkeys(_of_steps(script), STEP), **dict.fromkeys(_of_run(script), RUN)}
    found = {one: what for one, what in found.items() if is_reached(script.view, index.parents[one]) is not False}
    what = next((one for one in (RUN, STEP) if one in found.values()), None)
    if what is not None:
        places = [one for one, kind in found.items() if kind == what]
        yield from script.state_fact("code.swallows_errors", what, *places)


def _of_run(script: ScriptAnalysis) -> Iterator[ast.ExceptHandler]:
    """The handlers of all errors of a training, its own loop or another's."""
    index = script.view.index
    loops = [step.node for step in script.steps if not step.is_hook]
    for node in (*training_starts(script), *loops):
        for use in with_callers(index, node):
            handlers = _handlers_around(script, use, BROAD)
            yield from (one for one in handlers if not _is_in_loop(script, one))


def _of_steps(script: ScriptAnalysis) -> Iterator[ast.ExceptHandler]:
    """The handlers in a loop of all errors of one step."""
    for step in script.steps:
        if step.backward is not None and not step.is_hook:
            for handler in _handlers_around(script, step.backward, BROAD | {"RuntimeError"}):
                if step.node in script.view.index.ancestors_in_function(handler):
                    yield handler


def _handlers_around(script: ScriptAnalysis, node: ast.AST, broad: frozenset[str]) -> Iterator[ast.ExceptHandler]:
    """The handlers of `try` statements around a node, in its function, that swallow any error."""
    index, inner = script.view.index, node
    for outer in index.ancestors_in_function(node):
        if isinstance(outer, ast.Try) and inner in outer.body:
            for handler in outer.handlers:
                if not _is_broad(handler, broad):
                    continue
                after = [*outer.orelse, *outer.finalbody, *_statements_behind(script, outer)]
                is_told = any(_tells(script, one, is_handler=True) for one in handler.body)
                if not (is_told or any(_tells(script, one) for one in after)):
                    yield handler
                break  # the first that catches an error has it
            return
        inner = outer


def _is_broad(handler: ast.ExceptHandler, broad: frozenset[str]) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or last_name(one) in broad for one in types)


def _statements_behind(script: ScriptAnalysis, node: ast.Try) -> Iterator[ast.stmt]:
    """The statements that come after one in its block: what a handler has noted may be raised there."""
    outer = script.view.index.parents[node]
    for _, block in ast.iter_fields(outer):
        if isinstance(block, list) and node in block:
            yield from block[block.index(node) + 1 :]


def _tells(script: ScriptAnalysis, statement: ast.stmt, *, is_handler: bool = False) -> bool:
    """Whether a statement may raise, end the process, leave the loop, train again, or note that something failed; what
    a handler calls is followed as far as the project's functions go."""
    for one in ast.walk(statement):
        if isinstance(one, ast.Raise | ast.Break | ast.Assign | ast.AugAssign | ast.NamedExpr):
            return True
        if isinstance(one, ast.Return) and one.value is not None:
            return True
        if isinstance(one, ast.keyword) and one.arg == "exit_code":
            return True
        if isinstance(one, ast.Call) and (
            _ends(script, one, is_handler=is_handler) or one in {*training_starts(script)}
        ):
            return True
    return False


def _ends(script: ScriptAnalysis, call: ast.Call, *, is_handler: bool) -> bool:
    """Whether a call ends the process, raises or notes that something failed, by itself or in a function of the
    project; of a handler's, in the functions that this one calls too."""
    seen: set[ast.AST] = set()
    for one in (waiting := [call]):
        if ENDS.search(last_name(one.func)) or _is_parser_error(script, one.func):
            return True
        if is_handler and isinstance(one.func, ast.Attribute) and one.func.attr in NOTES:
            return True
        function = called_function(script.view.index.at(one), one)
        if function is not None and function not in seen:
            seen.add(function)
            inner = list(ast.walk(function))
            script.view.index.work.spend(len(inner))
            if any(isinstance(each, ast.Raise | ast.Global | ast.Nonlocal) for each in inner):
                return True
            waiting += [each for each in inner if isinstance(each, ast.Call) and (is_handler or one is call)]
    return False


def _is_parser_error(script: ScriptAnalysis, func: ast.expr) -> bool:
    """`parser.error`, of an argparse.ArgumentParser by any name; not the `error` of a logger."""
    if not isinstance(func, ast.Attribute) or func.attr != "error":
        return False
    made = (one.node for one in origins(script.view, func.value))
    names = (last_name(one.func) for one in made if isinstance(one, ast.Call))
    return any(map(PARSER.search, (last_name(func.value), *names)))


def _is_in_loop(script: ScriptAnalysis, handler: ast.ExceptHandler) -> bool:
    """Whether it lies in a loop over several runs, where a failed run shall not end the others."""
    index = script.view.index
    uses = with_callers(index, index.parents[handler])
    return any(isinstance(outer, LOOPS) for use in uses for outer in index.ancestors_in_function(use))
