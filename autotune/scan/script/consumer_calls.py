"""The calls of a script that settings go to: every argument by its name, with its value where that is certain."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.model.evidence import RUN, Location
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.pycode import cli_options, loaded_configs, values
from autotune.pycode.dicts import dict_entries
from autotune.pycode.functions import called_class
from autotune.pycode.index import AttributeWrite
from autotune.pycode.mutations import ANY
from autotune.pycode.names import full_name
from autotune.pycode.origins import changed_attributes, changed_items, origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import DictEntries, ScriptView
from autotune.scan.script import padding, releases
from autotune.scan.script.consumers import CHOICES, ConsumerSpec, consumer, of_class
from autotune.scan.script.unknown_arguments import unknown_arguments
from autotune.syntax.python import last_name

BACKENDS = "torch.backends."
"""Attributes of torch whose assignment is a setting."""


MAX_ARGUMENTS = 500
"""Arguments of one call, the entries of dicts among them: dicts of dicts multiply."""

MAX_DEPTH = 5
"""Dicts in dicts that are arguments."""


SOMETIMES = "only under a condition"
"""How the doubt ends about an argument that not each run of the code gives."""


class LocatedCall(Struct, frozen=True, eq=False):
    """A call of interest: its node, and its ConsumerCall without a subject of its own."""

    node: ast.Call
    consumer: ConsumerSpec
    call: ConsumerCall


def locate_calls(view: ScriptView) -> tuple[LocatedCall, ...]:
    """Every call of interest that the script may reach."""
    return tuple(
        LocatedCall(node, which, _call(view, node, which))
        for node in view.index.calls
        if (which := consumer(view.index, node)) is not None and is_reached(view, node) is not False
    )


def subject_calls(
    view: ScriptView, found: Sequence[LocatedCall], loaders: Mapping[ast.Call, str]
) -> tuple[ConsumerCall, ...]:
    """The Calls with their subjects; `loaders` names those of the loaders."""
    numbered: list[ConsumerCall] = []
    num_optimizers = 0
    for one in found:
        subject = loaders.get(one.node, RUN)
        if one.consumer.kind == "optimizer":
            subject, num_optimizers = f"optimizer#{num_optimizers}", num_optimizers + 1
        numbered.append(replace(one.call, subject=subject))
    return (
        *_agreeing_calls([*numbered, *_switches(view), *_parsed_class_calls(view)]),
        *_unused_class_calls(view),
        *padding.collator_calls(view),
    )


def call_arguments(
    view: ScriptView, node: ast.Call, parameters: Sequence[str] = ()
) -> tuple[dict[str, WrittenValue], bool]:
    """The arguments of a call by name, a dict's entries as "name.key"; and whether it may have more."""
    found: dict[str, WrittenValue] = {}
    is_open = any(isinstance(one, ast.Starred) for one in node.args)
    waiting = [
        _PossibleArgument(name, (one,)) for name, one in zip(parameters, node.args if not is_open else (), strict=False)
    ]
    for keyword in node.keywords:
        read = loaded_configs.subtree(view, keyword.value, values.written_value) if keyword.arg is None else None
        if read is not None:
            found |= {key: replace(one, key=key) for key, one in read.items()}
            continue
        held = (
            _unpacked_entries(view, keyword.value)
            if keyword.arg is None
            else DictEntries({keyword.arg: (keyword.value,)})
        )
        waiting += _possible_arguments(view, held)
        is_open |= held.is_open or bool(held.maybe)
    waiting.reverse()
    while waiting:
        each = waiting.pop()
        found[each.name], inner = _read_argument(view, each)
        waiting += reversed(inner if each.depth < MAX_DEPTH else ())
        if len(found) > MAX_ARGUMENTS:
            return found, True
    return found, is_open


def _unpacked_entries(view: ScriptView, node: ast.expr) -> DictEntries:
    """What a dict holds whose entries become arguments; what other code sets in it may be anything."""
    held = dict_entries(view, node)
    changed = changed_items(view, node) if held.values else frozenset()
    keys = held.values.keys() if ANY in changed else changed & held.values.keys()
    return replace(held, maybe=held.maybe | keys, is_open=held.is_open or bool(changed - keys))


def _call(view: ScriptView, node: ast.Call, which: ConsumerSpec) -> ConsumerCall:
    found, is_open = call_arguments(view, node, which.parameters)
    if which.kind == "run" and which.dialect != "torch":
        class_ = called_class(view.index, node.func)
        found = {**(_field_defaults(view, class_) if class_ is not None else {}), **found}
        found |= _later_arguments(view, node, found)
    if which.name in CHOICES and is_reached(view, node) is None:
        found = {name: replace(given, value=None, known=False) for name, given in found.items()}
    for name in unknown_arguments(view, node, which):
        found[name] = WrittenValue(name, None, view.place(node), known=False)
    given = next((one.value for one in node.keywords if one.arg == "padding"), None)
    decides = padding.padding_option(view, given) if which.name == "tokenizer" and given is not None else None
    if decides is not None:
        found[decides.key] = decides
        del found["padding"]
    pads = found.get("padding")
    if which.name == "tokenizer" and pads is not None and pads.known:
        found["padding"] = replace(pads, doubt=pads.doubt or padding.padding_doubt(view, node))
    name = f"map.{which.name}" if which.name == "tokenizer" and padding.is_mapped(view, node) else which.name
    at, chosen = _location(view, node), releases.asks_release(view, node)
    named = {one.arg: view.place(one.value, one.arg) for one in node.keywords if one.arg in found}
    elsewhere = {key: place for key, place in named.items() if key and not _is_beside(place, found[key].location)}
    return ConsumerCall(which.dialect, name, RUN, found, at, is_open or which.is_open, chosen, elsewhere)


def _is_beside(one: Location, other: Location) -> bool:
    return (one.file, one.line) == (other.file, other.line)


def _location(view: ScriptView, node: ast.AST) -> Location:
    return replace(view.place(node), key="")


class _PossibleArgument(Struct, frozen=True):
    """An argument whose value is one of some expressions; `doubt` says why it may be none of them.

    `depth` is how many dicts it stands in that are themselves arguments.
    """

    name: str
    values: tuple[ast.expr, ...]
    doubt: str = ""
    depth: int = 0


def _possible_arguments(
    view: ScriptView, held: DictEntries, prefix: str = "", depth: int = 0
) -> Iterator[_PossibleArgument]:
    """The entries of a dict as arguments."""
    for key, possible in held.values.items():
        yield _PossibleArgument(f"{prefix}{key}", possible, _doubt(view, held, key), depth)


def _read_argument(view: ScriptView, asked: _PossibleArgument) -> tuple[WrittenValue, Sequence[_PossibleArgument]]:
    """An argument, and the entries of the dict that it is."""
    name, possible, doubt = asked.name, asked.values, asked.doubt
    each = [values.written_value(view, one) for one in possible] if not doubt else []
    given = values.common_value(each)
    if given is None:
        several = f"a condition decides which of {_lines(view, possible)} sets it" if possible[1:] else ""
        why = doubt or several or each[0].doubt
        given = WrittenValue("", None, view.place(possible[0]), known=False, doubt=why)
    location = given.location if given.location.key else replace(given.location, key=name)
    found = replace(given, key=name, location=location)
    if len(possible) == 1 and not doubt and not given.known and isinstance(possible[0], ast.Dict | ast.Call | ast.Name):
        return found, tuple(_possible_arguments(view, dict_entries(view, possible[0]), f"{name}.", asked.depth + 1))
    return found, ()


def _doubt(view: ScriptView, held: DictEntries, key: str) -> str:
    """Why the value that a dict holds by `key` may not be what is passed; "" when it is."""
    if key not in held.maybe:
        return ""
    lines = _lines(view, held.values[key])
    sets = f"{lines} {'set' if lines.startswith('lines') else 'sets'} it"
    return f"{sets}, but the dict is only partly known" if held.is_open else f"{sets} {SOMETIMES}"


def _lines(view: ScriptView, nodes: Sequence[ast.expr]) -> str:
    """ "line 120"; "lines 118, 120"."""
    lines = sorted({view.place(node).line for node in nodes})
    return f"line{'s' if lines[1:] else ''} {', '.join(map(str, lines))}"


def _later_arguments(view: ScriptView, node: ast.Call, given: Collection[str]) -> dict[str, WrittenValue]:
    """What is set afterwards on the object that gets the arguments `given`: `training_args.optim = ...`."""
    outer = view.index.parents.get(node)
    name = last_name(outer.targets[0]) if isinstance(outer, ast.Assign) else ""
    if not isinstance(outer, ast.Assign) or not name:
        return {}
    stores = {
        key: [store for store in rows if last_name(store.base) == name] for key, rows in view.index.stores.items()
    }
    own = {key: _later_argument(view, key, rows) for key, rows in stores.items() if rows}
    # TrainingArguments has set_dataloader and its like.
    has_setters = last_name(node.func).endswith("Arguments")
    others = changed_attributes(view, node, outer.targets[0], has_setters=has_setters)
    unknown = given if ANY in others else others
    return {**own, **{key: WrittenValue(key, None, view.place(node, key), known=False) for key in unknown}}


def _later_argument(view: ScriptView, key: str, stores: Sequence[AttributeWrite]) -> WrittenValue:
    """The value of an attribute that the script sets: known where it sets it once, and always."""
    store = stores[-1]
    unknown = WrittenValue(key, None, view.place(store.node, key), known=False)
    if len(stores) > 1 or store.value is None or is_reached(view, store.node) is not True:
        return unknown
    found = values.written_value(view, store.value)
    location = found.location if found.location.key else replace(found.location, key=key)
    return replace(found, key=key, location=location) if found.known else unknown


def assigned_arguments(view: ScriptView) -> Mapping[str, WrittenValue]:
    """What the script sets on an object that a parser of classes filled, whatever the command line says."""
    found: dict[str, WrittenValue] = {}
    for key, rows in view.index.stores.items():
        own = [store for store in rows if any(_is_parsed(view, one.node) for one in origins(view, store.base))]
        if own:
            found[key] = _later_argument(view, key, own)
    return found


def _is_parsed(view: ScriptView, node: ast.AST) -> bool:
    parser = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return parser is not None and cli_options.parser_of(view.at(node).index, parser) is not None


def _agreeing_calls(found: Sequence[ConsumerCall]) -> Iterator[ConsumerCall]:
    """The Calls, where several for one subject keep only what all of them say."""
    groups: dict[tuple[str, str, str], list[ConsumerCall]] = defaultdict(list)
    for call in found:
        groups[call.dialect, call.name, call.subject].append(call)
    common = {key: _disagreeing_arguments(group) for key, group in groups.items() if len(group) > 1}
    for call in found:
        unknown = common.get((call.dialect, call.name, call.subject), {})
        yield replace(call, arguments={**call.arguments, **unknown})


def _disagreeing_arguments(group: Sequence[ConsumerCall]) -> dict[str, WrittenValue]:
    """The arguments that not all calls of a group give alike, as unknown ones."""
    given: dict[str, list[WrittenValue]] = defaultdict(list)
    for call in group:
        for name, one in call.arguments.items():
            given[name].append(one)
    return {
        name: replace(all_given[0], value=None, known=False)
        for name, all_given in given.items()
        if len(all_given) < len(group) or values.common_value(all_given) is None
    }


def _switches(view: ScriptView) -> Iterator[ConsumerCall]:
    """`torch.backends.cudnn.benchmark = True` and its like."""
    for key, stores in view.index.stores.items():
        for store in stores:
            name = full_name(view.index, store.node)
            if name is None or not name.startswith(BACKENDS) or is_reached(view, store.node) is False:
                continue
            given = values.written_value(view, store.value or store.node)
            known = given.known and is_reached(view, store.node) is True
            argument = replace(given, key="value", known=known, location=replace(given.location, key=key))
            yield ConsumerCall("torch", name, RUN, {"value": argument}, _location(view, store.node))


def _parsed_class_calls(view: ScriptView) -> Iterator[ConsumerCall]:
    """The defaults of a class that extends a library's arguments and that a parser fills."""
    for node in view.index.calls:
        parser = cli_options.parser_of(view.index, node)
        if parser is None or is_reached(view, node) is False:
            continue
        for named in cli_options.classes_of_parser(view.index, parser):
            class_ = called_class(view.index, named)
            which = of_class(view.index, class_) if class_ is not None else None
            if class_ is not None and which is not None:
                given = _field_defaults(view, class_)
                yield ConsumerCall(which.dialect, which.name, RUN, given, _location(view, class_), view.is_open)


def _unused_class_calls(view: ScriptView) -> Iterator[ConsumerCall]:
    """The defaults of a class that extends a library's arguments and that its file holds ready for others."""
    for class_ in view.index.classes if not view.views else ():
        which = of_class(view.index, class_)
        if which is not None and which.kind == "run" and not view.index.reads.get(class_.name):
            given = {name: given for name, given in _field_defaults(view, class_).items() if given.known}
            yield ConsumerCall(which.dialect, which.name, RUN, given, _location(view, class_), is_open=True)


def _field_defaults(view: ScriptView, class_: ast.ClassDef) -> dict[str, WrittenValue]:
    """The defaults of a class that extends a library's arguments, at their places."""
    fields = cli_options.class_options(view.index, class_)
    return {name: replace(values.value_of_option(view, field), key=name) for name, field in fields.items()}
