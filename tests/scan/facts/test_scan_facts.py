from __future__ import annotations

import pytest
from scanning import facts, lines, looped, scan

BACKWARD = "loss.backward()\noptimizer.step()\n"

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"

SCALED = """\
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(x), y)
scaler.scale(loss).backward()
optimizer.step()
"""


def fact(name: str, body: str = STEP, before: str = "") -> object:
    return facts(looped(body, before)).get(name)


# --- the process


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'", 1),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'", 2),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu", None),
        ("if args.debug:\n    os.environ['CUDA_VISIBLE_DEVICES'] = '0'", None),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'\nos.environ['CUDA_VISIBLE_DEVICES'] = gpus", None),
        ("", None),
    ],
)
def test_gpus_that_a_script_lets_itself_see(code: str, expected: int | None) -> None:
    assert fact("code.num_visible_gpus", before=f"import os\n{code}\n") == expected


# --- precision


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("import torch\nscaler = torch.amp.GradScaler('cuda')\n", SCALED, True),
        ("import torch\nscaler = torch.cuda.amp.GradScaler(enabled=True)\n", SCALED, True),
        ("import torch\nscaler = torch.amp.GradScaler('cuda', enabled=False)\n", SCALED, False),
        ("import torch\nscaler = torch.amp.GradScaler('cuda', enabled=amp)\n", SCALED, None),
        ("import torch\nscaler = torch.amp.GradScaler() if amp else None\n", SCALED, None),
        ("", STEP, False),
        ("import accelerate\n", STEP, None),
        ("from mine import make_scaler\n", STEP, None),
        ("from torch.cuda.amp.grad_scaler import GradScaler\nscaler = GradScaler()\n", SCALED, True),
        ("from torch.amp.grad_scaler import GradScaler\nscaler = GradScaler(enabled=False)\n", SCALED, False),
        (
            "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler as S\nscaler = S()\n",
            SCALED,
            True,
        ),
        ("from timm.utils import NativeScaler\nscaler = NativeScaler()\n", "scaler(loss, optimizer)", None),
        ("", SCALED, None),
        ("from sklearn.preprocessing import StandardScaler\nStandardScaler()\n", STEP, False),
    ],
)
def test_grad_scaler(before: str, body: str, expected: bool | None) -> None:
    assert fact("run.grad_scaler", body, before) is expected


@pytest.mark.parametrize(
    ("autocast", "expected"),
    [
        ("torch.autocast('cuda', dtype=torch.bfloat16)", "bfloat16"),
        ("torch.autocast(device_type='cuda')", "float16"),
        ("torch.autocast('cpu')", "bfloat16"),
        ("torch.cuda.amp.autocast()", "float16"),
        ("torch.autocast('cuda', enabled=False)", "off"),
        ("torch.autocast('cuda', enabled=amp)", None),
        ("torch.autocast(device)", None),
        ("torch.autocast('cuda', dtype=dtype)", None),
        ("nothing()", "off"),
    ],
)
def test_autocast(autocast: str, expected: str | None) -> None:
    assert fact("run.autocast", f"with {autocast}:\n    loss = model(x)\n{BACKWARD}") == expected


def test_autocasts_that_disagree_say_nothing() -> None:
    body = "with torch.autocast('cuda', dtype=torch.bfloat16):\n    a()\nwith torch.autocast('cuda'):\n    a()\n" + STEP
    assert fact("run.autocast", body) is None


def test_autocast_of_an_evaluation_says_nothing() -> None:
    before = "import torch\ndef evaluate():\n    with torch.autocast('cuda'):\n        model(x)\n"
    assert fact("run.autocast", before=before) is None


def test_a_loop_of_its_own_with_a_model_of_transformers_is_raw() -> None:
    assert fact("run.autocast", before="from transformers import AutoModel\n") == "off"
    assert fact("run.autocast", before="from transformers import Trainer\nTrainer(m)\n") is None


def test_an_option_that_is_off_by_default_decides_nothing() -> None:
    before = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
"""
    body = "with torch.autocast('cuda', enabled=args.amp):\n    loss = model(x)\n" + BACKWARD
    assert fact("run.autocast", body, before) is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from torch.cuda.amp import autocast\nwith autocast():\n    pass", True),
        ("from torch.cuda import amp\namp.GradScaler()", True),
        ("from torch.amp import autocast\nwith autocast('cuda'):\n    pass", False),
        ("with torch.cpu.amp.autocast():\n    pass\nimport torch", False),
        (
            "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n"
            "    from torch.cuda.amp import GradScaler\nGradScaler()",
            False,
        ),
    ],
)
def test_legacy_amp(code: str, expected: bool) -> None:
    assert fact("run.legacy_amp", before=code + "\n") is expected


CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SCALED + CLIP + "scaler.step(optimizer)\nscaler.update()", True),
        (SCALED + "scaler.unscale_(optimizer)\n" + CLIP + "scaler.step(optimizer)\nscaler.update()", False),
        (SCALED + "scaler.step(optimizer)\nscaler.update()", False),
        (SCALED + CLIP + "scaler.unscale_(optimizer)\nscaler.step(optimizer)", None),
    ],
)
def test_clips_scaled_gradients(body: str, expected: bool | None) -> None:
    assert fact("run.clips_scaled_gradients", body, "import torch\nscaler = torch.amp.GradScaler('cuda')\n") is expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("print(scaler.get_scale())", True),
        ("unscale(scaler)", None),
        ("state['scaler'] = scaler", None),
        ("others = [scaler]", None),
    ],
)
def test_a_scaler_that_other_modules_get_may_be_unscaled_there(use: str, expected: bool | None) -> None:
    before = "import torch\nfrom mine import unscale\nscaler = torch.amp.GradScaler('cuda')\n"
    body = f"{SCALED}{CLIP}scaler.step(optimizer)\nscaler.update()\n{use}"
    assert fact("run.clips_scaled_gradients", body, before) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("loss = model(x, output_attentions=True).loss", True),
        ("loss = model(x, output_attentions=False).loss", None),
        ("weights = model(x).decoder_attentions", True),
        ("loss = model(x).loss", None),
    ],
)
def test_uses_attentions(body: str, expected: bool | None) -> None:
    assert fact("code.uses_attentions", f"{body}\n{BACKWARD}") is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("flat = torch.cat([p.grad.flatten() for p in model.parameters()])", True),
        ("g = p.grad", True),
        ("flat = p.grad.detach().flatten()", True),
        ("p.grad.data.add_(noise)", True),
        ("p.grad += noise", True),
        ("print(torch.norm(p.grad.detach()))", None),
        ("if not p.grad: pass", None),
        ("p.grad.data = x", None),
        ("total = sum(p.grad.norm() for p in model.parameters() if p.grad is not None)", None),
        ("p.grad = None", None),
        ("p.grad.zero_()", None),
        ("g = torch.autograd.grad(loss, x)[0]", None),
    ],
)
def test_reads_gradients(body: str, expected: bool | None) -> None:
    assert fact("code.reads_gradients", f"{body}\n{BACKWARD}") is expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [("scaler.step(optimizer)\nscaler.update()", False), ("scaler.step(optimizer)", True), ("optimizer.step()", None)],
)
def test_scaler_lacks_update(end: str, expected: bool | None) -> None:
    before = "import torch\nscaler = torch.amp.GradScaler('cuda')\n"
    assert fact("code.scaler_lacks_update", SCALED + end, before) is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("finish(scaler)", None),
        ("finish(s=scaler)", None),
        ("s = scaler", None),
        ("for s in (scaler, other):\n    s.update()", None),
        ("getattr(scaler, 'update')()", None),
        ("end = scaler.update\nend()", False),
        ("print(scaler.get_scale())", True),
        ("if scaler is not None:\n    log()", True),
    ],
)
def test_a_scaler_under_another_name_may_be_updated(other: str, expected: bool | None) -> None:
    before = "import torch\nscaler = torch.amp.GradScaler('cuda')\ndef finish(s):\n    s.update()\n"
    assert fact("code.scaler_lacks_update", f"{SCALED}scaler.step(optimizer)\n{other}", before) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("net.half()", True),
        ("net = net.to(torch.float16)", True),
        ("net.to(device, dtype=torch.half)", True),
        ("images.half()", False),
        ("net.to(torch.bfloat16)", False),
        ("net.half()\nnet = get_peft_model(net, c)", False),
        ("if fp16:\n    net.half()", False),
    ],
)
def test_half_parameters(code: str, expected: bool) -> None:
    before = f"import torch\nnet = make()\n{code}\ntorch.optim.SGD(net.parameters())\n"
    assert fact("code.trains_half_params", before=before) is expected


# --- accumulation


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("loss.backward()\nif (i + 1) % 4 == 0:\n    optimizer.step()", True),
        ("loss.backward()\nif (i + 1) % 4 == 0 or i + 1 == n:\n    scaler.step(optimizer)", True),
        ("loss.backward()\nif (i + 1) % 1 == 0:\n    optimizer.step()", False),
        ("loss.backward()\nif (i + 1) % every == 0:\n    optimizer.step()", None),
        ("loss.backward()\noptimizer.step()", False),
        ("loss.backward()\nif (i + 1) % 4:\n    continue\noptimizer.step()", None),
        ("loss.backward()\nif i % 100 == 0:\n    log()\noptimizer.step()\nscheduler.step()", False),
    ],
)
def test_accumulates(body: str, expected: bool | None) -> None:
    assert fact("code.accumulates", body) is expected


@pytest.mark.parametrize(
    ("default", "flags", "expected"),
    [(1, None, None), (4, None, True), (1, {}, False), (4, {"accum": "1"}, False), (1, {"accum": "8"}, True)],
)
def test_the_number_of_micro_batches_may_be_an_option(
    default: int, flags: dict[str, str] | None, expected: bool | None
) -> None:
    code = f"""
    import argparse
    p = argparse.ArgumentParser()
    p.add_argument("--accum", type=int, default={default})
    args = p.parse_args()
    for i, x in enumerate(loader):
        model(x).backward()
        if i % args.accum == 0:
            optimizer.step()
    """
    assert facts(scan(code, flags)).get("code.accumulates") is expected


def test_micro_batches_in_a_loop_of_their_own_accumulate() -> None:
    code = (
        "import torch\nn = 5 * 8\nwhile True:\n    for _ in range(n):\n        loss.backward()\n    optimizer.step()\n"
    )
    assert facts(scan(code))["code.accumulates"] is True


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("with model.no_sync():\n    loss.backward()", True),
        ("model.require_backward_grad_sync = last\nloss.backward()", True),
        ("with accelerator.accumulate(model):\n    accelerator.backward(loss)", True),
        (BACKWARD, False),
    ],
)
def test_has_no_sync(body: str, expected: bool) -> None:
    assert fact("code.has_no_sync", body) is expected


@pytest.mark.parametrize(("library", "expected"), [("accelerate", False), ("trl", None), ("lightning", None)])
def test_accelerate_leaves_no_sync_to_the_loop(library: str, expected: bool | None) -> None:
    assert fact("code.has_no_sync", BACKWARD, f"import {library}\n") is expected


EVERY_4 = "if (i + 1) % 4 == 0:\n    optimizer.step()\n    optimizer.zero_grad()\n"
UNDIVIDED = "loss = criterion(model(x), y)\nloss.backward()\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (UNDIVIDED + EVERY_4, "the loss is not divided"),
        (
            "loss = torch.nn.functional.cross_entropy(model(x), y)\nloss.backward()\n" + EVERY_4,
            "the loss is not divided",
        ),
        ("loss = criterion(model(x), y) / 4\nloss.backward()\nscheduler.step()\n" + EVERY_4, None),
        ("loss = criterion(model(x), y)\nloss = loss / 4\nloss.backward()\n" + EVERY_4, None),
        ("loss = criterion(model(x), y)\nloss /= 4\nloss.backward()\n" + EVERY_4, None),
        ("loss = criterion(model(x), y)\n(loss / 4).backward()\n" + EVERY_4, None),
        ("loss = model(x)\nloss.backward()\n" + EVERY_4, None),
        (UNDIVIDED + "for p in ps:\n    p.grad /= 4\n" + EVERY_4, None),
        (UNDIVIDED + "lr = base / 4\n" + EVERY_4, None),
        (UNDIVIDED + EVERY_4 + "    scheduler.step()\n", "the loss is not divided"),
        (UNDIVIDED + "optimizer.step()\nscheduler.step()\n", None),
    ],
)
def test_accumulation_mistakes(body: str, expected: str | None) -> None:
    assert fact("code.accumulation_mistake", body) == expected


@pytest.mark.parametrize(
    ("made", "is_mistake"),
    [
        ("n = len(loader) // 4 * epochs\nscheduler = CosineAnnealingLR(optimizer, T_max=n)", True),
        ("n = math.ceil(len(loader) / 4)\nscheduler = get_scheduler('cosine', optimizer, 10, epochs * n)", True),
        ("scheduler = OneCycleLR(optimizer, 0.1, total_steps=args.max_updates)", True),
        ("scheduler = OneCycleLR(optimizer, 0.1, total_steps=len(loader) * epochs)", False),
        ("n = len(loader) // 2\nn = n + 1\nscheduler = CosineAnnealingLR(optimizer, n)", False),
        ("o = SGD(ps, lr=0.1 / 4)\nscheduler = OneCycleLR(o, 0.1, total_steps=len(loader))", False),
        ("scheduler = make(optimizer)", False),
        ("", False),
    ],
)
def test_a_scheduler_that_steps_every_micro_batch(made: str, is_mistake: bool) -> None:
    body = "loss = criterion(model(x), y) / 4\nloss.backward()\nscheduler.step()\n" + EVERY_4
    expected = "the scheduler steps every micro-batch" if is_mistake else None
    assert fact("code.accumulation_mistake", body, f"import math\n{made}\n") == expected


@pytest.mark.parametrize(
    "generator",
    [
        "loss = criterion(d(g(z)), y)\n    loss.backward()",
        "both(z)",
        "closure = lambda: both(z)\n    closure()",
    ],
)
def test_a_step_on_a_loss_of_its_own_accumulates_nothing(generator: str) -> None:
    before = "def both(z):\n    loss = criterion(d(g(z)), y)\n    loss.backward()\n"
    body = UNDIVIDED + f"critic.step()\nif i % 5 == 0:\n    opt_g.zero_grad()\n    {generator}\n    opt_g.step()\n"
    assert fact("code.accumulates", body, before) is None
    assert fact("code.accumulation_mistake", body, before) is None


def test_libraries_divide_the_loss_themselves() -> None:
    assert fact("code.accumulation_mistake", UNDIVIDED + EVERY_4, "from accelerate import Accelerator\n") is None


# --- distributed


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("model = nn.DataParallel(model)", True),
        ("if device == 'cuda':\n    model = nn.DataParallel(model)", True),
        ("if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)", True),
        ("if args.gpus:\n    model = nn.DataParallel(model)", True),
        ("if args.legacy:\n    model = nn.DataParallel(model)", None),
        ("if self.args.n_gpu > 1:\n    model = nn.DataParallel(model)", None),
        ("if False:\n    model = nn.DataParallel(model)", False),
        ("if ddp:\n    pass\nelse:\n    model = nn.DataParallel(model)", None),
        ("", False),
    ],
)
def test_data_parallel(code: str, expected: bool | None) -> None:
    assert fact("code.uses_data_parallel", before=f"import torch\nfrom torch import nn\n{code}\n") is expected


def test_ddp() -> None:
    code = "from torch.nn.parallel import DistributedDataParallel as DDP\nif ddp:\n    model = DDP(model)\n"
    assert fact("code.uses_ddp", before=code) is True
    assert fact("code.uses_ddp") is False
    assert fact("code.uses_ddp", before="from mine import wrap\n") is None


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        ("DataLoader(data, shuffle=True)", False),
        ("DataLoader(data, sampler=DistributedSampler(data))", True),
        ("DataLoader(data, sampler=make())", None),
        ("DataLoader(data, **kw)", None),
        ("DataLoader(split_dataset_by_node(data, rank, world))", True),
        ("DataLoader(data[rank::world])", None),
        ("DataLoader(by_rank)", None),
    ],
)
def test_shards_data(loader: str, expected: bool | None) -> None:
    code = f"""
    import torch
    from torch.utils.data import DataLoader, DistributedSampler
    from datasets.distributed import split_dataset_by_node
    by_rank = parts[local_rank]
    train_loader = {loader}
    for x in train_loader:
        model(x).backward(); optimizer.step()
    """
    assert facts(scan(code)).get("code.shards_data") is expected


# --- the rest


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("model.cuda()\n", True),
        ("import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n", True),
        ("device = f'cuda:{rank}'\n", True),
        ("import torch\ntorch.cuda.set_device(rank)\n", True),
        ("from accelerate import Accelerator\na = Accelerator()\n", True),
        ("from accelerate import Accelerator\na = Accelerator(cpu=True)\n", None),
        ("device = args.device\n", None),
        ("", False),
    ],
)
def test_uses_cuda(before: str, expected: bool | None) -> None:
    assert fact("code.uses_cuda", before=before) is expected


def test_a_trainer_uses_cuda_unless_it_is_told_not_to() -> None:
    code = "from transformers import Trainer, TrainingArguments\nTrainer(m, args=TrainingArguments({})).train()"
    assert facts(scan(code.format("'out'")))["code.uses_cuda"] is True
    assert "code.uses_cuda" not in facts(scan(code.format("use_cpu=True")))
    code = "import lightning as L\nL.Trainer(accelerator='cpu').fit(model)"
    assert "code.uses_cuda" not in facts(scan(code))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.use_deterministic_algorithms(True)", True),
        ("torch.use_deterministic_algorithms(mode=True)", True),
        ("torch.backends.cudnn.deterministic = True", True),
        ("def seed():\n    torch.backends.cudnn.deterministic = True\nseed()", True),
        ("def seed():\n    torch.backends.cudnn.deterministic = True", None),
        ("if args.seed is not None:\n    torch.backends.cudnn.deterministic = True", None),
        ("torch.use_deterministic_algorithms(False)", False),
        ("torch.use_deterministic_algorithms(mode)", None),
        ("", False),
    ],
)
def test_deterministic(code: str, expected: bool | None) -> None:
    assert fact("code.is_deterministic", before=f"import torch\n{code}\n") is expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("torch.profiler.profile()", True),
        ("torch.profiler.profile(schedule=s)", False),
        ("torch.autograd.profiler.emit_nvtx()", True),
        ("torch.autograd.profiler.emit_nvtx(enabled=False)", False),
        ("torch.autograd.profiler.profile(False)", False),
        ("torch.autograd.profiler.profile(enabled=False)", False),
        ("torch.autograd.profiler.profile(enabled=profiled)", None),
        ("open('log')", False),
    ],
)
@pytest.mark.parametrize("is_called", [True, False])
def test_profilers_around_training(context: str, expected: bool | None, is_called: bool) -> None:
    loop = "    for x in loader:\n        model(x).backward(); optimizer.step()\n"
    if is_called:
        code = f"import torch\ndef train():\n{loop}with {context} as p:\n    train()\n"
    else:
        code = f"import torch\nwith {context} as p:\n{loop}"
    assert facts(scan(code)).get("code.profiles_always") is expected


def test_memory_history_that_nothing_stops() -> None:
    start, stop = (
        "torch.cuda.memory._record_memory_history()\n",
        "torch.cuda.memory._record_memory_history(enabled=None)\n",
    )
    assert fact("code.profiles_always", before=f"import torch\n{start}") is True
    assert fact("code.profiles_always", before=f"import torch\n{start}{stop}") is None


@pytest.mark.parametrize(
    ("call", "expected"),
    [("checkpoint(f, x)", True), ("checkpoint(f, x, use_reentrant=False)", False), ("checkpoint(f, x, **kw)", False)],
)
def test_checkpoint_without_reentrant(call: str, expected: bool) -> None:
    before = f"from torch.utils.checkpoint import checkpoint\ndef forward(x):\n    return {call}\n"
    assert fact("code.checkpoint_without_reentrant", "forward(x).backward(); optimizer.step()", before) is expected


@pytest.mark.parametrize(
    ("made", "drawn", "expected"),
    [
        ("np.random.default_rng(0)", "self.rng.random()", True),
        ("np.random.RandomState(0)", "self.rng.rand()", True),
        ("np.random.default_rng(0)", "np.random.rand()", False),
        ("random.Random(0)", "self.rng.random()", False),
    ],
)
def test_a_dataset_with_a_generator_of_its_own(made: str, drawn: str, expected: bool) -> None:
    before = f"""
import random
import numpy as np
class Data:
    def __init__(self):
        self.rng = {made}
    def __getitem__(self, i):
        return self.x[i] + {drawn}
"""
    assert fact("code.numpy_random_in_dataset", before=before) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("train_loader = DataLoader(d, worker_init_fn=seed)", True),
        ("train_loader = DataLoader(d, worker_init_fn=None)", False),
        ("train_loader = DataLoader(d)", False),
        ("train_loader = DataLoader(d, **kw)", None),
        ("seed_everything(1, workers=True)\ntrain_loader = DataLoader(d)", True),
    ],
)
def test_seeds_workers(code: str, expected: bool | None) -> None:
    loop = "for x in train_loader:\n    model(x).backward()\n    optimizer.step()"
    script = scan(f"from torch.utils.data import DataLoader\n{code}\n{loop}")
    assert facts(script).get("code.seeds_workers") is expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for x in loader:", False),
        ("for x in tqdm(loader):", True),
        ("for step, x in enumerate(tqdm.tqdm(loader, disable=True)):", True),
        ("for x in track(loader):", True),
    ],
)
def test_a_progress_bar_of_the_scripts_own(loop: str, expected: bool) -> None:
    code = f"{loop}\n    model(x).backward()\n    optimizer.step()"
    assert facts(scan(code)).get("code.shows_progress") is expected


TRAIN = "def train():\n    for x in loader:\n        model(x).backward(); optimizer.step()\n"
GUARD = 'if __name__ == "__main__":\n    '


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (TRAIN + GUARD + "train()", True),
        (TRAIN + "def main():\n    train()\n" + GUARD + "main()", True),
        (TRAIN + "train()", False),
        (TRAIN + GUARD + "train()\ntrain()", False),
        (GUARD + "for x in loader:\n        model(x).backward(); optimizer.step()", True),
        ("for x in loader:\n    model(x).backward(); optimizer.step()\n" + GUARD + "pass", False),
        ("from mine import loader\nfor x in loader:\n    model(x).backward(); optimizer.step()", False),
        (TRAIN, None),
    ],
)
def test_main_guard(code: str, expected: bool | None) -> None:
    assert facts(scan(code)).get("code.has_main_guard") is expected


def test_what_trains() -> None:
    assert scan(TRAIN + "train()").trains
    assert scan("from transformers import Trainer\nt = Trainer(m)\nt.train()").trains
    assert scan("import lightning as L\nL.Trainer().fit(m)").trains
    assert scan("from lightning.pytorch.cli import LightningCLI\nLightningCLI(M)").trains
    assert not scan("import torch\nmodel.train()\ntokenizer.fit(x)").trains


def test_facts_have_places() -> None:
    assert lines(looped(STEP, "import torch\nmodel = torch.nn.DataParallel(model)\n"), "code.uses_data_parallel") == [2]
