from __future__ import annotations

import pytest
from msgspec.structs import replace
from scanning import scan

from autotune.catalogue.dialects import dialects, version
from autotune.catalogue.vocabulary import read
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.scan.arguments import compute_loss_facts, facts
from autotune.scan.ranges import Range

LIBRARIES = read("renames.toml")["library"]


def call(dialect: str, name: str, *keys: str, is_default: bool = False) -> ConsumerCall:
    found = {
        key: WrittenValue(key, 1, Location("train.py", at + 2, key=key), is_default=is_default)
        for at, key in enumerate(keys)
    }
    return ConsumerCall(dialect, name, RUN, found, Location("train.py", 1))


def removed(*calls: ConsumerCall, **versions: tuple[int, ...]) -> str | None:
    found = {fact.name: fact.value for fact in facts(calls, versions)}
    return None if not found else str(found["arguments.removed"])


OLD = "evaluation_strategy (removed in 4.51, now eval_strategy)"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (call("hf_trainer", "TrainingArguments", "evaluation_strategy"), OLD),
        (call("hf_trainer", "Seq2SeqTrainingArguments", "evaluation_strategy"), OLD),
        (call("hf_trainer", "", "evaluation_strategy"), OLD),
        (call("trl", "SFTConfig", "evaluation_strategy"), OLD),
        (call("hf_trainer", "Trainer", "tokenizer"), "tokenizer (removed in 5.0, now processing_class)"),
        (call("trl", "SFTTrainer", "tokenizer"), "tokenizer (removed in 0.16, now processing_class)"),
        (call("trl", "SFTConfig", "max_seq_length"), "max_seq_length (removed in 0.20, now max_length)"),
        (call("lightning", "Trainer", "gpus"), "gpus (removed in 2.0, now accelerator='gpu', devices=)"),
        (call("accelerate", "Accelerator", "fp16"), "fp16 (removed in 0.16, now mixed_precision='fp16')"),
        (call("hf_trainer", "", "overwrite_output_dir"), "overwrite_output_dir (removed in 5.0)"),
        (call("hf_trainer", "TrainingArguments", "eval_strategy", "bf16"), None),
        (call("trl", "DPOConfig", "max_seq_length"), None),
        (call("trl", "", "max_seq_length"), None),
        (call("hf_trainer", "TrainingArguments", "tokenizer"), None),
        (call("llamafactory", "", "warmup_ratio"), None),
        (call("axolotl", "", "warmup_ratio", "evaluation_strategy"), None),
        (call("torch", "from_pretrained", "torch_dtype"), None),
        (call("deepspeed", "", "zero_optimization.stage3_gather_fp16_weights_on_model_save"), None),
        (call("deepspeed", "", "zero_optimization.gather_16bit_weights_on_model_save"), None),
        (call("hf_trainer", "TrainingArguments", "evaluation_strategy", is_default=True), None),
    ],
)
def test_what_newer_releases_do_not_accept(made: ConsumerCall, text: str | None) -> None:
    assert removed(made) == text


def test_a_library_that_patches_another_takes_its_old_arguments() -> None:
    calls = [call("trl", "SFTTrainer", "tokenizer"), call("trl", "SFTConfig", "evaluation_strategy")]
    found = {fact.name: fact.value for fact in facts(calls, {}, {}, ["torch", "unsloth"])}
    assert found["arguments.removed"] == OLD


@pytest.mark.parametrize(("dialect", "is_said"), [("hf_trainer", False), ("trl", False), ("lightning", True)])
def test_a_config_that_no_script_reads(dialect: str, is_said: bool) -> None:
    key = "gpus" if dialect == "lightning" else "evaluation_strategy"
    name = "Trainer" if dialect == "lightning" else ""
    config = replace(call(dialect, name, key), location=Location("a.yaml", 1))
    assert bool(removed(config)) is is_said
    assert removed(config, call("torch", "DataLoader"))


def test_a_fork_may_take_all() -> None:
    fork = {"transformers": Range("transformers from a repository", None, None, is_source=True)}
    assert not list(facts([call("hf_trainer", "TrainingArguments", "evaluation_strategy")], {}, fork))
    assert [fact.value for fact in compute_loss_facts({}, fork)] == [False]


@pytest.mark.parametrize(
    ("release", "speaks"), [((4, 50, 3), False), ((4, 51), True), ((4, 51, 0), True), ((5, 0), True), ((5,), True)]
)
def test_the_release_decides(release: tuple[int, ...], speaks: bool) -> None:
    made = call("hf_trainer", "TrainingArguments", "evaluation_strategy")
    assert (removed(made, transformers=release) is not None) is speaks


OLDER, NEWER = Range("transformers<4.51.0", None, (4, 51, 0)), Range("transformers>=5", (5,), None)
EITHER = Range("transformers>=4.40,<5", (4, 40), (5,))


@pytest.mark.parametrize(
    ("asked", "said", "version"),
    [
        (OLDER, {}, None),
        (NEWER, {"evaluation_strategy", "no_cuda"}, (5,)),
        (EITHER, {"evaluation_strategy"}, None),
        (None, {"evaluation_strategy", "no_cuda"}, None),
    ],
)
def test_a_range_of_releases_decides_where_all_of_them_agree(asked: Range | None, said: set[str], version) -> None:
    made = call("hf_trainer", "TrainingArguments", "evaluation_strategy", "no_cuda")
    found = {fact.name: fact.value for fact in facts([made], {}, {"transformers": asked} if asked else {})}
    texts = str(found.get("arguments.removed", ""))
    assert {name for name in ("evaluation_strategy", "no_cuda") if name in texts} == set(said)
    assert found.get("arguments.package_version") == version
    assert ("arguments.declared" in found) is (bool(said) and version is None)


@pytest.mark.parametrize("release", [(5,), (5, 0), (5, 0, 0)])
def test_a_release_is_the_same_with_zeros_behind_it(release: tuple[int, ...]) -> None:
    made = call("hf_trainer", "TrainingArguments", "no_cuda")
    assert removed(made, transformers=release) == "no_cuda (removed in 5.0, now use_cpu)"
    found = {fact.name for fact in facts([made], {}, {"transformers": Range("", release, None)})}
    assert "arguments.package_version" in found
    assert not list(facts([made], {}, {"transformers": Range("", None, release)}))


def test_a_range_that_leaves_it_open_is_named() -> None:
    made = call("hf_trainer", "TrainingArguments", "evaluation_strategy")
    found = {fact.name: fact.value for fact in facts([made], {}, {"transformers": EITHER})}
    assert found["arguments.declared"] == "depending on the release; the requirement is transformers>=4.40,<5"


def test_a_pin_goes_before_a_range() -> None:
    made = call("hf_trainer", "TrainingArguments", "evaluation_strategy")
    assert list(facts([made], {"transformers": (4, 46)}, {"transformers": EITHER})) == []


def test_facts_have_places_and_versions() -> None:
    made = call("hf_trainer", "TrainingArguments", "warmup_ratio", "bf16", "evaluation_strategy")
    found = {fact.name: fact for fact in facts([made], {"transformers": (5, 20), "trl": (1, 0)})}
    for name, value in (
        ("removed", f"{OLD}, warmup_ratio (removed in 5.15, now warmup_steps)"),
        ("removed_since", (4, 51)),
    ):
        fact = found[f"arguments.{name}"]
        assert fact.value == value
        assert {place.line for place in fact.places} == {2, 4}
    assert found["arguments.package_version"] == Fact("arguments.package_version", RUN, (5, 20))
    assert "arguments.package_version" not in {fact.name for fact in facts([made], {})}


def test_one_library_at_a_time() -> None:
    calls = [call("trl", "SFTConfig", "max_seq_length"), call("hf_trainer", "", "no_cuda")]
    assert removed(*calls) == "max_seq_length (removed in 0.20, now max_length)"


def test_a_library_of_a_known_release_goes_first() -> None:
    calls = [call("hf_trainer", "TrainingArguments", "no_cuda"), call("trl", "SFTConfig", "max_seq_length")]
    found = {fact.name: fact.value for fact in facts(calls, {"trl": (1, 16, 0)})}
    assert found == {
        "arguments.removed": "max_seq_length (removed in 0.20, now max_length)",
        "arguments.removed_since": (0, 20),
        "arguments.package_version": (1, 16, 0),
    }
    assert removed(*calls, trl=(0, 19)) == "no_cuda (removed in 5.0, now use_cpu)"


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda row: row.get("names", ["own"])[0])
def test_the_file_is_whole(library) -> None:
    assert set(library) <= {"package", "dialects", "names", "arguments"}
    assert set(library["dialects"]) <= set(dialects())
    assert library["package"] in {dialects()[name]["package"] for name in library["dialects"]} | {"transformers"}
    for row in library["arguments"].values():
        assert set(row) <= {"removed", "instead"}
        assert version(row["removed"])


@pytest.mark.parametrize(
    ("versions", "asked", "may_pass"),
    [
        ({}, None, True),
        ({"transformers": (4, 45, 2)}, None, False),
        ({"transformers": (4, 46)}, None, True),
        ({}, Range("transformers>=4.30", (4, 30), None), True),
        ({}, Range("transformers<4.46", None, (4, 46)), False),
        ({}, Range("transformers<4.47", None, (4, 47)), True),
    ],
)
def test_a_release_that_passes_compute_loss_the_number_of_items(
    versions: dict[str, tuple[int, ...]], asked: Range | None, may_pass: bool
) -> None:
    (fact,) = compute_loss_facts(versions, {"transformers": asked} if asked is not None else {})
    assert fact.value is may_pass


MADE = "args = TrainingArguments(output_dir='o', evaluation_strategy='steps')"
NEW = MADE.replace("evaluation", "eval")


@pytest.mark.parametrize(
    ("code", "is_said"),
    [
        (MADE, True),
        (f"if args.do_eval:\n    {MADE}", True),
        (f"if version.parse(transformers.__version__) < version.parse('4.41'):\n    {MADE}\nelse:\n    {NEW}", False),
        (f"is_old = parse(transformers.__version__) < parse('4.41')\nif is_old:\n    {MADE}\nelse:\n    {NEW}", False),
        (f"if 'eval_strategy' in signature(TrainingArguments).parameters:\n    {NEW}\nelse:\n    {MADE}", False),
        (f"try:\n    {NEW}\nexcept TypeError:\n    {MADE}", False),
        (f"try:\n    {MADE}\nexcept TypeError:\n    {NEW}", False),
        (f"try:\n    {MADE}\nexcept OSError:\n    raise", True),
        ("more = {}\nif old:\n    more['evaluation_strategy'] = 'no'\nargs = TrainingArguments('o', **more)", False),
        ("args = TrainingArguments('o', evaluation_strategy='no' if fast else 'steps')", True),
    ],
)
def test_arguments_that_code_chooses_by_the_release(code: str, is_said: bool) -> None:
    script = scan(f"from transformers import Trainer, TrainingArguments\n{code}\nTrainer(model, args).train()\n")
    assert ("evaluation_strategy" in (removed(*script.calls) or "")) is is_said


def test_a_removed_argument_stands_where_the_call_names_it() -> None:
    code = (
        "import argparse\nfrom lightning import Trainer\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--gpus', type=int, default=4)\nargs = parser.parse_args()\n"
        "Trainer(\n    gpus=args.gpus,\n).fit(model)\n"
    )
    places = [place.line for one in facts(scan(code, {"gpus": "2"}).calls, {}) for place in one.places]
    assert set(places) == {7}


@pytest.mark.parametrize(
    ("arguments", "is_said"),
    [
        ("args=TrainingArguments('o', evaluation_strategy=args.strategy)", True),
        ("args=TrainingArguments('o', eval_strategy=args.strategy)", False),
        ("args=TrainingArguments('o')", False),
    ],
)
def test_a_call_passes_what_it_names_if_an_option_has_only_its_default(arguments: str, is_said: bool) -> None:
    code = (
        "import argparse\nfrom transformers import Trainer, TrainingArguments\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--strategy', default='epoch')\nargs = parser.parse_args()\n"
        f"Trainer(\n    model,\n    {arguments},\n).train()\n"
    )
    assert ("evaluation_strategy" in (removed(*scan(code, {}).calls) or "")) is is_said
