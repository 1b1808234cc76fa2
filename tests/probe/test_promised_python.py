"""The probe runs in the user's interpreter: Python 3.9 or newer, with the standard library and torch alone."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import autotune.probe

FOLDER = Path(autotune.probe.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
PROMISED = (3, 9)
SHAPES = FOLDER / "shapes.py"
"""For the type checker alone: it imports the records of the parent."""

IMPORT_ALL = """
import importlib.util, json, sys
folder, names = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "_autotune_probe", folder + "/__init__.py", submodule_search_locations=[folder]
)
package = sys.modules["_autotune_probe"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
for name in names:
    importlib.import_module("_autotune_probe." + name)
print(sys.version_info[:2])
"""

MISSING = """
import importlib, json, sys
found = []
for module, name in json.loads(sys.argv[1]):
    try:
        thing = importlib.import_module(module)
    except ImportError:
        found.append(module)
        continue
    if name and not hasattr(thing, name):
        try:
            importlib.import_module(module + "." + name)
        except ImportError:
            found.append(module + "." + name)
print(json.dumps(found))
"""


REQUEST = {
    "frameworks": [],
    "startup_entries": [],
    "notebook": None,
    "isolate": {"layer": "hooks", "protected": [], "exempt": ["/"], "run_id": "1", "mount_points": ["/"]},
    "overrides": [],
}


def name_of(path):
    return path.relative_to(FOLDER).with_suffix("").as_posix().replace("/", ".")


def statements(tree):
    """All nodes that run: what stands below `if TYPE_CHECKING` does not."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo.extend(node.orelse)
            continue
        yield node
        todo.extend(ast.iter_child_nodes(node))


def imported(path):
    """{(module, name)} that a file imports when it runs, name "" for a whole module; relative ones left out."""
    found = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update((node.module, alias.name) for alias in node.names)
    return found


def used(path):
    """{(module, name)} that a file reads of the standard library's modules, by `module.name` or by `from module`."""
    imports = imported(path)
    whole = {module for module, name in imports if not name and "." not in module}
    attributes = {
        (node.value.id, node.attr)
        for node in statements(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole
    }
    found = {*imports, *attributes}
    return {(module, name) for module, name in found if module.partition(".")[0] in sys.stdlib_module_names}


@pytest.fixture(scope="module")
def interpreter():
    """A Python of the promised version on this machine."""
    version = ".".join(map(str, PROMISED))
    candidates = [*Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), shutil.which(f"python{version}")]
    for candidate in candidates:
        if candidate and subprocess.run([candidate, "-V"], capture_output=True).returncode == 0:
            return candidate
    pytest.skip(f"no Python {version} on this machine")


def ask(interpreter, program, argument):
    done = subprocess.run(
        [interpreter, "-I", "-B", "-c", program, json.dumps(argument)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_syntax_is_that_of_the_promised_python(path):
    ast.parse(path.read_text(), feature_version=PROMISED)


@pytest.mark.parametrize("path", [path for path in FILES if path != SHAPES], ids=name_of)
def test_only_the_standard_library_and_torch_are_imported(path):
    roots = {module.partition(".")[0] for module, _ in imported(path)}
    assert roots <= {*sys.stdlib_module_names, "torch", "_autotune_probe"}


def test_the_types_are_imported_by_no_process():
    for path in FILES:
        nodes = [node for node in statements(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert not [node for node in nodes if node.level and node.module == "shapes"], path


def test_the_promised_python_imports_every_module(interpreter):
    names = [name_of(path) for path in FILES if path != SHAPES and path.parent.name != "boot"]
    modules = [name.removesuffix(".__init__") for name in names if name != "__init__"]
    assert ask(interpreter, IMPORT_ALL, [str(FOLDER), modules]).strip() == str(PROMISED)


def test_the_promised_python_has_what_is_used_of_its_library(interpreter):
    uses = sorted(set().union(*(used(path) for path in FILES if path != SHAPES)))
    assert ("os", "path") in uses and ("functools", "wraps") in uses
    assert json.loads(ask(interpreter, MISSING, uses)) == []


def test_a_process_of_the_promised_python_starts_and_ends_with_the_probe(interpreter, tmp_path):
    isolate = {**REQUEST["isolate"], "run_dir": str(tmp_path)}
    (tmp_path / "request.json").write_text(json.dumps({**REQUEST, "isolate": isolate, "run_dir": str(tmp_path)}))
    done = subprocess.run(
        [interpreter, "-B", "-c", "import atexit; atexit.register(print, 'the script ends'); int('x')"],
        env={"PYTHONPATH": str(FOLDER / "boot"), "AUTOTUNE_REQUEST": str(tmp_path / "request.json")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "the script ends\n"), done.stderr
    (note,) = tmp_path.glob("raised-*")
    assert note.read_text().startswith("ValueError\n")
