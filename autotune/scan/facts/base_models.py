"""A pretrained model that adapters are trained on, and that is loaded in fp32 because no dtype is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.names import full_name
from autotune.pycode.reachability import condition_holds, is_reached
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.consumers import NO_MODEL
from autotune.syntax.python import last_name

ADAPTERS = ("get_peft_model", "LoraConfig")
"""Calls of a script that trains adapters."""

GIVES_DTYPE = re.compile(r"dtype|quantization_config|load_in_\dbit")

CASTS = frozenset({"half", "bfloat16", "prepare_model_for_kbit_training", "prepare_model_for_int8_training"})
"""Calls after which the model is in 16 bits, or was in fewer."""

MODELS = re.compile(r"^Auto\w*Model|For(CausalLM|ConditionalGeneration)$")

PARAMETERS = re.compile(r"\bparameters\(\)|named_parameters\(")

ADAPTER_NAME = re.compile(r"lora|adapter|norm|bias|embed|head|score|classifier", re.IGNORECASE)
"""In the names of parameters: they are the adapters', or few."""

CLASSIFIES = re.compile(r"Classification$|ForQuestionAnswering$|MultipleChoice$")
"""Models with a new head, trained in the dtype of the base, whose gradients in fp16 no GradScaler takes."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.base_stays_fp32`, of a script that trains adapters and loads one model, and `code.unfreezes_base`."""
    index = script.view.index
    if not any(index.called.get(name) for name in ADAPTERS):
        return
    unfrozen = list(_unfrozen(script))
    if unfrozen:
        yield from script.state_fact("code.unfreezes_base", True, *unfrozen)
    loads = [call for call in index.called.get("from_pretrained", ()) if _loads_model(script, call)]
    if not loads:
        return
    if any(map(_gets_deepspeed, index.calls)):
        return  # which casts all of a model to the precision that its config says
    is_cast = any(index.called.get(name) for name in CASTS) or any(map(_casts, index.called.get("to", ())))
    plain = [call for call in loads if not is_cast and not _may_give_dtype(call)]
    stays = len(plain) == len(loads)
    if not stays or all(_is_frozen(script, call) for call in plain):
        yield from script.state_fact("code.base_stays_fp32", stays, *(plain or loads), is_certain=True)


def _is_frozen(script: ScriptAnalysis, load: ast.Call) -> bool:
    """Whether a model that is loaded certainly gets adapters: not where an option decides that they are added, and all
    of it is trained otherwise."""
    index = script.view.index
    given = set(index.ancestors(load))
    for call in (one for name in ADAPTERS for one in index.called.get(name, ())):
        chosen = [one for one in index.ancestors_in_function(call) if isinstance(one, ast.If | ast.IfExp)]
        same = index.enclosing_function(call) is index.enclosing_function(load)
        open_ = [one for one in chosen if condition_holds(script.view, one.test) is None and one not in given]
        if not open_ and (same or is_reached(script.view, call) is not None):
            return True
    return False


def _loads_model(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether it loads a model of transformers; peft's loads adapters."""
    name = full_name(script.view.index, call.func) or ""
    class_ = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    is_model = bool(MODELS.search(class_)) and not NO_MODEL.search(class_) and not CLASSIFIES.search(class_)
    return is_model and name.startswith("transformers.") and is_reached(script.view, call) is not False


def _may_give_dtype(call: ast.Call) -> bool:
    return any(one.arg is None or GIVES_DTYPE.search(one.arg) for one in call.keywords)


def _unfrozen(script: ScriptAnalysis) -> Iterator[ast.Assign]:
    """`param.requires_grad = True` of what a loop over parameters gives, but for parameters that are chosen by the name
    of an adapter, or of a layer with few."""
    index = script.view.index
    for node in ast.walk(index.tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is True):
            continue
        if not any(isinstance(one, ast.Attribute) and one.attr == "requires_grad" for one in node.targets):
            continue
        around = list(index.ancestors_in_function(node))
        loops = [one for one in around if isinstance(one, ast.For)]
        tests = [one.test for one in around if isinstance(one, ast.If)]
        texts = [one.value for test in tests for one in ast.walk(test) if isinstance(one, ast.Constant)]
        is_adapter = any(ADAPTER_NAME.search(one) for one in texts if isinstance(one, str))
        if loops and PARAMETERS.search(ast.unparse(loops[0].iter)) and not is_adapter:
            yield node


def _gets_deepspeed(call: ast.Call) -> bool:
    """`TrainingArguments(deepspeed=args.deepspeed)`: a config, or None."""
    given = next((one.value for one in call.keywords if one.arg == "deepspeed"), None)
    return given is not None and not (isinstance(given, ast.Constant) and given.value is None)


def _casts(call: ast.Call) -> bool:
    """`model.to(torch.bfloat16)`, `model.to(dtype)`."""
    return any(
        re.search(r"float16|half|dtype", ast.unparse(one)) for one in (*call.args, *(k.value for k in call.keywords))
    )
