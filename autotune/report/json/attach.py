"""One JSON object, schema 1, described by `attach.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from autotune import __version__
from autotune.model.attached import Attached
from autotune.report.json.encode import SCHEMA, dumps

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(found: Attached, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(found))


def document(found: Attached) -> doc.AttachDocument:
    """The process as plain values."""
    plain = msgspec.json.decode(msgspec.json.encode(found))  # with lists: `dumps` writes a tuple as a version
    tool = {"name": "autotune", "version": __version__}
    made: doc.AttachDocument = {"schema": SCHEMA, "tool": tool, **plain}  # type: ignore[typeddict-item]
    return made
