"""Puts the lines that a peer documents into the source of a training script, in one way for every script.

A raw or Accelerate script: its training loop is the innermost one that goes back and updates; the peer's README says
what stands around it and around its body. A script of the HF Trainer, TRL or Lightning: the peer's callback is added
where the trainer is made. Both are ended by peer_runtime/peer_limits.py after enough steps, as if that were their end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

TRAINER, LIGHTNING = "trainer_callback", "lightning_callback"
CALLBACK_OF = {"hf_trainer": TRAINER, "trl": TRAINER, "llamafactory": TRAINER, "lightning": LIGHTNING}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class CannotEditError(ValueError):
    """The script has no place that the documentation speaks of."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What a README shows. MODEL and OPTIMIZER are names of the script, LOOP and BODY what stands there.

    `first` follows the imports. `callbacks` has for each kind of trainer an import and what is added to its callbacks;
    a kind that lacks needs nothing.
    """

    first: str
    loop: str = "LOOP"
    body: str = "BODY"
    callbacks: Mapping[str, tuple[str, str]] = field(default_factory=dict)


LINES = {
    "traceml": Lines(
        first="import traceml_ai as traceml\ntraceml.init(mode='auto')",
        body="with traceml.trace_step(MODEL):\n    BODY",
    ),
    "gpuprof": Lines(
        first="import gpuprof",
        loop="with gpuprof.profile('case'):\n    LOOP",
        callbacks={
            TRAINER: ("from gpuprof import HFTrainerCallback", "HFTrainerCallback(run_name='case')"),
            LIGHTNING: ("from gpuprof import LightningCallback", "LightningCallback(run_name='case')"),
        },
    ),
    "pytscope": Lines(
        first="from pytscope.auto import AutoProfiler",
        loop=(
            "pytscope_run = AutoProfiler('runs/case', MODEL, OPTIMIZER, warmup=10)\n"
            "pytscope_run.start()\nLOOP\npytscope_run.finish()"
        ),
        callbacks={
            TRAINER: (
                "from pytscope.integrations.huggingface import PytscopeCallback",
                "PytscopeCallback('runs/case')",
            ),
            LIGHTNING: (
                "from pytscope.integrations.lightning import PytscopeCallback",
                "PytscopeCallback('runs/case')",
            ),
        },
    ),
}


def edited(source: str, peer: str, framework: str) -> str:
    """The script with the peer's lines in it. Raises CannotEditError, SyntaxError."""
    tree, lines = ast.parse(source), LINES[peer]
    kind = CALLBACK_OF.get(framework)
    if kind is None:
        wrap(tree, training_loop(tree), lines)
        add_first(tree, lines.first)
    else:
        imports, callback = lines.callbacks.get(kind, ("", ""))
        add_callbacks(tree, [*filter(None, [callback]), f"peer_limits.{kind}()"])
        add_first(tree, imports)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def add_first(tree: ast.Module, lines: str) -> None:
    """Put the lines behind the last import of the script."""
    last = max(i for i, node in enumerate(tree.body) if isinstance(node, (ast.Import, ast.ImportFrom)))
    tree.body[last + 1 : last + 1] = ast.parse(f"import peer_limits\n{lines}").body


@dataclass(frozen=True, slots=True)
class Loop:
    """A training loop, the loops around it in its function from the outermost on, and the names it trains by."""

    node: ast.For | ast.While
    around: tuple[ast.For | ast.While, ...]
    model: str
    optimizer: str


def training_loop(tree: ast.Module) -> Loop:
    """The first innermost loop that calls `.backward(` and the `.step(` of an optimizer."""
    made = optimizers(tree)
    for scope, around, node in loops(tree):
        optimizer = stepped(node, made)
        inner = [child for child in ast.walk(node) if isinstance(child, (ast.For, ast.While)) and child is not node]
        if optimizer and goes_back(node) and not any(goes_back(one) and stepped(one, made) for one in inner):
            known = bound(scope) | bound(tree)
            if not {optimizer, made[optimizer]} <= known:
                raise CannotEditError(f"{optimizer} or {made[optimizer]} has another name where the training loop is")
            return Loop(node, around, made[optimizer], optimizer)
    raise CannotEditError("no loop with backward() and step() of an optimizer that was made of NAME.parameters()")


def optimizers(tree: ast.Module) -> dict[str, str]:
    """The model of each optimizer, by names: `optimizer = AdamW(model.parameters())`."""
    made: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            for call in calls(node.value, "parameters"):
                if isinstance(call.value, ast.Name):
                    made.setdefault(node.targets[0].id, call.value.id)
    return made


def calls(node: ast.AST, name: str) -> Iterator[ast.Attribute]:
    """X.name of each call X.name(...)."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == name:
            yield call.func


def goes_back(node: ast.AST) -> bool:
    return any(calls(node, "backward"))


def stepped(node: ast.AST, made: dict[str, str]) -> str | None:
    names = (call.value.id for call in calls(node, "step") if isinstance(call.value, ast.Name))
    return next((name for name in names if name in made), None)


Scoped = tuple[ast.AST, tuple[ast.For | ast.While, ...], ast.For | ast.While]


def loops(
    scope: ast.AST, node: ast.AST | None = None, around: tuple[ast.For | ast.While, ...] = ()
) -> Iterator[Scoped]:
    """Each loop with its function (or module) and the loops around it there, in file order."""
    for child in ast.iter_child_nodes(node or scope):
        if isinstance(child, FUNCTIONS):
            yield from loops(child)
        elif isinstance(child, (ast.For, ast.While)):
            yield scope, around, child
            yield from loops(scope, child, (*around, child))
        else:
            yield from loops(scope, child, around)


def bound(scope: ast.AST) -> set[str]:
    """Names that a function or the module gives a value to itself, parameters among them."""
    nodes = list(own_nodes(scope))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Everything in a function or module but for what lies in functions of its own."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from own_nodes(child)


class Filled(ast.NodeTransformer):
    """Puts names and statements into the places of a template."""

    def __init__(self, loop: Loop, statements: dict[str, Sequence[ast.stmt]]) -> None:
        self.names, self.statements = {"MODEL": loop.model, "OPTIMIZER": loop.optimizer}, statements

    def visit_Expr(self, node: ast.Expr) -> object:
        if isinstance(node.value, ast.Name) and node.value.id in self.statements:
            return list(self.statements[node.value.id])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


class Replaced(ast.NodeTransformer):
    """Puts other statements in the place of one."""

    def __init__(self, old: ast.stmt, new: Sequence[ast.stmt]) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> object:
        return list(self.new) if node is self.old else self.generic_visit(node)


def wrap(tree: ast.Module, loop: Loop, lines: Lines) -> None:
    """Wrap the body and the outermost loop; each loop is left once the limits are reached."""
    body = Filled(loop, {"BODY": loop.node.body}).visit(ast.parse(lines.body)).body
    loop.node.body = [*leave_if("peer_limits.reached()"), *body]
    for node in loop.around:
        node.body = [*leave_if("peer_limits.is_over()"), *node.body]
    outer = (*loop.around, loop.node)[0]
    Replaced(outer, Filled(loop, {"LOOP": [outer]}).visit(ast.parse(lines.loop)).body).visit(tree)


def leave_if(condition: str) -> list[ast.stmt]:
    (loop,) = ast.parse(f"while True:\n    if {condition}:\n        break").body
    assert isinstance(loop, ast.While)
    return loop.body


def add_callbacks(tree: ast.Module, callbacks: Sequence[str]) -> None:
    """Add to `callbacks=` of each call that makes a trainer."""
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_trainer(node.func)]
    if not made:
        raise CannotEditError("no call that makes a trainer")
    for call in made:
        added: list[ast.expr] = [ast.parse(text, mode="eval").body for text in callbacks]
        given = next((keyword for keyword in call.keywords if keyword.arg == "callbacks"), None)
        if given is None:
            call.keywords.append(ast.keyword("callbacks", ast.List(added, ast.Load())))
        else:
            given.value = ast.List([ast.Starred(given.value, ast.Load()), *added], ast.Load())


def is_trainer(called: ast.expr) -> bool:
    """Whether it is a class like `Trainer`, `pl.Trainer` or `SFTTrainer`."""
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name.endswith("Trainer")
