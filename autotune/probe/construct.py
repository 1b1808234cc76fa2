"""Constructs library objects from plain arguments and writes down which of them refuse.

A program of its own: it runs in the script's interpreter, in an empty folder, and imports nothing of the script.
Standard input is a JSON array of targets, `{"modules", "name", "arguments", "before"}` each, the modules being names of
one; the file results.jsonl gets one line of JSON for each, `{"refusal", "notes"}`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

RESULTS = "results.jsonl"
_HERE = os.path.dirname(os.path.abspath(__file__))
_LONGEST = 300

# Nothing is written outside the working folder and nobody is told: what is constructed here never trains.
_FOLDERS = ("output_dir", "logging_dir", "project_dir", "default_root_dir")
_SILENT = {"report_to": "none", "log_with": None, "logger": False, "push_to_hub": False}
# With these a constructor starts a process group or needs the launcher's environment.
_NEEDS_LAUNCHER = ("deepspeed", "fsdp", "deepspeed_plugin", "fsdp_plugin", "parallelism_config")


def main() -> None:
    """Answer every target, in order; a crash leaves the answers that came before it."""
    with open(RESULTS, "w", encoding="utf-8") as results:
        for target in json.load(sys.stdin):
            refusal, notes = _answer(target)
            results.write(json.dumps({"refusal": refusal, "notes": notes}) + "\n")
            results.flush()


def _answer(target: dict[str, Any]) -> tuple[str, list[str]]:
    modules, name, arguments, before = (target[key] for key in ("modules", "name", "arguments", "before"))
    module = modules[0]
    try:
        library = _import(modules)
        made = getattr(library, name)
        parameters = inspect.signature(made).parameters
    except BaseException as error:
        return f"{module}.{name} cannot be imported: {_words(error)}", []
    unknown = [key for key in arguments if not _accepts(parameters, key)]
    new = [key for key in unknown if key not in (before or {})]
    if new:
        return f"{name} of {_release(library)} has no argument {', '.join(new)}", []
    given = {key: value for key, value in arguments.items() if key not in unknown}
    refusal, notes = _construct(module, made, parameters, given)
    if refusal and before is not None:
        known = {key: value for key, value in before.items() if _accepts(parameters, key)}
        already, _ = _construct(module, made, parameters, known)
        if _without_numbers(already) == _without_numbers(refusal):
            return "", [f"only the names of the arguments were checked; before the change already: {already}"]
    return refusal, notes


def _construct(
    module: str, made: Any, parameters: Mapping[str, inspect.Parameter], given: dict[str, Any]
) -> tuple[str, list[str]]:
    """Why `made` does not take the arguments `given` ("" when it does), and what it says about them."""
    launched = [key for key in _NEEDS_LAUNCHER if given.get(key)]
    arguments = {**given, **_stand_ins(module, parameters, given)}
    missing = [key for key, one in parameters.items() if _is_required(one) and key not in arguments]
    if launched or missing:
        return "", [f"only the names of the arguments were checked: {', '.join(launched or missing)}"]
    environ = dict(os.environ)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            made(**arguments)
        except BaseException as error:
            return f"{made.__name__} raises {_words(error)}", []
        finally:
            os.environ.clear()
            os.environ.update(environ)
            _forget_state()
    return "", [text for one in seen if _is_deprecation(text := _line(str(one.message)), given)]


def _stand_ins(module: str, parameters: Mapping[str, inspect.Parameter], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments in place of what only the script has, and of what has effects elsewhere."""
    values: dict[str, Any] = {key: value for key, value in _SILENT.items() if key in given}
    values.update((key, ".") for key in _FOLDERS if key in parameters)
    if module == "torch.utils.data":
        values["dataset"] = list(range(8))
    if module == "torch.optim":
        torch = importlib.import_module("torch")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        values["params"] = [torch.nn.Parameter(torch.zeros(2, 2, device=device))]
        values["lr"] = given.get("lr", 1e-3)
    return values


def _import(modules: list[str]) -> ModuleType:
    """The first of `modules` that is there; one without an older name raises."""
    for module in modules[:-1]:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(modules[-1])


def _accepts(parameters: Mapping[str, inspect.Parameter], key: str) -> bool:
    return key in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _is_required(parameter: inspect.Parameter) -> bool:
    named = (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return parameter.default is parameter.empty and parameter.kind in named


def _forget_state() -> None:
    """accelerate keeps the first device and precision of a process for every later object."""
    state = sys.modules.get("accelerate.state")
    if state is not None:
        state.AcceleratorState._reset_state(reset_partial_state=True)
        state.GradientState._reset_state()


def _is_deprecation(text: str, given: dict[str, Any]) -> bool:
    named = any(re.search(rf"\b{re.escape(key)}\b", text) for key in given)
    return named and re.search(r"deprecated|will be removed", text) is not None


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "", text)


def _release(library: ModuleType) -> str:
    root = sys.modules[library.__name__.split(".")[0]]
    return f"{root.__name__} {getattr(root, '__version__', '')}".strip()


def _words(error: BaseException) -> str:
    text = _line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


if __name__ == "__main__":
    # This folder is first on sys.path, and its modules have names that libraries use (sampler).
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    main()
