from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from autotune.probe import imports


@pytest.fixture
def write(tmp_path, monkeypatch):
    """write(name, text): a module that can be imported in this test and is forgotten after it."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def make(name, text=""):
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        return name

    yield make
    for name in names:
        sys.modules.pop(name, None)


def test_the_callback_gets_the_module_after_it_ran(write):
    name = write("probe_target_a", "VALUE = 3")
    seen = []
    imports.install({name: [lambda module: seen.append(module.VALUE), lambda module: seen.append(module)]})
    module = importlib.import_module(name)
    assert seen == [3, module]


def test_the_module_sees_its_loader_as_it_is_natively(write):
    name = write("probe_target_b", "import sys\nOWN = vars(__spec__.loader).copy()")
    imports.install({name: [lambda module: None]})
    module = importlib.import_module(name)
    assert "exec_module" not in module.OWN
    assert "exec_module" not in vars(module.__spec__.loader)


def test_looking_for_a_module_is_not_importing_it(write):
    name = write("probe_target_c")
    seen = []
    imports.install({name: [seen.append]})
    assert importlib.util.find_spec(name) is not None
    assert seen == []
    module = importlib.import_module(name)
    assert seen == [module]


def test_a_reload_calls_nothing_again(write):
    name = write("probe_target_d")
    seen = []
    imports.install({name: [seen.append]})
    importlib.reload(importlib.import_module(name))
    assert len(seen) == 1


def test_a_module_that_is_there_already_is_told_at_once(write):
    name = write("probe_target_e")
    module = importlib.import_module(name)
    seen = []
    imports.install({name: [seen.append]})
    assert seen == [module]


def test_a_failing_import_fails_as_it_does_natively_and_can_be_tried_again(write, tmp_path):
    name = write("probe_target_f", "raise ValueError('broken')")
    seen = []
    imports.install({name: [seen.append]})
    with pytest.raises(ValueError, match="broken"):
        importlib.import_module(name)
    assert (seen, name in sys.modules) == ([], False)
    (tmp_path / f"{name}.py").write_text("FIXED = True  # longer than before\n")
    importlib.invalidate_caches()
    assert importlib.import_module(name).FIXED
    assert len(seen) == 1


def test_a_failing_callback_breaks_no_import(write, capsys):
    name = write("probe_target_g")
    imports.install({name: [lambda module: 1 / 0]})
    assert importlib.import_module(name).__name__ == name
    assert f"probe of {name} failed: ZeroDivisionError" in capsys.readouterr().err


def test_other_modules_are_left_to_the_other_finders(write):
    name = write("probe_target_h")
    imports.install({"something_else": [lambda module: pytest.fail("not this one")]})
    assert importlib.import_module(name).__name__ == name
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("probe_target_missing")
