"""Streams that every worker reads whole, samples that are decoded from files, and bases of adapters in fp32."""

from __future__ import annotations

import pytest
from scanning import facts, scan

STREAM = """
import random
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Rows(IterableDataset):
    def __iter__(self):
        {body}
for x in DataLoader({dataset}):
    model(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "dataset", "repeats"),
    [
        ("yield from self.rows", "Rows()", True),
        ("yield from self.rows[get_worker_info().id :: 2]", "Rows()", False),
        ("yield from self.rows[self.rank :: 8]", "Rows()", False),
        ("yield random.choice(self.rows)", "Rows()", False),
        ("yield from self.rows", "Rows(), worker_init_fn=split", None),
        ("yield from self.rows", "Rows(), **options", None),
        ("yield from self.rows", "other", None),
        ("yield from self.rows", "[Rows()]", None),
    ],
)
def test_a_stream_that_each_worker_reads_whole(body: str, dataset: str, repeats: bool | None) -> None:
    assert facts(scan(STREAM.format(body=body, dataset=dataset))).get("loader.repeats_stream") is repeats


ITEMS = """
import cv2
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets
def read(name):
    return cv2.imread(name)
class Files(Dataset):
    def __getitem__(self, i):
        return {read}
for x in DataLoader({dataset}):
    model(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("read", "dataset", "decodes"),
    [
        ("Image.open(self.files[i])", "Files()", True),
        ("read(self.files[i])", "Files()", True),
        ("np.load(self.files[i])", "Files()", False),
        ("self.rows[i]", "Files()", False),
        ("self.rows[i]", "datasets.ImageFolder('data')", True),
        ("self.rows[i]", "datasets.CIFAR10('data')", False),
        ("self.rows[i]", "unknown()", None),
        ("Image.open(self.files[i])", "Files() if large else datasets.CIFAR10('data')", None),  # one or the other
        ("Image.open(self.files[i])", "Files() if large else unknown()", True),
    ],
)
def test_samples_that_are_decoded_from_files(read: str, dataset: str, decodes: bool | None) -> None:
    assert facts(scan(ITEMS.format(read=read, dataset=dataset))).get("loader.decodes_files") is decodes


LORA = """
import torch
from peft import get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, Trainer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2"{given})
{then}
Trainer(model=model).train()
"""

ADAPTERS = "model = get_peft_model(model, config)"


def test_a_new_head_is_trained_in_the_dtype_of_its_base() -> None:
    text = LORA.format(given="", then=ADAPTERS)
    assert "code.base_stays_fp32" in facts(scan(text))
    text = text.replace("AutoModelForCausalLM.", "AutoModelForSequenceClassification.")
    assert "code.base_stays_fp32" not in facts(scan(text))


@pytest.mark.parametrize(
    ("given", "then", "stays"),
    [
        ("", ADAPTERS, True),
        (", device_map='auto'", ADAPTERS, True),
        (", torch_dtype=torch.bfloat16", ADAPTERS, False),
        (", dtype='auto'", ADAPTERS, False),
        (", load_in_8bit=True", ADAPTERS, False),
        (", quantization_config=four_bits", ADAPTERS, False),
        (", **options", ADAPTERS, False),
        ("", f"{ADAPTERS}\nargs = TrainingArguments(deepspeed=options.deepspeed)", None),
        ("", f"{ADAPTERS}\nargs = TrainingArguments(deepspeed=None)", True),
        ("", "model = get_peft_model(model.bfloat16(), config)", False),
        ("", "model = get_peft_model(model.to(torch.float16), config)", False),
        ("", "", None),
        ("", f"if args.lora:\n    {ADAPTERS}", None),
        ("", f"if args.lora is not None:\n    {ADAPTERS}\nelse:\n    pass", None),
        ("", f"if True:\n    {ADAPTERS}", True),
        (", torch_dtype=torch.bfloat16", f"if args.lora:\n    {ADAPTERS}", False),
    ],
)
def test_a_base_of_adapters_that_is_loaded_without_a_dtype(given: str, then: str, stays: bool | None) -> None:
    assert facts(scan(LORA.format(given=given, then=then))).get("code.base_stays_fp32") is stays


UNFREEZE = "for name, p in model.named_parameters():\n    if {test}:\n        p.requires_grad = True\n"


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (f"{ADAPTERS}\n{UNFREEZE.format(test='name in before')}", True),
        (f"{ADAPTERS}\n{UNFREEZE.format(test='not args.lora_only')}", True),
        (f"{ADAPTERS}\n{UNFREEZE.format(test=repr('lora_') + ' in name')}", None),
        (f"{ADAPTERS}\n{UNFREEZE.format(test='name in before').replace('True', 'False')}", None),
        (f"{ADAPTERS}\ninputs.requires_grad = True", None),
        (UNFREEZE.format(test="name in before"), None),  # no adapters
        (ADAPTERS, None),
    ],
)
def test_a_base_of_adapters_that_is_trained_too(then: str, expected: bool | None) -> None:
    assert facts(scan(LORA.format(given="", then=then))).get("code.unfreezes_base") is expected


LOSS = """
from transformers import Trainer
class Mine(Trainer):
    def compute_loss(self, model, inputs{parameters}):
        {body}
Mine().train()
"""


@pytest.mark.parametrize(
    ("parameters", "lacks"),
    [
        (", return_outputs=False", True),
        (", return_outputs=False, **kwargs", False),
        (", return_outputs=False, num_items_in_batch=None", False),
    ],
)
def test_a_compute_loss_that_newer_trainers_cannot_call(parameters: str, lacks: bool) -> None:
    found = facts(scan(LOSS.format(parameters=parameters, body="return loss(inputs)")))
    assert found["code.loss_takes_no_num_items"] is lacks


@pytest.mark.parametrize(
    ("body", "reads"),
    [("return loss(inputs['labels'])", True), ("return model(**inputs).loss", True), ("return loss(inputs)", False)],
)
def test_a_compute_loss_that_reads_labels(body: str, reads: bool) -> None:
    found = facts(scan(LOSS.format(parameters=", **kwargs", body=body)))
    assert found["code.loss_reads_labels"] is reads


@pytest.mark.parametrize(
    ("comment", "is_explained"),
    [
        ("", False),
        ("  # important: no workers, RLDS has its own", True),
        ("  # num_workers=4,", False),
        ("  # num_workers=4 fills the memory", True),
        ("  # batches", False),
        ("  # RLDS has processes of its own", True),
    ],
)
def test_a_comment_that_explains_the_workers(comment: str, is_explained: bool) -> None:
    code = (
        f"from torch.utils.data import DataLoader\nfor x in DataLoader(\n    rows,\n    num_workers=0,{comment}\n):\n"
    )
    found = facts(scan(code + "    model(x).backward()\n    optimizer.step()\n"))
    assert found["loader.workers_are_explained"] is is_explained


LOG = """
import lightning as L
class M(L.LightningModule):
    def training_step(self, batch, i):
        {training}
    def validation_step(self, batch, i):
        self.log("loss", x, sync_dist=True)
        self.shared(x, "val")
    def shared(self, loss, phase):
        is_train = phase == "train"
        self.log("loss", loss, on_step=is_train, sync_dist=True)
"""


@pytest.mark.parametrize(
    ("training", "number"),
    [
        ("self.log('loss', x, sync_dist=True)", 1),
        ("self.log_dict(every, on_epoch=True, sync_dist=True)", 1),
        ("self.log('loss', x, on_step=False, on_epoch=True, sync_dist=True)", 0),
        ("self.log('loss', x, on_step=self.verbose, sync_dist=True)", 0),
        ("self.log('loss', x, on_step=i % 50 == 0, on_epoch=True, sync_dist=True)", 0),
        ("self.log('loss', x, sync_dist=True, **self.how)", 0),
        ("self.log('loss', x, on_step=True, sync_dist=True)", 1),
        ("self.shared(x, 'train')", 1),
        ("self.shared(x, 'val')", 0),
        ("self.shared(x, stage)", 0),
        ("self.log('loss', x)", 0),
        ("return x", 0),
    ],
)
def test_logs_that_each_step_reduces(training: str, number: int) -> None:
    assert facts(scan(LOG.format(training=training)))["code.num_synced_logs_in_step"] == number


METRICS = """
import lightning as L
import torch
from torchmetrics import MeanMetric
class M(L.LightningModule):
    def __init__(self):
        self.loss = MeanMetric()
        self.parts = torch.nn.ModuleDict({{"a": MeanMetric()}})
        self.scale = torch.ones(1)
    def training_step(self, batch, i):
        self.seen = 0.9 * self.seen + 1
        {training}
"""


@pytest.mark.parametrize(
    ("logged", "number"),
    [
        ("self.log('loss', self.loss, sync_dist=True)", 0),
        ("self.log('loss', value=self.loss, on_step=True, sync_dist=True)", 0),
        ("self.log('loss', self.parts['a'], sync_dist=True)", 0),
        ("self.log('loss', self.of_a_base, sync_dist=True)", 0),
        ("self.log('loss', getattr(self, name), sync_dist=True)", 0),
        ("self.log_dict(self.every, sync_dist=True)", 0),
        ("self.log_dict({'loss': self.loss}, sync_dist=True)", 0),
        ("given = {'loss': self.loss}; self.log_dict(given, sync_dist=True)", 0),
        ("self.log_dict({key: self.parts[key] for key in names}, sync_dist=True)", 0),
        ("self.log_dict({'loss': self.loss, 'x': batch.mean()}, sync_dist=True)", 1),
        ("self.log('loss', self.loss(batch), sync_dist=True)", 1),
        ("self.log('loss', self.loss.compute(), sync_dist=True)", 1),
        ("self.log('loss', self.scale, sync_dist=True)", 1),
        ("self.log('loss', self.seen, sync_dist=True)", 1),
        ("self.log('loss', batch.loss, sync_dist=True)", 1),
    ],
)
def test_metrics_are_not_reduced_in_the_step(logged: str, number: int) -> None:
    assert facts(scan(METRICS.format(training=logged)))["code.num_synced_logs_in_step"] == number


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ('os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"', "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        ('os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"', ""),
        ('ray.init(runtime_env={"env_vars": {"CUDA_LAUNCH_BLOCKING": "1"}})', "CUDA_LAUNCH_BLOCKING=1"),
        ('ray.init(runtime_env={"env_vars": {"CUDA_LAUNCH_BLOCKING": "0"}})', ""),
        ('names = ["CUDA_LAUNCH_BLOCKING", "1"]', ""),
    ],
)
def test_variables_for_debugging(code: str, value: str) -> None:
    loop = "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    assert facts(scan(f"import os\n{code}\n{loop}"))["code.debug_variables"] == value


def test_a_stream_may_be_split_in_another_function() -> None:
    text = (
        STREAM.format(body="yield from part(self.rows)", dataset="Rows()")
        + """
def part(rows):
    info = get_worker_info()
    return rows[info.id :: info.num_workers]
"""
    )
    assert "loader.repeats_stream" not in facts(scan(text))
