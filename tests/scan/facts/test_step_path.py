from __future__ import annotations

import pytest
from scanning import facts, lines, looped, scan

TRAINS = "model(x).backward(); optimizer.step()"
STEP = "x = x.cuda()\nloss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"
READS = "code.num_scalar_reads_in_step"


@pytest.mark.parametrize(
    "body",
    [
        "total += loss.item()",
        "total += float(loss)",
        "correct += (pred == y).sum().item()",
        "bar.set_postfix(loss=loss.item())",
        "print(loss.detach().cpu().numpy())",
        "values += pred.tolist()",
        "losses.append(loss.cpu())",
        "if loss.item() > 1:\n    pass",
        "with torch.no_grad():\n    total += loss.item()",
        "try:\n    total += loss.item()\nexcept ValueError:\n    pass",
        "if rank == 0:\n    total += loss.item()",
        "log(loss)",
        "for part in parts:\n    total += part.loss.item()",
    ],
)
def test_a_read_in_every_step(body: str) -> None:
    script = looped(STEP + body, before="def log(value):\n    print(value.item())\n")
    assert facts(script)[READS] == 1


@pytest.mark.parametrize(
    "body",
    [
        "if step % 100 == 0:\n    print(loss.item())",
        "if step % 100:\n    continue\nprint(loss.item())",
        "if step % 100 == 0:\n    save()\nelse:\n    continue\nprint(loss.item())",
        "with torch.no_grad():\n    if step % 100:\n        continue\n    print(loss.item())",
        "def log(i):\n    if i % 100 != 0:\n        return\n    print(loss.item())\nlog(step)",
        "for part in parts:\n    if part % 100:\n        break\n    print(loss.item())",
        "if verbose:\n    print(loss.item())",
        "while wait:\n    print(loss.item())",
        "def later():\n    print(loss.item())",
        "with torch.no_grad():\n    for v in val_loader:\n        print(model(v).item())",
        "n = y.item()",
        "a = np.mean(b).item()",
        "total += loss.detach()",
        "print(mask.numpy())",
        "done and loss.item()",
        "print(loss.item() if verbose else 0)",
    ],
)
def test_no_read_in_every_step(body: str) -> None:
    assert facts(looped(STEP + body, before="import numpy as np\n"))[READS] == 0


def test_after_the_loop_and_in_evaluation_nothing_counts() -> None:
    code = """
    import torch
    def evaluate(loader):
        return sum(model(x).item() for x in loader)
    for epoch in range(3):
        for x in loader:
            model(x).backward(); optimizer.step()
        print(evaluate(val_loader), loss.item())
    """
    assert facts(scan(code))[READS] == 0


def test_an_evaluation_after_every_step_is_another_matter() -> None:
    evaluate = "def evaluate():\n    model.eval()\n    return [model(x).item() for x in val]\n"
    assert facts(looped(STEP + "evaluate()", before=evaluate))[READS] == 0


def test_the_places_are_shown() -> None:
    script = looped(STEP + "total += loss.item()\nprint(loss.item())")
    assert lines(script, READS) == [14, 15]


def test_what_imported_code_does_is_not_known() -> None:
    script = looped(STEP, before="from mine import helper\n")
    assert READS not in facts(script)
    assert facts(looped(STEP + "loss.item()", before="from mine import helper\n"))[READS] == 1


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("torch.cuda.synchronize()", "code.num_synchronize_in_step"),
        ("torch.accelerator.synchronize()", "code.num_synchronize_in_step"),
        ("torch.cuda.current_stream().synchronize()", "code.num_synchronize_in_step"),
        ("stream.synchronize()", "code.num_synchronize_in_step"),
        ("torch.cuda.empty_cache()", "code.num_empty_cache_in_step"),
        ("gc.collect()", "code.num_gc_in_step"),
    ],
)
def test_calls_in_every_step(body: str, name: str) -> None:
    before = "import gc, torch\nstream = torch.cuda.Stream()\n"
    assert facts(looped(STEP + body, before))[name] == 1
    assert facts(looped(STEP + f"if i % 10 == 0:\n    {body}", before))[name] == 0
    assert facts(looped(STEP + f"if args.profile:\n    {body}", before))[name] == 0


@pytest.mark.parametrize(
    "call", ["event.synchronize()", "workers.synchronize()", "synchronize()", "other.synchronize()"]
)
def test_only_what_waits_for_the_gpu_synchronizes(call: str) -> None:
    before = "import torch\nevent = torch.cuda.Event()\nworkers = Pool()\ndef synchronize():\n    pass\n"
    assert facts(looped(STEP + call, before))["code.num_synchronize_in_step"] == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = x.to(device)", 1),
        ("x, y = x.to(device), y.to(device)", 2),
        ("x = x.cuda()", 1),
        ("x = x.to('cuda:0')", 1),
        ("z = x['a'].float().to(device)", 1),
        ("b = {k: v.to(device) for k, v in x.items()}", 1),
        ("b = move(x)", 1),
        ("x = x.to(device, non_blocking=True)", 0),
        ("x = x.cuda(non_blocking=True)", 0),
        ("x = x.to(device, non_blocking=nb)", 0),
        ("x = x.to(torch.float16)", 0),
        ("x = x.to('cpu')", 0),
        ("model = model.to(device)", 0),
        ("x = x.to(accelerator.device)", 0),
    ],
)
def test_blocking_copies(body: str, expected: int) -> None:
    script = looped(f"{body}\n{TRAINS}", before="def move(batch):\n    return batch.to(device)\n")
    assert facts(script)["code.num_blocking_copies_in_step"] == expected


@pytest.mark.parametrize(
    ("name", "base", "is_step"),
    [
        ("training_step", "pl.LightningModule", True),
        ("compute_loss", "Trainer", True),
        ("compute_loss", "nn.Module", False),
        ("training_step", "object", False),
    ],
)
def test_hooks_of_frameworks_are_steps(name: str, base: str, is_step: bool) -> None:
    code = f"import torch\nclass M({base}):\n    def {name}(self, batch, i):\n        return self.loss(batch).item()\n"
    assert (READS in facts(scan(code))) is is_step


def test_a_loop_that_accumulates_has_its_outer_loop_in_the_step() -> None:
    code = """
    import torch
    while True:
        for micro in range(8):
            model(x).backward()
        optimizer.step()
        print(loss.item())
    """
    assert facts(scan(code))[READS] == 1


def test_a_function_called_in_a_loop_is_the_step() -> None:
    code = """
    import torch
    def step(batch):
        loss = model(batch)
        loss.backward()
        optimizer.step()
        return loss.item()
    for batch in loader:
        step(batch)
    """
    assert facts(scan(code))[READS] == 1


def test_a_backward_below_a_profiling_flag_trains_nothing() -> None:
    code = f"import torch\nif profile:\n    for x in loader:\n        {TRAINS}\n        loss.item()\n"
    assert facts(scan(code)) == {}


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("(y == 1).sum().item()", 0),
        ("(y * 2 > 0).float().mean().item()", 0),
        ("(y == z).sum().item()", 0),
        ("(pred == y).sum().item()", 1),
        ("(y.cuda() == 1).sum().item()", 1),
        ("(x == 1).sum().item()", 1),
    ],
)
def test_what_was_never_moved_is_read_from_the_host(read: str, expected: int) -> None:
    code = f"""
    import torch
    for x, y, z in loader:
        x = x.cuda()
        loss = criterion(model(x), y.cuda())
        loss.backward()
        optimizer.step()
        total += {read}
    """
    assert facts(scan(code))[READS] == expected


@pytest.mark.parametrize("guard", ["RANK in {-1, 0}", "rank in (-1, 0)", "RANK == 0", "is_main_process()"])
def test_what_one_process_does_is_done_in_every_step(guard: str) -> None:
    assert facts(looped(f"{STEP}if {guard}:\n    total += loss.item()"))[READS] == 1


@pytest.mark.parametrize(("attribute", "expected"), [("self.device = device", 1), ("pass", 0)])
def test_a_class_that_has_a_device_of_its_own_moves_its_batches(attribute: str, expected: int) -> None:
    code = f"""
    import torch
    class Own:
        def __init__(self, device):
            {attribute}
        def run(self):
            batches = iter(self.loader)
            while True:
                batch = next(batches)
                batch = [one.to(self.device) for one in batch]
                loss = self.model(*batch)
                loss.backward()
                self.optimizer.step()
    Own("cuda").run()
    """
    assert facts(scan(code))["code.num_blocking_copies_in_step"] == expected


def test_an_overridden_training_step_runs_in_every_step_and_on_a_gpu() -> None:
    code = """
    import gc
    import torch
    from transformers import Trainer
    class Own(Trainer):
        def training_step(self, model, inputs):
            gc.collect()
            torch.cuda.empty_cache()
            return super().training_step(model, inputs)
    """
    found = facts(scan(code))
    assert (found["code.num_gc_in_step"], found["code.num_empty_cache_in_step"]) == (1, 1)
    assert found["code.uses_cuda"] is True


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("a = loss.item()\nb = acc.item()\nloss.backward()\noptimizer.step()", 2),
        ("loss.backward()\noptimizer.step()\na = loss.item()", 0),
        ("loss.backward()\nlog(loss)\noptimizer.step()", 0),
    ],
)
def test_reads_before_backward_let_the_device_run_dry(body: str, number: int) -> None:
    script = looped("x = x.cuda()\nloss = criterion(model(x), y)\n" + body, before="def log(v):\n    print(v.item())\n")
    assert facts(script)["code.num_reads_before_backward"] == number


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("norm = sum(p.grad.norm().item() ** 2 for p in model.parameters())", 1),
        ("for name, p in model.named_parameters():\n    norms[name] = p.grad.norm().item()", 1),
        ("for name in names:\n    norms[name] = loss.item()", 0),
        ("if step % 100 == 0:\n    for p in model.parameters():\n        print(p.norm().item())", 0),
    ],
)
def test_reads_of_each_parameter(body: str, number: int) -> None:
    assert facts(looped(STEP + body))["code.num_parameter_reads_in_step"] == number


LIGHTNING = """
import lightning as L
class Model(L.LightningModule):
    def training_step(self, batch, i):
        loss = self.net(batch).mean()
        self.seen = loss.item()
        return loss
    def on_before_optimizer_step(self, optimizer):
        {condition}
            self.log("norm", sum(p.grad.norm().item() for p in self.parameters()))
L.Trainer().fit(Model(), loader)
"""


@pytest.mark.parametrize(("condition", "number"), [("if True:", 1), ("if self.global_step % 100 == 0:", 0)])
def test_reads_of_each_parameter_in_a_hook_of_lightning(condition: str, number: int) -> None:
    found = facts(scan(LIGHTNING.format(condition=condition)))
    assert found.get("code.num_parameter_reads_in_step", 0) == number


def test_a_framework_calls_backward_after_its_hook() -> None:
    assert facts(scan(LIGHTNING.format(condition="if True:")))["code.num_reads_before_backward"] == 1


@pytest.mark.parametrize(
    ("copy", "number"),
    [
        ("x.cuda(non_blocking=True)", 1),
        ("x.cuda()", 0),
        ("m.cuda(non_blocking=True)", 0),
        ("x.pin_memory().cuda(non_blocking=True)", 0),
        ('x.to("cpu", non_blocking=True)', 0),
    ],
)
def test_copies_that_ask_not_to_wait(copy: str, number: int) -> None:
    assert facts(looped(f"{copy}\n{STEP}"))["code.num_nonblocking_copies_in_step"] == number


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("loss = criterion(model(x), y)\nlog(loss.item())\nloss.backward()", 1),
        ("n = lengths.max().item()\nloss = criterion(model(x[:n]), y)\nloss.backward()", 0),
        ("n = mask.sum(1).max().item()\nloss = criterion(model(x[:n]), y)\nloss.backward()", 0),
        ("loss = criterion(model(x), y)\nloss.backward()\nlog(loss.item())", 0),
    ],
)
def test_a_size_that_is_read_before_backward_has_to_be(body: str, expected: int) -> None:
    script = looped(f"{body}\noptimizer.step()")
    assert facts(script)["code.num_reads_before_backward"] == expected


SKIPS_INSIDE = """
def sample(step):
    if step == 0:
        if not args.at_first:
            return
    else:
        if step % 100 != 0:
            return
    torch.cuda.empty_cache()
    print(loss.item())
"""


def test_a_helper_that_mostly_returns_within_a_condition() -> None:
    found = facts(looped(STEP + "sample(i)", before="import torch\n" + SKIPS_INSIDE))
    assert found["code.num_empty_cache_in_step"] == 0
    assert found[READS] == 0


@pytest.mark.parametrize(("before", "expected"), [("loss.backward()", 0), ("", 1)])
def test_reads_of_a_hook_that_has_a_backward_of_its_own(before: str, expected: int) -> None:
    code = f"""
    import torch
    class M(pl.LightningModule):
        def training_step(self, batch, i):
            loss = self.loss(batch)
            {before}
            return loss.item()
    """
    assert facts(scan(code))["code.num_reads_before_backward"] == expected
