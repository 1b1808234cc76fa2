"""Runs a script under the overlay in a fresh interpreter, as the probe does, and says what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from autotune.collect import scratch_changes, stale_runs
from autotune.probe.overlay import native, stand_ins
from autotune.probe.patches import Patches

CHECKOUT = Path(__file__).parents[2]

DRIVER = """
import json, os, runpy, sys
from autotune.probe import effects, imports
imports.install(effects.install({"layer": "hooks", **json.loads(sys.argv[1])}))
script, report = sys.argv[2:4]
sys.argv = [script]
sys.path.append(os.path.dirname(script))
try:
    runpy.run_path(script, run_name="__main__")
finally:
    rows = effects.report()
    with open(report, "w") as file:
        json.dump(rows, file)
"""


class Overlay:
    """The overlay in this process: installed, asked and taken off again."""

    def __init__(self) -> None:
        self._patches, self._world = Patches(), None

    def install(self, settings) -> None:
        self._world = stand_ins.install(settings, self._patches)

    def uninstall(self) -> None:
        self._patches.restore()

    def redirected(self):
        """What lies in the scratch of all processes."""
        return scratch_changes.of_hooks(layer.folder for layer in self._world.layers())

    def callbacks(self, isolated):
        """{module name: function(module)} that map the paths of compiled code."""
        return native.callbacks(self._world, self._patches, isolated)


def tree(root):
    """{relative path: (mode, content)} of everything below `root`, folders and link texts too."""
    found = {}
    for top, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(top, name)
            content = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = file.read()
            found[os.path.relpath(path, root)] = (os.lstat(path).st_mode, content)
    return found


class Project:
    """A folder with old outputs in it; `run` runs a script there and asserts that the folder did not change."""

    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.run_dir = self.root / ".autotune" / "runs" / "1"
        self.run_dir.mkdir(parents=True)
        (self.root / "out" / "checkpoint-10").mkdir(parents=True)
        (self.root / "out" / "ckpt.pt").write_bytes(b"old")
        (self.root / "out" / "checkpoint-10" / "model.bin").write_bytes(b"ten")
        (self.root / "train.log").write_text("one\n")

    def settings(self, **more):
        """The settings of stand_ins.install."""
        return {
            "protected": [str(self.root)],
            "exempt": ["/tmp", str(self.run_dir)],
            "run_id": "1",
            "run_dir": str(self.run_dir),
            **more,
        }

    def snapshot(self):
        """What must not change."""
        return {name: row for name, row in tree(self.root).items() if not name.startswith(".autotune")}

    def run(self, body: str, **environ: str):
        """Run `body`; the overlay's report, paths relative to the project, and what the script printed, by lines."""
        script = self.run_dir / "script.py"
        script.write_text(textwrap.dedent(body))
        (self.run_dir / "overlay_settings.py").write_text(f"SETTINGS = {json.dumps(self.settings())!r}")
        report = self.run_dir / "report.json"
        before = self.snapshot()
        done = subprocess.run(
            [sys.executable, "-B", "-c", DRIVER, json.dumps(self.settings()), str(script), str(report)],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environ},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        after = self.snapshot()
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        assert not changed, f"the real tree changed: {changed}"
        changes = scratch_changes.of_hooks(stale_runs.scratch_folders(self.run_dir))
        rows = [{"path": os.path.relpath(row.path, self.root), "kind": row.kind, "bytes": row.bytes} for row in changes]
        return {"redirected": rows, **json.loads(report.read_text())}, done.stdout.splitlines()
