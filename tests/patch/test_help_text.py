"""A help that spells the default of its option says the new one; every other help stays as it is."""

from __future__ import annotations

import pytest

from autotune.model.patch import Edit
from autotune.patch import help_text
from autotune.patch.journal import sha256
from autotune.patch.resolve import apply_edits

OPTION = "parser.add_argument('--n', type=int, default={}, help={})"


def with_help(text: str, old: str, new: str) -> str:
    """The script when the first `default=old` becomes `new`, with what its help says."""
    data = text.encode()
    edit = Edit("a.py", "--n", old, new, sha256=sha256(data))
    return apply_edits(data, [edit, *help_text.help_edits(data, edit)]).decode()


@pytest.mark.parametrize(
    "text",
    [
        "'rows (default: {})'",
        "'rows (Default {}).'",
        "'rows [default={}]'",
        "'rows, the default is {}'",
        "'ü, by default={}, and 64 more'",
        "'rows, defaults to {}'",
        '"""rows\n    default value is {}\n    """',
        "('rows ' 'of 64 (default: {}, at most 640)')",
    ],
)
def test_a_default_that_is_spelled(text: str) -> None:
    assert with_help(OPTION.format(64, text.format(64)), "64", "128") == OPTION.format(128, text.format(128))


@pytest.mark.parametrize(
    "text",
    [
        "'rows (default: %(default)s)'",
        "'64 rows'",
        "'default: 640'",
        "'default: 64.5'",
        "'default: 64-128'",
        "'default: 64,000'",
        "'by default 64 rows are read'",
        "'the default of 64 rows'",
        "'default: 64, or default: 64'",
        "f'default: 64 {rows}'",
        "'default: ' '64'",
        "HELP",
    ],
)
def test_any_other_help_stays(text: str) -> None:
    assert with_help(OPTION.format(64, text), "64", "128") == OPTION.format(128, text)


def test_a_text_is_spelled_without_quotes() -> None:
    before = OPTION.format("'fp32'", "'precision (default: fp32)'")
    assert with_help(before, "'fp32'", "'bf16'") == before.replace("fp32", "bf16")


def test_the_help_of_a_field() -> None:
    before = (
        "class A:\n    n: int = field(default=64, metadata={'help': 'rows (default: 64)', 'other': 'default: 64'})\n"
    )
    after = (
        "class A:\n    n: int = field(default=128, metadata={'help': 'rows (default: 128)', 'other': 'default: 64'})\n"
    )
    assert with_help(before, "64", "128") == after


def test_the_help_of_another_option_stays() -> None:
    other = "parser.add_argument('--m', default=64, help='default: 64')"
    before = f"{OPTION.format(64, 'None')}\n{other}"
    assert with_help(before, "64", "128") == f"{OPTION.format(128, 'None')}\n{other}"


def test_what_is_no_option_has_no_help() -> None:
    data = b"f(default=64, help='default: 64')"
    assert not list(help_text.help_edits(data, Edit("a.py", "f.default", "64", "128", sha256=sha256(data))))
