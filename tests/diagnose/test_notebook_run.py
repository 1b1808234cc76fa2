"""A notebook that Jupyter runs under the probe. `AUTOTUNE_NOTEBOOK_PYTHON` names a Python with torch, nbclient and
ipykernel, where that of the tests has none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_builders import SHAPES, Cell

PYTHON = os.environ.get("AUTOTUNE_NOTEBOOK_PYTHON", sys.executable)
HAS_JUPYTER = "AUTOTUNE_NOTEBOOK_PYTHON" in os.environ or all(
    map(importlib.util.find_spec, ("nbclient", "ipykernel", "torch"))
)

CELLS: list[Cell] = [
    ("markdown", "# ü"),
    ("code", "%env X=1\nimport time\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\n!echo hello"),
    ("code", "class Data(Dataset):\n    def __len__(self):\n        return 4000\n    def __getitem__(self, at):\n"
     "        time.sleep(0.05)\n        return torch.full((16,), float(at)), torch.ones(1)"),
    ("code", "model = torch.nn.Linear(16, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=1e-3)\n"
     "loader = DataLoader(Data(), batch_size=4)"),
    ("code", "%%time\nfor x, y in loader:\n    loss = ((model(x) - y) ** 2).mean()\n    loss.backward()\n"
     "    optimizer.step()\n    optimizer.zero_grad()\ntorch.save(model.state_dict(), 'model.pt')"),
]  # fmt: skip


def autotune(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=500, check=False)


@pytest.mark.skipif(not HAS_JUPYTER, reason="nbclient, ipykernel and torch are not in one environment")
@pytest.mark.parametrize("shape", ["jupyter", "kaggle"])
def test_a_notebook_is_measured_and_its_cells_are_named(tmp_path: Path, shape: str) -> None:
    data = SHAPES[shape](CELLS)
    (tmp_path / "nb.ipynb").write_bytes(data)
    words = ["diagnose", "--quiet", "--no-lock", "--steps", "15", "--python", PYTHON, "--format", "json", "nb.ipynb"]
    done = autotune(words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "nb.ipynb").read_bytes() == data
    assert not (tmp_path / "model.pt").exists()
    report = json.loads(done.stdout)
    found = {one["rule"]: one for one in report["findings"]}
    at = found["DL001"]["changes"][0] if "location" in found["DL001"]["changes"][0] else found["DL001"]
    assert (at["location"]["cell"], at["location"]["cell_line"]) == (4, 3)
    hottest = [(Path(one["file"]).name, one["line"]) for one in report["step"]["lines"]]
    assert ("nb.ipynb cell 3", 5) in hottest
    applied = autotune(["apply", "--yes"], tmp_path)
    assert applied.returncode == 0, applied.stderr
    cells = json.loads((tmp_path / "nb.ipynb").read_bytes())["cells"]
    assert "batch_size=4, num_workers=" in "".join(cells[3]["source"])
