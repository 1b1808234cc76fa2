from __future__ import annotations

import enum
import math
from types import ModuleType, SimpleNamespace

import pytest

from autotune import probe
from autotune.catalogue import frameworks as catalogue
from autotune.probe.hooks import frameworks, resume


class Strategy(enum.Enum):
    STEPS = "steps"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (True, True), (0.5, 0.5), ("no", "no"), (Strategy.STEPS, "steps"), (math.inf, None), (math.nan, None),
     ([1], None), (None, None)],
)  # fmt: skip
def test_only_plain_finite_values_are_read(value, expected):
    assert frameworks._plain(value) == expected


def test_a_field_that_raises_or_is_unknown_is_left_out():
    class Trainer:
        max_steps = 5

        @property
        def estimated_stepping_batches(self):
            raise RuntimeError("only inside fit")

    assert frameworks._fields(Trainer(), ("max_steps", "estimated_stepping_batches", "missing")) == {"max_steps": 5}


def test_a_trainer_is_told_with_the_trainers_that_it_extends():
    base = type("Trainer", (), {"__module__": "transformers.trainer"})
    mixin = type("Mixin", (), {})
    sft = type("SFTTrainer", (mixin, base), {"__module__": "trl.trainer.sft_trainer"})
    mine = type("MyTrainer", (sft,), {"__module__": "__main__"})
    classes = ["__main__.MyTrainer", "trl.SFTTrainer", "transformers.Trainer"]
    assert frameworks.values(mine(), {"fields": [], "read": "trainer"}) == {"classes": classes, "adds_losses": None}


SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "vocab_size": 9,
    "pad_token_id": 0,
}


@pytest.mark.parametrize(
    ("model", "config", "told", "trainer", "expected"),
    [
        ("BertForSequenceClassification", {}, {}, {}, True),
        ("BertForTokenClassification", {}, {}, {}, True),
        ("BertForSequenceClassification", {}, {"accepts_loss_kwargs": False}, {}, False),
        ("BertForSequenceClassification", {}, {}, {"label_smoothing_factor": 0.1}, None),
        ("LlamaForSequenceClassification", {}, {}, {}, True),
        ("ModernBertForMaskedLM", {}, {}, {}, False),
        ("LlamaForCausalLM", {}, {}, {}, False),
        ("GPTNeoXForTokenClassification", {}, {}, {}, True),
        ("BertForQuestionAnswering", {}, {}, {}, None),
    ],
)
def test_whether_a_trainer_adds_the_losses_of_micro_batches(tmp_path, model, config, told, trainer, expected):
    transformers = pytest.importorskip("transformers")
    configured = getattr(transformers, f"{model.partition('For')[0]}Config")(**SIZES, **config)
    made = getattr(transformers, model)(configured)
    for key, value in told.items():
        setattr(made, key, value)
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to="none", **trainer)
    assert frameworks._adds_losses(transformers.Trainer(model=made, args=arguments)) is expected


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("BertForSequenceClassification", {}),
        ("BertForTokenClassification", {}),
        ("LlamaForSequenceClassification", {}),
        ("LlamaForSequenceClassification", {"num_labels": 1}),
        ("LlamaForTokenClassification", {}),
        ("LlamaForCausalLM", {}),
        ("GPTNeoXForTokenClassification", {}),
    ],
)
def test_it_is_what_the_losses_of_a_training_say(tmp_path, model, config):
    """Half of the micro-batch and twice the accumulation: the logged loss doubles where losses are added."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    is_regression = config.get("num_labels") == 1
    of_tokens = "Token" in model or "LM" in model
    ids = torch.arange(1, 9)
    label = ids % 2 if of_tokens else 0.5 if is_regression else 1
    rows = [{"input_ids": ids, "labels": label} for _ in range(8)]
    logged, said = [], set()
    for size, accumulation in ((4, 1), (2, 2)):
        torch.manual_seed(0)
        configured = getattr(transformers, f"{model.partition('For')[0]}Config")(**SIZES, **config)
        for name in [
            name for name in vars(configured) if "dropout" in name and isinstance(vars(configured)[name], float)
        ]:
            setattr(configured, name, 0.0)
        arguments = transformers.TrainingArguments(
            str(tmp_path), use_cpu=True, report_to="none", max_steps=1, logging_steps=1, save_strategy="no",
            per_device_train_batch_size=size, gradient_accumulation_steps=accumulation, disable_tqdm=True,
        )  # fmt: skip
        trainer = transformers.Trainer(getattr(transformers, model)(configured), arguments, train_dataset=rows)
        trainer.train()
        logged.append(trainer.state.log_history[0]["loss"])
        said.add(frameworks._adds_losses(trainer))
    assert said == {logged[1] > 1.5 * logged[0]}
    assert logged[1] / logged[0] == pytest.approx(2.0 if said == {True} else 1.0, rel=0.05)


@pytest.mark.parametrize("name", ["compute_loss", "training_step", "get_batch_samples"])
def test_code_of_the_users_says_nothing_of_the_models_loss(tmp_path, name):
    transformers = pytest.importorskip("transformers")

    def mine(self, *args, **kwargs):
        raise NotImplementedError

    Mine = type("Mine", (transformers.Trainer,), {name: mine})  # noqa: N806 (a class)
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    assert frameworks._adds_losses(Mine(transformers.BertForSequenceClassification(config), arguments)) is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("PassThroughProfiler", "none"),
        ("AdvancedProfiler", "advanced"),
        ("PyTorchProfiler", "pytorch"),
        ("Mine", "Mine"),
    ],
)
def test_lightnings_profiler_is_told_by_its_class(name, told):
    trainer = SimpleNamespace(profiler=type(name, (), {})(), max_epochs=1, max_steps=2)
    row = {"fields": ["max_epochs"], "read": "lightning_profiler"}
    assert frameworks.values(trainer, row) == {"profiler": told, "max_epochs": 1}


def test_functions_of_a_module_and_methods_of_a_class_are_timed_and_its_instances_noted(attach, tmp_path):
    row = {"object": "", "after": "__init__", "fields": [], "read": "", "override": "", "resume": ""}
    rows = [
        {**row, "module": "gym", "type": "", "times": {"store": "checkpoint"}},
        {**row, "module": "gym", "type": "Coach", "times": {"examine": "evaluation"}, "object": "gym", "fields": ["n"]},
        {**row, "module": "other", "type": "Missing", "times": {}},
    ]
    session = attach()
    session.request["frameworks"], session.observed = rows, frameworks.Observed(rows)
    gym = ModuleType("gym")
    exec("class Coach:\n    n = 3\n    def examine(self): return 1\ndef store(): return 2", vars(gym))
    frameworks.on_import(session, gym)
    coach = gym.Coach()
    assert (coach.examine(), gym.store()) == (1, 2)
    assert [event[0] for event in session.recorder.events][-2:] == ["evaluation", "checkpoint"]
    assert session.observed.describe()["gym"]["values"] == {"n": 3}


def test_every_function_that_a_hook_names_is_there_and_named():
    rows = catalogue.hooks()
    assert {row.read for row in rows if row.read} == frameworks.READERS.keys()
    assert {row.resume for row in rows if row.resume} == resume.TRAINERS.keys()
    assert vars(frameworks).keys() >= set(probe.SAVING_AND_LOGGING.values())
