"""Runs the areas that are named (all without a name) and prints the table; exits 1 when an attack succeeded.

python -m benchmarks.attacks [AREA ...] [--list]      areas: the modules of this folder
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

import benchmarks.attacks as package

_NO_AREA = ("__main__", "case")


def areas() -> list[str]:
    """The names of all areas: modules of this folder that have `cases`."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(package.__path__)
        if module.name not in _NO_AREA and not module.name.startswith("_")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("area", nargs="*", choices=[*areas(), []], help="only these areas")
    parser.add_argument("--list", action="store_true", help="print each attack, not only those that succeeded")
    options = parser.parse_args()
    num_failed = 0
    print(f"{'area':<48} {'tried':>6} {'failed':>7} {'seconds':>8}")
    for name in options.area or areas():
        area = importlib.import_module(f"benchmarks.attacks.{name}")
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"attacks-{name}-") as scratch:
            tried = list(area.cases(Path(scratch)))
        bad = [case for case in tried if case.failure]
        num_failed += len(bad)
        print(f"{area.TITLE:<48} {len(tried):>6} {len(bad):>7} {time.monotonic() - began:>8.0f}", flush=True)
        if options.list:
            for case in tried:
                print(f"    {case.name}: {case.failure or 'held'}{f' ({case.detail})' if case.detail else ''}")
        for case in bad:
            print(f"FAILED {name}: {case.name}: {case.failure}", flush=True)
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
