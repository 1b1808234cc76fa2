"""benchmarks/accuracy/peer_edits.py: the documented lines stand where a README has them, seen by stubs of the tools."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from types import ModuleType

import pytest

RAW = '''
"""A loop of two epochs; `events` is given to it."""
from things import Model, Optimizer, Scheduler

def main():
    other = Model("other")
    model = Model("model")
    optimizer = Optimizer(model.parameters(), lr=0.1)
    scheduler = Scheduler(optimizer)
    for epoch in range(2):
        for batch in range(3):
            if batch == 1:
                note = """a text
of two lines"""
            other(batch)
            loss = model(batch)
            loss.backward()
            optimizer.step()
            model.save()
            scheduler.step()
    model.log("end")

main()
'''

TRAINER = """
from things import Trainer
Trainer("model", callbacks=["own"]).train()
Trainer("model").train()
"""


@pytest.fixture
def edits(imported):
    return imported("benchmarks.accuracy.peer_edits")


class Model:
    def __init__(self, name, events):
        self.name, self.events = name, events

    def parameters(self):
        return self

    def __call__(self, batch):
        self.events.append(f"forward {self.name}")
        return self

    def backward(self):
        self.events.append("backward")

    def save(self):
        self.events.append("save")

    def log(self, what):
        self.events.append(what)


class Optimizer:
    def __init__(self, parameters, lr=0.0):
        self.events, self.model = parameters.events, parameters

    def step(self):
        self.events.append("update")


class Scheduler:
    def __init__(self, optimizer):
        self.events = optimizer.events

    def step(self):
        self.events.append("schedule")


def module(name, **things):
    made = ModuleType(name)
    made.__dict__.update(things)
    return made


@pytest.fixture
def run(edits, monkeypatch):
    """Runs the edited script with stubs of everything; gives what happened, in order. `limit`: iterations in all."""

    def ran(peer, source=RAW, framework="raw", limit=100):
        events = []

        @contextmanager
        def within(name, what):
            events.append(f"enter {name} {what}")
            yield
            events.append(f"leave {name}")

        class AutoProfiler:
            def __init__(self, folder, model, optimizer, warmup):
                self.what = f"{model.name} {optimizer.model.name}"

            def start(self):
                events.append(f"start {self.what}")

            def finish(self):
                events.append("finish")

        class Trainer:
            def __init__(self, model, callbacks=()):
                events.append(list(callbacks))

            def train(self):
                pass

        asked = []

        def reached():
            asked.append(None)
            return len(asked) > limit

        stubs = {
            "things": module(
                "things",
                Model=lambda name: Model(name, events),
                Optimizer=Optimizer,
                Scheduler=Scheduler,
                Trainer=Trainer,
            ),
            "traceml_ai": module(
                "traceml_ai",
                init=lambda mode: events.append(f"init {mode}"),
                trace_step=lambda model: within("step", model.name),
            ),
            "gpuprof": module(
                "gpuprof",
                profile=lambda name: within("profile", name),
                HFTrainerCallback=lambda run_name: "gpuprof hf",
                LightningCallback=lambda run_name: "gpuprof lightning",
            ),
            "pytscope": module("pytscope"),
            "pytscope.auto": module("pytscope.auto", AutoProfiler=AutoProfiler),
            "pytscope.integrations": module("pytscope.integrations"),
            "pytscope.integrations.huggingface": module("hf", PytscopeCallback=lambda folder: "pytscope hf"),
            "pytscope.integrations.lightning": module(
                "lightning", PytscopeCallback=lambda folder: "pytscope lightning"
            ),
            "peer_limits": module(
                "peer_limits",
                reached=reached,
                is_over=lambda: len(asked) > limit,
                trainer_callback=lambda: "end hf",
                lightning_callback=lambda: "end lightning",
            ),
        }
        for name, stub in stubs.items():
            monkeypatch.setitem(sys.modules, name, stub)
        exec(compile(edits.edited(source, peer, framework), "script", "exec"), {"__name__": "__main__"})
        return events

    return ran


STEP = ["forward other", "forward model", "backward", "update", "save", "schedule"]


def test_each_body_stands_whole_in_a_step_of_the_trained_model(run):
    assert run("traceml") == ["init auto", *(["enter step model", *STEP, "leave step"] * 6), "end"]


def test_the_profile_stands_around_the_outermost_loop(run):
    assert run("gpuprof") == ["enter profile case", *(STEP * 6), "leave profile", "end"]


def test_the_profiler_gets_model_and_optimizer_and_is_finished_behind_the_loop(run):
    assert run("pytscope") == ["start model model", *(STEP * 6), "finish", "end"]


@pytest.mark.parametrize(
    ("peer", "before", "after"),
    [("gpuprof", "enter profile case", "leave profile"), ("pytscope", "start model model", "finish")],
)
def test_at_the_limit_all_loops_are_left_and_the_script_goes_to_its_end(run, peer, before, after):
    assert run(peer, limit=4) == [before, *(STEP * 4), after, "end"]


def test_a_trainer_gets_the_callback_and_then_the_end(run):
    assert run("gpuprof", TRAINER, "hf_trainer") == [["own", "gpuprof hf", "end hf"], ["gpuprof hf", "end hf"]]
    assert run("pytscope", TRAINER, "lightning")[1] == ["pytscope lightning", "end lightning"]


def test_what_needs_no_lines_in_a_trainer_gets_none(run):
    assert run("traceml", TRAINER, "lightning") == [["own", "end lightning"], ["end lightning"]]


@pytest.mark.parametrize(
    ("source", "framework", "why"),
    [
        ("import things\nthings.train()", "raw", "no loop with backward"),
        (
            RAW.replace("Optimizer(model.parameters(), lr=0.1)", "Optimizer(make(model))"),
            "raw",
            "no loop with backward",
        ),
        ("import things\nthings.train()", "hf_trainer", "no call that makes a trainer"),
    ],
)
def test_a_script_without_the_place_is_not_edited(edits, source, framework, why):
    with pytest.raises(edits.CannotEditError, match=why):
        edits.edited(source, "gpuprof", framework)


def test_a_loop_that_has_the_model_by_another_name_is_not_edited(edits):
    source = RAW.replace("def main():", "def main(opt, net):", 1)
    moved = source.replace('    model = Model("model")\n    optimizer = Optimizer(model.parameters(), lr=0.1)\n', "")
    made = (
        "\ndef make():\n    model = Model('m')\n    optimizer = Optimizer(model.parameters())\n    return optimizer\n"
    )
    with pytest.raises(edits.CannotEditError, match="another name"):
        edits.edited(moved.replace("\nmain()", made), "gpuprof", "raw")


NOT_FOLLOWED = ("encoder_in_no_optimizer", "healthy_encoder_of_a_second_optimizer")
"""Own scripts whose optimizers have the parameters of a part of the model: these edits do not follow them."""


def test_every_own_script_that_runs_can_be_edited(edits):
    cases = importlib.import_module("benchmarks.accuracy.cases")
    for case in cases.read().cases:
        # The blind sets' scripts hide their loops in ways that these edits do not follow: those are not run.
        if case.set_name == "own" and case.id not in NOT_FOLLOWED:
            source = cases.own_source(case).read_text(encoding="utf-8")
            for peer in edits.LINES:
                compile(edits.edited(source, peer, case.framework), case.id, "exec")
