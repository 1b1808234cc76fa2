"""An edit is made again where its key stands in other bytes, at exactly one place, or it is refused with the reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.patch import Edit
from autotune.model.source import Splice
from autotune.patch import resolve as resolving
from autotune.patch.resolve import apply_edits


def edit(name: str, key: str, old: str, new: str) -> Edit:
    return Edit(name, key, old, new)


def resolve(data: bytes, wanted: Edit) -> Splice | None:
    """Of a file that changed since the edit was made."""
    return resolving.resolve(data, wanted, is_changed=True)


def after(data: str, wanted: Edit) -> str:
    assert resolve(data.encode(), wanted) is not None
    return apply_edits(data.encode(), [wanted]).decode()


LOADER = "DataLoader.num_workers"
OPTION = 'parser.add_argument("-j", "--workers", type=int, {}default={})\n'
FIELD = "class Args:\n    pad: bool = field(\n        default={}, metadata={{}}\n    )\n"


@pytest.mark.parametrize(
    ("name", "key", "now", "expected"),
    [
        ("a.yaml", "data.workers", "# new\r\ndata:\r\n  workers: 0 # w\r\n", "# new\r\ndata:\r\n  workers: 4 # w\r\n"),
        ("a.json", "data.workers", '{"b": 0, "data": {"workers": 0}}', '{"b": 0, "data": {"workers": 4}}'),
        ("a.toml", "data.workers", "b = 0\n[data]\nworkers = 0\n", "b = 0\n[data]\nworkers = 4\n"),
        (
            "a.py",
            LOADER,
            "g(num_workers=0)\nDataLoader(x, num_workers=0)",
            "g(num_workers=0)\nDataLoader(x, num_workers=4)",
        ),
        ("a.py", "--workers", f"ü = 0\n{OPTION.format('', '0')}", f"ü = 0\n{OPTION.format('', '4')}"),
        ("a.py", "--pad", FIELD.format("0"), FIELD.format("4")),
        (
            "a.py",
            "--n",
            "def main(a, m=0, *, n: int = typer.Option(0)): ...",
            "def main(a, m=0, *, n: int = typer.Option(4)): ...",
        ),
        ("a.py", "--n", "def main(a, n=0): ...", "def main(a, n=4): ..."),
        ("a.py", "WORKERS", "x = 0\nWORKERS: int = 0\n", "x = 0\nWORKERS: int = 4\n"),
        ("a.py", "workers", "config = {'workers': 0}", "config = {'workers': 4}"),
        ("a.py", "Args.config.a", "Args(config={'a': 0, 'b': 0})", "Args(config={'a': 4, 'b': 0})"),
        (
            "run.sh",
            "--num-workers",
            "# why\npython t.py \\\n --num_workers 0\n",
            "# why\npython t.py \\\n --num_workers 4\n",
        ),
        ("run.sh", "--workers", "N=0\npython t.py --workers $N\n", "N=4\npython t.py --workers $N\n"),
        ("run.sh", "WORKERS", "export WORKERS=0\npython t.py\n", "export WORKERS=4\npython t.py\n"),
    ],
)
def test_a_value_is_found_by_its_key(name: str, key: str, now: str, expected: str) -> None:
    wanted = edit(name, key, "0", "4")
    assert after(now, wanted) == expected
    assert resolve(expected.encode(), wanted) is None


@pytest.mark.parametrize("key", ["data.workers", "--workers"])
def test_a_value_that_is_one_word_with_its_key(key: str) -> None:
    wanted = edit("run.sh", key, f"{key}=0", f"{key}=4")
    assert after(f"\npython t.py {key}=0\n", wanted) == f"\npython t.py {key}=4\n"


def test_a_flag_that_stands_alone() -> None:
    wanted = edit("run.sh", "--bf16", "--bf16", "--bf16 False")
    assert after("python t.py --bf16 --lr 1\n", wanted) == "python t.py --bf16 False --lr 1\n"
    with pytest.raises(UsageError, match="it is False now, not --bf16"):
        resolve(b"python t.py --bf16 False --lr 1\n", wanted)


@pytest.mark.parametrize(
    ("name", "key", "now", "why"),
    [
        ("a.yaml", "data.workers", "data: {workers: 2}\n", "it is 2 now, not 0"),
        ("a.yaml", "data.workers", "data: {threads: 0}\n", "it no longer exists"),
        ("a.yaml", "data.workers", "data: &d {workers: &w 0}\nother: *w\n", "would also change other"),
        ("a.yaml", "data.workers", "data: {\n", "not YAML|cannot|expected"),
        ("a.json", "data.workers", '{"data.workers": 0, "data": {"workers": 0}}', "it is at lines 1 and 1 now"),
        (
            "a.py",
            LOADER,
            "DataLoader(x, num_workers=0)\n\nDataLoader(y, num_workers=0)",
            "DataLoader is called at 2 places now",
        ),
        ("a.py", LOADER, "DataLoader(x, **kw)\nDataLoader(y, num_workers=0)", "DataLoader is called at 2 places now"),
        ("a.py", LOADER, "DataLoader(x, num_workers=n)", "it is n now, not 0"),
        ("a.py", LOADER, "DataLoader(x, workers=0)", "it no longer exists"),
        ("a.py", LOADER, "Loader(x, num_workers=0)", "it no longer exists"),
        ("a.py", LOADER, "DataLoader(x, num_workers=", "invalid Python"),
        ("a.py", "--workers", 'parser.add_argument("--workers", type=int)', "it no longer exists"),
        ("a.py", "WORKERS", "WORKERS = 0\nWORKERS = 2\n", "it is at lines 1 and 2 now"),
        ("run.sh", "--workers", "python a.py --workers 0\npython b.py --workers 0\n", "it is at lines 1 and 2 now"),
        ("run.sh", "--workers", 'echo "--workers"\npython a.py workers 0\n', 'it is "--workers" now, not 0'),
    ],
)
def test_what_is_not_certain_is_refused(name: str, key: str, now: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        resolve(now.encode(), edit(name, key, "0", "4"))


@pytest.mark.parametrize(
    ("name", "key", "new", "now", "expected"),
    [
        ("a.yaml", "o.a", "4", "b: 1\no:\n  c: 2\n", "b: 1\no:\n  c: 2\n  a: 4\n"),
        ("a.yaml", "o.a", "'}'", "{b: 1, c: {}}", '{b: 1, c: {}, o: {a: "}"}}'),
        ("a.json", "a", '"x, y"', '{"b": 1}', '{"b": 1, "a": "x, y"}'),
        ("a.toml", "o.a", "1.5", "[o]\n", "[o]\na = 1.5\n"),
        ("a.py", LOADER, "4", "DataLoader(\n  x,\n)\n", "DataLoader(\n  x,\n  num_workers=4,\n)\n"),
        ("a.py", LOADER, "4", "x = DataLoader(y)", "x = DataLoader(y, num_workers=4)"),
        ("a.py", "T.o.v", "2", "T(\n  o={'w': 1},\n)\n", "T(\n  o={'w': 1, 'v': 2},\n)\n"),
    ],
)
def test_a_key_is_added_to_its_holder(name: str, key: str, new: str, now: str, expected: str) -> None:
    wanted = edit(name, key, "", new)
    assert after(now, wanted) == expected
    assert resolve(expected.encode(), wanted) is None


def test_a_comment_behind_the_last_argument_stays() -> None:
    wanted = edit("a.py", LOADER, "", "4")
    assert after("DataLoader(\n  x  # new\n)\n", wanted) == "DataLoader(\n  x,  # new\n  num_workers=4\n)\n"


@pytest.mark.parametrize(
    ("name", "key", "new", "now", "why"),
    [
        ("a.yaml", "o.a", "4", "o: 3\n", "o stands there already"),
        ("a.yaml", "o.a", "4", "o: {a: 3}\n", "it is 3 now"),
        ("a.py", LOADER, "4", "DataLoader(x)\nDataLoader(y)\n", "DataLoader is called at 2 places now"),
        (
            "a.py",
            LOADER,
            "4",
            "DataLoader(x)\nDataLoader(y, num_workers=4)\n",
            "DataLoader is called at 2 places now",
        ),
        ("a.py", LOADER, "4", "Loader(x)\nnum_workers = 0\n", "it no longer exists"),
        ("a.py", LOADER, "4", "DataLoader(x, num_workers=3)\n", "it is 3 now"),
        ("a.py", LOADER, "n", "DataLoader(x)\n", "n is not a plain value"),
        ("run.sh", "a.py --workers", "4", "python t.py --lr 1\n", "it no longer exists"),
    ],
)
def test_a_key_whose_holder_is_not_certain_is_refused(name: str, key: str, new: str, now: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        resolve(now.encode(), edit(name, key, "", new))


def test_of_several_calls_the_one_that_is_meant() -> None:
    now = "DataLoader(x)\nDataLoader(y)\n"
    wanted = replace(edit("a.py", LOADER, "", "4"), occurrence=2)
    assert apply_edits(now.encode(), [wanted]).decode() == "DataLoader(x)\nDataLoader(y, num_workers=4)\n"
    with pytest.raises(UsageError, match="DataLoader is called at 2 places now"):
        resolve(now.encode(), wanted)


def test_of_several_commands_the_one_that_runs_the_program() -> None:
    now = b"python a.py --lr 1\npython b.py --lr 1\npython a.py --lr 2\n"
    wanted = replace(edit("run.sh", "a.py --workers", "", "4"), occurrence=2)
    assert apply_edits(now, [wanted]) == now.replace(b"--lr 2", b"--lr 2 --workers 4")
    with pytest.raises(UsageError, match="2 commands could get it"):
        resolve(now, wanted)


def test_help_is_edited_only_where_it_still_says_the_default() -> None:
    wanted = edit("a.py", "--workers help", "0", "4")
    assert after(OPTION.format("help='default: 0', ", "4"), wanted) == OPTION.format("help='default: 4', ", "4")
    assert resolve(OPTION.format("help='default: 2', ", "4").encode(), wanted) is None


STATEMENT = edit("a.py", "set_num_threads()", "", "4")


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("import os\nimport torch\n\nx = 1\n", "import os\nimport torch\n\ntorch.set_num_threads(4)\n\nx = 1\n"),
        ("import torch as t\r\nx = 1\r\n", "import torch as t\r\n\r\nt.set_num_threads(4)\r\n\r\nx = 1\r\n"),
    ],
)
def test_a_statement_is_added_to_the_file_as_it_is_now(now: str, expected: str) -> None:
    assert after(now, STATEMENT) == expected
    assert resolve(expected.encode(), STATEMENT) is None


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ("import torch\ntorch.set_num_threads(2)\n", "it is 2 now"),
        ("import torch\ntorch.set_num_threads(n)\n", "n is not a plain value"),
        ("import torch\ntorch.set_num_threads(4)\ntorch.set_num_threads(4)\n", "it is at lines 2 and 3 now"),
        ("x = 1\n", "a.py imports nothing"),
    ],
)
def test_a_statement_that_cannot_be_added_any_more_is_refused(now: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        resolve(now.encode(), STATEMENT)


@pytest.mark.parametrize("given", ["'high'", "precision='high'"])
def test_what_a_function_takes_is_found_by_its_name(given: str) -> None:
    wanted = edit("a.py", "set_float32_matmul_precision()", "'high'", "'medium'")
    now = f"import torch\nx = int('1')\ntorch.set_float32_matmul_precision({given})\n"
    assert after(now, wanted) == now.replace(f"({given}", f"({given.replace('high', 'medium')}")


@pytest.mark.parametrize(
    ("name", "now", "old", "new"),
    [
        ("a.py", "f(a=False)\n", "False", "4, b=5"),
        ("a.py", "f(a=False)\n", "False", "4); import os; (0"),
        ("a.py", "# -*- coding: latin-1 -*-\nf(a='x')\n", "'x'", "'\u00e9'"),
        ("a.yaml", "f:\n  a: [1, 2]\n", "1", "[3, 4]"),
        ("a.yaml", "f: {}\n", "", "[3, 4]"),
        ("a.json", '{"f": {}}', "", '{"v": 2}'),
        ("a.toml", "[f]\n", "", "[3]"),
    ],
)
def test_what_is_no_plain_value_in_its_place_is_refused(name: str, now: str, old: str, new: str) -> None:
    key = "f.a.0" if old == "1" else "f.a"
    with pytest.raises(UsageError):
        apply_edits(now.encode(), [edit(name, key, old, new)])


@pytest.mark.parametrize("name", ["a.yaml", "a.sh"])
def test_the_help_of_an_option_is_one_of_a_script(name: str) -> None:
    with pytest.raises(UsageError):
        apply_edits(b"a: 1\n", [edit(name, "--a help", "1", "2")])


def test_an_edit_that_another_one_hides_is_refused() -> None:
    now = b"python train.py --lr 1\npython eval.py --workers 0\n"
    added, other = edit("run.sh", "train.py --workers", "", "4"), edit("run.sh", "--workers", "0", "4")
    with pytest.raises(UsageError, match="another edit stands at the place of --workers"):
        apply_edits(now, [added, other])


def test_a_changed_file_with_one_place_needs_no_count() -> None:
    wanted = replace(edit("a.py", LOADER, "0", "4"), occurrence=2)
    assert resolve(b"DataLoader(x, num_workers=0)\n", wanted) is not None
