from __future__ import annotations

import pytest
from scanning import given, scan, value

ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-j", "--num-workers", type=int, default=4)
parser.add_argument("--fast", action="store_true")
parser.add_argument("--batch", type=int, default="32")
parser.add_argument("--name")
parser.add_argument("--dtype", dest="precision", default="bf16")
parser.add_argument("--sizes", type=int, nargs="+", default=[1])
parser.add_argument("--odd", type=parse_size, default="4k")
parser.add_argument("--pin", type=bool, default="")
parser.add_argument("--slow", action="store_false")
parser.add_argument("--shuffle", action=argparse.BooleanOptionalAction)
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("DataLoader(d, x=4)", 4),
        ("DataLoader(d, x=-4)", -4),
        ("DataLoader(d, x=None)", None),
        ("N = 4\nDataLoader(d, x=N)", 4),
        ("N = 4\nM = N\ndef f():\n    return DataLoader(d, x=M)", 4),
        ("N: int = 4\nDataLoader(d, x=N * 2)", 8),
        ("DataLoader(d, x=5 * 8 // 2)", 20),
        ("DataLoader(d, x=int('8'))", 8),
        ("N = 4\nDataLoader(d, x=int(N))", 4),
        ("DataLoader(d, x=[2, 3])", (2, 3)),
        ("A, B = 3, 4\nDataLoader(d, x=B)", 4),
        ("N = 4 if fast else 4\nDataLoader(d, x=N)", 4),
        ("if fast:\n    N = 4\nelse:\n    N = 4\nDataLoader(d, x=N)", 4),
        ("import torch\nDataLoader(d, x=torch.bfloat16)", "bfloat16"),
        ("import torch\nDataLoader(d, x=torch.half)", "float16"),
        ("from transformers.trainer_utils import IntervalStrategy\nDataLoader(d, x=IntervalStrategy.STEPS)", "steps"),
        ("C = {'w': 4}\nDataLoader(d, x=C['w'])", 4),
        ("C = dict(w=4)\nDataLoader(d, x=C['w'])", 4),
        ("def f():\n    return 4\nDataLoader(d, x=f())", 4),
        ("def f(n):\n    return DataLoader(d, x=n)\nf(4)\nf(n=4)", 4),
        ("def f(n=4):\n    return DataLoader(d, x=n)\nf()", 4),
        ("class C:\n    w = 4\nDataLoader(d, x=C.w)", 4),
        ("class C:\n    def __init__(self):\n        self.w = 4\nc = C()\nDataLoader(d, x=c.w)", 4),
        (
            "class C:\n    def __init__(self, w):\n        self.w = w\n"
            "    def g(self):\n        DataLoader(d, x=self.w)\nC(4)",
            4,
        ),
        ("class C:\n    w = 4\nclass D(C):\n    def g(self):\n        DataLoader(d, x=self.w)", 4),
        ("from types import SimpleNamespace\nc = SimpleNamespace(w=4)\nDataLoader(d, x=c.w)", 4),
        ("DataLoader(d, x=not False)", True),
        ("DataLoader(d, x=None or 4)", 4),
        ("DataLoader(d, x=(n := 4))", 4),
    ],
)
def test_a_value_is_followed_to_where_it_is_written(code: str, expected: object) -> None:
    assert value(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "DataLoader(d, x=n)",
        "N = 4\nN = 8\nDataLoader(d, x=N)",
        "N = 4\nif fast:\n    N = 8\nDataLoader(d, x=N)",
        "N = 4\nN += 1\nDataLoader(d, x=N)",
        "N = 4 if fast else 8\nDataLoader(d, x=N)",
        "for N in (4, 8):\n    DataLoader(d, x=N)",
        "with a() as N:\n    DataLoader(d, x=N)",
        "import os\nDataLoader(d, x=os.cpu_count())",
        "def f(n):\n    return DataLoader(d, x=n)\nf(4)\nf(8)",
        "def f(n):\n    return DataLoader(d, x=n)\nf(4)\nrun(f)",
        "def f(n):\n    return DataLoader(d, x=n)\nf(*a)",
        "def f(n=4):\n    return DataLoader(d, x=n)",
        "N = 4\ndef f():\n    global N\n    N = 8\nDataLoader(d, x=N)",
        "C = {'w': 4}\nC.update(other)\nDataLoader(d, x=C['w'])",
        "C = {'w': 4}\nif fast:\n    C['w'] = 8\nDataLoader(d, x=C['w'])",
        "class C:\n    w = 4\n    def g(self):\n        self.w = 8\nDataLoader(d, x=C().w)",
        "x = x + 1\nDataLoader(d, x=x)",
        "f = lambda n: DataLoader(d, x=n)",
        "DataLoader(d, x=9 ** 9 ** 9)",
        "DataLoader(d, x=1 / 0)",
        "DataLoader(d, x=f'{n}')",
        "def g():\n    yield 4\nDataLoader(d, x=g())",
        "def a(n):\n    return b(n)\ndef b(n):\n    return a(n)\nDataLoader(d, x=a(4))",
    ],
)
def test_what_cannot_be_followed_is_not_known(code: str) -> None:
    assert value(code) == "unknown"


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("args = parser.parse_args()\nDataLoader(d, x=args.num_workers)", 4),
        ("args = parser.parse_args()\nDataLoader(d, x=args.fast)", False),
        ("args = parser.parse_args()\nDataLoader(d, x=args.slow)", True),
        ("args = parser.parse_args()\nDataLoader(d, x=args.pin)", False),
        ("args = parser.parse_args()\nDataLoader(d, x=args.batch)", 32),
        ("args = parser.parse_args()\nDataLoader(d, x=args.name)", None),
        ("args = parser.parse_args()\nDataLoader(d, x=args.precision)", "bf16"),
        ("args, _ = parser.parse_known_args()\nDataLoader(d, x=args.batch)", 32),
        ("opt = parser.parse_args()\ndef train(cfg):\n    DataLoader(d, x=cfg.batch)\ntrain(opt)", 32),
        (
            "def get():\n    return parser.parse_args()\ndef main():\n    a = get()\n    DataLoader(d, x=a.batch)",
            32,
        ),
        (
            "class T:\n    def __init__(self, a):\n        self.a = a\n        DataLoader(d, x=self.a.batch)\n"
            "T(parser.parse_args())",
            32,
        ),
        (
            "def worker(rank, a):\n    DataLoader(d, x=a.batch)\n"
            "mp.spawn(worker, nprocs=2, args=(parser.parse_args(),))",
            32,
        ),
        ("args = parser.parse_args()\nDataLoader(d, x=args.batch == 32)", True),
        ("args = parser.parse_args()\nDataLoader(d, x=args.odd)", "unknown"),
        ("args = parser.parse_args()\nDataLoader(d, x=args.other)", "unknown"),
        ("args = parser.parse_args()\nargs.batch = args.batch // n\nDataLoader(d, x=args.batch)", "unknown"),
        ("args = parser.parse_args()\nsetattr(args, k, v)\nDataLoader(d, x=args.batch)", "unknown"),
        ("args = parser\nargs = args.parse_args()\nDataLoader(d, x=args.batch)", 32),
        ("parser.set_defaults(**c)\nargs = parser.parse_args()\nDataLoader(d, x=args.batch)", "unknown"),
        ("parser.set_defaults(batch=8)\nargs = parser.parse_args()\nDataLoader(d, x=args.batch)", "unknown"),
        ("parser.add_argument('--batch')\nargs = parser.parse_args()\nDataLoader(d, x=args.batch)", "unknown"),
        ("def train(args):\n    DataLoader(d, x=args.batch)", "unknown"),
    ],
)
def test_argparse_defaults(use: str, expected: object) -> None:
    assert value(ARGPARSE + use) == expected


@pytest.mark.parametrize(
    ("flags", "name", "expected"),
    [
        ({}, "num_workers", 4),
        ({"num_workers": "16"}, "num_workers", 16),
        ({"j": "16"}, "num_workers", 16),
        ({"num_workers": "many"}, "num_workers", "unknown"),
        ({"fast": True}, "fast", True),
        ({"odd": "8k"}, "odd", "unknown"),
        ({"dtype": "fp16"}, "precision", "fp16"),
        ({"dtype": "16"}, "precision", "16"),
        ({"name": "True"}, "name", "True"),
        ({"pin": "False"}, "pin", True),
        ({"pin": ""}, "pin", False),
        ({"sizes": "8"}, "sizes", "unknown"),
        ({"odd": "8"}, "odd", "unknown"),
        ({"num_workers": True}, "num_workers", "unknown"),
        ({"slow": True}, "slow", False),
        ({"shuffle": True}, "shuffle", True),
        ({"shuffle": False}, "shuffle", False),
    ],
)
def test_a_command_line_replaces_defaults(flags: dict[str, str | bool], name: str, expected: object) -> None:
    assert value(f"{ARGPARSE}args = parser.parse_args()\nDataLoader(d, x=args.{name})", flags) == expected


def test_the_place_is_where_a_person_edits_the_value() -> None:
    option = given(ARGPARSE + "args = parser.parse_args()\nDataLoader(d, x=args.num_workers)")
    assert (option.location.line, option.location.key, option.location.call) == (5, "--num-workers", "add_argument")
    assert option.is_default
    constant = given("WORKERS = 16\nDataLoader(d, x=WORKERS)")
    assert (constant.location.line, constant.location.column, constant.location.key) == (2, 11, "WORKERS")
    assert not constant.is_default
    literal = given("DataLoader(\n    d,\n    x=16,\n)")
    assert (literal.location.line, literal.location.end_line, literal.location.key) == (4, 5, "x")
    assert literal.location.call == "DataLoader"


def test_spans_are_bytes_of_the_file() -> None:
    code = "ä = 'ö'; WORKERS = 16\nDataLoader(d, x=WORKERS)"
    span = given(code).location.span
    assert ("from torch.utils.data import DataLoader\n" + code).encode()[span.start : span.end] == b"16"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('@click.command()\n@click.option("--w", default=4)\ndef main(w):\n    DataLoader(d, x=w)', 4),
        ('@click.command()\n@click.option("-w", "n", default=4)\ndef main(n):\n    DataLoader(d, x=n)', 4),
        ('@click.command()\n@click.option("--w", is_flag=True)\ndef main(w):\n    DataLoader(d, x=w)', False),
        ("def main(w: int = 4):\n    DataLoader(d, x=w)\ntyper.run(main)", 4),
        ("def main(w: int = typer.Option(4)):\n    DataLoader(d, x=w)\ntyper.run(main)", 4),
        ("app = typer.Typer()\n@app.command()\ndef main(w: int = 4):\n    DataLoader(d, x=w)", 4),
        ("def main(w=4):\n    DataLoader(d, x=w)\nfire.Fire(main)", 4),
        ("@hydra.main()\ndef main(cfg):\n    DataLoader(d, x=cfg.w)\nmain()", "unknown"),
    ],
)
def test_options_of_click_typer_and_fire(code: str, expected: object) -> None:
    found = given("import click, typer, fire, hydra\n" + code)
    assert (found.value if found.known else "unknown") == expected
    assert found.is_default is (expected != "unknown")


@pytest.mark.parametrize(("word", "expected"), [("no", False), ("Y", True), (True, True), ("maybe", "unknown")])
def test_other_parsers_read_a_truth_value_as_a_word(word: str | bool, expected: object) -> None:
    click = '@click.command()\n@click.option("--w", type=bool)\ndef main(w):\n    DataLoader(d, x=w)'
    typer = "def main(w: bool = True):\n    DataLoader(d, x=w)\ntyper.run(main)"
    for code in (click, typer):
        assert value(f"import click, typer\n{code}", {"w": word}) == expected


DATACLASS = """
from dataclasses import dataclass, field
@dataclass
class Config:
    w: int = 4
    b: int = field(default=8, metadata={})
    l: list = field(default_factory=lambda: [1])
    r: int
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("DataLoader(d, x=Config().w)", 4),
        ("DataLoader(d, x=Config(w=5).w)", 5),
        ("c = Config(5, 6)\nDataLoader(d, x=c.b)", 6),
        ("DataLoader(d, x=Config(**other).w)", "unknown"),
        ("DataLoader(d, x=Config().r)", "unknown"),
        ("c = tyro.cli(Config)\nDataLoader(d, x=c.b)", 8),
        ("p = HfArgumentParser(Config)\n(c,) = p.parse_args_into_dataclasses()\nDataLoader(d, x=c.b)", 8),
        ("p = HfArgumentParser((Other, Config))\no, c = p.parse_args_into_dataclasses()\nDataLoader(d, x=c.w)", 4),
        ("c = HfArgumentParser(Config).parse_args_into_dataclasses()[0]\nDataLoader(d, x=c.w)", 4),
        (
            "p = HfArgumentParser((Other, Config))\nif a:\n    o, c = p.parse_json_file(f)\nelse:\n"
            "    o, c = p.parse_args_into_dataclasses()\nDataLoader(d, x=c.w)",
            4,
        ),
        (
            "p = HfArgumentParser((Config, Other))\no, c = p.parse_args_into_dataclasses()\nDataLoader(d, x=c.w)",
            "unknown",
        ),
    ],
)
def test_fields_of_dataclasses(use: str, expected: object) -> None:
    assert value("import tyro\nfrom transformers import HfArgumentParser\n" + DATACLASS + use) == expected


def test_options_and_parsed_classes_of_a_script() -> None:
    script = scan(
        DATACLASS
        + """
from transformers import HfArgumentParser, TrainingArguments
class Own(TrainingArguments):
    pass
HfArgumentParser((Config, Own, TrainingArguments))
"""
    )
    assert script.parses == ("Config", "TrainingArguments")
    assert {name: option.value for name, option in script.options.items()} == {"w": 4, "b": 8, "l": (1,)}


def test_constants_that_exec_may_replace_are_defaults() -> None:
    found = given("N = 4\nexec(open('configurator.py').read())\nDataLoader(d, x=N)")
    assert (found.value, found.is_default) == (4, True)
