"""What a probed script sees and computes is what it sees and computes natively."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import jsonschema
import pytest

import autotune

pytestmark = pytest.mark.train
PACKAGE = Path(autotune.__file__).parent

LOOK = """
    import sys
    seen = sorted(sys.modules)
    import os
    print("LOOK", repr({
        "argv": sys.argv, "cwd": os.getcwd(), "name": __name__, "file": __file__, "path": sys.path,
        "flags": tuple(sys.flags), "modules": seen, "spec": __spec__,
        "excepthook": sys.excepthook is sys.__excepthook__,
    }))
"""

RAW = (
    LOOK
    + """
    import atexit
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def say(what):
        os.write(1, f"{what}\\n".encode())

    def main():
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(480, 4), torch.randn(480, 1))
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for x, y in DataLoader(data, batch_size=16, shuffle=True, num_workers=2):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            say(f"LOSS {loss.item().hex()}")
            optimizer.step()

    atexit.register(say, "ATEXIT")
    try:
        main()
    except BaseException:
        say("EXCEPT")
        raise
    finally:
        say("FINALLY")
    say("END")
"""
)

TRAINER = (
    LOOK
    + """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=1))
    ids = torch.randint(0, 50, (96, 8))
    data = [{"input_ids": row, "labels": row} for row in ids]

    class Shown(Trainer):
        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            print("LOSS", loss.item().hex(), flush=True)
            return loss

    arguments = TrainingArguments("out", per_device_train_batch_size=4, num_train_epochs=1, report_to=[],
                                  save_strategy="no", use_cpu=True, disable_tqdm=True, seed=1)
    Shown(model, arguments, train_dataset=data).train()
"""
)

LIGHTNING = (
    LOOK
    + """
    import logging, warnings
    warnings.simplefilter("ignore")
    import lightning, torch
    from torch.utils.data import DataLoader, TensorDataset

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))

        def training_step(self, batch):
            loss = self.layers(batch[0]).square().mean()
            print("LOSS", loss.item().hex(), flush=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.seed_everything(0)
    loader = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=4, shuffle=True)
    lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                      enable_model_summary=False, accelerator="cpu").fit(Model(), loader)
"""
)

SCRIPTS = {"raw": RAW, "trainer": TRAINER, "lightning": LIGHTNING}
STEPS = {"raw": 30, "trainer": 24, "lightning": 24}
"""Of the whole script."""


def losses(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("LOSS")]


def look(text):
    (line,) = [line for line in text.splitlines() if line.startswith("LOOK")]
    return ast.literal_eval(line.removeprefix("LOOK "))


@pytest.fixture(scope="module", params=list(SCRIPTS))
def both(request, place_in, tmp_path_factory):
    """(name, output of the native run, the measurement) of one script in one folder."""
    place = place_in(tmp_path_factory.mktemp(request.param))
    place.write("train.py", SCRIPTS[request.param])
    words = ("train.py", "--lr", "1e-4", "a b")
    native = place.natively(sys.executable, *words)
    measured = place.measure(*words, what_ifs=request.param == "raw")
    out = native.communicate()[0]
    assert native.returncode == 0
    return request.param, out, measured


def test_losses_are_bit_identical(both):
    name, native, measured = both
    window = measured.recording.window
    steps = window.warmup_steps + window.steps
    assert len(losses(native)) == STEPS[name]
    assert losses(measured.out)[:steps] == losses(native)[:steps]
    assert len(set(losses(native)[:steps])) == steps


def test_the_script_starts_in_its_own_world(both):
    _, native, measured = both
    before, after = look(native), look(measured.out)
    more = set(after.pop("modules")) ^ set(before.pop("modules"))
    assert after == before
    # Built-in modules shadow no file of the user's.
    ours = {name for name in more if name.partition(".")[0] != "_autotune_probe"}
    assert ours <= set(sys.builtin_module_names)


def test_the_window_is_as_asked_and_the_probe_ended_it(both):
    _, _, measured = both
    one, collected = measured.recording, measured.collected
    assert (one.outcome, one.window.warmup_steps, one.window.steps, one.window.ended_by) == ("completed", 2, 6, "steps")
    assert collected.ended_by == "probe"
    assert 0 < collected.startup_s <= collected.wall_s


def test_the_files_are_as_their_schemas_say(both):
    _, _, measured = both
    folder = measured.collected.folder
    (path,) = folder.glob("recording-*.json")
    for file, schema in ((path, "model/recording"), (folder / "request.json", "collect/request")):
        jsonschema.validate(json.loads(file.read_text()), json.loads((PACKAGE / f"{schema}.schema.json").read_text()))


@pytest.mark.parametrize("both", ["raw"], indirect=True)
def test_after_the_window_nothing_of_the_script_runs(both):
    _, native, measured = both
    marks = ("ATEXIT", "EXCEPT", "FINALLY", "END")
    assert [mark for mark in marks if mark in native] == ["ATEXIT", "FINALLY", "END"]
    assert [mark for mark in marks if mark in measured.out] == []


@pytest.mark.parametrize("both", ["raw"], indirect=True)
def test_workers_report_what_a_batch_cost_them(both):
    _, _, measured = both
    one = measured.recording
    pids = {fetch.pid for fetch in one.fetches if not fetch.in_main}
    assert len(pids) >= 2
    assert one.process["pid"] not in pids
    assert {fetch.loader for fetch in one.fetches} == {0}
    assert all(fetch.num_samples == 16 for fetch in one.fetches)


@pytest.mark.parametrize("both", ["raw"], indirect=True)
def test_what_ifs_run_in_a_script_with_workers(both):
    _, _, measured = both
    what_ifs = {(row.name, row.arguments.get("factor"), row.outcome) for row in measured.recording.what_ifs}
    assert {("replay", None, "completed"), ("serialise", None, "completed")} <= what_ifs
    assert {("micro_batch", 1, "completed"), ("micro_batch", 2, "completed")} <= what_ifs


SHADOWING = """
    import json, queue, calendar, sys
    print([module.MINE for module in (json, queue, calendar)], builtins_mark, sys.modules["sitecustomize"].__file__)
    for name in ("json", "queue", "calendar"):
        del sys.modules[name]
    del sys.path[0]
    import torch
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
"""


def test_the_users_own_modules_and_sitecustomize_win(place):
    place.write("train.py", SHADOWING)
    for name in ("json", "queue", "calendar"):
        place.write(f"{name}.py", f"MINE = 'my {name}'\n")
    (place.cwd / "site").mkdir()
    place.write("site/sitecustomize.py", "import builtins\nbuiltins.builtins_mark = 'mine'\n")
    environ = {"PYTHONPATH": str(place.cwd / "site")}
    native = place.natively(sys.executable, "train.py", environ=environ)
    measured = place.measure("train.py", environ=environ)
    assert native.communicate()[0] == measured.out
    assert measured.out.startswith("['my json', 'my queue', 'my calendar'] mine ")
    assert measured.recording.outcome == "completed"


COMPILED = """
    import torch
    from torch._dynamo.utils import counters

    graphs = []

    def backend(graph, inputs):
        graphs.append(len(list(graph.graph.nodes)))
        return graph.forward

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))

        def forward(self, x):
            return self.layers(x).sum()

    torch.manual_seed(0)
    model = torch.compile(Model(), backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(30):
        loss = model(torch.ones(2, 4))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item().hex(), graphs, dict(counters["graph_break"]), flush=True)
"""


def test_compile_sees_no_other_graphs(place):
    place.write("train.py", COMPILED)
    native = place.natively(sys.executable, "train.py")
    measured = place.measure("train.py")
    lines = measured.out.splitlines()
    assert lines == native.communicate()[0].splitlines()[: len(lines)]
    assert len(lines) >= 7
    assert "{}" in lines[-1], "no graph break"
    row = measured.recording.compile
    assert (row["graph_breaks"], row["recompiles_at_start"], row["recompiles_at_end"]) == (0, 1, 1)
    assert measured.recording.models[0]["compiled"] is True
    assert measured.recording.models[0]["type"] == "Model"
