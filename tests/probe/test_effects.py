from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = """
import json, sys
from autotune.probe import effects
effects.install(json.loads(sys.argv[1]))
print(json.dumps([name.partition("probe.")[2] for name in sys.modules if name.startswith("autotune.probe.")]))
"""
OF_HOOKS = {
    *(f"overlay.{name}" for name in ("actions", "imports", "layer", "native", "read", "shared", "stand_ins", "world")),
    "overlay.write",
    "isolate.unisolated_writes",
}
OF_KERNEL = {"overlay.across_devices"}


@pytest.mark.parametrize(
    ("layer", "needed", "others"), [("kernel", OF_KERNEL, OF_HOOKS), ("hooks", OF_HOOKS, OF_KERNEL)]
)
def test_a_layer_imports_its_own_files_alone(tmp_path, layer, needed, others):
    settings = {
        "layer": layer,
        "protected": [],
        "exempt": ["/"],
        "run_id": "1",
        "run_dir": str(tmp_path),
        "mount_points": ["/"],
    }
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(settings)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert needed <= loaded
    assert not others & loaded
