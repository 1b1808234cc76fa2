"""What the modules of a run compute in each forward: values that the host reads, and attention that is written out.

A model mostly stands in files that train nothing themselves, so that all files of a run are looked at.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from autotune.model.evidence import RUN, Fact, Location
from autotune.pycode.functions import bindings_of, with_bases
from autotune.pycode.index import Function
from autotune.pycode.names import full_name
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.optimizer_steps import Loop
from autotune.scan.script.training_loops import TrainingStep, step_path
from autotune.syntax.python import last_name

FORWARD = "forward"

READS = frozenset({"item", "tolist", "cpu"})
"""Methods that wait for the device and bring a tensor's values to the host; numpy() follows cpu()."""

NO_GRADIENT = frozenset({"no_grad", "inference_mode"})

COMPUTES = re.compile(r"(?:forward|encode|embed|extract|get_(?:image|text|intermediate))")
"""Methods of a model that run it."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

EVALUATES = re.compile(r"eval|infer|generat|predict|sampl|decod|metric|visuali|save|plot|export|test", re.IGNORECASE)
"""What the names of classes and functions have in them that do not train."""

TO_DEVICE = frozenset({"cuda", "to"})

PRODUCTS = frozenset({"matmul", "bmm", "einsum", "baddbmm"})

MASKS = re.compile(r"mask|causal|pad|inf", re.IGNORECASE)

FUSED = re.compile(rb"scaled_dot_product_attention|flash_attn|memory_efficient_attention|xformers|flex_attention")
"""What a file names that has fused attention, or chooses between the two."""

UNITS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)

BY_TEXT = frozenset({"import_module", "__import__", "instantiate", "get_obj_from_str"}) | {
    *("getattr_from_name", "instantiate_from_config", "build_from_cfg", "locate", "get_class"),
}
"""Names of what finds a class by a text."""

BUILTINS = frozenset({"globals", "eval", "exec"})
"""Builtin functions that find one; as other names they are a method (`model.eval()`) or a parameter."""

ALL = "*"
"""Stands among the names that a file mentions for any name."""

LOOKUPS = frozenset({"getattr", "vars"})
"""Builtin functions that look up a name in an object."""

MAX_CLASSES = 200
"""Modules of one run that are looked at."""


def facts(views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Facts `code.num_reads_in_forward_loops`, `code.num_round_trips_in_forward` and `code.writes_out_attention`, where
    there are any."""
    forwards = [one for view in views for one in _forwards(view)][:MAX_CLASSES]
    looped: dict[ast.Call, Location] = {}
    trips: dict[ast.Call, Location] = {}
    for view, forward in forwards:
        for call in step_path(view, [TrainingStep(forward)], always=True):
            if _is_read(call) and not EVALUATES.search(_owner(view, call)):
                at = view.at(call)
                if _is_in_loop(at, call):
                    looped[call] = at.place(call)
                elif last_name(call.func) == "cpu" and _returns(at, call):
                    trips[call] = at.place(call)
    written = [(view, forward, place) for view, forward in forwards for place in _written_attention(view, forward)]
    named = _named_by_training(views) if written else None
    if named is not None:
        written = [(view, one, at) for view, one, at in written if _is_named(view, one, named)]
    frozen = {id(view): _are_made_frozen(views, view) for view, _, _ in written}
    written = [(view, one, at) for view, one, at in written if not frozen[id(view)]]
    for name, places in (("loops", looped), ("trips", trips)):
        full = "code.num_reads_in_forward_loops" if name == "loops" else "code.num_round_trips_in_forward"
        if places:
            yield Fact(full, RUN, len(places), tuple(places.values()))
    if written:
        yield Fact("code.writes_out_attention", RUN, True, tuple(place for _, _, place in written))


def _is_named(view: ScriptView, forward: Function, named: frozenset[tuple[str, str]]) -> bool:
    class_ = view.index.method_class(forward)
    name = class_.name if class_ is not None else ""
    return (view.file if any(one is class_ for one in _units(view)) else "", name) in named


def _are_made_frozen(views: Sequence[ScriptView], view: ScriptView) -> bool:
    """Whether all models that other files make of what this file defines run without gradients alone: frozen encoders.

    A model is known by the name that it is given, whichever file uses it.
    """
    units = list(_units(view))
    made: set[str] = set()
    for each in views:
        for call in each.index.calls if each is not view else ():
            if any(one.node in units for one in bindings_of(each.index, call.func)):
                outer = next((one for one in each.index.ancestors(call) if isinstance(one, ast.stmt)), None)
                made |= {last_name(one) for one in outer.targets} if isinstance(outer, ast.Assign) else {""}
    return bool(made) and all(name and _runs_without_gradients(views, name) for name in made)


def _runs_without_gradients(views: Sequence[ScriptView], name: str) -> bool:
    """Whether all calls of what has this name, and of its methods that compute, are in `no_grad`; False of none."""
    found = [_is_in_no_grad(view, call) for view in views for call in view.index.calls if _runs(call, name)]
    return bool(found) and all(found)


def _runs(call: ast.Call, name: str) -> bool:
    """Whether a call runs the model of this name: `encoder(x)`, `encoder.forward_features(x)`."""
    func = call.func
    if isinstance(func, ast.Attribute) and last_name(func.value) == name:
        return COMPUTES.match(func.attr) is not None
    return last_name(func) == name


def _is_in_no_grad(view: ScriptView, call: ast.Call) -> bool:
    around = view.index.enclosing_function(call)
    if around is not None and _is_without_gradient(around):
        return True
    items = (item.context_expr for one in view.index.ancestors(call) if isinstance(one, ast.With) for item in one.items)
    return any(last_name(one.func if isinstance(one, ast.Call) else one) in NO_GRADIENT for one in items)


def _named_by_training(views: Sequence[ScriptView]) -> frozenset[tuple[str, str]] | None:
    """What the script (the first file) and what it names mention, as (file, name): no class is made without its name.

    A name stands for what its own file defines, else for what any file does; "" is the file of what none defines at its
    top. What a decorator registers may be made by its name alone, and so may what a module of the run has in which a
    text is looked up: `getattr(vits, name)`. None where a text may find any class: `import_module(name)`, a config's
    `_target_`.
    """
    units: dict[str, list[tuple[ScriptView, ast.AST]]] = defaultdict(list)
    for each in views:
        for unit in _units(each):
            units[unit.name].append((each, unit))
    waiting: list[tuple[ScriptView, ast.AST]] = [(views[0], views[0].index.tree)]
    for each in views[1:]:
        waiting += [(each, one) for one in each.index.tree.body if not isinstance(one, UNITS + IMPORTS)]
    registered = [(each, unit) for each in views for unit in _units(each) if _is_registered(unit)]
    waiting += registered
    named = {(each.file, unit.name) for each, unit in registered}
    while waiting:
        view, outer = waiting.pop()
        for node in ast.walk(outer):
            mentioned = _mentioned(views, view, node)
            if ALL in mentioned or not mentioned.isdisjoint(BY_TEXT):
                return None
            for text in mentioned:
                meant = units.get(text, [])
                if isinstance(node, ast.Name):
                    meant = [(file, unit) for file, unit in meant if file is view] or meant
                waiting += [(file, unit) for file, unit in meant if (file.file, text) not in named]
                named |= {(file.file, text) for file, _ in meant} if meant else {("", text)}
    return frozenset(named)


def _units(view: ScriptView) -> Iterator[Function | ast.ClassDef]:
    yield from (one for one in view.index.tree.body if isinstance(one, UNITS))


def _calls_builtin(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS


def _mentioned(views: Sequence[ScriptView], view: ScriptView, node: ast.AST) -> frozenset[str]:
    """The names that a node of a file mentions, ALL among them where it may find any class by a text."""
    if isinstance(node, ast.ImportFrom):
        return frozenset(one.name for one in node.names if one.asname)
    name = last_name(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    found = {name} - {""} | ({ALL} if _calls_builtin(node) else set())
    return frozenset(found.union(*map(_names_in, _looked_up(views, view, node))))


def _looked_up(views: Sequence[ScriptView], view: ScriptView, node: ast.AST) -> list[ScriptView]:
    """The modules of the run in which a node looks up a name that is worked out: `vits.__dict__[name]`,
    `vars(vits)[name]`, `getattr(vits, name)`; the file itself for `sys.modules[__name__]`; of a package all modules."""
    owner = _owner_of_lookup(node)
    if isinstance(owner, ast.Subscript) and full_name(view.index, owner.value) == "sys.modules":
        return [view]
    path = (full_name(view.index, owner) or "").strip(".").replace(".", "/") if owner is not None else ""
    stems = ((each, each.file.removesuffix(".py").removesuffix("/__init__")) for each in views if path)
    return [each for each, stem in stems if f"/{path}/" in f"/{stem}/"]


def _owner_of_lookup(node: ast.AST) -> ast.expr | None:
    """In what a name is looked up that is no text of the code."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOOKUPS and node.args):
        return None
    is_written = any(isinstance(one, ast.Constant) for one in node.args[1:2])
    return node.args[0] if not is_written else None


def _names_in(view: ScriptView) -> frozenset[str]:
    """The names that a module holds: its own and those that it imports, ALL where it imports everything of another."""
    imported = (one.name for node in view.index.tree.body if isinstance(node, ast.ImportFrom) for one in node.names)
    return frozenset({*(one.name for one in _units(view)), *imported})


def _is_registered(unit: Function | ast.ClassDef) -> bool:
    return any("regist" in ast.unparse(one).lower() for one in unit.decorator_list)


def _forwards(view: ScriptView) -> Iterator[tuple[ScriptView, Function]]:
    """The forward of each module of torch that a file defines."""
    for class_ in view.index.classes:
        bases = [last_name(base) for one in with_bases(view.index, class_) for base in one.bases]
        if not any(base.endswith("Module") for base in bases) or EVALUATES.search(class_.name):
            continue
        for one in class_.body:
            if isinstance(one, ast.FunctionDef) and one.name == FORWARD and not _is_without_gradient(one):
                yield view, one


def _is_without_gradient(function: Function) -> bool:
    names = (last_name(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list)
    return any(name in NO_GRADIENT for name in names)


def _owner(view: ScriptView, call: ast.Call) -> str:
    """The names of the function and of the class around a call."""
    around = view.at(call).index.enclosing_function(call)
    class_ = view.at(call).index.method_class(around) if around is not None else None
    return f"{around.name if around is not None else ''} {class_.name if class_ is not None else ''}"


def _is_read(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in READS and not call.args


def _is_in_loop(view: ScriptView, call: ast.Call) -> bool:
    """Whether a call stands in the body of a loop; what it loops over is read once."""
    inner: ast.AST = call
    for outer in view.index.ancestors_in_function(call):
        if isinstance(outer, COMPREHENSIONS) and inner is not outer.generators[0]:
            return True
        if isinstance(outer, Loop) and inner is not (outer.test if isinstance(outer, ast.While) else outer.iter):
            return True
        inner = outer
    return False


def _returns(view: ScriptView, call: ast.Call) -> bool:
    """Whether what a call brings to the host goes back to the device in one expression: `x.cpu().inverse().cuda()`."""
    outer = view.index.parents.get(call)
    while isinstance(outer, ast.Attribute | ast.Call | ast.Subscript):
        func = outer.func if isinstance(outer, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr in TO_DEVICE and func.value is not call:
            return True
        outer = view.index.parents.get(outer)
    return False


def _written_attention(view: ScriptView, forward: Function) -> Iterator[Location]:
    """The softmax of `softmax(q @ k.T) @ v` in a forward. Scores that get a learned bias are left out: a fused kernel
    takes them as a mask, and they are mostly of small windows."""
    if FUSED.search(view.source.text.text.encode()):
        return
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(forward):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            given.setdefault(node.target.id, []).append(node.value)
    products = [node for node in ast.walk(forward) if isinstance(node, ast.expr) and _is_product(node)]
    for call in (
        node for node in ast.walk(forward) if isinstance(node, ast.Call) and last_name(node.func) == "softmax"
    ):
        scores = _softmax_argument(call)
        if scores is None or not _comes_from(scores, given, products) or _is_biased(scores, given):
            continue
        later = [one for one in products if one.lineno >= call.lineno and _reaches(one, call, given)]
        if later:
            yield view.place(call)


def _is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and last_name(node.func) in PRODUCTS


def _softmax_argument(call: ast.Call) -> ast.expr | None:
    """What a softmax is of: `F.softmax(x, -1)`, `x.softmax(-1)`."""
    if isinstance(call.func, ast.Attribute) and last_name(call.func.value) not in ("F", "functional", "torch", "nn"):
        return call.func.value
    return call.args[0] if call.args else None


def _comes_from(node: ast.expr, given: dict[str, list[ast.expr]], sources: Sequence[ast.AST], depth: int = 0) -> bool:
    """Whether an expression holds one of `sources`, or a name that is given one."""
    names = []
    for one in ast.walk(node):
        if one in sources:
            return True
        if isinstance(one, ast.Name):
            names.append(one.id)
    values = (value for name in dict.fromkeys(names) for value in given.get(name, ()) if value is not node)
    return depth < len(given) and depth < 6 and any(_comes_from(value, given, sources, depth + 1) for value in values)


def _is_biased(scores: ast.expr, given: dict[str, list[ast.expr]]) -> bool:
    """Whether something that is no mask is added to the scores."""
    parts = [
        scores,
        *(value for one in ast.walk(scores) if isinstance(one, ast.Name) for value in given.get(one.id, ())),
    ]
    added = (
        one for part in parts for one in ast.walk(part) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add)
    )
    return any("bias" in ast.unparse(one) or not MASKS.search(ast.unparse(one.right)) for one in added)


def _reaches(product: ast.expr, call: ast.Call, given: dict[str, list[ast.expr]]) -> bool:
    """Whether an operand of a product is the softmax, or a name that is given it."""
    return any(_comes_from(one, given, [call]) for one in _operands(product))


def _operands(product: ast.expr) -> list[ast.expr]:
    """`a` and `b` of `a @ b`, `torch.bmm(a, b)` and `a.bmm(b)`."""
    if isinstance(product, ast.BinOp):
        return [product.left, product.right]
    assert isinstance(product, ast.Call)
    return [*product.args, *([product.func.value] if isinstance(product.func, ast.Attribute) else [])]
