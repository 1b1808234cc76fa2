"""The intervals at which a raw loop saves or evaluates: `if step % args.save_every == 0: torch.save(...)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from autotune.model.evidence import RUN
from autotune.model.scanned import ConsumerCall
from autotune.pycode import values
from autotune.pycode.functions import called_function
from autotune.pycode.names import full_name
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.training_loops import TrainingStep, divisor
from autotune.syntax.python import last_name

SAVE, EVALUATE = "save loop", "evaluation loop"
"""How the dialect of raw loops calls what takes these intervals."""

UPDATES = ("step", "backward")
"""What a condition of accumulation decides."""

SAVES = frozenset({"save_pretrained", "save_state", "save_checkpoint"})
"""Methods that write a checkpoint."""

KEYS: Mapping[str, str] = {SAVE: "save_every", EVALUATE: "eval_every"}


def interval_calls(view: ScriptView, steps: Sequence[TrainingStep]) -> Iterator[ConsumerCall]:
    """A ConsumerCall for each interval that one condition of the training loops states; none where several do."""
    found: dict[str, list[ConsumerCall]] = {SAVE: [], EVALUATE: []}
    for test in _conditions(view, steps):
        every = divisor(test.test)
        kind = _kind(view, test)
        if every is not None and kind:
            given = values.written_value(view, every)
            location = (
                given.location if given.location.key else replace(given.location, key=last_name(every) or KEYS[kind])
            )
            argument = replace(given, key=KEYS[kind], location=location)
            found[kind].append(ConsumerCall("torch", kind, RUN, {KEYS[kind]: argument}, view.place(test)))
    yield from (rows[0] for rows in found.values() if len(rows) == 1)


def writes_checkpoint(view: ScriptView, call: ast.Call) -> bool:
    """Whether a call writes a checkpoint."""
    return full_name(view.index, call.func) == "torch.save" or last_name(call.func) in SAVES


def _conditions(view: ScriptView, steps: Sequence[TrainingStep]) -> Iterator[ast.If]:
    """The conditions in the loops of the training steps, each once. What counts epochs is no interval of steps: its
    value is not the one that the run shows."""
    inside = (node for step in steps for node in view.index.descendants(step.node))
    yield from dict.fromkeys(node for node in inside if isinstance(node, ast.If))


def _unconditional_calls(view: ScriptView, body: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """The calls of statements that no further condition decides."""
    for statement in body:
        if not isinstance(statement, ast.If | ast.Try | ast.For | ast.While):
            yield from (node for node in view.index.descendants(statement) if isinstance(node, ast.Call))


def _kind(view: ScriptView, test: ast.If) -> str:
    """What a condition decides: that it saves, or else that it evaluates; "" for anything else."""
    made = list(_unconditional_calls(view, test.body))
    if any(last_name(call.func) in UPDATES for call in made):
        return ""
    bodies = dict.fromkeys(body for call in made if (body := called_function(view.index, call)) is not None)
    made += [node for body in bodies for node in view.index.descendants(body) if isinstance(node, ast.Call)]
    if any(writes_checkpoint(view, call) for call in made):
        return SAVE
    return EVALUATE if any(last_name(call.func) == "eval" and not call.args for call in made) else ""
