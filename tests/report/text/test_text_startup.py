from __future__ import annotations

from msgspec.structs import replace
from report_builders import finding, recommendation, report, rule, run, step

from autotune.model.report import Report, StartUpPart
from autotune.report.json.diagnose import document
from autotune.report.text import startup

FOLDER = "/home/user/project"

PARTS = (
    StartUpPart(
        "map", 62.0, 60.0, file=f"{FOLDER}/prepare.py", line=41, function="main", num_processes=1, reads_cache=False
    ),
    StartUpPart("code", 20.0, 19.0, file=f"{FOLDER}/data.py", line=20, function="parse", within=(("json", 12.0),)),
    StartUpPart("import", 8.0, 7.5, "transformers", f"{FOLDER}/train.py", 3, "<module>", (("tensorflow", 5.0),)),
    StartUpPart("import", 4.0, 3.5, "torch", f"{FOLDER}/train.py", 2, "<module>"),
    StartUpPart("step", 0.5, 0.5, file=f"{FOLDER}/train.py", line=30, function="main"),
)


def made(*parts: StartUpPart, **given: object) -> Report:
    return replace(report(run=run(), step=step(forward=90.0)), startup=parts, **given)


def shown(one: Report, width: int = 100) -> list[str]:
    return [line.text for line in startup.lines(one, width)]


def test_each_cause_has_a_line_with_its_places() -> None:
    assert shown(made(*PARTS)) == [
        "Start-up: 1 min 34 s until the first step",
        "   66 %  1 min 2 s  map and filter of datasets: prepare.py:41 (1 process, cache off)",
        "   21 %       20 s  own code: parse, data.py:20 (json 12 s)",
        "   13 %       12 s  imports: transformers 8.0 s (tensorflow 5.0 s); torch 4.0 s",
        "    1 %      0.5 s  all else",
    ]


def test_no_line_is_wider_than_the_terminal() -> None:
    assert max(map(len, shown(made(*PARTS), 60))) <= 60


def test_a_short_start_is_not_shown_unless_a_rule_speaks_of_it() -> None:
    short = StartUpPart("import", 9.9, 9.0, "torch")
    assert shown(made(short)) == []
    assert shown(made(StartUpPart("import", 10.0, 9.0, "torch")))
    said = recommendation(1, finding(rule("ST004", "requests-before-training"), "m"))
    named = replace(report(said, run=run(), step=step(forward=90.0)), startup=(short,))
    assert shown(named)


def test_a_run_that_was_not_sampled_has_no_section() -> None:
    assert shown(made()) == []


def test_a_run_without_a_step_says_so() -> None:
    assert shown(replace(made(*PARTS), step=None))[0] == "Start-up: 1 min 34 s without a step"


def test_what_a_map_may_do_with_its_cache_is_said() -> None:
    part = StartUpPart("map", 20.0, 1.0, file=f"{FOLDER}/a.py", line=1, num_processes=4, reads_cache=True)
    assert shown(made(part))[1].endswith("a.py:1 (4 processes, may read its cache)")


def test_the_json_has_every_part() -> None:
    rows = document(made(*PARTS))["startup"]
    assert len(rows) == len(PARTS)
    assert rows[0] == {
        "cause": "map",
        "seconds": 62.0,
        "cpu_s": 60.0,
        "package": None,
        "place": {"file": f"{FOLDER}/prepare.py", "line": 41},
        "function": "main",
        "within": [],
        "num_processes": 1,
        "reads_cache": False,
    }
    assert rows[2]["within"] == [{"what": "tensorflow", "seconds": 5.0}]
