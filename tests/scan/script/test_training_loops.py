from __future__ import annotations

import pytest
from scanning import facts, scan

READS = "code.num_scalar_reads_in_step"

IN_A_LOOP = "import torch\nfor epoch in range(3):\n    for x in loader:\n"


def in_a_loop(body: str, before: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in (*body.splitlines(), "print(loss.item())"))
    return f"{before}{IN_A_LOOP}{lines}"


@pytest.mark.parametrize(
    "body",
    [
        "loss.backward()\nsgd.step()",
        "loss.backward()\nengine.step()",
        "loss.backward()\nxm.optimizer_step(optimizer)",
        "loss.backward()\nupdate_weights(model)",
        "loss.backward()\nfor p in ps:\n    p.data -= lr * p.grad.data",
        "loss.backward()\nfor p in ps:\n    p.data.add_(p.grad, alpha=-lr)",
        "finish(loss)",
        "loss_scaler(loss, optimizer, parameters=model.parameters())",
        "self.loss_scaler(loss / 4, opt)",
        "train_on(loss, optimizer)",
        "loss.backward()\napply(optim)",
        "optimizer.zero_grad()\nmodel.accumulate(x)\noptimizer.step()",
    ],
)
def test_a_loop_that_changes_parameters_trains(body: str) -> None:
    code = in_a_loop(body, "def finish(loss):\n    loss.backward()\n    optimizer.step()\n")
    assert facts(scan(code))[READS] == 1


@pytest.mark.parametrize(
    "body",
    [
        "loss.backward()",
        "loss.backward()\nscheduler.step()\nprof.step()\nbar.step()",
        "loss.backward()\nx.grad = None\nassert y.grad is not None",
        "loss.backward()\nsave(loss, optimizer)",
        "save_checkpoint(loss, optimizer)",
        "train_on(x, optimizer)",
        "scaler(x)",
        "optimizer.zero_grad()",
        "optimizer.step()",
        "a_opt.zero_grad()\nb_opt.step()",
        "loss.backward()\ntorch.cuda.empty_cache()\noptimal = min(optimal, limit)",  # a probe of batch sizes
        "if args.profile:\n    loss_scaler(loss, optimizer)",
    ],
)
def test_a_loop_that_changes_none_measures_something(body: str) -> None:
    script = scan(in_a_loop(body))
    assert not script.trains
    assert READS not in facts(script)


def test_an_update_elsewhere_makes_no_loop_a_training_loop() -> None:
    code = in_a_loop("loss.backward()") + "\ndef train():\n    for x in loader:\n        optimizer.step()\n"
    assert READS not in facts(scan(code))


def test_a_loss_that_a_range_hands_on_is_no_micro_batch() -> None:
    assert not scan("import torch\nfor i in range(3):\n    loss_scaler(loss, optimizer)\n").trains
