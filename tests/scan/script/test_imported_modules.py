"""Modules that another script imports: their main guard is not run, and others call their functions."""

from __future__ import annotations

import pytest
from scanning import call_of, facts, scan

SELF_TEST = """
import torch
from torch.utils.data import DataLoader

def make_train_loader(workers, pin=False):
    return DataLoader(data, num_workers=workers, pin_memory=pin)

if __name__ == "__main__":
    torch.autograd.set_detect_anomaly(True)
    torch.backends.cudnn.deterministic = True
    for x in make_train_loader(0):
        loss = model(x.cuda())
        loss.backward()
        optimizer.step()
"""


def test_a_self_test_is_run_where_the_file_is_the_script() -> None:
    script = scan(SELF_TEST)
    assert call_of(script, "torch.autograd.set_detect_anomaly").arguments["mode"].value is True
    assert call_of(script, "DataLoader").arguments["num_workers"].value == 0
    assert script.trains
    assert facts(script)["code.is_deterministic"] is True


def test_the_self_test_of_a_module_is_not_run() -> None:
    module = scan(SELF_TEST, is_module=True)
    assert [call.name for call in module.calls] == ["DataLoader"]
    assert not module.trains
    assert not {"code.is_deterministic", "code.uses_cuda", "code.has_main_guard"} & facts(module).keys()


@pytest.mark.parametrize("name", ["num_workers", "pin_memory"])
def test_what_other_files_pass_to_a_module_is_not_known(name: str) -> None:
    assert not call_of(scan(SELF_TEST, is_module=True), "DataLoader").arguments[name].known


def test_the_hyperparameters_of_a_module_are_not_those_of_its_self_test() -> None:
    code = """
    import lightning as L
    from torch.utils.data import DataLoader
    class Data(L.LightningDataModule):
        def __init__(self, workers):
            self.save_hyperparameters()
        def train_dataloader(self):
            return DataLoader(data, num_workers=self.hparams.workers)
    if __name__ == "__main__":
        Data(0)
    """
    assert call_of(scan(code), "DataLoader").arguments["num_workers"].value == 0
    assert not call_of(scan(code, is_module=True), "DataLoader").arguments["num_workers"].known


@pytest.mark.parametrize("is_module", [False, True])
def test_a_loop_below_the_main_guard_is_none_of_the_module(is_module: bool) -> None:
    code = """
    import torch
    def step(x):
        loss = model(x)
        loss.backward()
        optimizer.step()
        return loss.item()
    if __name__ == "__main__":
        for x in loader:
            step(x)
    """
    assert scan(code, is_module=is_module).trains is not is_module


@pytest.mark.parametrize(("is_module", "parses"), [(False, ("TrainingArguments",)), (True, ())])
def test_a_parser_below_the_main_guard_parses_nothing_for_others(is_module: bool, parses: tuple[str, ...]) -> None:
    code = """
    from transformers import HfArgumentParser, Trainer, TrainingArguments
    class Own(TrainingArguments):
        pass
    if __name__ == "__main__":
        parser = HfArgumentParser(Own)
        Trainer(model).train()
    """
    script = scan(code, is_module=is_module)
    assert script.parses == parses
    assert script.trains is not is_module
    assert [call.name for call in script.calls] == ([] if is_module else ["Trainer", "TrainingArguments"])
