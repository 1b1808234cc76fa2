"""Each detector states its facts of the catalogue, and each such fact has one detector."""

from __future__ import annotations

import pkgutil

import pytest
from scanning import loop_code

from autotune import catalogue
from autotune.engine.static import READ_OFF_FILES_TOO
from autotune.pycode.build_index import build
from autotune.pycode.work_budget import Work
from autotune.scan import facts
from autotune.scan.facts import DETECTORS, Detector
from autotune.scan.read_script import analyse, find_training, view_script
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.run_training import RunTraining
from autotune.syntax import python

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"

SCALED = """\
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
"""

EVERY_4 = "if (i + 1) % 4 == 0:\n    optimizer.step()\n    optimizer.zero_grad()\n"

OF_ACCELERATE = """\
import torch
from accelerate import Accelerator
accelerator = Accelerator()
torch.distributed.init_process_group('nccl')
sampler.set_epoch(1)
"""

SWITCHES = """\
import numpy as np
import torch
from torch.cuda.amp import autocast
from torch.utils.checkpoint import checkpoint
from tqdm import tqdm
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch._dynamo.config.suppress_errors = True
torch.backends.cuda.matmul.fp32_precision = "tf32"
print(torch.backends.cuda.matmul.allow_tf32)
torch.use_deterministic_algorithms(True)
torch.cuda.memory._record_memory_history()
class Data:
    def __init__(self):
        self.rng = np.random.default_rng(1)
    def __getitem__(self, i):
        return self.rng.normal()
net = torch.nn.DataParallel(make())
net.half()
optimizer = torch.optim.SGD(net.parameters())
if __name__ == "__main__":
    for x in tqdm(torch.utils.data.DataLoader(Data(), shuffle=True, worker_init_fn=seed)):
        with autocast():
            loss = checkpoint(net, x)
        loss.backward()
        optimizer.step()
"""

CLIPPED = """\
scaler.scale(criterion(model(x), y)).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
"""

EPOCHS = """\
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
model = DistributedDataParallel(make())
loader = DataLoader(data, sampler=DistributedSampler(data))
for epoch in range(3):
    for x in loader:
        with model.no_sync():
            model(x).backward()
        optimizer.step()
model.eval()
for x in test_loader:
    total += model(x).sum()
"""

DIVIDED = "loss = criterion(model(x), y) / accum_steps\naccelerator.backward(loss)\noptimizer.step()\n"

LORA = """\
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, Trainer
model = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"{dtype}), config)
Trainer(model=model).train()
"""

STREAM = """\
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Rows(IterableDataset):
    def __iter__(self):
        {body}
for x in DataLoader(Rows()):
    model(x).backward()
    optimizer.step()
"""

ITEMS = """\
from PIL import Image
from torch.utils.data import DataLoader, Dataset
class Files(Dataset):
    def __getitem__(self, i):
        return {read}
for x in DataLoader(Files()):
    model(x).backward()
    optimizer.step()
"""

MAPS = """\
from datasets import load_dataset
from transformers import Trainer
def sound(row):
    return feature_extractor(row["audio"]["array"])
rows = load_dataset("org/speech").map(sound)
Trainer(train_dataset=rows).train()
"""

SCRIPTS = (
    MAPS,
    loop_code(SCALED, "import torch\nscaler = torch.amp.GradScaler('cuda')\n"),
    loop_code("loss = criterion(model(x), y)\nloss.backward()\n" + EVERY_4),
    loop_code(STEP + "accelerator.backward(loss)", OF_ACCELERATE),
    loop_code("info_nce(x)\nweights = model(x).attentions\n" + STEP + "\nkept = [p.grad for p in model.parameters()]"),
    "from transformers import Trainer\nclass T(Trainer):\n    def compute_loss(self):\n        pass\nT().train()",
    "from transformers import Trainer\nclass T(Trainer):\n    def compute_loss(self, model, inputs):\n"
    "        return loss(inputs['labels'])\nT().train()",
    "from transformers import Trainer\nclass T(Trainer):\n    def compute_loss(self, model, inputs, **kwargs):\n"
    "        return loss(inputs)\nT().train()",
    "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\nfor x in loader:\n    loss.backward()\n    optimizer.step()",
    "for epoch in range(2):\n    for x in loader:\n        loss.backward()\n        optimizer.step()",
    SWITCHES,
    EPOCHS,
    loop_code(CLIPPED, "import torch\nscaler = torch.amp.GradScaler('cuda')\n"),
    loop_code(DIVIDED, OF_ACCELERATE.replace("Accelerator()", "Accelerator(gradient_accumulation_steps=4)")),
    "import lightning as L\nclass M(L.LightningModule):\n    def training_step(self, batch, i):\n"
    "        self.log('loss', x, sync_dist=True)\n",
    LORA.format(dtype=""),
    LORA.format(dtype="") + "for p in model.parameters():\n    p.requires_grad = True\n",
    LORA.format(dtype=", torch_dtype=torch.bfloat16"),
    STREAM.format(body="yield from self.rows"),
    STREAM.format(body="yield from self.rows[get_worker_info().id :: 2]"),
    ITEMS.format(read="Image.open(self.files[i])"),
    ITEMS.format(read="self.files[i]"),
    "from torch.utils.data import DataLoader, TensorDataset\n"
    "loader = DataLoader(TensorDataset(x))  # workers do not pay\n"
    "for x in loader:\n    model(x).backward()\n    optimizer.step()",
    "import torch\nfor epoch in range(9):\n    model.eval()\n    bank = model(images)\n    model.train()\n"
    "    for x in loader:\n        loss = nce(model(x), bank)\n        loss.backward()\n        optimizer.step()",
    "try:\n    trainer.train()\nexcept Exception as error:\n    print(error)",
    "from transformers import Trainer\ntrainer = Trainer(model)\nif rank == 0:\n    trainer.save_model()",
)
"""Scripts in which each fact is known: one of them states it as true, and another does not."""


def analysis(code: str) -> ScriptAnalysis:
    source = python.read(code.encode(), "train.py")
    view, run = view_script(build(source.tree, Work()), source, "train.py", {}, is_open=False), RunTraining()
    return analyse(view, run, find_training(view, run))


def stated_by(detect: Detector) -> set[str]:
    return {fact.name for script in map(analysis, SCRIPTS) for fact in detect(script)}


@pytest.mark.parametrize("detect", DETECTORS, ids=lambda detect: detect.__module__.rpartition(".")[2])
def test_a_detector_states_the_facts_of_the_catalogue_that_name_it_and_no_other(detect: Detector) -> None:
    stated = stated_by(detect)
    supplier = detect.__module__.removeprefix("autotune.")
    assert stated
    assert stated - set(READ_OFF_FILES_TOO) == {
        name for name, entry in catalogue.facts().items() if entry.supplier == supplier
    }


@pytest.mark.parametrize("detect", DETECTORS, ids=lambda detect: detect.__module__.rpartition(".")[2])
def test_each_fact_is_true_of_one_script_and_not_of_another(detect: Detector) -> None:
    found = [{fact.name: fact.value for fact in detect(script)} for script in map(analysis, SCRIPTS)]
    names = {name for values in found for name in values if catalogue.facts()[name].type == "bool"}
    assert {name for name in names if not any(values.get(name) is True for values in found)} == set()
    assert {name for name in names if all(values.get(name) is True for values in found)} == set()


def test_no_fact_has_two_detectors() -> None:
    stated = [name for detect in DETECTORS for name in stated_by(detect)]
    assert len(stated) == len(set(stated))


def test_every_module_of_facts_is_a_registered_detector() -> None:
    modules = {f"autotune.scan.facts.{module.name}" for module in pkgutil.iter_modules(facts.__path__)}
    assert {detect.__module__ for detect in DETECTORS} == modules
    assert len(DETECTORS) == len(modules)
    suppliers = {entry.supplier for entry in catalogue.facts().values() if entry.supplier.startswith("scan.facts.")}
    assert {f"autotune.{supplier}" for supplier in suppliers} <= modules
