"""Edits of files as they are stored."""

from __future__ import annotations

import json

import pytest

from autotune.model.evidence import Span
from autotune.model.source import Splice
from autotune.patch.notebook_text import text, with_splice

SHEET = {"cells": [{"cell_type": "code", "input": "workers = 0", "outputs": []}]}


@pytest.mark.parametrize("other", [{}, {"cells": None}, None, 3])
def test_a_worksheet_without_cells_stays_as_it_is(other: object) -> None:
    data = json.dumps({"nbformat": 3, "worksheets": [other, SHEET]}).encode()
    at = text("a.ipynb", data).index(b"0")
    after = json.loads(with_splice("a.ipynb", data, Splice(Span(at, at + 1), "8")))
    assert after["worksheets"][0] == other
    assert after["worksheets"][1]["cells"][0]["input"] == "workers = 8"


def test_worksheets_beside_cells_are_no_code() -> None:
    cell = {"cell_type": "code", "source": "workers = 0", "outputs": []}
    data = json.dumps({"nbformat": 4, "worksheets": [SHEET], "cells": [cell]}).encode()
    at = text("a.ipynb", data).index(b"0")
    assert json.loads(with_splice("a.ipynb", data, Splice(Span(at, at + 1), "8")))["worksheets"] == [SHEET]
