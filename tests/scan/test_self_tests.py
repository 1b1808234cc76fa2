"""A module that trains below its main guard, to try itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

MODEL = "import torch\nclass Net(torch.nn.Module):\n    pass\n"
LOOP = "for step in range(10):\n    loss = net(torch.randn(2))\n    loss.backward()\n    optimizer.step()\n"
GUARD = 'if __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in LOOP.splitlines())
FIT = "def fit(net, optimizer):\n" + "".join(f"    {line}\n" for line in LOOP.splitlines())
TRAIN = "import torch\n{imports}\n" + LOOP


@pytest.mark.parametrize(
    ("module", "imports", "is_bundle"),
    [
        (MODEL + GUARD, "from models.net import Net", False),
        (MODEL + GUARD, "from models import net", False),
        (MODEL + GUARD, "from models.network import Net", True),
        (MODEL + FIT + GUARD, "from models.net import Net", True),
    ],
)
def test_a_module_that_tries_itself_is_no_run(tmp_path: Path, module: str, imports: str, is_bundle: bool) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/net.py").write_text(module)
    (tmp_path / "train.py").write_text(TRAIN.format(imports=imports))
    names = [one.name for one in scan([tmp_path], root=tmp_path).bundles]
    assert "train.py" in names
    assert ("models/net.py" in names) is is_bundle


def _named(name: str) -> str:
    """A function of this name that trains, called below the main guard."""
    return FIT.replace("def fit(", f"def {name}(") + f'if __name__ == "__main__":\n    {name}(Net(), optimizer)\n'


@pytest.mark.parametrize(
    ("module", "is_bundle"),
    [
        (MODEL + _named("test_attention"), False),
        (MODEL + _named("benchmark"), False),
        (MODEL + _named("fit"), True),
        (MODEL + _named("tested"), True),
        (MODEL + FIT + _named("test_attention"), True),  # something else in it trains
        (
            "import torch\nfrom models import Net\n" + _named("test_attention"),
            True,
        ),  # defines nothing that it could test
    ],
)
def test_a_module_that_measures_itself_is_no_run(tmp_path: Path, module: str, is_bundle: bool) -> None:
    (tmp_path / "attention.py").write_text(module)
    assert [one.name for one in scan([tmp_path], root=tmp_path).bundles] == (["attention.py"] if is_bundle else [])
