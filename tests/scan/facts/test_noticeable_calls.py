"""Calls and switches that stand out: in the step, around an Accelerator, for the whole process."""

from __future__ import annotations

import pytest
from scanning import facts, lines, looped, scan

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"

ACCELERATOR = "from accelerate import Accelerator\naccelerator = Accelerator(gradient_accumulation_steps=4)\n"

LOADER = "from torch.utils.data import DataLoader\nother = DataLoader(data)\n"


def fact(name: str, body: str = STEP, before: str = "") -> object:
    return facts(looped(body, before)).get(f"code.{name}")


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("num_barriers_in_step", "torch.distributed.barrier()", 1),
        ("num_barriers_in_step", "accelerator.wait_for_everyone()", 1),
        ("num_barriers_in_step", "if step % 100 == 0:\n    torch.distributed.barrier()", 0),
        ("num_saves_in_step", "torch.save(model.state_dict(), 'last.pt')", 1),
        ("num_saves_in_step", "model.save_pretrained('last')", 1),
        ("num_saves_in_step", "if step % 100 == 0:\n    torch.save(model.state_dict(), 'last.pt')", 0),
        ("num_saves_in_step", "if loss < best:\n    torch.save(model.state_dict(), 'best.pt')", 0),
        ("num_new_iterators_in_step", "z = next(iter(other))", 1),
        ("num_new_iterators_in_step", "z = next(iter(names))", 0),
        ("num_new_iterators_in_step", "z = next(batches)", 0),
        ("num_filled_gradients_in_step", "optimizer.zero_grad(set_to_none=False)", 1),
        ("num_filled_gradients_in_step", "optimizer.zero_grad(set_to_none=True)", 0),
        ("num_filled_gradients_in_step", "optimizer.zero_grad()", 0),
    ],
)
def test_calls_in_every_step(name: str, body: str, expected: int) -> None:
    assert fact(name, STEP + body, LOADER) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STEP.replace("backward()", "backward(retain_graph=True)"), 1),
        (STEP.replace("backward()", "backward(retain_graph=True)") + "other_loss.backward()", 0),
        (STEP.replace("backward()", "backward(retain_graph=keep)"), 0),
        (STEP, 0),
    ],
)
def test_a_graph_that_is_kept(body: str, expected: int) -> None:
    assert fact("num_retained_graphs_in_step", body) == expected


@pytest.mark.parametrize(
    ("name", "before", "expected"),
    [
        ("disables_cudnn", "import torch\ntorch.backends.cudnn.enabled = False\n", True),
        ("disables_cudnn", "import torch\ntorch.backends.cudnn.enabled = True\n", None),
        ("disables_cudnn", "import torch\ntorch.backends.cudnn.enabled = args.cudnn\n", None),
        ("disables_cudnn", "", False),
        ("suppresses_compile_errors", "import torch\ntorch._dynamo.config.suppress_errors = True\n", True),
        ("disables_fused_attention", "import torch\ntorch.backends.cuda.enable_flash_sdp(False)\n", None),
        (
            "disables_fused_attention",
            "import torch\ntorch.backends.cuda.enable_flash_sdp(False)\n"
            "torch.backends.cuda.enable_mem_efficient_sdp(False)\n",
            True,
        ),
        (
            "disables_fused_attention",
            "import torch\ntorch.backends.cuda.enable_flash_sdp(False)\n"
            "torch.backends.cuda.enable_mem_efficient_sdp(True)\n",
            None,
        ),
        ("disables_fused_attention", "", False),
        ("distributed_backend", "import torch.distributed as dist\ndist.init_process_group('gloo')\n", "gloo"),
        ("distributed_backend", "import torch.distributed as dist\ndist.init_process_group(backend='nccl')\n", "nccl"),
        ("distributed_backend", "import torch.distributed as dist\ndist.init_process_group()\n", None),
        ("distributed_backend", "import torch.distributed as dist\ndist.init_process_group(args.backend)\n", None),
    ],
)
def test_switches(name: str, before: str, expected: bool | str | None) -> None:
    assert fact(name, before=before) == expected


ACCUMULATES = """
with accelerator.accumulate(model):
    accelerator.backward(model(x))
    optimizer.step()
"""


SAVE = "torch.save(model.state_dict(), 'last.pt')"


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("if time.time() - last < 600:\n    continue\n", 0),
        ("if step in save_at:\n    log(step)\nelse:\n    continue\n", 0),
        ("with timer:\n    if step not in save_at:\n        continue\n", 0),
        ("if step >= max_steps:\n    break\n", 1),
        ("if loss is None:\n    continue\n", 1),
        ("if not torch.isfinite(loss):\n    continue\n", 1),
        ("if rank != 0:\n    continue\n", 1),
        ("if False:\n    continue\n", 1),
    ],
)
def test_a_save_behind_a_condition_that_skips_the_step(guard: str, expected: int) -> None:
    script = looped(f"{STEP}{guard}{SAVE}\nprint(loss.item())")
    assert facts(script)["code.num_saves_in_step"] == expected
    assert facts(script)["code.num_scalar_reads_in_step"] == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if step not in save_at:\n    return", 0),
        ("if get_rank() != 0:\n    return", 1),
        ("for path in paths:\n    if path == last:\n        return", 1),
    ],
)
def test_a_save_in_a_function_that_may_return_before(body: str, expected: int) -> None:
    code = "\n    ".join(f"{body}\n{SAVE}".splitlines())
    assert fact("num_saves_in_step", STEP + "keep(step)", f"def keep(step):\n    {code}\n") == expected


SAVER = """
class Trainer:
    def train(self):
        for step, (x, y) in enumerate(DataLoader(data)):
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            self.save_checkpoint(step)

    def save_checkpoint(self, step, is_last=False):
        self.timer.pause()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if not is_last and step % self.every != 0:\n    return\ntorch.save(model, 'last.pt')", 0),
        ("if not self.is_due(step):\n    return\nself.manager.save(step)", 0),
        ("if step % self.every == 0:\n    torch.save(model, 'last.pt')", 0),
        ("torch.save(model, 'last.pt')", 1),
        ("if rank != 0:\n    return\ntorch.save(model, 'last.pt')", 1),
        ("self.manager.save(step)", 1),
        ("log(step)", 0),
    ],
)
def test_a_method_that_is_named_like_a_save(body: str, expected: int) -> None:
    script = SAVER + "".join(f"        {line}\n" for line in body.splitlines())
    assert facts(scan(LOADER + script))["code.num_saves_in_step"] == expected


@pytest.mark.parametrize(
    ("body", "expected"), [("if step % 10 == 0:\n    torch.save(step, path)", 0), ("torch.save(step, path)", 1)]
)
def test_a_method_of_an_object_that_is_not_followed(body: str, expected: int) -> None:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    keeper = f"class Keeper:\n    def save_checkpoint(self, step):\n{lines}"
    assert fact("num_saves_in_step", STEP + "keeper.save_checkpoint(step)", keeper) == expected


@pytest.mark.parametrize(
    ("body", "lacks", "divides"),
    [
        ("accelerator.backward(model(x))\noptimizer.step()", True, False),
        (ACCUMULATES, False, False),
        (
            "loss = model(x) / args.gradient_accumulation_steps\naccelerator.backward(loss)\noptimizer.step()",
            True,
            True,
        ),
        ("loss = model(x)\nloss /= accum_steps\naccelerator.backward(loss)\noptimizer.step()", True, True),
        ("loss = model(x) / 4\naccelerator.backward(loss)\noptimizer.step()", True, False),
        (STEP, None, None),
    ],
)
def test_an_accelerator_that_accumulates(body: str, lacks: bool | None, divides: bool | None) -> None:
    assert fact("lacks_accumulate", body, ACCELERATOR) is lacks
    assert fact("divides_loss_again", body, ACCELERATOR) is divides


@pytest.mark.parametrize(("arguments", "divides"), [("", False), ("log_with='all'", False), ("**options", True)])
def test_an_accelerator_that_is_not_told_to_accumulate_divides_by_one(arguments: str, divides: bool) -> None:
    body = "loss = model(x) / accum_steps\naccelerator.backward(loss)\noptimizer.step()"
    before = f"from accelerate import Accelerator\naccelerator = Accelerator({arguments})\n"
    assert fact("divides_loss_again", body, before) is divides


EPOCHS = """
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(data{arguments})
loader = DataLoader(data, sampler=sampler)
for epoch in range(3):
    {first}
    for x in loader:
        model(x).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("arguments", "first", "expected"),
    [
        ("", "pass", True),
        (", shuffle=True", "pass", True),
        (", shuffle=False", "pass", None),
        (", **options", "pass", None),
        ("", "sampler.set_epoch(epoch)", False),
    ],
)
def test_set_epoch(arguments: str, first: str, expected: bool | None) -> None:
    script = scan(EPOCHS.format(arguments=arguments, first=first))
    assert facts(script).get("code.lacks_set_epoch") is expected


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("pass", True),
        ("print(len(loader))", True),
        ("begin(loader, epoch)", None),
        ("begin(sampler, epoch)", None),
        ("state.loader = loader", None),
        ("begin = loader if epoch else None", None),
    ],
)
def test_a_sampler_that_other_modules_get_may_be_told_the_epoch_there(first: str, expected: bool | None) -> None:
    script = scan("from mine import begin, state\n" + EPOCHS.format(arguments="", first=first))
    assert facts(script).get("code.lacks_set_epoch") is expected


def test_the_places_are_those_of_the_calls() -> None:
    assert lines(looped(STEP + "torch.distributed.barrier()"), "code.num_barriers_in_step") == [13]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STEP + "total += loss", 1),
        (STEP + "losses.append(loss)", 1),
        (STEP.replace("loss.b", "scaler.scale(loss).b") + "total += loss", 1),
        (STEP.replace("loss.backward()", "accelerator.backward(loss)") + "total += loss", 1),
        (STEP + "total += loss.item()", 0),
        (STEP + "loss = loss.item()\ntotal += loss", 0),
        (STEP + "with torch.no_grad():\n    total += loss", 0),
        ("total = 0\n" + STEP + "total += loss", 0),
        (STEP + "total += loss\ntotal.backward()", 0),
        (STEP + "history.append(y)", 0),
        (STEP + "meter.append(loss)", 0),
    ],
)
def test_losses_that_are_kept(body: str, expected: int) -> None:
    assert (
        fact("num_kept_losses_in_step", body, "total = 0\nlosses = []\nhistory = []\nmeter = Average()\n") == expected
    )


def test_an_engine_of_deepspeed_clears_gradients_itself() -> None:
    body, before = "optimizer.zero_grad(set_to_none=False)\n" + STEP, "plugin = accelerator.state.deepspeed_plugin\n"
    assert fact("num_filled_gradients_in_step", body) == 1
    assert not fact("num_filled_gradients_in_step", body, before)


@pytest.mark.parametrize(
    ("line", "debug", "links"),
    [
        ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"', "CUDA_LAUNCH_BLOCKING=1", ""),
        ('os.environ["CUDA_LAUNCH_BLOCKING"] = "0"', "", ""),
        ('os.environ["NCCL_P2P_DISABLE"] = "1"', "", "NCCL_P2P_DISABLE=1"),
        ('os.environ["NCCL_P2P_DISABLE"] = "0"', "", ""),
        ('os.environ["NCCL_IB_DISABLE"] = "1"', "", ""),
        ('os.environ["CUDA_LAUNCH_BLOCKING"] = args.blocking', "", ""),
        ('if args.debug:\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"', "", ""),
        ('os.environ["OTHER"] = "1"', "", ""),
    ],
)
def test_variables_that_a_script_sets(line: str, debug: str, links: str) -> None:
    assert fact("debug_variables", before=f"import os\n{line}\n") == debug
    assert fact("restricted_links", before=f"import os\n{line}\n") == links


EVALUATION = "model.eval()\nfor x in test_loader:\n    total += model(x).sum()\n"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (EVALUATION, True),
        ("with torch.no_grad():\n" + "".join(f"    {line}\n" for line in EVALUATION.splitlines()), False),
        (EVALUATION.replace("model(x)", "other(x)"), False),
        ("for x in test_loader:\n    total += model(x).sum()\nmodel.eval()\n", False),
        ("@torch.no_grad()\ndef evaluate():\n    pass\n" + EVALUATION, False),
        ("", False),
    ],
)
def test_an_evaluation_with_gradients(after: str, expected: bool) -> None:
    loop = "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    assert facts(scan(f"import torch\ntotal = 0\n{loop}{after}")).get("code.evaluates_with_grad") is expected
