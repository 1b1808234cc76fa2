"""Options of argparse with `type=bool` that a command means to switch off: bool("False") is True."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autotune.model.evidence import RUN, Fact, Location
from autotune.model.scanned import WrittenValue
from autotune.pycode.cli_options import Option, option_name
from autotune.pycode.names import full_name
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import value_of_option
from autotune.syntax.python import last_name

OFF = frozenset({"false", "0", "no", "off", "n", "f"})
"""Words that mean no, of which bool() makes True."""

OTHER_PARSERS = frozenset({"jsonargparse", "tap"})
"""Packages whose add_argument reads truth values."""

PARSES = ("parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_intermixed_args")


def facts(views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Fact `job.false_made_true` of a script that a command starts, where there is any: the words of the command.

    None where a parser of the run may read truth values, and none of an option that the script sets again, or that two
    parsers of the run take differently.
    """
    if not views[0].flags or not _parses_plainly(views):
        return
    calls = [(view, call) for view in views for call in view.index.called.get("add_argument", ())]
    found: dict[str, tuple[Location, Location]] = {}
    for view in views:
        for option in view.options.values():
            call = _call(view, option)
            said = _said(view, option)
            if call is None or said is None or is_reached(view, call) is False:
                continue
            alike = [_takes_bool(each, one) for each, one in calls if not set(option.flags).isdisjoint(_names(one))]
            if all(alike) and not value_of_option(view, option).doubt:
                found.setdefault(f"{said.location.key} {said.text}", (view.place(call), said.location))
    if found:
        places = [*(option for option, _ in found.values()), *(command for _, command in found.values())]
        yield Fact("job.false_made_true", RUN, ", ".join(found), tuple(places))


def _parses_plainly(views: Sequence[ScriptView]) -> bool:
    """Whether the run parses, by argparse alone and with its own bool."""
    roots = {module.partition(".")[0] for view in views for module in view.index.imports}
    registers = [call for view in views for call in view.index.called.get("register", ())]
    return (
        not roots & OTHER_PARSERS
        and any(view.index.called.get(name) for view in views for name in PARSES)
        and not any(last_name(one) == "bool" for call in registers for one in call.args[1:2])
        and not any(one.name == "add_argument" for view in views for one in view.index.functions)
    )


def _call(view: ScriptView, option: Option) -> ast.Call | None:
    """The add_argument with `type=bool` that makes an option."""
    around = (option.node, *view.index.ancestors(option.node))
    calls = (one for one in around if isinstance(one, ast.Call) and last_name(one.func) == "add_argument")
    call = next(calls, None)
    return call if option.type == "bool" and call is not None and _takes_bool(view, call) else None


def _takes_bool(view: ScriptView, call: ast.Call) -> bool:
    return any(one.arg == "type" and full_name(view.index, one.value) == "bool" for one in call.keywords)


def _names(call: ast.Call) -> set[object]:
    return {one.value for one in call.args if isinstance(one, ast.Constant)}


def _said(view: ScriptView, option: Option) -> WrittenValue | None:
    """The word of the command that means to switch an option off."""
    given = ((flag, (view.flags or {}).get(option_name(flag))) for flag in option.flags)
    for flag, said in given:
        if said is not None and said.location.key == flag and said.text is not None and said.text.lower() in OFF:
            return said
    return None
