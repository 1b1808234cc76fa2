from __future__ import annotations

from pathlib import Path

import pytest
from engine_builders import rule

from autotune.engine import load
from autotune.engine.examples import failures
from autotune.engine.load import load_rule, load_rules, rules_folder
from autotune.engine.rule_mistakes import mistakes, quoted_numbers
from autotune.errors import RuleError, UsageError
from autotune.model.rule import Code, Example, Fix, GainSpec, Limit, Remark, Severity

GOOD = '''
id = "DL001"
name = "slow-batches"
summary = "Batches are slow."
since = "0.1"
status = "stable"
severity = "high"
confidence = "medium"
subject = "loader"
when = """
loader.is_train and loader.wait_share >= limits.min_wait
and software.transformers >= limits.first"""
message = """{loader.wait_share} of the step waits,
with transformers {software.transformers}"""
why = "Because."
references = ["torch 2.13 dataloader.py"]

[limits.min_wait]
value = 0.05
unit = "share"
why = "below it the gain is noise"

[limits.first]
value = "4.41.2"
unit = "version"
why = "the fix is in this release"

[limits.most]
value = 8
unit = "workers"
why = "more only start longer"

[code]
before = "DataLoader(dataset)"
after = """
DataLoader(
    dataset, num_workers=4)
"""

[[fix]]
setting = "loader.num_workers"
value = "min(loader.workers_needed, limits.most)"
note = "starts {loader.workers_needed} processes"
when = "loader.is_map_style"

[[fix]]
text = "read less"

[gain]
what_if = "share_removed"
arguments = { share = "loader.wait_share" }

[[right]]
when = "loader.is_train and loader.wait_share < limits.min_wait"
words = "loader"

[[useless]]
when = "loader.wait_share < limits.min_wait"
words = "more workers ({loader.wait_share})"

[[example]]
expect = "fires"
why = "on the limit"
message = """5 % of the step waits,
with transformers 4.41.2"""
facts = { "loader.is_train" = true, "loader.wait_share" = 0.05, "software.transformers" = "4.41.2" }

[[example]]
expect = "silent"
right = "loader"
useless = "more workers (1 %)"
facts = { "loader.is_train" = true, "loader.wait_share" = 0.01 }

[[example]]
expect = "skipped"
'''

WHAT_IF = """what_if = "share_removed"
arguments = { share = "loader.wait_share" }"""


def write(tmp_path: Path, text: str, name: str = "dataloader/DL001.toml") -> Path:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_every_key_arrives_in_the_rule(tmp_path) -> None:
    rule = load_rule(write(tmp_path, GOOD))
    assert (rule.id, rule.name, rule.summary, rule.since) == ("DL001", "slow-batches", "Batches are slow.", "0.1")
    assert (rule.status, rule.severity, rule.confidence, rule.subject) == ("stable", Severity.HIGH, "medium", "loader")
    assert rule.message == "{loader.wait_share} of the step waits, with transformers {software.transformers}"
    assert (rule.why, rule.references) == ("Because.", ("torch 2.13 dataloader.py",))
    assert rule.limits == {
        "min_wait": Limit(0.05, "share", "below it the gain is noise"),
        "first": Limit((4, 41, 2), "version", "the fix is in this release"),
        "most": Limit(8, "workers", "more only start longer"),
    }
    assert rule.code == Code("DataLoader(dataset)", "DataLoader(\n    dataset, num_workers=4)")
    assert rule.fixes == (
        Fix(
            setting="loader.num_workers",
            value="min(loader.workers_needed, limits.most)",
            note="starts {loader.workers_needed} processes",
            when="loader.is_map_style",
        ),
        Fix(text="read less"),
    )
    assert rule.gain == GainSpec("share_removed", {"share": "loader.wait_share"})
    assert rule.examples == (
        Example(
            "fires",
            {"loader.is_train": True, "loader.wait_share": 0.05, "software.transformers": (4, 41, 2)},
            "on the limit",
            "5 % of the step waits, with transformers 4.41.2",
        ),
        Example(
            "silent",
            {"loader.is_train": True, "loader.wait_share": 0.01},
            right="loader",
            useless="more workers (1 %)",
        ),
        Example("skipped", {}),
    )
    assert rule.right == (Remark("loader.is_train and loader.wait_share < limits.min_wait", "loader"),)
    assert rule.useless == (Remark("loader.wait_share < limits.min_wait", "more workers ({loader.wait_share})"),)
    assert rule.file == "dataloader/DL001.toml"


def without(key: str) -> tuple[str, str]:
    line = next(line for line in GOOD.splitlines() if line.startswith(f"{key} = "))
    return line + "\n", ""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (*without("name"), "name: is missing: write a string"),
        (*without("since"), "since: is missing: write a string"),
        (*without("severity"), "severity: is missing: write a string"),
        (*without("references"), "references: must be a list of strings, at least one"),
        ('"DL001"', '"dl1"', 'id: "dl1" must be two capitals and three digits, e.g. DL001'),
        ('"DL001"', '"DL002"', 'id: "DL002" must be the name of the file, "DL001"'),
        ('"slow-batches"', '"Slow batches"', 'name: "Slow batches" must be the problem in kebab-case'),
        ('"high"', '"bad"', 'severity: "bad" is not one of critical, high, medium, low, info'),
        ('"medium"', "1", "confidence: must be a non-empty string"),
        ('"stable"', '"old"', 'status: "old" is not one of preview, stable, deprecated'),
        ('subject = "loader"', 'subject = "loaders"', 'subject: "loaders" is not one of run, loader, optimizer, rank'),
        ('"Because."', '"  "', "why: must be a non-empty string"),
        ('summary = "', 'sumary = "', "sumary: unknown key; did you mean `summary`?"),
        ('summary = "', 'zzz = "', "zzz: unknown key; the keys are id, name, summary"),
        ("loader.is_train and", "loader.is_trian and", "when: unknown fact `loader.is_trian`; did you mean"),
        ("loader.is_train and", "loader.wait_ms and", "when: `loader.wait_ms` is a value in ms"),
        ("loader.is_train and", "optimizer.has_fused and", "when: `optimizer.has_fused` belongs to an optimizer, so"),
        ("loader.is_train and", "__import__('os') and", "when: `__import__('os')` is not allowed in a rule"),
        ("loader.is_train and loader.wait_share >= limits.min_wait\nand", "loader.wait_ms +", "when: "),
        ("limits.min_wait\nand software", "limits.min\nand software", "when: unknown limit limits.min"),
        ("{loader.wait_share} of", "{loader.wait} of", "message: unknown fact `loader.wait`"),
        ("{loader.wait_share} of", "much of", "message: `when` turns on `loader.wait_share`, so quote it"),
        ("transformers {software.transformers}", "it", "turns on `software.transformers`, so quote it"),
        (
            "{loader.wait_share} of",
            "{optimizer.step_ms} {loader.wait_share} of",
            "message: `optimizer.step_ms` belongs",
        ),
        ('before = "DataLoader(dataset)"\n', "", "code.before: is missing"),
        ('after = """', 'later = 1\nafter = """', "later: unknown key"),
        (
            'before = "DataLoader(dataset)"',
            'before = "DataLoader(\\n    dataset, num_workers=4)"',
            "code: before and after are the same",
        ),
        ('"DataLoader(dataset)"', f'"{"x" * 71}"', "code.before: at most 8 lines of 70 columns"),
        ("DataLoader(\n", "x\n" * 8, "code.after: at most 8 lines of 70 columns"),
        ("value = 0.05", 'value = "much"', "limits.min_wait.value: 'much' is not of type share: write a number"),
        ("value = 0.05", "value = 5", "limits.min_wait.value: 5 is not a share: write a number from 0 to 1"),
        ("value = 0.05\n", "", "limits.min_wait.value: is missing"),
        ('unit = "share"\n', "", "limits.min_wait.unit: is missing: write a string"),
        ('why = "below it the gain is noise"\n', "", "limits.min_wait.why: is missing: write a string"),
        ('value = "4.41.2"', 'value = "new"', "limits.first.value: 'new' is not of type version: write \"4.41.2\""),
        ('unit = "workers"', 'unit = "workers"\nwhen = "x"', "limits.most.when: unknown key"),
        ("limits.most)", "limits.first)", "fix 1.value: `limits.first` is a version, but arithmetic needs numbers"),
        (", limits.most)", ", 1)", "limits.most: nothing uses it; remove it"),
        (
            '"min(loader.workers_needed, limits.most)"',
            '"loader.is_train"',
            "fix 1.value: `loader.is_train` is of type bool",
        ),
        (
            '"loader.num_workers"',
            '"loader.workers"',
            "fix 1.setting: `loader.workers` is not in catalogue/settings.toml",
        ),
        ('"loader.num_workers"', '"optimizer.fused"', "fix 1.setting: `optimizer.fused` belongs to an optimizer"),
        (
            'when = "loader.is_map_style"',
            'when = "loader.wait_ms"',
            "fix 1.when: `loader.wait_ms` is of type ms, not bool",
        ),
        ("starts {loader.workers_needed}", "starts {x}", "fix 1.note: unknown fact `x`"),
        ('text = "read less"', 'text = "{x}"', "fix 2.text: unknown fact `x`"),
        ('text = "read less"', 'text = "a"\nsetting = "b"\nvalue = "0"', "fix 2: needs either a `setting` with"),
        ('text = "read less"', 'note = "a"', "fix 2: needs either a `setting` with a `value`, or a `text`"),
        ('text = "read less"', 'setting = "loader.num_workers"', "fix 2.value: is missing"),
        ('text = "read less"', 'text = "a"\nvalue = "0"', "fix 2.value: belongs to a `setting`"),
        ('text = "read less"', 'text = "a"\nnote = "0"', "fix 2.note: belongs to a `setting`: put it into the `text`"),
        ('text = "read less"', 'text = "a"\noptional = true', "fix 2.optional: belongs to a `setting`: nothing needs"),
        ('text = "read less"', 'text = "a"\noptional = "yes"', "fix 2.optional: must be true or false"),
        ('text = "read less"', 'install = "x"', "fix 2: needs either a `setting` with a `value`, or a `text`"),
        ("note = ", 'install = "x"\nnote = ', "fix 1.install: belongs to a `text` that says what to do with it"),
        ('"read less"', '"read less"\ninstall = "x please"', 'fix 2.install: "x please" is no requirement: write it'),
        ('"read less"', '"read less"\nscript = "shuffle"', 'fix 2.script: "shuffle" is not one of stage, tokenise'),
        ('"share_removed"', '"magic"', 'gain.what_if: "magic" is not one of share_removed'),
        ('share = "loader.wait_share"', 'share = "loader.wait_shar"', "gain.arguments.share: unknown fact"),
        ('share = "loader.wait_share"', "share = 1", "gain.arguments.share: must be a non-empty string"),
        ('share = "loader.wait_share"', 'share = "0.5"', "gain.arguments.share: unknown fact `0.5`"),
        ('share = "loader.wait_share"', "", "gain.arguments.share: is missing: write a string"),
        ('{ share = "loader', '{ lefft = "a", share = "loader', "arguments.lefft: unknown key; did you mean `left`?"),
        ('{ share = "loader', '{ all = "false", share = "loader', 'gain.arguments.all: "false" must be "true", or the'),
        (
            WHAT_IF,
            'what_if = "workers"\narguments = { nworkers = "0" }',
            "nworkers: unknown key; did you mean `workers`",
        ),
        (WHAT_IF, 'what_if = "workers"\narguments = { workers = "few" }', 'gain.arguments.workers: "few" is no number'),
        (
            WHAT_IF,
            'what_if = "amortised"\narguments = { cost = "logging" }',
            '"logging" is not one of checkpoint, evaluation',
        ),
        ('expect = "fires"', 'expect = "yes"', 'example 1.expect: "yes" is not one of fires, silent, skipped'),
        ('expect = "fires"', 'expect = "silent"', 'example: none with expect = "fires"'),
        ('expect = "silent"', 'expect = "skipped"', 'example: none with expect = "silent"'),
        ('[[example]]\nexpect = "skipped"\n', "", "example: 2 of at least 3; add [[example]] on and beside each limit"),
        ('"loader.wait_share" = 0.01', '"loader.wait_shar" = 0.01', "example 2.facts: unknown fact `loader.wait_shar`"),
        (
            '"loader.wait_share" = 0.01',
            '"loader.is_map_style" = 0',
            'map_style": 0 is not of type bool: write true or false',
        ),
        ('"loader.wait_share" = 0.05', '"loader.wait_share" = true', "True is not of type share: write a number"),
        ('"loader.wait_share" = 0.05', '"loader.num_batches" = 0.5', "0.5 is not of type int: write a whole number"),
        ('"loader.wait_share" = 0.05', '"device.type" = 1', "1 is not of type text: write a string"),
        ('words = "loader"', 'words = "{x}"', "right 1.words: unknown fact `x`"),
        ('words = "loader"', 'word = "loader"', "right 1.word: unknown key; did you mean `words`?"),
        ('words = "loader"', 'words = "{loader.batch_ms}"', "right 1.words: `loader.batch_ms` may be unknown where"),
        (
            '"loader.wait_share < l',
            '"not surely(loader.is_train) and loader.wait_share < l',
            "useless 1.when: only [sta",
        ),
        (
            '"loader.wait_share < l',
            '"not surely(config.is_lora) and loader.wait_share < l',
            "only [static] may take `config.is_lora` to be false by surely() while it is unknown",
        ),
        (
            '"loader.wait_share < l',
            '"loader.wait_ms < l',
            "useless 1.when: `loader.wait_ms < limits.min_wait` compares",
        ),
        ('right = "loader"\n', "", 'example: none with right = "..."'),
        (
            'expect = "skipped"',
            'expect = "skipped"\nright = "x"',
            "example 3: no remark is made where a rule is skipped",
        ),
        ("[[fix]]", "[[fixes]]", "fixes: unknown key; did you mean `fix`?"),
        ("id = ", "id ", "cannot be read: "),
        ("[gain]", "[[gain]]", "gain: must be a table"),
    ],
)
def test_a_mistake_names_file_key_and_remedy(tmp_path, old: str, new: str, what: str) -> None:
    assert old in GOOD
    file = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(RuleError) as raised:
        load_rule(file)
    assert what in raised.value.what
    assert all(line.startswith("dataloader/DL001.toml: ") for line in raised.value.what.splitlines())
    assert raised.value.exit_code == 2


def test_beside_a_run_what_only_code_shows_may_be_taken_to_be_false(tmp_path) -> None:
    old = 'when = "loader.wait_share < limits.min_wait"'
    new = 'when = "not surely(code.uses_ddp) and loader.wait_share < limits.min_wait"'
    assert old in GOOD
    assert "code.uses_ddp" in load_rule(write(tmp_path, GOOD.replace(old, new))).useless[0].when


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('value = "min(loader.workers_needed, limits.most)"', "value = 2", "fix 1.value: must be a string"),
        ("value = 0.05", "", "limits.min_wait.value: is missing"),
        ('"share_removed"', "1", "gain.what_if: must be a non-empty string"),
    ],
)
def test_a_key_is_wrong_once(tmp_path, old: str, new: str, what: str) -> None:
    with pytest.raises(RuleError) as raised:
        load_rule(write(tmp_path, GOOD.replace(old, new)))
    key = what.split(":")[0]
    assert [line for line in raised.value.what.splitlines() if key in line] == [f"dataloader/DL001.toml: {what}"]


@pytest.mark.parametrize("text", ["fix = 1", "limits = 1", "example = 'a'", "example = [1]", "gain = 1", "fix = [[1]]"])
def test_a_wrong_shape_is_a_mistake_and_no_crash(tmp_path, text: str) -> None:
    head = GOOD.split("[limits.min_wait]")[0]
    with pytest.raises(RuleError):
        load_rule(write(tmp_path, f"{text}\n{head}"))


def test_a_file_that_is_not_text(tmp_path) -> None:
    file = write(tmp_path, "")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match=r"DL001\.toml: cannot be read"):
        load_rule(file)


def test_all_mistakes_of_all_files_at_once(tmp_path) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, GOOD.replace('"high"', '"bad"').replace('"stable"', '"old"'), "other/DL002.toml")
    write(tmp_path, "id = ", "other/DL003.toml")
    with pytest.raises(RuleError) as raised:
        load_rules(tmp_path)
    assert sorted(line.split(": ")[:2] for line in raised.value.what.splitlines()) == [
        ["other/DL002.toml", "severity"],
        ["other/DL002.toml", "status"],
        ["other/DL003.toml", "cannot be read"],
    ]


def test_rules_come_sorted_by_id_from_all_families(tmp_path) -> None:
    write(tmp_path, GOOD.replace("DL001", "ZZ001"), "a/ZZ001.toml")
    write(tmp_path, GOOD.replace("DL001", "AA001"), "b/AA001.toml")
    assert [rule.id for rule in load_rules(tmp_path)] == ["AA001", "ZZ001"]


def test_one_id_in_two_families_is_a_mistake(tmp_path) -> None:
    write(tmp_path, GOOD, "a/DL001.toml")
    write(tmp_path, GOOD, "b/DL001.toml")
    with pytest.raises(RuleError, match=r"b/DL001\.toml: id: a/DL001\.toml has it too"):
        load_rules(tmp_path)


def test_a_rule_yields_to_rules_that_there_are(tmp_path) -> None:
    write(tmp_path, GOOD.replace("subject = ", 'yields_to = ["ZZ009"]\nsubject = ', 1), "a/DL001.toml")
    with pytest.raises(RuleError, match=r'a/DL001\.toml: yields_to: there is no rule "ZZ009"'):
        load_rules(tmp_path)


def test_a_folder_without_rules(tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no rule file here"):
        load_rules(tmp_path)


def test_the_installed_rules_come_before_the_checkout(tmp_path, monkeypatch) -> None:
    assert rules_folder() == Path(load.__file__).resolve().parents[2] / "rules"
    package = tmp_path / "autotune"
    (package / "_rules").mkdir(parents=True)
    monkeypatch.setattr(load, "_PACKAGE", package)
    assert rules_folder() == package / "_rules"


@pytest.mark.parametrize(
    ("when", "names"),
    [
        ("loader.wait_ms > 0 and loader.is_train", ("loader.wait_ms",)),
        ("loader.num_workers == 0 and 1 == run.world_size", ()),
        ("loader.num_workers == loader.workers_needed", ("loader.num_workers", "loader.workers_needed")),
        (
            "loader.wait_ms / loader.batch_ms > 1 and step.mean_ms < loader.wait_ms",
            ("loader.wait_ms", "loader.batch_ms", "step.mean_ms"),
        ),
        ("loader.wait_ms > 0 or loader.batch_ms > 0", ()),
        ("loader.wait_ms > 0 and (loader.is_train or loader.batch_ms > 0)", ("loader.wait_ms",)),
        ("not loader.wait_ms > 0", ()),
        ('device.type == "cuda"', ()),
        ("software.torch < software.transformers", ("software.torch", "software.transformers")),
    ],
)
def test_numbers_that_must_be_quoted_are_those_without_which_the_rule_is_silent(when: str, names: tuple) -> None:
    assert quoted_numbers(when) == names


STATIC = GOOD.replace(
    "[[example]]",
    """[static]
when = "loader.is_train and loader.num_workers < limits.most and not surely(loader.is_in_memory)"
message = "{loader.num_workers} workers may be few"
severity = "low"
confidence = "low"

[[static.fix]]
setting = "loader.num_workers"
value = "limits.most"

[[example]]
static = true
expect = "fires"
message = "2 workers may be few"
facts = { "loader.is_train" = true, "loader.num_workers" = 2 }

[[example]]
static = true
expect = "silent"
facts = { "loader.num_workers" = 8 }

[[example]]""",
    1,
)


def test_the_static_part_arrives_in_the_rule(tmp_path) -> None:
    rule = load_rule(write(tmp_path, STATIC))
    part = rule.as_static()
    assert rule.static is not None
    assert (part.severity, part.confidence, part.message) == (
        Severity.LOW,
        "low",
        "{loader.num_workers} workers may be few",
    )
    assert part.fixes == (Fix(setting="loader.num_workers", value="limits.most"),)
    assert [example.expect for example in part.examples] == ["fires", "silent"]
    assert list(failures(rule)) == []


def test_a_severity_of_the_static_part_is_wrong_once(tmp_path) -> None:
    with pytest.raises(RuleError) as raised:
        load_rule(write(tmp_path, STATIC.replace('severity = "low"', "severity = 1")))
    assert raised.value.what == "dataloader/DL001.toml: static.severity: must be a string"


def test_what_the_static_part_leaves_out_is_the_rule_s(tmp_path) -> None:
    text = STATIC.replace('severity = "low"\nconfidence = "low"\n', "")
    part = load_rule(
        write(tmp_path, text.replace('[[static.fix]]\nsetting = "loader.num_workers"\nvalue = "limits.most"', ""))
    ).as_static()
    assert (part.severity, part.confidence, len(part.fixes)) == (Severity.HIGH, "medium", 2)


def test_a_rule_without_a_static_part_is_its_own(tmp_path) -> None:
    rule = load_rule(write(tmp_path, GOOD))
    assert rule.as_static() is rule


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("loader.num_workers < limits.most", "loader.wait_ms > 0", "static.when: `loader.wait_ms` needs a run"),
        ("loader.num_workers < limits.most", "loader.num_wokers > 0", "static.when: unknown fact `loader.num_wokers`"),
        (
            "{loader.num_workers} workers",
            "{loader.wait_ms} and {loader.num_workers}",
            "static.message: `loader.wait_ms` needs",
        ),
        ("{loader.num_workers} workers", "they", "static.message: `when` turns on `loader.num_workers`, so quote it"),
        ('severity = "low"', 'severity = "mild"', 'static.severity: "mild" is not one of critical'),
        ('severity = "low"', 'severity = ""', 'static.severity: "" is not one of critical'),
        ('severity = "low"', 'gain = "low"', "static.gain: unknown key"),
        ('value = "limits.most"', 'value = "true"', "static.fix 1.value: `true` is of type bool"),
        ('value = "limits.most"', 'value = "0"\nnote = "{loader.wait_ms}"', "fix 1: `loader.wait_ms` needs a run"),
        ('static = true\nexpect = "silent"', 'expect = "silent"', 'static example: none with expect = "silent"'),
        (
            'static = true\nexpect = "silent"',
            'static = 1\nexpect = "silent"',
            "example 2.static: must be true or false",
        ),
        (
            "loader.is_train and loader.wait_share",
            "surely(loader.is_train) and loader.wait_share",
            "when: only [static] may",
        ),
        ("[static]\nwhen =", "[statics]\nwhen =", "statics: unknown key; did you mean `static`?"),
    ],
)
def test_a_mistake_in_the_static_part_is_named(tmp_path, old: str, new: str, what: str) -> None:
    assert old in STATIC
    with pytest.raises(RuleError) as raised:
        load_rule(write(tmp_path, STATIC.replace(old, new)))
    assert what in raised.value.what


def test_a_static_example_needs_a_static_part(tmp_path) -> None:
    with pytest.raises(RuleError, match=r"one is static, but the rule has no \[static\]"):
        load_rule(write(tmp_path, GOOD + "static = true\n"))


def test_static_is_a_table(tmp_path) -> None:
    with pytest.raises(RuleError, match="static: must be a table"):
        load_rule(write(tmp_path, "static = 1\n" + GOOD))


def test_a_rule_that_files_decide_quotes_nothing_of_a_run(tmp_path) -> None:
    text = GOOD.replace("loader.wait_share >= limits.min_wait\nand ", "")
    with pytest.raises(RuleError) as raised:
        load_rule(write(tmp_path, text))
    assert raised.value.what == "dataloader/DL001.toml: message: `loader.wait_share` needs a run"


def test_a_script_is_made_of_the_facts_of_a_loader() -> None:
    fix = Fix(text="copy it", script="stage")
    wrong = "fix 1.script: it is made of the facts of a loader"
    assert not any(each.startswith(wrong) for each in mistakes(rule(fixes=(fix,))))
    assert any(each.startswith(wrong) for each in mistakes(rule(fixes=(fix,), subject="run")))
