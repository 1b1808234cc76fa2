"""Every change becomes the edit that a person would make, or a line that says what to do by hand and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune.engine.evidence import join, observed_over
from autotune.model.evidence import RUN, Evidence, Location, Setting, Value
from autotune.model.finding import SettingChange
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED, Bundle
from autotune.patch.plan import RequestedChange, plan
from autotune.patch.resolve import apply_edits
from autotune.scan.command import scan_command

LOOP = """\
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--pin", action="store_true")
args = parser.parse_args()
BATCH = 4
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = {loader}
for batch in loader:
    loss = model(batch.float()[:, None]).sum()
    loss.backward()
    optimizer.step()
"""
TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
parser = HfArgumentParser(TrainingArguments)
(args,) = parser.parse_args_into_dataclasses()
Trainer(args=args).train()
"""
ARGS = '{"output_dir": "out", "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4%s}'
CONFIG = "output_dir: out\nper_device_train_batch_size: 8   # rows\nsave_steps: 10%s\n"
NEWEST = {"transformers": (5, 23, 0), "torch": (2, 13, 0)}


class Project:
    """A folder, and what the changes of its files would be."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **files: str) -> Project:
        for name, text in files.items():
            self.path(name).write_bytes(text.encode())
        return self

    def path(self, name: str) -> Path:
        return self.root / name.replace("_", ".", 1)

    def bundle(self, words: str, versions: Mapping[str, tuple[int, ...]]) -> Bundle | None:
        return scan_command(words.split(), cwd=self.root, root=self.root, versions=versions)

    def evidence(self, bundle: Bundle | None, observed: Mapping[str, Value], line: int) -> Evidence:
        """What is known when a run had the `observed` values, its loader made at `line` of train.py."""
        at = Location(str(self.root / "train.py"), line, "DataLoader") if line else None
        subjects = {name: RUN if not name.startswith("loader.") else "loader#train" for name in observed}
        seen = [
            Setting(name, subjects[name], value, "observed", at, spelling=name.partition(".")[2])
            for name, value in observed.items()
        ]
        read = join((), bundle.settings if bundle is not None else ())
        return observed_over(read, join((), seen))

    def changes(
        self,
        words: str,
        observed: Mapping[str, Value],
        wanted: Mapping[str, Value],
        *,
        line: int = 0,
        versions: Mapping[str, tuple[int, ...]] = NEWEST,
    ) -> list[PatchChange]:
        """The planned changes from what a run of `words` had to what is wanted."""
        bundle = self.bundle(words, versions)
        evidence = self.evidence(bundle, observed, line)
        all_wanted = [self.wanted(evidence, name, value) for name, value in wanted.items()]
        return [each.change for each in plan(all_wanted, bundle, lambda name: Path(name).read_bytes(), versions)]

    def wanted(self, evidence: Evidence, name: str, new: Value) -> RequestedChange:
        subject = "loader#train" if name.startswith("loader.") else RUN
        setting = evidence.setting(subject, name)
        old, at = (setting.value, setting.location) if setting is not None else (None, None)
        return RequestedChange(SettingChange(name, old, new, Effect.EQUIVALENT, at), subject, setting, ("XX001",))

    def after(self, name: str, *changes: PatchChange) -> str:
        """The text of a file with the edits of `changes`, which must all be edits of that file."""
        edits = [edit for change in changes for edit in change.edits]
        assert not [change.by_hand for change in changes if change.by_hand]
        assert {edit.file for edit in edits} == {str(self.path(name))}
        return apply_edits(self.path(name).read_bytes(), edits).decode()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def script(loader: str) -> str:
    return LOOP.replace("{loader}", loader)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(list(range(8)), num_workers=0)", "DataLoader(list(range(8)), num_workers=4)"),
        ("DataLoader(list(range(8)))", "DataLoader(list(range(8)), num_workers=4)"),
        (
            "DataLoader(\n    list(range(8)),\n    batch_size=4,\n)",
            "DataLoader(\n    list(range(8)),\n    batch_size=4,\n    num_workers=4,\n)",
        ),
        ("DataLoader(\n    [1],\n    num_workers=0,  # why\n)", "DataLoader(\n    [1],\n    num_workers=4,  # why\n)"),
    ],
)
def test_a_keyword_of_a_call(project: Project, before: str, after: str) -> None:
    project.write(train_py=script(before))
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=12)
    assert project.after("train_py", change) == script(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            'DataLoader([1], num_workers=2, prefetch_factor=4, multiprocessing_context="spawn")',
            "DataLoader([1], num_workers=0, prefetch_factor=None, multiprocessing_context=None)",
            id="given",
        ),
        pytest.param(
            "DataLoader([1], num_workers=2, prefetch_factor=None)",
            "DataLoader([1], num_workers=0, prefetch_factor=None)",
            id="None already",
        ),
        pytest.param("DataLoader([1], num_workers=2)", "DataLoader([1], num_workers=0)", id="not given"),
    ],
)
def test_what_a_loader_without_workers_refuses_becomes_none(project: Project, before: str, after: str) -> None:
    project.write(train_py=script(before))
    (change,) = project.changes("train.py", {"loader.num_workers": 2}, {"loader.num_workers": 0}, line=12)
    assert project.after("train_py", change) == script(after)


@pytest.mark.parametrize(
    ("given", "typed", "why"),
    [
        pytest.param("int(make())", "", "prefetch_factor is given, which is refused without workers", id="unknown"),
        pytest.param("args.ahead", "--ahead 4", "take --ahead away from the command too", id="typed"),
    ],
)
def test_what_cannot_become_none_is_by_hand(project: Project, given: str, typed: str, why: str) -> None:
    option = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--ahead', type=int)\n"
    option += "args = parser.parse_args()\n"
    project.write(train_py=option + script(f"DataLoader([1], num_workers=2, prefetch_factor={given})"))
    observed, wanted = {"loader.num_workers": 2, "loader.prefetch_factor": 4}, {"loader.num_workers": 0}
    (change,) = project.changes(f"train.py {typed}", observed, wanted, line=16)
    assert not change.edits
    assert why in change.by_hand


def test_the_default_of_an_option(project: Project) -> None:
    text = script("DataLoader(list(range(8)), num_workers=args.workers)")
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=12)
    assert project.after("train_py", change) == text.replace("type=int, default=0", "type=int, default=4")


def test_a_default_that_the_help_spells(project: Project) -> None:
    text = script("DataLoader(list(range(8)), num_workers=args.workers)")
    text = text.replace("default=0)", "default=0, help='processes (default: 0)')")
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=12)
    assert [edit.key for edit in change.edits] == ["--workers", "--workers help"]
    assert project.after("train_py", change) == text.replace(
        "default=0, help='processes (default: 0)", "default=4, help='processes (default: 4)"
    )


def test_the_key_of_a_dict_is_read_by_its_key_alone(project: Project) -> None:
    text = script("DataLoader([1], **given)").replace("BATCH = 4", "given = {'num_workers': 0}")
    project.write(train_py=f"{text}print(loader.num_workers * 2)\nlr = loader.num_workers\nlr + 1\n")
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=12)
    assert not change.by_hand
    assert [(edit.key, edit.new) for edit in change.edits] == [("num_workers", "4")]


def test_a_constant_of_the_module(project: Project) -> None:
    text = script("DataLoader(list(range(8)), batch_size=BATCH)")
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"loader.batch_size": 4}, {"loader.batch_size": 8}, line=12)
    assert project.after("train_py", change) == text.replace("BATCH = 4", "BATCH = 8")


def test_of_two_loaders_only_the_observed_one_is_edited(project: Project) -> None:
    two = "DataLoader(\n    [1],\n    num_workers=0,\n)\nother = DataLoader(\n    [1],\n    num_workers=0,\n)"
    text = script(two).replace("for batch in loader", "for batch in other")
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=16)
    first, second = project.after("train_py", change).split("other =")
    assert "num_workers=0" in first
    assert "num_workers=4" in second


@pytest.mark.parametrize(
    ("loader", "observed", "wanted", "why"),
    [
        (
            "DataLoader([1], batch_size=BATCH // 2)",
            {"loader.batch_size": 2},
            8,
            "it is not a plain value there: BATCH // 2",
        ),
        (
            "DataLoader([1], pin_memory=args.pin)",
            {"loader.pin_memory": False},
            True,
            "its option has no default to change: give --pin on the command line",
        ),
        (
            "DataLoader([1], batch_size=40 // int(os.environ['WORLD_SIZE']))",
            {"loader.batch_size": 40},
            80,
            "the value is computed there: 40 // int(os.environ['WORLD_SIZE'])",
        ),
        ("DataLoader([1], num_workers=2)", {"loader.num_workers": 3}, 4, "train.py:12 says 2, but the run had 3"),
    ],
)
def test_what_a_person_has_to_do_is_said_with_the_reason(
    project: Project, loader: str, observed: Mapping[str, Value], wanted: Value, why: str
) -> None:
    project.write(train_py=script(loader))
    (name,) = observed
    (change,) = project.changes("train.py", observed, {name: wanted}, line=12)
    assert not change.edits
    assert change.by_hand.endswith(why)
    assert f"= {wanted} at {project.root}/train.py:" in change.by_hand


MERGED = """\
kwargs = {given}
if torch.accelerator.is_available():
    more = {"num_workers": 1, "pin_memory": True}
    kwargs.update(more)
BATCH = 4"""


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("{}", "line 11 "),
        ('{"num_workers": 2}', "lines 9, 11 "),
    ],
)
def test_a_value_that_a_condition_decides_on_is_no_reason_by_itself(project: Project, given: str, lines: str) -> None:
    text = script("DataLoader([1], **kwargs)").replace("BATCH = 4", MERGED.replace("{given}", given))
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 1}, line=16)
    assert change.by_hand.startswith(f"loader.num_workers = 1 at {project.root}/train.py:16: ")
    assert lines in change.by_hand


def test_a_config_file_in_its_own_words(project: Project) -> None:
    project.write(train_py=TRAINER, args_json=ARGS % "")
    observed = {"loader.batch_size": 8, "train.accumulation_steps": 4}
    wanted = {"loader.batch_size": 16, "train.accumulation_steps": 2}
    changes = project.changes("train.py args.json", observed, wanted)
    expected = (ARGS % "").replace(": 8", ": 16").replace(": 4", ": 2")
    assert project.after("args_json", *changes) == expected
    assert [change.needs for change in changes] == [("train.accumulation_steps",), ("loader.batch_size",)]


@pytest.mark.parametrize(
    ("versions", "key"),
    [((5, 23, 0), "activation_checkpointing"), ((4, 56, 2), "gradient_checkpointing")],
)
def test_a_missing_key_has_the_name_of_the_installed_release(
    project: Project, versions: tuple[int, ...], key: str
) -> None:
    project.write(train_py=TRAINER, args_yaml=CONFIG % "")
    observed, wanted = {"train.activation_checkpointing": False}, {"train.activation_checkpointing": True}
    (change,) = project.changes("train.py args.yaml", observed, wanted, versions={"transformers": versions})
    assert project.after("args_yaml", change) == CONFIG % f"\n{key}: true"


def test_a_key_that_stands_there_keeps_its_name(project: Project) -> None:
    project.write(train_py=TRAINER, args_json=ARGS % ', "gradient_checkpointing": true')
    observed, wanted = {"train.activation_checkpointing": True}, {"train.activation_checkpointing": False}
    (change,) = project.changes("train.py args.json", observed, wanted, versions={"transformers": (4, 56, 2)})
    assert project.after("args_json", change) == ARGS % ', "gradient_checkpointing": false'


def test_a_switch_of_the_old_value_is_turned_off(project: Project) -> None:
    project.write(train_py=TRAINER, args_yaml=CONFIG % "\nfp16: true")
    (change,) = project.changes(
        "train.py args.yaml", {"train.precision": "fp16-mixed"}, {"train.precision": "bf16-mixed"}
    )
    assert project.after("args_yaml", change) == CONFIG % "\nfp16: false\nbf16: true"


def test_a_byte_order_mark_and_line_ends_stay(project: Project) -> None:
    text = "\ufeff" + (CONFIG % "\nfp16: true").replace("\n", "\r\n")
    project.write(train_py=TRAINER, args_yaml=text)
    changes = project.changes(
        "train.py args.yaml",
        {"loader.batch_size": 8, "loader.num_workers": 0},
        {"loader.batch_size": 16, "loader.num_workers": 2},
    )
    expected = text.replace("size: 8", "size: 16").replace("fp16: true", "fp16: true\r\ndataloader_num_workers: 2")
    assert project.after("args_yaml", *changes) == expected


def test_a_launch_script(project: Project) -> None:
    text = "#!/bin/bash\npython train.py \\\n  --output_dir out \\\n  --bf16 \\\n  --save_steps 10\n"
    project.write(train_py=TRAINER, run_sh=text)
    changes = project.changes(
        "bash run.sh",
        {"train.precision": "bf16-mixed", "checkpoint.interval_steps": 10, "loader.num_workers": 0},
        {"train.precision": "fp32", "checkpoint.interval_steps": 100, "loader.num_workers": 2},
    )
    expected = text.replace("--bf16", "--bf16 False")
    expected = expected.replace("--save_steps 10", "--save_steps 100 \\\n  --dataloader_num_workers 2")
    assert project.after("run_sh", *changes) == expected


def test_a_typed_command_is_in_no_file(project: Project) -> None:
    project.write(train_py=TRAINER)
    changes = project.changes(
        "train.py --output_dir out --save_steps 10",
        {"checkpoint.interval_steps": 10, "loader.num_workers": 0},
        {"checkpoint.interval_steps": 100, "loader.num_workers": 2},
    )
    edits = [(edit.file, edit.key, edit.old, edit.new) for change in changes for edit in change.edits]
    assert edits == [(TYPED, "--save_steps", "10", "100"), (TYPED, "--dataloader_num_workers", "", "2")]


def test_a_typed_switch_of_a_script_s_own_is_taken_away(project: Project) -> None:
    project.write(train_py=script("DataLoader([1], pin_memory=args.pin)"))
    (change,) = project.changes("train.py --pin", {"loader.pin_memory": True}, {"loader.pin_memory": False}, line=12)
    (edit,) = change.edits
    assert (edit.file, edit.key, edit.old, edit.new) == (TYPED, "--pin", "True", "")


def test_an_interpolation_is_edited_where_its_value_stands(project: Project) -> None:
    config = "output_dir: out\nrows: 8\nper_device_train_batch_size: ${rows}\nsave_steps: 10\n"
    project.write(train_py=TRAINER, args_yaml=config)
    (change,) = project.changes("train.py args.yaml", {"loader.batch_size": 8}, {"loader.batch_size": 16})
    assert project.after("args_yaml", change) == config.replace("rows: 8", "rows: 16")


def test_without_files_everything_is_by_hand(project: Project) -> None:
    change = SettingChange("loader.num_workers", 0, 4, Effect.EQUIVALENT, None, "num_workers")
    (planned,) = plan([RequestedChange(change, "loader#train", None, ("DL001",))], None, lambda name: b"", {})
    assert planned.change.by_hand == "num_workers = 4: the place where it is set was not found"


@pytest.mark.parametrize(
    ("command", "written"), [("--pad_to_max_length", "False"), ("--pad_to_max_length True", "False")]
)
def test_the_padding_of_an_example_script(project: Project, command: str, written: str) -> None:
    project.write(train_py=TRAINER)
    words = f"train.py --output_dir out --save_steps 10 {command}"
    (change,) = project.changes(words, {"data.padding": "max_length"}, {"data.padding": "longest"})
    (edit,) = change.edits
    assert (edit.file, edit.key, edit.old, edit.new) == (TYPED, "--pad_to_max_length", "True", written)


@pytest.mark.parametrize("collator", ["", ", data_collator=DataCollatorWithPadding(tokenizer)"])
def test_a_tokenizer_pads_less_only_where_a_collator_pads(project: Project, collator: str) -> None:
    text = TRAINER.replace("args=args", "args=args" + collator) + "tokenizer = make()\n"
    text += "rows = [tokenizer(text, padding='max_length') for text in texts]\n"
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"data.padding": "max_length"}, {"data.padding": "longest"})
    assert bool(change.by_hand) is not bool(collator)
    if collator:
        # Samples that are made one by one keep their own lengths; the collator pads each batch to its longest.
        assert project.after("train_py", change) == text.replace("'max_length'", "False")


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("torch.optim.SGD(model.parameters(), lr=0.1)", "torch.optim.SGD(model.parameters(), lr=0.1, fused=True)"),
        ("torch.optim.SGD(model.parameters(), **options)", ""),
    ],
)
def test_an_argument_that_the_observed_call_lacks(project: Project, call: str, after: str) -> None:
    text = script("DataLoader([1])").replace("torch.optim.SGD(model.parameters(), lr=0.1)", call)
    project.write(train_py=text)
    bundle = project.bundle("train.py", NEWEST)
    at = Location(str(project.path("train_py")), 11, "SGD")
    seen = Setting("optimizer.fused", "optimizer#0", False, "default", at, spelling="fused")
    change = SettingChange("optimizer.fused", False, True, Effect.EQUIVALENT, at)
    wanted = RequestedChange(change, "optimizer#0", seen, ("CP004",))
    (planned,) = plan([wanted], bundle, lambda name: Path(name).read_bytes(), NEWEST)
    assert bool(planned.change.edits) is bool(after)
    if after:
        assert project.after("train_py", planned.change) == text.replace(call, after)


@pytest.mark.parametrize(("length", "is_refused"), [("null", True), ("512", False)])
def test_packing_needs_a_length(project: Project, length: str, is_refused: bool) -> None:
    config = f"model_name_or_path: m\ndataset_name: d\nlearning_rate: 1.0e-4\nmax_length: {length}\npacking: false\n"
    project.write(train_py=TRAINER.replace("Training", "SFTTraining"), args_yaml=config)
    versions = {**NEWEST, "trl": (1, 16, 0)}
    (change,) = project.changes(
        "train.py --config args.yaml", {"data.packing": False}, {"data.packing": True}, versions=versions
    )
    assert ("set one first" in change.by_hand) is is_refused
    assert is_refused or project.after("args_yaml", change) == config.replace("false", "true")


def test_the_default_of_an_example_script_s_own_option(project: Project) -> None:
    fields = "@dataclass\nclass Data:\n    pad_to_max_length: bool = field(\n        default=True,\n    )\n\n\n"
    text = "from dataclasses import dataclass, field\n" + TRAINER.replace("parser =", fields + "parser =")
    text = text.replace("HfArgumentParser(TrainingArguments)", "HfArgumentParser((Data, TrainingArguments))")
    text = text.replace("(args,) =", "data, args =")
    project.write(train_py=text, args_json=ARGS % "")
    observed: dict[str, Value] = {"data.padding": "max_length", "loader.num_workers": 0}
    wanted: dict[str, Value] = {"data.padding": "longest", "loader.num_workers": 2}
    padding, workers = project.changes("train.py args.json", observed, wanted)
    assert project.after("train_py", padding) == text.replace("default=True", "default=False")
    assert project.after("args_json", workers) == ARGS % ', "dataloader_num_workers": 2'
    (padding, _) = project.changes("train.py --output_dir out --pad_to_max_length True", observed, wanted)
    assert [edit.file for edit in padding.edits] == [TYPED]


def test_a_number_is_written_with_the_unit_of_its_dialect(project: Project) -> None:
    text = "max_duration: 9ba\nglobal_train_batch_size: 8\ntrain_loader: {num_workers: 8}\nconsole_log_interval: 1ba\n"
    project.write(train_py="import composer\ncomposer.main()\n", conf_yaml=text)
    name = "logging.interval_steps"
    (change,) = project.changes("train.py conf.yaml", {name: 1}, {name: 10})
    assert project.after("conf_yaml", change) == text.replace("1ba", "10ba")


def test_two_arguments_of_a_call_without_any(project: Project) -> None:
    text = TRAINER.replace("(args,) = parser.parse_args_into_dataclasses()", "args = TrainingArguments()")
    text = text.replace("parser = HfArgumentParser(TrainingArguments)\n", "")
    project.write(train_py=text)
    changes = project.changes(
        "train.py",
        {"train.activation_checkpointing": False, "train.accumulation_steps": 1},
        {"train.activation_checkpointing": True, "train.accumulation_steps": 4},
    )
    written = "TrainingArguments(activation_checkpointing=True, gradient_accumulation_steps=4)"
    by_hand = [change.by_hand for change in changes]
    assert by_hand == ["", ""], by_hand
    assert project.after("train_py", *changes) == text.replace("TrainingArguments()", written)


STACKED = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, default_data_collator

tokenizer = AutoTokenizer.from_pretrained("x")


def encode(rows):
    return tokenizer(rows["{column}"], padding="max_length", max_length=128)


loader = DataLoader(rows.map(encode), collate_fn=default_data_collator)
for batch in loader:
    model(batch).loss.backward()
    optimizer.step()
"""


def test_what_only_stacks_becomes_a_collator_that_pads(project: Project) -> None:
    before = STACKED.format(column="text")
    project.write(train_py=before)
    (change,) = project.changes("train.py", {"data.padding": "max_length"}, {"data.padding": "longest"})
    after = before.replace("collate_fn=default_data_collator", "collate_fn=DataCollatorWithPadding(tokenizer)")
    after = after.replace("AutoTokenizer, default_data_collator", "AutoTokenizer, DataCollatorWithPadding")
    assert project.after("train_py", change) == after.replace('padding="max_length"', "padding=False")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('rows["text"]', 'rows["labels"]'),
        ("collate_fn=default_data_collator", "collate_fn=functools.partial(default_data_collator)"),
        ("AutoTokenizer, default_data_collator", "AutoTokenizer, default_data_collator as stack"),
        ("tokenizer(rows[", "self.tokenizer(rows["),
    ],
)
def test_a_collator_that_may_need_more_is_by_hand(project: Project, old: str, new: str) -> None:
    project.write(train_py=STACKED.format(column="text").replace(old, new))
    (change,) = project.changes("train.py", {"data.padding": "max_length"}, {"data.padding": "longest"})
    assert not change.edits
    assert "pad" in change.by_hand


OWN_OPTION = """\
import argparse
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding, default_data_collator

parser = argparse.ArgumentParser()
parser.add_argument("--pad_to_max_length", type=bool, default=True)
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained("x")
{padding}


def encode(rows):
    return tokenizer(rows["text"], padding=padding, max_length=128)


collate = default_data_collator if args.pad_to_max_length else DataCollatorWithPadding(tokenizer)
for batch in DataLoader(rows.map(encode), collate_fn=collate):
    model(batch).loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "padding",
    [
        'padding = "max_length" if args.pad_to_max_length else False',
        'if args.pad_to_max_length:\n    padding = "max_length"\nelse:\n    padding = False',
    ],
)
def test_an_option_that_decides_how_the_script_pads(project: Project, padding: str) -> None:
    before = OWN_OPTION.format(padding=padding)
    project.write(train_py=before)
    (change,) = project.changes("train.py", {"data.padding": "max_length"}, {"data.padding": "longest"})
    assert project.after("train_py", change) == before.replace("default=True", "default=False")


@pytest.mark.parametrize(
    ("lines", "lines_of_readers"),
    [
        ("lr = 0.1 * args.workers\nmodel.lr = lr", "train.py:12"),
        ("model.lr = args.workers", "train.py:12"),
        ("print(args.workers, lr := 1)", ""),
        ("total = args.workers * 4\nprint(total)", ""),
        ("total = args.workers * 4\nlr = total", "train.py:12"),
        ("same = args.workers\nmodel.lr = same / 2", "train.py:13"),
        ("other = DataLoader([2], num_workers=args.workers)", ""),
        ("given = {'n': args.workers}\ngiven.update(m=1)\nDataLoader([2], **given)", ""),
        ("given = {'n': args.workers}\nmodel.lr = given['n']", "train.py:13"),
        ("def make(n):\n    return DataLoader([2], num_workers=n)\nmake(args.workers)", ""),
        ("def make(n):\n    return DataLoader([2], num_workers=n)\nmake(n=args.workers)", ""),
        ("def make(n):\n    return n * 2\nmake(args.workers)", "train.py:13"),
        ("model.lr = getattr(args, 'workers', 0)", "train.py:12"),
        ("n = getattr(args, 'workers')\nother = DataLoader([2], num_workers=n)", ""),
        ("model.lr = getattr(args, 'lr', 'workers')", ""),
        ("import os\nmodel.lr = os.environ.get('workers')", ""),
        ("options = {}\nmodel.lr = options.get('workers')", "train.py:13"),
        ("def make(m):\n    return m * 2\nmake(1, args.workers)", "train.py:14"),
    ],
)
def test_an_option_with_other_readers_is_by_hand(project: Project, lines: str, lines_of_readers: str) -> None:
    text = script("None").replace("loader = None", f"{lines}\nloader = DataLoader([1], num_workers=args.workers)")
    project.write(train_py=text)
    line = 13 + lines.count("\n")
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=line)
    assert bool(change.edits) is not bool(lines_of_readers)
    assert change.by_hand.endswith(lines_of_readers)


def test_a_constant_with_other_readers_is_by_hand(project: Project) -> None:
    text = script("DataLoader([1], batch_size=BATCH)").replace("lr=0.1", "lr=0.1 * BATCH")
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"loader.batch_size": 4}, {"loader.batch_size": 8}, line=12)
    assert change.by_hand.endswith("BATCH has other readers, at " + f"{project.root}/train.py:11")


def test_a_constant_of_another_file_is_read_under_the_name_that_its_import_gives(project: Project) -> None:
    text = "from conf import BATCH as SIZE\n" + script("DataLoader([1], batch_size=SIZE)").replace(
        "lr=0.1", "lr=0.1 * SIZE"
    )
    project.write(train_py=text, conf_py="BATCH = 4\n")
    (change,) = project.changes("train.py", {"loader.batch_size": 4}, {"loader.batch_size": 8}, line=13)
    assert change.by_hand.endswith("BATCH has other readers, at " + f"{project.root}/train.py:12")


def test_a_value_that_two_keys_are_made_of_is_by_hand(project: Project) -> None:
    config = "output_dir: out\nrows: 8\nper_device_train_batch_size: ${rows}\nsave_steps: ${rows}\n"
    project.write(train_py=TRAINER, args_yaml=config)
    (change,) = project.changes("train.py args.yaml", {"loader.batch_size": 8}, {"loader.batch_size": 16})
    assert "args.yaml:3, " in change.by_hand
    assert change.by_hand.endswith("args.yaml:4")


def test_a_value_that_an_alias_repeats_is_by_hand(project: Project) -> None:
    config = "output_dir: out\nper_device_train_batch_size: &rows 8\nsave_steps: *rows\n"
    project.write(train_py=TRAINER, args_yaml=config)
    (change,) = project.changes("train.py args.yaml", {"loader.batch_size": 8}, {"loader.batch_size": 16})
    assert change.by_hand.endswith("an edit of per_device_train_batch_size would also change save_steps")


def test_a_script_that_is_not_utf_8(project: Project) -> None:
    text = "# coding: latin-1\n" + script("DataLoader([1], batch_size=8 if 'ü' else 4, num_workers=0)")
    project.path("train_py").write_bytes(text.encode("latin-1"))
    observed: dict[str, Value] = {"loader.batch_size": 8, "loader.num_workers": 0}
    batch, workers = project.changes("train.py", observed, {"loader.batch_size": 16, "loader.num_workers": 4}, line=13)
    assert batch.by_hand
    assert "please report" not in batch.by_hand
    (edit,) = workers.edits
    after = apply_edits(project.path("train_py").read_bytes(), workers.edits)
    assert (edit.new, after.decode("latin-1")) == ("4", text.replace("num_workers=0", "num_workers=4"))


def test_a_bug_of_the_planning_costs_one_edit_and_says_so(project: Project) -> None:
    project.write(train_py=script("DataLoader([1], num_workers=0)"))
    bundle = project.bundle("train.py", NEWEST)
    evidence = project.evidence(bundle, {"loader.num_workers": 0}, 12)
    wanted = project.wanted(evidence, "loader.num_workers", 4)

    def read(name: str) -> bytes:
        raise ZeroDivisionError(name)

    (planned,) = plan([wanted], bundle, read, NEWEST)
    assert not planned.change.edits
    assert "autotune failed to plan it, please report this (ZeroDivisionError: " in planned.change.by_hand


def given_by_nobody(project: Project, words: str, value: Value, new: Value, name: str) -> PatchChange:
    """The planned change of a setting that the run had without being told."""
    bundle = project.bundle(words, NEWEST)
    read = join((), bundle.settings if bundle is not None else ())
    seen = Setting(name, RUN, value, "default", spelling=SPELLINGS[name])
    wanted = project.wanted(observed_over(read, join((), [seen])), name, new)
    (planned,) = plan([wanted], bundle, lambda file: Path(file).read_bytes(), NEWEST)
    return planned.change


SPELLINGS = {
    "train.num_threads": "torch.set_num_threads",
    "train.matmul_precision": "torch.set_float32_matmul_precision",
}


@pytest.mark.parametrize(
    ("name", "values", "lines"),
    [
        ("train.num_threads", (2, 4, 1), ("torch.set_num_threads(4)", "torch.set_num_threads(1)")),
        (
            "train.matmul_precision",
            ("highest", "high", "medium"),
            ('torch.set_float32_matmul_precision("high")', 'torch.set_float32_matmul_precision("medium")'),
        ),
    ],
)
def test_a_statement_that_is_missing_and_its_literal_once_it_stands(
    project: Project, name: str, values: tuple[Value, Value, Value], lines: tuple[str, str]
) -> None:
    text = script("DataLoader([1])")
    project.write(train_py=text)
    own, new, newer = values
    change = given_by_nobody(project, "train.py", own, new, name)
    assert [(edit.key, edit.old) for edit in change.edits] == [(f"{SPELLINGS[name].partition('.')[2]}()", "")]
    written = text.replace("import DataLoader\n", f"import DataLoader\n\n{lines[0]}\n", 1)
    assert project.after("train_py", change) == written
    project.write(train_py=written)
    bundle = project.bundle("train.py", NEWEST)
    setting = project.evidence(bundle, {name: new}, 0).setting(RUN, name)
    assert setting is not None
    assert setting.location is not None
    assert (setting.trusted, setting.location.line) == (True, 5)
    (same,) = project.changes("train.py", {name: new}, {name: new})
    assert (same.edits, same.by_hand) == ((), "")
    (again,) = project.changes("train.py", {name: new}, {name: newer})
    assert project.after("train_py", again) == written.replace(lines[0], lines[1])


def test_a_statement_that_somebody_may_have_written_is_by_hand(project: Project) -> None:
    project.write(train_py=script("DataLoader([1])"))
    (change,) = project.changes("train.py", {"train.num_threads": 2}, {"train.num_threads": 4})
    assert change.by_hand.startswith("train.num_threads = 4: ")
    project.write(train_py=script("DataLoader([1])").replace("BATCH = 4", "torch.set_num_threads(int(args.n))"))
    change = given_by_nobody(project, "train.py", 2, 4, "train.num_threads")
    assert change.by_hand.startswith("train.num_threads = 4: what train.py:9 ")


def test_a_script_that_imports_torch_under_a_condition_gets_no_statement(project: Project) -> None:
    text = script("DataLoader([1])").replace("import torch\n", "try:\n    import torch\nfinally: ...\n")
    project.write(train_py=text)
    change = given_by_nobody(project, "train.py", "highest", "high", "train.matmul_precision")
    assert change.by_hand.startswith("train.matmul_precision = high: train.py:3 ")


def test_a_value_that_another_option_gives_a_function_is_edited_there(project: Project) -> None:
    text = script("DataLoader([1])").replace("BATCH = 4", "torch.set_num_threads(args.workers)")
    text = text.replace("default=0", "default=2")
    project.write(train_py=text)
    (change,) = project.changes("train.py", {"train.num_threads": 2}, {"train.num_threads": 4})
    assert [edit.key for edit in change.edits] == ["--workers"]
    assert project.after("train_py", change) == text.replace("default=2", "default=4")


def test_two_statements_and_a_keyword_are_one_file(project: Project) -> None:
    text = script("DataLoader([1])")
    project.write(train_py=text)
    bundle = project.bundle("train.py", NEWEST)
    read = join((), bundle.settings if bundle is not None else ())
    at = Location(str(project.path("train_py")), 12, "DataLoader")
    seen = [
        Setting("train.num_threads", RUN, 2, "default"),
        Setting("train.matmul_precision", RUN, "highest", "default"),
        Setting("loader.num_workers", "loader#train", 0, "default", at, spelling="num_workers"),
    ]
    evidence = observed_over(read, join((), seen))
    new: dict[str, Value] = {"train.num_threads": 4, "train.matmul_precision": "high", "loader.num_workers": 2}
    wanted = [project.wanted(evidence, name, value) for name, value in new.items()]
    changes = [each.change for each in plan(wanted, bundle, lambda name: Path(name).read_bytes(), NEWEST)]
    lines = 'torch.set_num_threads(4)\ntorch.set_float32_matmul_precision("high")\n'
    expected = text.replace("import DataLoader\n", f"import DataLoader\n\n{lines}", 1)
    expected = expected.replace("DataLoader([1])", "DataLoader([1], num_workers=2)")
    assert project.after("train_py", *changes) == expected


RAW_LOOP = """\
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--save-every", type=int, default=2)
args = parser.parse_args()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(torch.utils.data.DataLoader([1.0])):
    model(batch).sum().backward()
    optimizer.step()
    if step % {every} == 0:
        torch.save(model.state_dict(), "x.pt")
"""


def test_the_interval_of_a_raw_loop_is_edited_where_it_is_given(project: Project) -> None:
    project.write(train_py=RAW_LOOP.format(every="args.save_every"))
    (change,) = project.changes("train.py", {"checkpoint.interval_steps": 2}, {"checkpoint.interval_steps": 6})
    after = RAW_LOOP.format(every="args.save_every").replace("default=2", "default=6")
    assert project.after("train_py", change) == after


def test_the_interval_that_stands_in_a_condition_is_by_hand_with_its_line(project: Project) -> None:
    project.write(train_py=RAW_LOOP.format(every="2"))
    (change,) = project.changes("train.py", {"checkpoint.interval_steps": 2}, {"checkpoint.interval_steps": 6})
    assert "train.py:11" in change.by_hand


def test_what_the_framework_computes_from_an_edited_value_needs_no_edit(project: Project) -> None:
    project.write(args_yaml="checkpoint_dir: c\ntrain:\n  global_batch_size: 8\n  micro_batch_size: 2\n")
    observed: dict[str, Value] = {"loader.batch_size": 2, "train.accumulation_steps": 4}
    wanted: dict[str, Value] = {"loader.batch_size": 4, "train.accumulation_steps": 2}
    batch, steps = project.changes("litgpt finetune_lora --config args.yaml", observed, wanted)
    assert "micro_batch_size: 4" in project.after("args_yaml", batch)
    assert (steps.edits, steps.by_hand, steps.needs) == ((), "", ("loader.batch_size",))
    (alone,) = project.changes("litgpt finetune_lora --config args.yaml", observed, {"train.accumulation_steps": 2})
    assert alone.by_hand


def test_the_interval_of_an_epoch_is_said_to_be_the_loops(project: Project) -> None:
    project.write(train_py=RAW_LOOP.format(every="2").replace("if step % 2 == 0", "if True"))
    (change,) = project.changes("train.py", {"checkpoint.interval_steps": 1}, {"checkpoint.interval_steps": 6})
    assert change.by_hand.endswith("in no condition `step % N == 0`")


@pytest.mark.parametrize(
    ("text", "name", "old", "new", "expected"),
    [
        (
            "DataLoader([1], 8, True, None, None, 0)",
            "loader.batch_size",
            8,
            16,
            "DataLoader([1], 16, True, None, None, 0)",
        ),
        (
            "DataLoader([1], 8, True, None, None, 0)",
            "loader.num_workers",
            0,
            4,
            "DataLoader([1], 8, True, None, None, 4)",
        ),
        ("DataLoader([1], num_workers=(N := 0))", "loader.num_workers", 0, 4, "DataLoader([1], num_workers=(N := 4))"),
    ],
)
def test_a_value_that_no_keyword_names(
    project: Project, text: str, name: str, old: Value, new: Value, expected: str
) -> None:
    project.write(train_py=script(text))
    (change,) = project.changes("train.py", {name: old}, {name: new}, line=12)
    assert project.after("train_py", change) == script(expected)


def test_of_a_tuple_one_value(project: Project) -> None:
    before = script("DataLoader([1], batch_size=rows, num_workers=workers)").replace(
        "loader =", "rows, workers = 8, 0\nloader ="
    )
    project.write(train_py=before)
    (change,) = project.changes("train.py", {"loader.num_workers": 0}, {"loader.num_workers": 4}, line=13)
    assert project.after("train_py", change) == before.replace("8, 0", "8, 4")
