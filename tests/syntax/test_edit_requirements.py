from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.model.source import Splice
from autotune.syntax import edit_requirements
from autotune.syntax.edit_effect import spliced


def pinned(text: str, name: str = "requirements.txt", package: str = "torch-x") -> str:
    data = text.encode()
    splices: tuple[Splice, ...] = edit_requirements.replaced(data, name, package, "2.8.0")
    for splice in reversed(splices):
        data = spliced(data, splice)
    return data.decode()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch-x==2.1.0\n", "requirements.txt"),
        ("a==1\r\nTorch_X[gpu] == 2.1.0 ; python_version > '3' # why\r\n", "requirements.txt"),
        ("torch-xy==2.1\ntorch-x==2.1.0+cu118", "requirements.txt"),
        ('[project]\ndependencies = ["a==1", "torch-x==2.1.0"]\n', "pyproject.toml"),
        ("dependencies:\n- torch-x=2.1.0 # why\n- pip:\n  - torch-x==2.1.0\n", "environment.yml"),
    ],
)
def test_a_pin_is_replaced_and_nothing_else(text: str, name: str) -> None:
    assert pinned(text, name) == text.replace("2.1.0+cu118", "2.1.0").replace("2.1.0", "2.8.0")


@pytest.mark.parametrize(
    "text", ["torch-x>=2.1\n", "torch-x\n", "# torch-x==2.1\n", "a==1\n", "torch-x==2.1 \\\n  --hash=sha256:1\n"]
)
def test_what_is_no_plain_pin_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="pinned"):
        pinned(text)


def test_a_version_has_to_be_one() -> None:
    with pytest.raises(UsageError, match="no version"):
        edit_requirements.replaced(b"a==1", "requirements.txt", "a", ">=2")
