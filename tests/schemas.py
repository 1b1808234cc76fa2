"""The JSON Schemas, made from the records: `python tests/schemas.py` writes them, with --check it only compares.

A property is described by the docstring under its field, an object by that of its class.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, get_type_hints

import msgspec

from autotune.collect import request, request_document
from autotune.diagnose import manifest
from autotune.model import attached, evidence, recording, recording_sections, report, scanned, watched
from autotune.report.json import documents

ROOT = Path(__file__).parents[1] / "autotune"
MODULES = (attached, evidence, recording_sections, report, scanned, watched)
"""Where the classes are that those of SCHEMAS consist of, unless they stand in the same module."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Schema:
    """One file: the type that it describes, and its title. `has_version`: a key `schema` that is no field."""

    file: str
    of: type
    title: str
    has_version: bool = False


SCHEMAS = (
    Schema("model/recording.schema.json", recording.Recording, "autotune Recording", has_version=True),
    Schema("model/manifest.schema.json", manifest.StoredManifest, "autotune run.json"),
    Schema("model/watch.schema.json", watched.WatchedProcess, "autotune state of a watched process"),
    Schema("collect/request.schema.json", request_document.RequestDocument, "autotune Request"),
    Schema("report/json/report.schema.json", documents.ReportDocument, "autotune diagnose --format json"),
    Schema("report/json/check.schema.json", documents.CheckDocument, "autotune check --format json"),
    Schema("report/json/tune.schema.json", documents.TuneDocument, "autotune tune --format json"),
    Schema("report/json/fit.schema.json", documents.FitDocument, "autotune fit --format json"),
    Schema("report/json/attach.schema.json", documents.AttachDocument, "autotune diagnose --pid --format json"),
    Schema("report/json/watch.schema.json", documents.WatchDocument, "autotune watch --format json"),
    Schema("report/json/runs.schema.json", documents.RunsDocument, "autotune runs --format json"),
    Schema("report/json/verify.schema.json", documents.VerifyDocument, "autotune verify --format json"),
)


WATCHED = "probe/watch/request.json"
"""What a watched process knows of the frameworks: nobody writes a Request for it."""


def watched_request() -> str:
    """The content of that file: one window after the other, and nothing of the run's start-up."""
    made = request.as_json(request.Request(keep_going=True, what_ifs=False), Path(), None)
    return json.dumps({**made, "startup_entries": []}, indent=1) + "\n"


def text(one: Schema) -> str:
    """The file's content."""
    return json.dumps(schema(one), indent=1, ensure_ascii=False) + "\n"


def schema(one: Schema) -> Json:
    """The JSON Schema of a type, with a description of each property that its class describes."""
    (_,), found = msgspec.json.schema_components([one.of], ref_template="#/$defs/{name}")
    parts = {name: _described(part, _class(name, one.of)) for name, part in found.items()}
    top = parts.pop(one.of.__name__)
    if one.has_version:
        top["properties"] = {"schema": {"const": 1}, **top["properties"]}
        top["required"] = ["schema", *top["required"]]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": one.title}
    return {**head, **top, "$defs": dict(sorted(parts.items()))}


def _class(name: str, beside: type) -> type:
    """The class that `name` means in the module of another."""
    modules = (sys.modules[beside.__module__], *MODULES)
    found: type = next(getattr(module, name) for module in modules if hasattr(module, name))
    return found


def _described(part: Json, of: type) -> Json:
    """`part` in the order of the fields, and closed to keys that its class does not have."""
    if part.get("type") != "object":
        return {name: value for name, value in part.items() if name != "title"}
    described = docstrings(of)
    properties = {
        name: {**_short(part["properties"][name]), **({"description": described[name]} if name in described else {})}
        for name in get_type_hints(of)
        if name in part["properties"]
    }
    others = recording_sections.OTHER_KEYS.get(of)
    others_schema = msgspec.json.schema(others) if others is not None else of in OPEN
    return {
        "description": " ".join(part["description"].split()),
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in part["required"]],
        "additionalProperties": others_schema,
    }


def _short(part: Json) -> Json:
    """`part` with `"type": [...]` in the place of alternatives that are plain types."""
    found = {name: _short(each) if isinstance(each, dict) else each for name, each in part.items() if name != "default"}
    choices = [_short(each) for each in found.get("anyOf", ())]
    if choices and all(each.keys() == {"type"} for each in choices):
        return {"type": [each["type"] for each in choices], **{k: v for k, v in found.items() if k != "anyOf"}}
    return {**found, "anyOf": choices} if choices else found


OPEN = (manifest.StoredManifest,)
"""run.json has more keys than those of a diagnosis."""


def docstrings(of: type) -> dict[str, str]:
    """The docstrings under the fields of a class, those of its bases too."""
    body = ast.parse(dedent(inspect.getsource(of))).body[0]
    assert isinstance(body, ast.ClassDef)
    # A TypedDict does not know its bases; their names stand in the source.
    bases = [ast.unparse(base) for base in body.bases if ast.unparse(base) not in ("Struct", "TypedDict")]
    found = {name: text for base in bases for name, text in docstrings(_class(base, of)).items()}
    for field, below in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def files() -> dict[str, str]:
    """Each generated file below autotune/, with its content."""
    return {**{one.file: text(one) for one in SCHEMAS}, WATCHED: watched_request()}


def main() -> int:
    made = files()
    stale = [name for name, content in made.items() if _written(name) != content]
    if "--check" in sys.argv[1:]:
        if stale:
            print(f"not as the records say: {', '.join(stale)}; run python tests/schemas.py")
        return int(bool(stale))
    for name, content in made.items():
        (ROOT / name).write_text(content, encoding="utf-8")
    print(f"written: {', '.join(stale) or 'nothing new'}")
    return 0


def _written(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
