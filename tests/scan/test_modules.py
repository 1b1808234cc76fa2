"""What a script and its own modules say together, on small projects that are written for it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autotune.model.evidence import Fact
from autotune.model.scanned import Bundle
from autotune.scan import scan

MAIN = """
    import torch
    from torch.utils.data import DataLoader
    {imports}

    def main():
        first = DataLoader(held_out, batch_size=2)
        second = DataLoader(rows, batch_size=4)
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(3):
            {call}

    if __name__ == "__main__":
        main()
"""

ENGINE = """
    import torch

    def train_one_epoch(model, loader, optimizer):
        for x in loader:
            loss = model(x.to("cuda")).sum()
            loss.backward()
            optimizer.step()
            print(loss.item())

    def evaluate(model, loader):
        return [model(x).item() for x in loader]
"""

CALL = "train_one_epoch(model, second, optimizer)"


def project(root: Path, **files: str) -> tuple[Bundle, ...]:
    for name, text in files.items():
        path = root / (name.replace("__", "/").removesuffix("_py") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return scan([root], root=root).bundles


def fact(bundle: Bundle, name: str, subject: str = "run") -> Fact | None:
    return next((one for one in bundle.facts if (one.name, one.subject) == (name, subject)), None)


@pytest.mark.parametrize(
    ("imports", "call", "module"),
    [
        ("from engine import train_one_epoch", CALL, "engine_py"),
        ("from engine import *", CALL, "engine_py"),
        ("import engine", f"engine.{CALL}", "engine_py"),
        ("from src.engine import train_one_epoch as run", CALL.replace("train_one_epoch", "run"), "src__engine_py"),
        ("from src import engine", f"engine.{CALL}", "src__engine_py"),
        ("from .engine import train_one_epoch", CALL, "engine_py"),
        ("from . import engine", f"engine.{CALL}", "engine_py"),
        ("import engine", "engine.train_one_epoch(model, loader=second, optimizer=optimizer)", "engine_py"),
    ],
)
def test_a_script_that_calls_the_loop_of_a_module_is_the_bundle(
    tmp_path: Path, imports: str, call: str, module: str
) -> None:
    (bundle,) = project(tmp_path, main_py=MAIN.format(imports=imports, call=call), **{module: ENGINE})
    engine = module.replace("__", "/").removesuffix("_py") + ".py"
    assert (bundle.name, bundle.files) == ("main.py", ("main.py", engine))
    reads = fact(bundle, "code.num_scalar_reads_in_step")
    assert reads is not None
    assert [(place.file, place.line) for place in reads.places] == [(engine, 9)]
    sizes = {one.subject: one.value for one in bundle.settings if one.name == "loader.batch_size"}
    assert sizes["loader#train"] == 4
    again = fact(bundle, "loader.is_iterated_again", "loader#train")
    assert again is not None
    assert again.value is True


def test_a_script_that_only_evaluates_is_none(tmp_path: Path) -> None:
    main = MAIN.format(imports="from engine import evaluate", call="evaluate(model, first)")
    assert [bundle.name for bundle in project(tmp_path, main_py=main, engine_py=ENGINE)] == ["engine.py"]


TRAINER = """
    import torch

    class Solver:
        def __init__(self, model, loader):
            self.model, self.loader = model, loader

        def run(self):
            for x in self.loader:
                self.model(x).backward()
                self.optimizer.step()
"""


@pytest.mark.parametrize(("method", "names"), [("run", ["main.py"]), ("test", ["solver.py"])])
def test_a_class_trains_where_its_method_is_called(tmp_path: Path, method: str, names: list[str]) -> None:
    main = MAIN.format(imports="from solver import Solver", call=f"Solver(model, loader=second).{method}()")
    bundles = project(tmp_path, main_py=main, solver_py=TRAINER)
    assert [bundle.name for bundle in bundles] == names


TRAIN = """
    import torch
    def train(model, loader):
        {before}
        optimizer = torch.optim.SGD(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            scaler.scale(model(x)).backward()
            {step}
"""
CLIPPED = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1); scaler.step(optimizer); scaler.update()"


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("scaler.step(optimizer)", "code.scaler_lacks_update"),
        (CLIPPED, "run.clips_scaled_gradients"),
        (CLIPPED, "run.grad_scaler"),
    ],
)
@pytest.mark.parametrize("is_called", [True, False])
def test_what_a_called_function_of_a_module_does_counts(tmp_path: Path, step: str, name: str, is_called: bool) -> None:
    call = "engine.train(model, second)" if is_called else "print(engine)"
    main = MAIN.format(imports="import engine", call=call)
    (bundle,) = project(tmp_path, main_py=main, engine_py=TRAIN.format(before="", step=step))
    found = fact(bundle, name)
    assert (found is not None and found.value) is is_called


@pytest.mark.parametrize("guard", ["", "if args.debug: "])
def test_a_switch_in_a_function_that_is_called_is_set(tmp_path: Path, guard: str) -> None:
    engine = TRAIN.format(before="torch.autograd.set_detect_anomaly(True)", step="scaler.step(optimizer)")
    main = MAIN.format(imports="import engine", call=f"{guard}engine.train(model, second)")
    (bundle,) = project(tmp_path, main_py="import args\n" + textwrap.dedent(main), engine_py=engine)
    values = [one.value for one in bundle.settings if one.name == "train.anomaly_detection"]
    assert values == ([True] if not guard else [])


def test_a_module_does_not_say_that_nothing_casts(tmp_path: Path) -> None:
    main = MAIN.format(imports="from engine import train_one_epoch", call=f"with torch.autocast('cuda'): {CALL}")
    (bundle,) = project(tmp_path, main_py=main, engine_py=ENGINE)
    assert fact(bundle, "run.autocast") is None


STARTS = ("main()\n", "if __name__ == '__main__':\n    main()\n")


@pytest.mark.parametrize(("end", "is_followed"), [("", False), *((end, True) for end in STARTS)])
def test_values_of_other_files_are_followed_from_where_a_run_starts(
    tmp_path: Path, end: str, is_followed: bool
) -> None:
    script = """
        import torch
        from torch.utils.data import DataLoader
        from sizes import WORKERS

        def main():
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(rows, batch_size=4, num_workers=WORKERS):
                model(x).sum().backward()
                optimizer.step()

    """
    (tmp_path / "train.py").write_text(textwrap.dedent(script) + end)
    (tmp_path / "sizes.py").write_text("WORKERS = 3\n")
    (found,) = scan([tmp_path], root=tmp_path).bundles
    values = [one.value for one in found.settings if one.name == "loader.num_workers"]
    assert (3 in values) is is_followed


OWN_LOADER = """
from torch.utils.data import DataLoader
from files import Files
from net import model
{loader}
for x in loader:
    model(x).backward()
    optimizer.step()
"""

OTHER_LOADER = """
from PIL import Image
from torch.utils.data import DataLoader
class Files:
    def __getitem__(self, i):
        return Image.open(self.names[i])
def batches():
    loader = DataLoader(Files(), num_workers=4, shuffle=True)
    for x in loader:
        loss(x).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loader", "decodes"),
    [("loader = DataLoader(rows, num_workers=0)", None), ("loader = DataLoader(Files(), num_workers=0)", True)],
)
def test_what_is_known_of_another_files_loader_says_nothing_of_the_scripts(
    tmp_path: Path, loader: str, decodes: bool | None
) -> None:
    (tmp_path / "train.py").write_text(OWN_LOADER.format(loader=loader))
    (tmp_path / "files.py").write_text(OTHER_LOADER)
    (tmp_path / "net.py").write_text("model = make()\n")
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py"]
    assert {one.name: one.value for one in bundle.facts}.get("loader.decodes_files") is decodes
    assert {one.name: one.value for one in bundle.settings}["loader.num_workers"] == 0
