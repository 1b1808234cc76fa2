"""Labelled training scripts: each label is a measurement, and the tool is scored against them.

    python -m benchmarks.accuracy --corpus FOLDER          every case, diagnosed and scored
    python -m benchmarks.accuracy.measure --corpus FOLDER  the labels: what each hand fix gains

Both are started from the root of the checkout. The cases are in fixtures/labelled.
"""

import sys
from pathlib import Path

# The other benchmarks import one another by their bare names.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
