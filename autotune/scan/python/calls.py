"""The calls of a script as Calls: every argument by its name, with its value where that is certain."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.model.evidence import RUN, Location
from autotune.model.scanned import Call, Given
from autotune.scan.python import collating, loaded, options, values
from autotune.scan.python.changes import ANY
from autotune.scan.python.circumstances import unsaid
from autotune.scan.python.consumers import CHOICES, Consumer, consumer, of_class
from autotune.scan.python.dicts import entries
from autotune.scan.python.index import Store, last_name
from autotune.scan.python.names import full_name
from autotune.scan.python.origins import changed_attributes, changed_items, origins
from autotune.scan.python.padding import option as padding_option
from autotune.scan.python.reach import is_reached
from autotune.scan.python.uses import called_class
from autotune.scan.python.view import Entries, View

BACKENDS = "torch.backends."
"""Attributes of torch whose assignment is a setting."""


MAX_ARGUMENTS = 500
"""Arguments of one call, the entries of dicts among them: dicts of dicts multiply."""

MAX_DEPTH = 5
"""Dicts in dicts that are arguments."""


class Found(Struct, frozen=True, eq=False):
    """A call of interest: its node, and its Call without a subject of its own."""

    node: ast.Call
    consumer: Consumer
    call: Call


def found_calls(view: View) -> tuple[Found, ...]:
    """Every call of interest that the script may reach."""
    return tuple(
        Found(node, which, _call(view, node, which))
        for node in view.index.calls
        if (which := consumer(view.index, node)) is not None and is_reached(view, node) is not False
    )


def calls(view: View, found: Sequence[Found], loaders: Mapping[ast.Call, str]) -> tuple[Call, ...]:
    """The Calls with their subjects; `loaders` names those of the loaders."""
    numbered: list[Call] = []
    num_optimizers = 0
    for one in found:
        subject = loaders.get(one.node, RUN)
        if one.consumer.kind == "optimizer":
            subject, num_optimizers = f"optimizer#{num_optimizers}", num_optimizers + 1
        numbered.append(replace(one.call, subject=subject))
    return (*_agreed([*numbered, *_switches(view), *_parsed(view)]), *_held_ready(view), *collating.calls(view))


def arguments(view: View, node: ast.Call, parameters: Sequence[str] = ()) -> tuple[dict[str, Given], bool]:
    """The arguments of a call by name, a dict's entries as "name.key"; and whether it may have more."""
    found: dict[str, Given] = {}
    is_open = any(isinstance(one, ast.Starred) for one in node.args)
    waiting = [_Possible(name, (one,)) for name, one in zip(parameters, node.args if not is_open else (), strict=False)]
    for keyword in node.keywords:
        read = loaded.below(view, keyword.value, values.given) if keyword.arg is None else None
        if read is not None:
            found |= {key: replace(one, key=key) for key, one in read.items()}
            continue
        held = _unpacked(view, keyword.value) if keyword.arg is None else Entries({keyword.arg: (keyword.value,)})
        waiting += _possible(view, held)
        is_open |= held.is_open or bool(held.maybe)
    waiting.reverse()
    while waiting:
        each = waiting.pop()
        found[each.name], inner = _argument(view, each)
        waiting += reversed(inner if each.depth < MAX_DEPTH else ())
        if len(found) > MAX_ARGUMENTS:
            return found, True
    return found, is_open


def _unpacked(view: View, node: ast.expr) -> Entries:
    """What a dict holds whose entries become arguments; what other code sets in it may be anything."""
    held = entries(view, node)
    changed = changed_items(view, node) if held.values else frozenset()
    keys = held.values.keys() if ANY in changed else changed & held.values.keys()
    return replace(held, maybe=held.maybe | keys, is_open=held.is_open or bool(changed - keys))


def _call(view: View, node: ast.Call, which: Consumer) -> Call:
    found, is_open = arguments(view, node, which.parameters)
    if which.kind == "run" and which.dialect != "torch":
        class_ = called_class(view.index, node.func)
        found = {**(_fields(view, class_) if class_ is not None else {}), **found}
        found |= _changed(view, node, found)
    if which.name in CHOICES and is_reached(view, node) is None:
        found = {name: replace(given, value=None, known=False) for name, given in found.items()}
    for name in unsaid(view, node, which):
        found[name] = Given(name, None, view.place(node), known=False)
    given = next((one.value for one in node.keywords if one.arg == "padding"), None)
    decides = padding_option(view, given) if which.name == "tokenizer" and given is not None else None
    if decides is not None:
        found[decides.key] = decides
        del found["padding"]
    padding = found.get("padding")
    if which.name == "tokenizer" and padding is not None and padding.known:
        found["padding"] = replace(padding, doubt=padding.doubt or collating.doubt(view, node))
    name = f"map.{which.name}" if which.name == "tokenizer" and collating.is_mapped(view, node) else which.name
    return Call(which.dialect, name, RUN, found, _location(view, node), is_open or which.is_open)


def _location(view: View, node: ast.AST) -> Location:
    return replace(view.place(node), key="")


class _Possible(Struct, frozen=True):
    """An argument whose value is one of some expressions; `doubt` says why it may be none of them.

    `depth` is how many dicts it stands in that are themselves arguments.
    """

    name: str
    values: tuple[ast.expr, ...]
    doubt: str = ""
    depth: int = 0


def _possible(view: View, held: Entries, prefix: str = "", depth: int = 0) -> Iterator[_Possible]:
    """The entries of a dict as arguments."""
    for key, possible in held.values.items():
        yield _Possible(f"{prefix}{key}", possible, _doubt(view, held, key), depth)


def _argument(view: View, asked: _Possible) -> tuple[Given, Sequence[_Possible]]:
    """An argument, and the entries of the dict that it is."""
    name, possible, doubt = asked.name, asked.values, asked.doubt
    each = [values.given(view, one) for one in possible] if not doubt else []
    given = values.agreed(each)
    if given is None:
        several = f"a condition decides which of {_lines(view, possible)} sets it" if possible[1:] else ""
        why = doubt or several or each[0].doubt
        given = Given("", None, view.place(possible[0]), known=False, doubt=why)
    location = given.location if given.location.key else replace(given.location, key=name)
    found = replace(given, key=name, location=location)
    if len(possible) == 1 and not doubt and not given.known and isinstance(possible[0], ast.Dict | ast.Call | ast.Name):
        return found, tuple(_possible(view, entries(view, possible[0]), f"{name}.", asked.depth + 1))
    return found, ()


def _doubt(view: View, held: Entries, key: str) -> str:
    """Why the value that a dict holds by `key` may not be what is passed; "" when it is."""
    if key not in held.maybe:
        return ""
    lines = _lines(view, held.values[key])
    sets = f"{lines} {'set' if lines.startswith('lines') else 'sets'} it"
    return f"{sets}, but the dict is only partly known" if held.is_open else f"{sets} only under a condition"


def _lines(view: View, nodes: Sequence[ast.expr]) -> str:
    """ "line 120"; "lines 118, 120"."""
    lines = sorted({view.place(node).line for node in nodes})
    return f"line{'s' if lines[1:] else ''} {', '.join(map(str, lines))}"


def _changed(view: View, node: ast.Call, given: Collection[str]) -> dict[str, Given]:
    """What is set afterwards on the object that gets the arguments `given`: `training_args.optim = ...`."""
    outer = view.index.parents.get(node)
    name = last_name(outer.targets[0]) if isinstance(outer, ast.Assign) else ""
    if not isinstance(outer, ast.Assign) or not name:
        return {}
    stores = {
        key: [store for store in rows if last_name(store.base) == name] for key, rows in view.index.stores.items()
    }
    own = {key: _set_later(view, key, rows) for key, rows in stores.items() if rows}
    others = changed_attributes(view, node, outer.targets[0])
    unknown = given if ANY in others else others
    return {**own, **{key: Given(key, None, view.place(node, key), known=False) for key in unknown}}


def _set_later(view: View, key: str, stores: Sequence[Store]) -> Given:
    """The value of an attribute that the script sets: known where it sets it once, and always."""
    store = stores[-1]
    unknown = Given(key, None, view.place(store.node, key), known=False)
    if len(stores) > 1 or store.value is None or is_reached(view, store.node) is not True:
        return unknown
    found = values.given(view, store.value)
    location = found.location if found.location.key else replace(found.location, key=key)
    return replace(found, key=key, location=location) if found.known else unknown


def stored(view: View) -> Mapping[str, Given]:
    """What the script sets on an object that a parser of classes filled, whatever the command line says."""
    found: dict[str, Given] = {}
    for key, rows in view.index.stores.items():
        own = [store for store in rows if any(_is_parsed(view, one.node) for one in origins(view, store.base))]
        if own:
            found[key] = _set_later(view, key, own)
    return found


def _is_parsed(view: View, node: ast.AST) -> bool:
    parser = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return parser is not None and options.parser_of(view.at(node).index, parser) is not None


def _agreed(found: Sequence[Call]) -> Iterator[Call]:
    """The Calls, where several for one subject keep only what all of them say."""
    groups: dict[tuple[str, str, str], list[Call]] = defaultdict(list)
    for call in found:
        groups[call.dialect, call.name, call.subject].append(call)
    common = {key: _common(group) for key, group in groups.items() if len(group) > 1}
    for call in found:
        unknown = common.get((call.dialect, call.name, call.subject), {})
        yield replace(call, arguments={**call.arguments, **unknown})


def _common(group: Sequence[Call]) -> dict[str, Given]:
    """The arguments that not all calls of a group give alike, as unknown ones."""
    given: dict[str, list[Given]] = defaultdict(list)
    for call in group:
        for name, one in call.arguments.items():
            given[name].append(one)
    return {
        name: replace(all_given[0], value=None, known=False)
        for name, all_given in given.items()
        if len(all_given) < len(group) or values.agreed(all_given) is None
    }


def _switches(view: View) -> Iterator[Call]:
    """`torch.backends.cudnn.benchmark = True` and its like."""
    for key, stores in view.index.stores.items():
        for store in stores:
            name = full_name(view.index, store.node)
            if name is None or not name.startswith(BACKENDS) or is_reached(view, store.node) is False:
                continue
            given = values.given(view, store.value or store.node)
            known = given.known and is_reached(view, store.node) is True
            argument = replace(given, key="value", known=known, location=replace(given.location, key=key))
            yield Call("torch", name, RUN, {"value": argument}, _location(view, store.node))


def _parsed(view: View) -> Iterator[Call]:
    """The defaults of a class that extends a library's arguments and that a parser fills."""
    for node in view.index.calls:
        parser = options.parser_of(view.index, node) if is_reached(view, node) is not False else None
        for named in options.given_classes(view.index, parser):
            class_ = called_class(view.index, named)
            which = of_class(view.index, class_) if class_ is not None else None
            if class_ is not None and which is not None:
                given = _fields(view, class_)
                yield Call(which.dialect, which.name, RUN, given, _location(view, class_), view.is_open)


def _held_ready(view: View) -> Iterator[Call]:
    """The defaults of a class that extends a library's arguments and that its file holds ready for others."""
    for class_ in view.index.classes if not view.views else ():
        which = of_class(view.index, class_)
        if which is not None and which.kind == "run" and not view.index.reads.get(class_.name):
            given = {name: given for name, given in _fields(view, class_).items() if given.known}
            yield Call(which.dialect, which.name, RUN, given, _location(view, class_), is_open=True)


def _fields(view: View, class_: ast.ClassDef) -> dict[str, Given]:
    """The defaults of a class that extends a library's arguments, at their places."""
    fields = options.of_class(view.index, class_)
    return {name: replace(values.of_option(view, field), key=name) for name, field in fields.items()}
