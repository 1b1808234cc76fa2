"""The files by which other programs know the project: citation, changelog, workflows, issue forms, what is shipped."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from typing import Any

import pytest
from consumers import PROJECT, read

from autotune import __version__

WORKFLOWS = sorted(str(file.relative_to(PROJECT)) for file in (PROJECT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(str(file.relative_to(PROJECT)) for file in (PROJECT / ".github" / "ISSUE_TEMPLATE").glob("it-*.yml"))
TAGGED = re.compile(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+|[0-9a-f]{40})")
"""An action by its major tag or by its whole commit: never by a branch that anybody may move."""

INPUTS = ("checkboxes", "dropdown", "input", "textarea")


def text(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def jobs(workflow: str) -> dict[str, Any]:
    return dict(read(workflow)["jobs"])


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job.get("steps", ())]


def test_the_changelog_begins_with_this_version_and_its_day() -> None:
    first = re.search(r"^## \[(.+?)\](.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert first is not None
    assert first[1] == __version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", first[2])


def test_the_citation_is_of_this_version() -> None:
    cited = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version", "date-released", "license"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == __version__
    assert f"## [{__version__}] - {cited['date-released']}" in text("CHANGELOG.md")
    assert cited["license"] == tomllib.loads(text("pyproject.toml"))["project"]["license"]
    assert all(set(author) in ({"name"}, {"given-names", "family-names"}) for author in cited["authors"])


ADDRESSED = ("Homepage", "Documentation", "Changelog", "Issues")


def test_the_address_of_the_project_is_in_all_files_or_in_none() -> None:
    """CONTRIBUTING.md, "A release". Where it is in a part of them, a page sends people to a place that is not there."""
    urls = tomllib.loads(text("pyproject.toml"))["project"].get("urls")
    has_placeholders = "OWNER/" in "".join(text(name) for name in ("README.md", "docs/ci.md"))
    cited = read("CITATION.cff").get("repository-code")
    assert (urls is None, cited is None) == (has_placeholders, has_placeholders)
    if urls is not None:
        assert {*ADDRESSED} <= set(urls) and cited in urls.values()


def test_the_checklist_of_a_release_names_what_needs_the_address() -> None:
    listed = text("CONTRIBUTING.md").partition("## A release\n")[2].partition("\n## ")[0]
    named = ("[project.urls]", *ADDRESSED, "repository-code", "OWNER", "REF", "docs/ci.md")
    assert [name for name in named if name not in listed] == []
    assert [one for form in FORMS for one in read(form)["labels"] if f"`{one}`" not in listed] == []
    (gate,) = [step["run"] for step in steps(".github/workflows/release.yml") if "project.urls" in step.get("run", "")]
    assert "OWNER/" in gate


@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="check-jsonschema, which has the schemas, is missing")
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("citation-file-format", ["CITATION.cff"]),
        ("github-actions", ["action.yml"]),
        ("github-issue-config", [".github/ISSUE_TEMPLATE/config.yml"]),
        ("github-issue-forms", FORMS),
        ("github-workflows", WORKFLOWS),
    ],
)
def test_it_fits_the_schema_of_those_who_read_it(schema: str, files: list[str]) -> None:
    """The schemas are part of check-jsonschema: nothing is fetched."""
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    ended = subprocess.run(words, cwd=PROJECT, capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_may_only_read_unless_a_job_says_more(workflow: str) -> None:
    assert read(workflow)["permissions"] == {"contents": "read"}
    own = [job for job in jobs(workflow).values() if "uses" not in job]  # a called workflow has its own limits
    assert own and all(job.get("timeout-minutes", 0) > 0 for job in own)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_actions_are_pinned(workflow: str) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert [name for name in used if not TAGGED.fullmatch(name)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_what_a_workflow_runs_exists(workflow: str) -> None:
    lines = "\n".join(step["run"] for step in steps(workflow) if "run" in step)
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"^make ([\w-]+)", lines, re.MULTILINE)) <= targets
    named = re.findall(r"(?:python|pytest) (tests/\S+(?: tests/\S+)*)", lines)
    assert [path for paths in named for path in paths.split() if not (PROJECT / path).exists()] == []


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_no_word_of_others_is_put_into_a_shell(workflow: str) -> None:
    """The name of a branch or a title may hold a command; a variable of the environment is only text."""
    expressions = re.findall(r"\$\{\{(.+?)\}\}", "\n".join(step["run"] for step in steps(workflow) if "run" in step))
    assert [one for one in expressions if not one.strip().startswith("matrix.")] == []


def test_only_the_release_may_publish() -> None:
    allowed = {
        (workflow, name)
        for workflow in WORKFLOWS
        for name, job in jobs(workflow).items()
        if "write" in job.get("permissions", {}).values()
    }
    release = ".github/workflows/release.yml"
    assert allowed == {(release, "build"), (release, "publish")}
    assert jobs(release)["publish"]["environment"] == "pypi"


def test_nothing_is_published_before_the_tests() -> None:
    release, called = jobs(".github/workflows/release.yml"), ".github/workflows/tests.yml"
    assert release["tests"]["uses"] == f"./{called}"
    assert {"tests", "build"} <= set(release["publish"]["needs"])
    assert "workflow_call" in text(called)


def test_the_workflows_begin_with_the_oldest_python_and_torch_that_are_promised() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    rows = jobs(".github/workflows/tests.yml")["matrix"]["strategy"]["matrix"]["include"]
    assert f">={rows[0]['python']}" == project["requires-python"]
    (torch,) = [name for name in project["optional-dependencies"]["examples"] if name.startswith("torch")]
    assert rows[0]["torch"].startswith(torch.removeprefix("torch>="))
    named = {row["python"] for row in rows}
    listed = [name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name]
    assert named == set(listed)


@pytest.mark.parametrize("form", FORMS)
def test_an_issue_form_is_one_that_github_shows(form: str) -> None:
    made = read(form)
    assert {"name", "description", "body"} <= set(made)
    ids = [part["id"] for part in made["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids))
    assert {part["type"] for part in made["body"]} <= {"markdown", *INPUTS}
    assert all(part["attributes"]["label"] for part in made["body"] if part["type"] in INPUTS)
    assert "autotune report last --format json --output report.json" in text(form)


def test_what_is_shipped_as_source_exists() -> None:
    included = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in included if not (PROJECT / name).exists()] == []
    assert {"CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"} <= set(included)
