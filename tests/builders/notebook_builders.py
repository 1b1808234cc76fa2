"""Notebooks as the programs write them that people use: the same cells, other bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

Cell = tuple[str, str]
"""The kind of a cell, "code" or "markdown", and its text."""

PNG = "iVBORw0KGgo" + "A" * 300


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _outputs(number: int) -> list[object]:
    """What ran has outputs: text with other alphabets, and a picture."""
    stream = {
        "name": "stdout",
        "output_type": "stream",
        "text": [f"Epoch {number}: 100%|██████████|\n", "\u001b[0mé\n"],
    }
    picture = {"data": {"image/png": PNG, "text/plain": ["<Figure>"]}, "metadata": {}, "output_type": "display_data"}
    return [stream, picture] if number % 2 else []


def jupyter(cells: Sequence[Cell]) -> bytes:
    """As nbformat writes it: indent 1, sorted keys, characters as they are, a line break at the end."""
    made: list[object] = []
    for number, (kind, text) in enumerate(cells):
        cell: dict[str, object] = {"cell_type": kind, "id": f"c{number}", "metadata": {}, "source": _lines(text)}
        if kind == "code":
            cell |= {"execution_count": number, "outputs": _outputs(number)}
        made.append(dict(sorted(cell.items())))
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "name": "python", "version": "3.11.7"},
    }
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode()


def vscode(cells: Sequence[Cell]) -> bytes:
    """As VS Code writes it: its own order of keys, the language of a cell, Windows line breaks between lines."""
    made = [
        {"cell_type": kind, **({"execution_count": None} if kind == "code" else {}),
         "metadata": {"vscode": {"languageId": "python"}} if kind == "code" else {},
         **({"outputs": _outputs(number)} if kind == "code" else {}), "source": _lines(text)}
        for number, (kind, text) in enumerate(cells)
    ]  # fmt: skip
    whole = {"cells": made, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 2}
    return json.dumps(whole, indent=1, ensure_ascii=False).replace("\n", "\r\n").encode()


def colab(cells: Sequence[Cell]) -> bytes:
    """As Colab writes it: indent 2, the format first, the source before the rest, no line break at the end."""
    made = [
        {"cell_type": kind, "source": _lines(text), "metadata": {"id": f"x{number}"},
         **({"execution_count": number, "outputs": _outputs(number)} if kind == "code" else {})}
        for number, (kind, text) in enumerate(cells)
    ]  # fmt: skip
    head = {"nbformat": 4, "nbformat_minor": 0, "metadata": {"accelerator": "GPU", "colab": {"provenance": []}}}
    return json.dumps({**head, "cells": made}, indent=2, ensure_ascii=False).encode()


def kaggle(cells: Sequence[Cell]) -> bytes:
    """As Kaggle writes it: one line, and one string for each source, with escapes for other alphabets."""
    made = [
        {"cell_type": kind, "source": text, "metadata": {"trusted": True},
         **({"execution_count": None, "outputs": _outputs(number)} if kind == "code" else {})}
        for number, (kind, text) in enumerate(cells)
    ]  # fmt: skip
    head = {"metadata": {"kernelspec": {"language": "python", "name": "python3"}}, "nbformat_minor": 4, "nbformat": 4}
    return json.dumps({**head, "cells": made}, separators=(",", ":")).encode()


def old(cells: Sequence[Cell]) -> bytes:
    """nbformat 3: worksheets, and `input` for a source."""
    made = [
        {"cell_type": kind, "collapsed": False, "input": _lines(text), "language": "python", "metadata": {},
         "outputs": _outputs(number), "prompt_number": number}
        if kind == "code" else {"cell_type": kind, "metadata": {}, "source": _lines(text)}
        for number, (kind, text) in enumerate(cells)
    ]  # fmt: skip
    whole = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": made}]}
    return json.dumps(whole, indent=1).encode()


SHAPES: dict[str, Callable[[Sequence[Cell]], bytes]] = {
    "jupyter": jupyter,
    "vscode": vscode,
    "colab": colab,
    "kaggle": kaggle,
    "old": old,
}
