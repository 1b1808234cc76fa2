from __future__ import annotations

import pytest
from scanning import call_of, scan

from autotune.model.scanned import ConsumerCall


def shown(call: ConsumerCall) -> dict[str, object]:
    return {name: one.value if one.known else "unknown" for name, one in call.arguments.items()}


@pytest.mark.parametrize(
    "code",
    [
        "from torch.utils.data import DataLoader\nDataLoader(d, num_workers=4)",
        "from torch.utils import data\ndata.DataLoader(d, num_workers=4)",
        "import torch.utils.data as D\nD.DataLoader(d, num_workers=4)",
        "import torch\ntorch.utils.data.DataLoader(d, num_workers=4)",
        "from torch.utils.data import *\nDataLoader(d, num_workers=4)",
        "from torch.utils.data import DataLoader as Loader\nLoader(d, num_workers=4)",
        "import torch\nLoader = torch.utils.data.DataLoader\nLoader(d, num_workers=4)",
        "from torch.utils.data.dataloader import DataLoader\nDataLoader(d, num_workers=4)",
        "try:\n    from torch.utils.data import DataLoader\nexcept ImportError:\n    from torch.utils.data.dataloader"
        " import DataLoader as X\nDataLoader(d, num_workers=4)",
    ],
)
def test_a_call_is_known_however_it_is_imported(code: str) -> None:
    call = call_of(scan(code), "DataLoader")
    assert (call.dialect, call.arguments["num_workers"].value, call.is_open) == ("torch", 4, False)


@pytest.mark.parametrize(
    "code",
    [
        "from mine import DataLoader\nDataLoader(d)",
        "class DataLoader:\n    pass\nDataLoader(d)",
        "from torch.utils.data import *\nfrom mine import *\nDataLoader(d)",
        "from torch.utils.data import DataLoader\nif False:\n    DataLoader(d)",
        "from torch.utils.data import DataLoader\ndef f():\n    DataLoader(d)\nif False:\n    f()",
    ],
)
def test_other_calls_and_unreachable_ones_are_none(code: str) -> None:
    assert scan(code).calls == ()


def test_positional_arguments_have_names() -> None:
    assert shown(call_of(scan("from torch.utils.data import DataLoader\nDataLoader(d, 8, True)"), "DataLoader")) == {
        "dataset": "unknown",
        "batch_size": 8,
        "shuffle": True,
    }


@pytest.mark.parametrize(
    ("code", "expected", "is_open"),
    [
        ("kw = {'num_workers': 4}", {"num_workers": 4}, False),
        ("kw = dict(num_workers=4, **{'pin_memory': True})", {"num_workers": 4, "pin_memory": True}, False),
        ("kw = {'num_workers': 4}\nkw.update(pin_memory=True)", {"num_workers": 4, "pin_memory": True}, False),
        ("kw = {'num_workers': 4}\nkw['num_workers'] = 8", {"num_workers": 8}, False),
        ("kw = {} | {'num_workers': 4}", {"num_workers": 4}, False),
        ("kw = {'num_workers': 4} if cuda else {}", {"num_workers": "unknown"}, True),
        ("kw = {}\nif cuda:\n    kw.update({'num_workers': 4})", {"num_workers": "unknown"}, True),
        ("kw = {'num_workers': 0}\nif cuda:\n    kw['num_workers'] = 4", {"num_workers": "unknown"}, False),
        ("kw = {'num_workers': 4}\nkw.update(more)", {"num_workers": "unknown"}, True),
        ("kw = load()", {}, True),
        ("kw = {k: 1}", {}, True),
    ],
)
def test_keyword_dicts(code: str, expected: dict[str, object], is_open: bool) -> None:
    call = call_of(scan(f"from torch.utils.data import DataLoader\n{code}\nDataLoader(d, **kw)"), "DataLoader")
    assert (shown(call), call.is_open) == ({"dataset": "unknown", **expected}, is_open)


def test_a_dict_for_an_argument_has_dotted_keys() -> None:
    code = "from transformers import TrainingArguments\nTrainingArguments(fsdp_config={'version': 2})"
    assert shown(call_of(scan(code), "TrainingArguments")) == {"fsdp_config": "unknown", "fsdp_config.version": 2}


@pytest.mark.parametrize(
    ("code", "dialect", "name"),
    [
        ("from transformers import TrainingArguments as T\nT()", "hf_trainer", "TrainingArguments"),
        ("import transformers\ntransformers.Seq2SeqTrainingArguments()", "hf_trainer", "Seq2SeqTrainingArguments"),
        ("from transformers import Trainer\nTrainer(m)", "hf_trainer", "Trainer"),
        ("from trl import SFTConfig\nSFTConfig()", "trl", "SFTConfig"),
        ("from trl import SFTTrainer\nSFTTrainer(m)", "trl", "SFTTrainer"),
        ("from accelerate import Accelerator\nAccelerator()", "accelerate", "Accelerator"),
        ("import pytorch_lightning as pl\npl.Trainer()", "lightning", "Trainer"),
        ("import lightning as L\nL.Trainer()", "lightning", "Trainer"),
        ("from lightning.fabric import Fabric\nFabric()", "fabric", "Fabric"),
        ("import torch\ntorch.compile(m)", "torch", "torch.compile"),
        ("import torch\ntorch.set_float32_matmul_precision('high')", "torch", "torch.set_float32_matmul_precision"),
        ("import torch\ntorch.backends.cudnn.benchmark = True", "torch", "torch.backends.cudnn.benchmark"),
        ("from transformers import AutoModel\nAutoModel.from_pretrained(n)", "torch", "from_pretrained"),
        ("from transformers import BitsAndBytesConfig\nBitsAndBytesConfig()", "torch", "BitsAndBytesConfig"),
        ("tokenizer = make()\ntokenizer(text, padding='max_length')", "torch", "map.tokenizer"),
        (
            "tokenizer = make()\ntokenizer(text, padding='max_length', return_tensors='pt')",
            "torch",
            "tokenizer",
        ),
        (
            "tokenizer = make()\nx = tokenizer(text, padding='max_length', max_length=tokenizer.model_max_length)\n"
            "y = x['attention_mask']",
            "torch",
            "map.tokenizer",
        ),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(m)", "torch", "DistributedDataParallel"),
    ],
)
def test_calls_of_interest(code: str, dialect: str, name: str) -> None:
    assert [(call.dialect, call.name, call.subject) for call in scan(code).calls] == [(dialect, name, "run")]


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AutoTokenizer\nAutoTokenizer.from_pretrained(n)",
        "from transformers import AutoConfig\nAutoConfig.from_pretrained(n)",
        "from torch.optim.lr_scheduler import StepLR\nStepLR(o)",
        "tokenizer.save('x')",
        "import diffusers\ntokenizer = make()\ntokenizer(text, padding='max_length')",
        "from diffusers.utils import x\ntokenizer = make()\ntokenizer(text, padding='max_length')",
        "from transformers import CLIPTokenizer\ntokenizer = CLIPTokenizer(n)\ntokenizer(text, padding='max_length')",
        "tokenizer = make()\ntokenizer(text, padding='max_length', max_length=tokenizer.model_max_length)",
    ],
)
def test_what_is_no_setting(code: str) -> None:
    assert scan(code).calls == ()


def test_optimizers_are_numbered() -> None:
    code = "from torch import optim\noptim.AdamW(g, 1e-3, fused=True)\noptim.SGD(d, lr=0.1)"
    calls = scan(code).calls
    assert [(call.name, call.subject, call.arguments["lr"].value) for call in calls] == [
        ("torch.optim.AdamW", "optimizer#0", 1e-3),
        ("torch.optim.SGD", "optimizer#1", 0.1),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("args.packing = p", "unknown"),
        ("args.packing = False", False),
        ("args.packing = False\nargs.packing = True", "unknown"),
        ("if p:\n    args.packing = False", "unknown"),
    ],
)
def test_what_is_set_on_an_object_later_counts_where_it_is_certain(lines: str, expected: object) -> None:
    code = f"from trl import SFTConfig\nargs = SFTConfig(packing=True)\n{lines}"
    assert shown(call_of(scan(code), "SFTConfig")) == {"packing": expected}


def test_calls_for_one_subject_keep_what_all_of_them_say() -> None:
    code = """
    from transformers import AutoModel
    if big:
        AutoModel.from_pretrained(n, attn_implementation="sdpa", trust_remote_code=True)
    else:
        AutoModel.from_pretrained(n, attn_implementation="sdpa")
    """
    expected = {"attn_implementation": "sdpa", "trust_remote_code": "unknown"}
    assert [shown(call) for call in scan(code).calls] == [expected, expected]


def test_a_config_of_transformers_says_how_its_model_attends() -> None:
    code = """
    from transformers import AutoConfig, ViTConfig
    from mine import TinyConfig
    ViTConfig(image_size=64, attn_implementation="eager")
    ViTConfig(image_size=32)
    AutoConfig.from_pretrained("gpt2", attn_implementation="sdpa")
    TinyConfig(attn_implementation="sdpa")
    """
    (call,) = scan(code).calls
    assert (call.name, call.location.line) == ("config of a model", 4)
    assert shown(call)["attn_implementation"] == "eager"


def test_subclasses_are_open() -> None:
    code = """
    from torch.utils.data import DataLoader
    class Loader(DataLoader):
        def __init__(self, data, **rest):
            super().__init__(data, persistent_workers=True, **rest)
    Loader(d, num_workers=4)
    """
    call = call_of(scan(code), "DataLoader")
    assert (call.arguments["num_workers"].value, call.is_open) == (4, True)


def test_loaders_of_pyg_are_open() -> None:
    call = call_of(
        scan("from torch_geometric.loader import NeighborLoader\nNeighborLoader(g, num_workers=6)"), "DataLoader"
    )
    assert (call.arguments["num_workers"].value, call.is_open) == (6, True)


PARSED = """
from dataclasses import dataclass, field
import transformers
@dataclass
class TrainingArguments(transformers.TrainingArguments):
    optim: str = field(default="adamw_torch")
parser = transformers.HfArgumentParser(TrainingArguments)
"""


@pytest.mark.parametrize(("flags", "optim", "is_open"), [(None, "adamw_torch", True), ({"optim": "sgd"}, "sgd", False)])
def test_a_parsed_subclass_states_its_defaults(flags: dict[str, str] | None, optim: str, is_open: bool) -> None:
    call = call_of(scan(PARSED, flags), "TrainingArguments")
    assert (call.arguments["optim"].value, call.is_open, call.location.line) == (optim, is_open, 5)


def test_a_switch_below_an_unknown_condition_is_not_known() -> None:
    body = "    torch.set_float32_matmul_precision('high')\n    torch.backends.cudnn.benchmark = True"
    code = f"import torch\nif tf32:\n{body}"
    assert [shown(call) for call in scan(code).calls] == [{"precision": "unknown"}, {"value": "unknown"}]


def test_a_choice_below_an_unknown_condition_is_not_known() -> None:
    code = (
        "from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig(load_in_4bit=True) if quantise else None"
    )
    assert [shown(call) for call in scan(code).calls] == [{"load_in_4bit": "unknown"}]


def test_a_switch_below_a_condition_on_the_gpu_holds() -> None:
    code = "import torch\nif torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = True"
    assert [shown(call) for call in scan(code).calls] == [{"value": True}]


def test_the_location_is_the_whole_call() -> None:
    call = call_of(scan("from torch.utils.data import DataLoader\nDataLoader(\n    d,\n)"), "DataLoader")
    assert (call.location.line, call.location.end_line, call.location.call) == (2, 4, "DataLoader")
