"""The loops and comprehensions of a file, and whether one iteration of each needs what another one gave."""

from __future__ import annotations

import ast
import re
from collections import Counter

from .statements import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..shapes import Row

IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_")
FILLS = ("append", "extend", "appendleft")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def of_lines(lines: Iterable[tuple[str, int]]) -> list[Row]:
    """The `Loop` of the Recording for each one that one of `lines` (file, line) stands in.

    `body` is the first line of what is repeated, `carried` are the names whose value an iteration takes over from the
    one before it; of a while loop, which goes on by what it did, at least "". Names are looked for in the loop itself,
    not in the functions that it calls.
    """
    by_file: dict[str, set[int]] = {}
    for file, line in lines:
        by_file.setdefault(file, set()).add(line)
    rows = []
    for file, numbers in by_file.items():
        tree = parsed(file)
        for node in ast.walk(tree) if tree is not None else ():
            row = _row(file, node)
            if row is not None and any(row["line"] <= number <= row["last"] for number in numbers):
                rows.append(row)
    return rows


def _row(file: str, node: ast.AST) -> Row | None:
    if isinstance(node, (ast.For, ast.While)):
        carried = sorted(_carried(node))
        if isinstance(node, ast.While):
            carried = carried or [""]
        kind, body = ("while" if isinstance(node, ast.While) else "for"), node.body[0].lineno
        last = node.body[-1].end_lineno or body
    elif isinstance(node, COMPREHENSIONS):
        kind, body, carried = "comprehension", node.lineno, []
        last = node.end_lineno or node.lineno
    else:
        return None
    return {
        "file": file,
        "line": node.lineno,
        "last": last,
        "body": body,
        "kind": kind,
        "carried": carried,
        "fed_back": sorted(_fed_back(node, set(carried))) if isinstance(node, (ast.For, ast.While)) else [],
    }


def _carried(loop: ast.For | ast.While) -> set[str]:
    """Names that the body reads before it gives them a value, and gives one later: but for sums.

    A list or an array that an element is put into is read where anything else in the body names it.
    """
    body = list(_flattened(loop.body))
    given = set(_stored(loop.target)) if isinstance(loop, ast.For) else set()
    filled = {name for statement in body for name in _filled(statement)}
    stored = {name for statement in body for name in _stored(statement)} | filled
    summed = Counter(name for statement in body for name in _summed(statement))
    reads = Counter(name for statement in body for name in _read(statement))
    sums = {name for name, count in summed.items() if reads[name] == count}  # a sum that is also used is carried
    found: set[str] = set()
    for statement in body:
        for name in _read(statement):
            if name in stored and name not in given:
                found.add(name)
        given |= set(_stored(statement)) if not isinstance(statement, (ast.If, ast.Try)) else set()
    return found - sums


def _flattened(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body one after the other, those inside a `with` or an inner loop, too."""
    for statement in body:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                yield _assignment(item.optional_vars, item.context_expr)
            yield from _flattened(statement.body)
        elif isinstance(statement, ast.For):
            yield _assignment(statement.target, statement.iter)
            yield from _flattened(statement.body)
        else:
            yield statement


def _assignment(target: ast.expr | None, value: ast.expr) -> ast.stmt:
    return ast.Assign([target], value) if target is not None else ast.Expr(value)


def _fed_back(loop: ast.For | ast.While, carried: set[str]) -> set[str]:
    """The carried names that reach the first argument of a call with several arguments.

    Through such a call only its first argument is followed: `h = cell(x, h)` makes h of x and of what cell remembers.
    """
    comes_of: dict[str, set[str]] = {name: {name} for name in carried}
    found: set[str] = set()
    for statement in _flattened(loop.body):
        for each in _within(statement):
            if isinstance(each, ast.Call) and each.args and len(each.args) + len(each.keywords) >= 2:
                found |= {origin for name in _names(each.args[0]) for origin in comes_of.get(name, ())}
        for each in _within(statement):
            if isinstance(each, ast.Assign):
                origins = {origin for name in _inputs(each.value) for origin in comes_of.get(name, ())}
                for name in (name for target in each.targets for name in _stored(target)):
                    comes_of[name] = origins
    return found & carried


def _inputs(value: ast.expr) -> set[str]:
    if isinstance(value, ast.Call) and value.args and len(value.args) + len(value.keywords) >= 2:
        return _names(value.args[0])
    return _names(value)


def _names(node: ast.AST) -> set[str]:
    return set(_read(node))


def _stored(node: ast.AST) -> Iterator[str]:
    """Names, and attributes of names as "self.state", that get a value in a statement, or change in place."""
    own = _of_comprehensions(node)
    for each in _within(node):
        name = ""
        if isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Store):
            name = _dotted(each)
        elif isinstance(each, ast.Attribute) and IN_PLACE.fullmatch(each.attr):
            name = _dotted(each.value)
        if name and name not in own:
            yield name


def _of_comprehensions(node: ast.AST) -> set[str]:
    """Names that live in a comprehension of the statement alone."""
    targets = [each.target for each in _within(node) if isinstance(each, ast.comprehension)]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _filled(node: ast.AST) -> Iterator[str]:
    """Lists and arrays that a statement puts an element into: `out[i] = y`, `out.append(y)`."""
    for each in _within(node):
        target = _filled_name(each)
        if target is not None:
            yield _dotted(target)


def _filled_name(node: ast.AST) -> ast.expr | None:
    is_element = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    is_method = isinstance(node, ast.Attribute) and node.attr in FILLS
    if (is_element or is_method) and isinstance(node, (ast.Subscript, ast.Attribute)) and _dotted(node.value):
        return node.value
    return None


def _read(node: ast.AST) -> Iterator[str]:
    """Names and such attributes that a statement reads, those that it adds to among them.

    Not read is a list or an array that an element is put into.
    """
    containers, own = {id(_filled_name(each)) for each in _within(node)}, _of_comprehensions(node)
    for each in _within(node):
        if id(each) in containers:
            continue
        is_added = isinstance(each, ast.AugAssign)
        target: ast.AST = each.target if isinstance(each, ast.AugAssign) else each
        if isinstance(target, (ast.Name, ast.Attribute)) and (is_added or isinstance(target.ctx, ast.Load)):
            name = _dotted(target)
            if name and name not in own:
                yield name


def _summed(node: ast.AST) -> Iterator[str]:
    """Names that are only changed by what comes: `x += y`, `x *= y`, `x = x + y`, `x.add_(y)`."""
    for each in _within(node):
        if isinstance(each, ast.AugAssign):
            name = _dotted(each.target)
        elif isinstance(each, ast.Attribute) and each.attr in ("add_", "sub_", "mul_"):
            name = _dotted(each.value)
        elif isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.value, ast.BinOp):
            name = _dotted(each.targets[0])
            sides = [_dotted(side) for side in (each.value.left, each.value.right)]
            if not isinstance(each.value.op, ast.Add) or sides.count(name) != 1:
                continue
        else:
            continue
        if name:
            yield name


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what stands in it, without the bodies of functions that it defines."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            yield from _within(child)
