"""What the words of all files of a run say together."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import program, scan

LOOP = """
import torch
{imports}
model = make().cuda()
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""

RESNET = "from torchvision.models import resnet50\ndef make():\n    return resnet50()\n"


def stated(root: Path, imports: str, **modules: str) -> dict[str, object]:
    (root / "train.py").write_text(LOOP.format(imports=imports))
    for name, text in modules.items():
        (root / f"{name}.py").write_text(text)
    (bundle,) = [one for one in scan([root], root=root).bundles if one.name == "train.py"]
    return {one.name: one.value for one in bundle.facts}


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (RESNET, True),
        (RESNET.replace("resnet50()", "resnet50().half()"), None),
        ("import apex\n" + RESNET, None),
        ("import lightning\n" + RESNET, None),
        (RESNET + "USE_AMP = False\n", None),
        (RESNET + "model.to(getattr(torch, name))\n", None),
        (RESNET + "model.to(config.actor.dtype)\n", None),
        (RESNET + "parser.add_argument('--precision')\n", None),
        (RESNET + "x = x.to(model.dtype)\n", True),
        (RESNET + "with torch.amp.autocast('cuda', enabled=False):\n    pass\n", True),
        (RESNET + "with torch.autocast('cuda', enabled=args.fast):\n    pass\n", None),
        (RESNET + "# with autocast():\n", True),
        (RESNET + 'def check(x):\n    """Also takes fp16.\n\n    And bf16.\n    """\n', True),
        (RESNET + "from torch.cuda.amp import autocast, GradScaler\n", True),  # and nobody uses them
        (RESNET + "from torch.cuda.amp import (  # mixed\n    autocast,\n)\n", True),
        (RESNET + "from torch.cuda.amp import autocast\nwith autocast():\n    pass\n", None),
        (RESNET + "from torch.cuda import amp\nscaler = amp.GradScaler()\n", None),
        (RESNET + "torch.backends.cuda.matmul.allow_tf32 = True\n", None),
        (RESNET + "from torch.amp import autocast as ac\nwith ac('cuda'):\n    pass\n", None),
        (RESNET + "import torch; scaler = torch.amp.GradScaler()\n", None),
        (RESNET + "name = '#%s'; y.half()\n", None),
    ],
)
def test_a_lower_precision_in_any_file_is_enough_for_silence(
    tmp_path: Path, module: str, expected: bool | None
) -> None:
    assert stated(tmp_path, "from net import make", net=module).get("code.names_no_lower_precision") is expected


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (RESNET, True),
        ("def make():\n    return torch.nn.Linear(2, 2)\n", False),
        (RESNET + "data = CIFAR10('data')\n", False),
        (RESNET + "data = CIFAR10('data') or ImageNet('data')\n", True),
        (RESNET + "spectrum = torch.fft.rfft(x)\n", False),
    ],
)
def test_a_heavy_model(tmp_path: Path, module: str, expected: bool) -> None:
    assert stated(tmp_path, "from net import make", net=module).get("code.has_heavy_model") is expected


def test_a_script_alone(tmp_path: Path) -> None:
    found = stated(tmp_path, "from torchvision.models import resnet18 as make")
    assert found.get("code.names_no_lower_precision") is True
    assert found.get("code.has_heavy_model") is True


def test_what_trains_in_no_loop_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from transformers import Trainer\nTrainer(model).train()\n")
    (bundle,) = scan([tmp_path], root=tmp_path).bundles
    assert "code.names_no_lower_precision" not in {one.name for one in bundle.facts}


HELPER = """
import torch
class Saver:
    def save(self):
        torch.save({"net": net.state_dict(), "opt": self.optimizer.state_dict()}, "x.pt")
    def load_checkpoint(self, path):
        state = torch.load(path)
"""


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("def make():\n    torch.save(net.state_dict(), 'x.pt')\n", True),
        ("def make():\n    torch.save(net, 'x.pt')\n    optimizer.load_state_dict(state)\n", None),
        ("def make():\n    torch.save(net, 'x.pt')\n    parts[name].load_state_dict(state)\n", None),
        ("def make():\n    torch.save(net, 'x.pt')\n    return args.resume\n", None),
        ("def make():\n    torch.save(net, 'x.pt')\n    return load_checkpoint(args)\n", None),  # a library's, perhaps
        ("torch.save(net, 'x.pt')\nif args.resume:\n    net = torch.load(args.resume)\n", True),
        (f"{HELPER}        net.load_state_dict(state['net'])\n", True),
        (f"{HELPER}        net.load_state_dict(state)\n        # self.optimizer.load_state_dict(state)\n", True),
        (f"{HELPER}        self.optimizer.load_state_dict(state['opt'])\n", None),
        (f"{HELPER}        model.module.load_state_dict(state)\n", True),
        (f"{HELPER}        getattr(self, key).load_state_dict(state[key])\n", None),
        (f"{HELPER}        for key, module in self.parts:\n            module.load_state_dict(state[key])\n", None),
        (f"{HELPER}        for o, s in zip(parts, state):\n            o.load_state_dict(s)\n", None),
        (f"{HELPER}        self.checkpointer.load(path)\n", None),
        ("def make():\n    pass\n", None),
    ],
)
def test_saves_that_no_run_goes_on_from(tmp_path: Path, module: str, expected: bool | None) -> None:
    assert stated(tmp_path, "from net import make", net=module).get("code.never_restores_optimizer") is expected


PLACES = """
import torch
from torchvision.models import resnet50
model = resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for x, y in loader:
        out = {call}
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
    # torch.save(model, "first.pt")
    torch.save(model.state_dict(), "last.pt")
"""


@pytest.mark.parametrize(("call", "forward"), [("model(x)", 8), ("other(x)", 10)])
def test_a_fact_stands_where_a_person_edits(tmp_path: Path, call: str, forward: int) -> None:
    (tmp_path / "train.py").write_text(PLACES.format(call=call))
    (bundle,) = scan([tmp_path], root=tmp_path).bundles
    places = {one.name: [place.line for place in one.places] for one in bundle.facts}
    assert places["code.names_no_lower_precision"] == [forward]
    assert places["code.never_restores_optimizer"] == [13]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("def make():\n    return DistributedSampler(data, num_replicas=size())\n", True),
        ("def make():\n    return DistributedSampler(data, shuffle=True)\n", True),
        ("def make():\n    return DistributedSampler(data, shuffle=False)\n", None),
        ("def make():\n    val_sampler = DistributedSampler(data)\n", None),
        ("def make():\n    # DistributedSampler(data)\n    pass\n", None),
        ("def make():\n    sampler = DistributedSampler(data)\n    sampler.set_epoch(1)\n", None),
    ],
)
def test_a_sampler_that_no_file_tells_the_epoch(tmp_path: Path, module: str, expected: bool | None) -> None:
    assert stated(tmp_path, "from net import make", net=module).get("code.never_sets_epoch") is expected


def test_another_file_of_the_folder_tells_the_sampler_the_epoch(tmp_path: Path) -> None:
    make = "def make():\n    return DistributedSampler(data)\n"
    other = "import torch\nfor x in loader:\n    loss(x).backward()\n    optimizer.step()\n    sampler.set_epoch(1)\n"
    found = stated(tmp_path, "from net import make", net=make, other=other)
    assert "code.never_sets_epoch" not in found


LIGHTNING = """
import pytorch_lightning as pl
from torchvision.models import resnet50
class Net(pl.LightningModule):
    def training_step(self, batch, i):
        return self.net(batch)
if __name__ == "__main__":
    pl.Trainer(max_epochs=3).fit(Net())
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("other.yaml", "trainer:\n  devices: 1\n", True),
        ("other.yaml", "trainer:\n  precision: 16-mixed\n", None),
        ("run.txt", "precision", True),
        (".hidden/other.yaml", "precision: 16", True),
    ],
)
def test_a_precision_that_any_file_of_the_project_may_give_lightning(
    tmp_path: Path, name: str, text: str, expected: bool | None
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(LIGHTNING)
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py"]
    found = {one.name: one.value for one in bundle.facts}
    assert found.get("code.names_no_lower_precision") is expected
    assert found.get("code.has_heavy_model") is expected
    lines = [place.line for one in bundle.facts if one.name == "code.names_no_lower_precision" for place in one.places]
    assert lines == ([8] if expected else [])  # the Trainer's arguments


TEXT = "from transformers import {model}\ndef make():\n    return {model}.from_pretrained(name)\n"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (TEXT.format(model="LlamaForCausalLM"), True),
        (TEXT.format(model="T5ForConditionalGeneration"), True),
        (TEXT.format(model="WhisperForConditionalGeneration"), None),
        (TEXT.format(model="Wav2Vec2ForSequenceClassification"), None),
        (TEXT.format(model="LlamaForCausalLM") + "encoder = torch.nn.Conv1d(2, 2, 3)\n", None),
        (TEXT.format(model="LlamaForCausalLM") + "encoder = torch.nn.LSTM(2, 2)\n", None),
        (TEXT.format(model="AutoModelForCausalLM") + "pixel_values = load(path)\n", None),
        (RESNET, None),
        ("def make():\n    return torch.nn.Linear(2, 2)\n", None),
    ],
)
def test_a_run_that_trains_a_text_model_alone(tmp_path: Path, module: str, expected: bool | None) -> None:
    assert stated(tmp_path, "from net import make", net=module).get("code.trains_text_alone") is expected


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("from unsloth import FastLanguageModel", True),
        ("trainer = GRPOTrainer(rollout_func=play)", True),
        ("config = GRPOConfig(use_vllm=False)", None),
    ],
)
def test_another_engine_that_samples_is_named(tmp_path: Path, module: str, expected: bool | None) -> None:
    assert stated(tmp_path, "from net import make", net=module).get("code.samples_elsewhere") is expected


CHAIN = {"net": "from inner import make\n", "inner": RESNET + "import last\n"}


@pytest.mark.parametrize(
    ("limit", "last", "expected"),
    [
        (None, "x = 1\n", True),
        ("MAX_MODULES", "x = 1\n", True),
        ("MAX_MODULES", "with autocast():\n    pass\n", None),  # a file that is not parsed may say it
        ("MAX_FILES", "x = 1\n", None),  # and one that nobody has looked for
    ],
)
def test_words_of_all_files_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, last: str, expected: bool | None
) -> None:
    if limit is not None:
        monkeypatch.setattr(program, limit, 1)
    found = stated(tmp_path, "from net import make", last=last, **CHAIN)
    assert found.get("code.names_no_lower_precision") is expected
