from __future__ import annotations

import pytest
from scanning import call_of, facts, scan

LOADER = "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"


@pytest.mark.parametrize(
    "code",
    [
        "DataLoader(d, num_workers=0, collate_fn=lambda b: torch.stack(b).to('cuda'))",
        "DataLoader(d, collate_fn=lambda b: torch.stack(b).cuda())",
        "def collate(b):\n    return torch.stack(b).to(device)\nDataLoader(d, num_workers=0, collate_fn=collate)",
        "def collate(b):\n    return torch.tensor(b, device='cuda:0')\nDataLoader(d, collate_fn=collate)",
        "class C:\n    def __call__(self, b):\n        return b.cuda()\nDataLoader(d, collate_fn=C())",
        "class D(Dataset):\n    def __getitem__(self, i):\n        return x[i].cuda()\nDataLoader(D(), num_workers=0)",
    ],
)
def test_workers_are_no_question_where_batches_are_made_on_the_gpu(code: str) -> None:
    arguments = call_of(scan(LOADER + code), "DataLoader").arguments
    assert not arguments["num_workers"].known
    assert not arguments["pin_memory"].known


@pytest.mark.parametrize(
    "code",
    [
        "DataLoader(d, num_workers=0, collate_fn=lambda b: torch.stack(b).to(torch.float16))",
        "def collate(b):\n    return torch.stack(b).to('cpu')\nDataLoader(d, num_workers=0, collate_fn=collate)",
        "DataLoader(d, num_workers=0, collate_fn=collate)",
        "DataLoader(d, num_workers=0)\nx.cuda()",
    ],
)
def test_workers_are_one_where_they_are_made_on_the_host(code: str) -> None:
    given = call_of(scan(LOADER + code), "DataLoader").arguments["num_workers"]
    assert (given.known, given.value) == (True, 0)


LOAD = "model = AutoModel.from_pretrained('x', device_map='auto')"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (LOAD, True),
        (f"def main():\n    {LOAD}\n    Trainer(model).train()\n    model.generate(x)", True),
        (f"def load():\n    {LOAD}\n    model.eval()\n    return model", True),
        (f"def load():\n    {LOAD}\n    return model", True),
        (f"def sample():\n    {LOAD}\n    print(model.generate(x))", False),
        (f"@torch.no_grad()\ndef run():\n    {LOAD}\n    model(x)", False),
        (f"def test_it():\n    {LOAD}\n    assert model", False),
    ],
)
def test_a_device_map_counts_where_the_model_may_be_trained(code: str, expected: bool) -> None:
    script = scan(f"import torch\nfrom transformers import AutoModel, Trainer\n{code}")
    assert call_of(script, "from_pretrained").arguments["device_map"].known is expected


OPTION = """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--device")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("device", "code", "expected"),
    [
        ("cuda:0", "device = torch.device(args.device)\nmodel.to(device)", True),
        ("cuda", "model.to(args.device)", True),
        ("cuda", "model.to(device=args.device)", True),
        ("cpu", "model.to(args.device)", None),
        ("cudaless", "model.to(args.device)", None),
        ("cuda", "print(args.device)", None),
        ("cuda", "if False:\n    model.to(args.device)", None),
    ],
)
def test_the_device_that_a_command_gives(device: str, code: str, expected: object) -> None:
    loop = "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    found = facts(scan(f"{OPTION}{code}\n{loop}", {"device": device}))
    assert found.get("code.uses_cuda") is expected
