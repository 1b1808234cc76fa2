"""What the modules of a run compute in each forward."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autotune.model.evidence import Fact
from autotune.scan import scan

TRAIN = """
import torch
from net import Net
net = Net().cuda()
for x in loader:
    loss = net(x.cuda()).sum()
    loss.backward()
    optimizer.step()
"""

NET = """
import torch
import torch.nn.functional as F
from torch import nn

class Part(nn.Module):
{methods}

class Net(nn.Module):
    def __init__(self):
        self.part = Part()

    def forward(self, x):
        return self.part(x)
"""


SMALL = TRAIN.replace("import Net", "import Small")
BY_NAME = "import net as nets\n" + SMALL
OWN_NET = "import sys\nfrom net import Net as Inner\n\ndef make():\n    return Inner()\n"
OWN_PART = "class Part(torch.nn.Module):\n    pass\n"


def found(root: Path, methods: str, base: str = "nn.Module") -> dict[str, Fact]:
    (root / "train.py").write_text(TRAIN)
    code = NET.format(methods=textwrap.indent(textwrap.dedent(methods), "    "))
    (root / "net.py").write_text(code.replace("class Part(nn.Module)", f"class Part({base})"))
    (bundle,) = [one for one in scan([root], root=root).bundles if one.name == "train.py"]
    return {one.name: one for one in bundle.facts}


@pytest.mark.parametrize(
    ("forward", "number"),
    [
        ("for n in x:\n    y = f(n.item())", 1),
        ("y = [x[: n.item()] for n in lengths]", 1),
        ("for n in lengths.tolist():\n    y = x[:n]", 0),
        ("y = x[: lengths.max().item()]", 0),
        ("if self.training:\n    for n in x:\n        y = n.item()", 0),
        ("y = self.inner(x)", 1),
        ("y = self.evaluate(x)", 0),
    ],
)
def test_reads_in_loops_of_a_forward(tmp_path: Path, forward: str, number: int) -> None:
    methods = "def forward(self, x):\n" + textwrap.indent(forward, "    ")
    methods += "\ndef inner(self, x):\n    return [one.item() for one in x]\n"
    methods += "\ndef evaluate(self, x):\n    return [one.item() for one in x]\n"
    fact = found(tmp_path, methods).get("code.num_reads_in_forward_loops")
    assert (fact.value if fact is not None else 0) == number
    assert fact is None or {place.file for place in fact.places} == {"net.py"}


@pytest.mark.parametrize(
    ("forward", "number"),
    [
        ("return x.cpu().inverse().cuda()", 1),
        ("return torch.linalg.inv(x.cpu()).to(x.device)", 1),
        ("return x.cpu().numpy()", 0),
        ("return x.inverse().cuda()", 0),
    ],
)
def test_a_copy_to_the_host_and_back(tmp_path: Path, forward: str, number: int) -> None:
    fact = found(tmp_path, f"def forward(self, x):\n    {forward}\n").get("code.num_round_trips_in_forward")
    assert (fact.value if fact is not None else 0) == number


def test_only_modules_of_torch_have_a_forward(tmp_path: Path) -> None:
    code = "def forward(self, x):\n    return x.cpu().inverse().cuda()\n"
    assert "code.num_round_trips_in_forward" not in found(tmp_path, code, base="object")


@pytest.mark.parametrize(
    ("train", "is_written"),
    [
        (TRAIN, True),
        (TRAIN.replace("import Net", "import Net as Other").replace("Net()", "Other()"), True),
        (SMALL.replace("Net()", "Small()"), False),
        ("import net as nets\n" + TRAIN.replace("Net()", "nets.Net()"), True),
        (BY_NAME.replace("Net()", "getattr(nets, name)()"), True),
        (BY_NAME.replace("Net()", "nets.__dict__[name]()"), True),
        (BY_NAME.replace("Net()", "vars(nets)[name]()"), True),
        (SMALL.replace("Net()", "getattr(sys.modules[__name__], name)()"), False),
        (OWN_NET + SMALL.replace("Net()", "getattr(sys.modules[__name__], name)()"), True),
        (BY_NAME.replace("Net()", "getattr(nets, 'Small')()"), False),
        (BY_NAME.replace("Net()", "getattr(options, name)()"), False),
        (BY_NAME.replace("Net()", "Small(**vars(options), **options.__dict__)"), False),
        ("import torchvision.models as nets\n" + SMALL.replace("Net()", "nets.__dict__[name]()"), False),
        (SMALL.replace("Net()", "globals()[name]()"), True),
        (TRAIN.replace("import Net", "import MODELS").replace("Net()", "MODELS[name]()"), True),
        (SMALL.replace("Net()", "Small()") + "net.eval()\nprint(eval)\n", False),
        (SMALL.replace("Net()", "eval(name)()"), True),
        (OWN_PART + SMALL.replace("Net()", "Small(Part())"), False),
        (
            OWN_PART + TRAIN.replace("import Net", "import Small, Part as Inner").replace("Net()", "Small(Inner())"),
            True,
        ),
        ("import net as nets\n" + OWN_PART + TRAIN.replace("Net()", "Small(nets.Part())"), True),
    ],
)
def test_attention_of_a_class_that_training_never_names(tmp_path: Path, train: str, is_written: bool) -> None:
    (tmp_path / "train.py").write_text(train)
    attention = textwrap.indent(WRITTEN.format(between="", out="weights @ v"), "    ")
    models = "MODELS = {'net': Net}\n" if "MODELS" in train else ""
    small = "class Small(nn.Module):\n    def forward(self, x):\n        return x\n"
    (tmp_path / "net.py").write_text(NET.format(methods=attention) + small + models)
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py"]
    assert ("code.writes_out_attention" in {one.name for one in bundle.facts}) is is_written


ENCODED = """
import torch
from encoders import load
from other import Small
encoder = load()
small = Small()
for x, y in loader:
    {before}
    loss = (small(x) - z).sum()
    loss.backward()
    optimizer.step()
"""

IN_NO_GRAD = "with torch.no_grad():\n        "


@pytest.mark.parametrize(
    ("before", "loads", "is_written"),
    [
        (IN_NO_GRAD + "z = encoder.forward_features(x)", "encoder = make_net()", False),
        (IN_NO_GRAD + "z = encoder(x)", "encoder = Net()", False),
        ("z = encoder(x)", "encoder = Net()", True),
        (IN_NO_GRAD + "z = encoder(x)\n    z = encoder(x)", "encoder = Net()", True),
        ("z = x", "encoder = Net()", True),  # who runs it is not seen
        (IN_NO_GRAD + "z = encoder(x)", "encoder, net = Net(), Net()", True),
        (IN_NO_GRAD + "z = encoder(x)", "encoder = Net()\n    student = Net()", True),
    ],
)
def test_attention_of_an_encoder_that_runs_without_gradients(
    tmp_path: Path, before: str, loads: str, is_written: bool
) -> None:
    (tmp_path / "train.py").write_text(ENCODED.format(before=before))
    load = f"def load():\n    {loads}\n    return encoder\n"
    (tmp_path / "encoders.py").write_text(f"from net import Net, make_net\n{load}")
    (tmp_path / "other.py").write_text("from torch import nn\nclass Small(nn.Linear):\n    pass\n")
    attention = textwrap.indent(WRITTEN.format(between="", out="weights @ v"), "    ")
    (tmp_path / "net.py").write_text(NET.format(methods=attention) + "def make_net():\n    return Net()\n")
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py"]
    assert ("code.writes_out_attention" in {one.name for one in bundle.facts}) is is_written


@pytest.mark.parametrize(
    ("held", "is_written"),
    [
        ("lr = 0.1\n", False),
        ("from net import Net\n", True),
        ("from net import Small\n", False),
        ("from net import *\n", True),
    ],
)
def test_only_what_a_module_holds_is_chosen_by_its_name(tmp_path: Path, held: str, is_written: bool) -> None:
    lookup = "import options\nfrom options import lr\nchosen = getattr(options, name)\n"
    (tmp_path / "train.py").write_text(lookup + SMALL.replace("Net()", "Small()"))
    (tmp_path / "options.py").write_text(f"lr = 1\n{held}")
    attention = textwrap.indent(WRITTEN.format(between="", out="weights @ v"), "    ")
    small = "class Small(nn.Module):\n    def forward(self, x):\n        return x\n"
    (tmp_path / "net.py").write_text(NET.format(methods=attention) + small)
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py"]
    assert ("code.writes_out_attention" in {one.name for one in bundle.facts}) is is_written


@pytest.mark.parametrize(
    ("file", "imported", "lookup"),
    [
        ("models/vits.py", "from models import vits", "vits.__dict__[name]()"),
        ("models/vits.py", "import models.vits", "getattr(models.vits, name)()"),
        ("models/vits.py", "import models.vits as nets\nfound = nets", "getattr(found, name)()"),
        ("models/vits.py", "import models\nfrom models.vits import Part", "models.__dict__[name]()"),
        ("src/models/vits.py", "from .models import vits", "vars(vits)[name]()"),
    ],
)
def test_attention_of_a_class_that_is_looked_up_in_a_module_of_a_package(
    tmp_path: Path, file: str, imported: str, lookup: str
) -> None:
    script = "src/train.py" if file.startswith("src/") else "train.py"
    attention = textwrap.indent(WRITTEN.format(between="", out="weights @ v"), "    ")
    train = TRAIN.replace("from net import Net", imported).replace("Net()", lookup)
    for name, text in ((script, train), (file, NET.format(methods=attention))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == script]
    assert "code.writes_out_attention" in {one.name for one in bundle.facts}


@pytest.mark.parametrize(("decorator", "is_written"), [("@register_model\n", True), ("@cache\n", False)])
def test_attention_of_a_model_that_is_made_by_its_registered_name(
    tmp_path: Path, decorator: str, is_written: bool
) -> None:
    train = TRAIN.replace("from net import Net", "import net as nets").replace("Net()", "create_model('make_net')")
    (tmp_path / "train.py").write_text(train + "net.eval()\n")
    attention = textwrap.indent(WRITTEN.format(between="", out="weights @ v"), "    ")
    maker = f"{decorator}def make_net(**kwargs):\n    return Net(**kwargs)\n"
    (tmp_path / "net.py").write_text(NET.format(methods=attention) + maker)
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py"]
    assert ("code.writes_out_attention" in {one.name for one in bundle.facts}) is is_written


WRITTEN = """
def forward(self, q, k, v, mask):
    scores = q @ k.transpose(-2, -1) * self.scale
    {between}
    weights = self.dropout(scores.softmax(dim=-1))
    return {out}
"""


@pytest.mark.parametrize(
    ("code", "is_written"),
    [
        (WRITTEN.format(between="", out="weights @ v"), True),
        (WRITTEN.format(between="scores = scores.masked_fill(mask == 0, -1e9)", out="torch.matmul(weights, v)"), True),
        (WRITTEN.format(between="scores = scores + mask", out="weights @ v"), True),
        (WRITTEN.format(between="scores = scores + self.bias", out="weights @ v"), False),
        (WRITTEN.format(between="", out="weights"), False),
        (WRITTEN.replace("softmax", "sigmoid").format(between="", out="weights @ v"), False),
        ("def forward(self, q, k, v):\n    return F.softmax(torch.bmm(q, k), dim=-1).bmm(v)\n", True),
        ("def forward(self, q, k, v):\n    return torch.bmm(F.softmax(torch.bmm(q, k), dim=-1), v)\n", True),
        ("def forward(self, x):\n    return F.softmax(self.head(x), dim=-1) @ self.values\n", False),
        (WRITTEN.format(between="", out="weights @ v") + "    # or scaled_dot_product_attention\n", False),
    ],
)
def test_attention_that_is_written_out(tmp_path: Path, code: str, is_written: bool) -> None:
    assert ("code.writes_out_attention" in found(tmp_path, code)) is is_written
