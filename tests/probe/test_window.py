from __future__ import annotations

from types import SimpleNamespace

import pytest

from autotune.probe import window as windows

S = 1_000_000_000
REQUEST = {
    "warmup": None,
    "steps": None,
    "default_steps": 30,
    "min_s": 0.5,
    "multiple": 1,
    "after": 0,
    "time_limit_s": 180.0,
}


class Session:
    """What a StepWindow asks of its ProbeSession, and what it told it."""

    def __init__(self, loaders=()):
        self.loaders = [
            {"arguments": {"num_workers": workers, "prefetch_factor": factor}} for workers, factor in loaders
        ]
        self.recorder = SimpleNamespace(num_backwards=0, input_elements=0, mark=lambda: windows.clock.now())
        self.on_cuda = False
        self.told = []
        self.ranks = 1
        self.averaging = SimpleNamespace(on_backward=lambda moment: None)
        self.plan = SimpleNamespace(begin=lambda: self.told.append("plan"))

    def world_size(self):
        return self.ranks

    def trains_on_cuda(self):
        return self.on_cuda

    def on_window_start(self):
        self.told.append("start")

    def on_window_end(self):
        self.told.append("end")


@pytest.fixture
def clock(monkeypatch):
    fake = SimpleNamespace(ns=0)
    monkeypatch.setattr(windows.clock, "now", lambda: fake.ns)
    return fake


@pytest.fixture
def counted(clock):
    """counted(request fields, loaders=.., micros=1): a StepWindow, and `steps(n, seconds each)` moving the clock."""

    def make(loaders=(), micros=1, **fields):
        session = Session(loaders)
        window = windows.StepWindow({**REQUEST, **fields}, session)

        def steps(count, each=0.1):
            for _ in range(count):
                clock.ns += int(each * S)
                session.recorder.num_backwards += micros
                window.on_optimizer_step()

        return SimpleNamespace(window=window, session=session, steps=steps)

    return make


@pytest.mark.parametrize(
    ("loaders", "micros", "warmup"),
    [
        pytest.param((), 1, 3, id="no loader: the least"),
        pytest.param([(0, None)], 1, 3, id="no workers"),
        pytest.param([(1, 2)], 1, 3, id="2 batches ready: still the least"),
        pytest.param([(2, 2)], 1, 5, id="4 ready, one a step: 4 and one"),
        pytest.param([(4, 4)], 1, 17, id="16 ready"),
        pytest.param([(4, 4)], 4, 5, id="16 ready, 4 a step"),
        pytest.param([(4, 4)], 3, 7, id="16 ready, 3 a step: rounded up"),
        pytest.param([(2, 2), (3, 4), (0, None)], 1, 13, id="the largest of several loaders"),
    ],
)
def test_the_warm_up_outlasts_the_batches_that_workers_had_ready(counted, loaders, micros, warmup):
    run = counted(loaders, micros)
    run.steps(warmup - 1)
    assert run.window.start is None
    run.steps(1)
    assert run.window.warmup == warmup
    assert run.session.told == ["start"]


@pytest.mark.parametrize(("asked", "warmup"), [(1, 1), (7, 7), (0, 1)])
def test_an_asked_warm_up_is_taken_as_it_is(counted, asked, warmup):
    run = counted([(4, 4)], warmup=asked)
    run.steps(warmup)
    assert run.window.warmup == warmup


@pytest.mark.parametrize(("after", "warmup", "begins"), [(0, 2, 2), (10, 2, 12), (10, None, 13)])
def test_after_lets_steps_pass_before_the_warm_up(counted, after, warmup, begins):
    run = counted(after=after, warmup=warmup)
    run.steps(begins - 1)
    assert run.window.start is None
    run.steps(1)
    assert run.window.warmup == begins


@pytest.mark.parametrize("steps", [1, 5])
def test_asked_steps_are_exact_however_short(counted, steps):
    run = counted(steps=steps, warmup=2)
    run.steps(2 + steps - 1, each=1e-6)
    assert not run.window.is_over
    run.steps(1, each=1e-6)
    assert run.session.told == ["start", "end", "plan"]
    summary = run.window.summary(0)
    assert (summary["warmup_steps"], summary["steps"], summary["ended_by"]) == (2, steps, "steps")
    assert (summary["start_ns"], summary["end_ns"]) == (2000, (2 + steps) * 1000)
    assert summary["step_ends_ns"] == [1000 * (step + 1) for step in range(2 + steps)]


@pytest.mark.parametrize(
    ("each", "steps"),
    [
        pytest.param(1.0, 30, id="long steps: the default number"),
        pytest.param(0.0167, 30, id="just long enough"),
        pytest.param(0.01, 50, id="short steps: as many as fill the least time"),
        pytest.param(1e-4, 1000, id="very short: the most"),
    ],
)
def test_without_a_number_the_window_is_long_enough(counted, each, steps):
    run = counted(warmup=1)
    run.steps(steps, each)
    assert not run.window.is_over
    run.steps(1, each)
    assert run.window.summary(0)["steps"] == steps


def test_ranks_end_at_the_same_step_whatever_their_clocks_say(counted):
    run = counted(warmup=1)
    run.session.ranks = 2
    run.steps(31, each=1e-4)
    assert run.window.summary(0)["steps"] == 30


def used(monkeypatch, queued=5):
    """Counters that grow by 3, 4 and `queued` ns with each step."""
    fake = SimpleNamespace(steps=0)
    monkeypatch.setattr(windows.clock, "thread_cpu", lambda: 3 * fake.steps)
    monkeypatch.setattr(windows.clock, "process_cpu", lambda: 4 * fake.steps)
    monkeypatch.setattr(windows.clock, "queued", lambda: queued if queued is None else queued * fake.steps)
    return fake


@pytest.mark.parametrize(("queued", "waited"), [(5, 10), (None, None)])
def test_what_the_window_used_is_counted_from_its_start_to_its_end(counted, monkeypatch, queued, waited):
    fake, run = used(monkeypatch, queued), counted(steps=2, warmup=3)
    for fake.steps in range(1, 6):
        run.steps(1)
    fake.steps = 99
    summary = run.window.summary(0)
    assert summary["step_cpu_ns"] == [0, 3, 6, 9, 12]
    assert (summary["cpu_ns"], summary["process_cpu_ns"], summary["queued_ns"]) == (6, 8, waited)


def test_each_step_notes_what_it_used_and_was_given(counted, monkeypatch):
    fake, run = used(monkeypatch), counted(steps=2, warmup=1)
    monkeypatch.setattr(windows.describe, "used_bytes", lambda on_cuda: None if fake.steps == 2 else 1000 + fake.steps)
    for fake.steps, each in ((1, 1.0), (2, 1.0), (3, 0.020)):
        run.session.recorder.input_elements += 7
        run.steps(1, each)
    summary = run.window.summary(0)
    assert summary["step_process_cpu_ns"] == [0, 4, 8]
    assert summary["step_input_elements"] == [7, 14, 21]
    assert summary["memory_bytes"] == [(1, 1001), (3, 1003)]


def test_memory_is_not_read_in_every_short_step(counted):
    run = counted(steps=4, warmup=1)
    run.steps(5, each=0.008)
    assert [step for step, _ in run.window.summary(0)["memory_bytes"]] == [1, 4]


def test_with_many_readings_memory_is_read_less_often(counted):
    run = counted(steps=40, warmup=1)
    run.steps(41, each=0.04)
    assert [step for step, _ in run.window.summary(0)["memory_bytes"]] == [*range(1, 26), 28, 31, 34, 37, 40]


def test_where_the_script_ended_the_window_only_its_steps_are_known(counted, monkeypatch):
    fake, run = used(monkeypatch), counted(steps=9, warmup=1)
    for fake.steps in range(1, 4):
        run.steps(1)
    run.window.close(10, "script_ended")
    summary = run.window.summary(0)
    assert summary["step_cpu_ns"] == [0, 3, 6]
    assert (summary["cpu_ns"], summary["process_cpu_ns"], summary["queued_ns"]) == (None, None, None)


def test_steps_after_the_window_do_not_count(counted):
    run = counted(steps=3, warmup=1)
    run.steps(10)
    assert run.window.summary(0)["steps"] == 3
    assert len(run.window.step_ends) == 4
    assert run.session.told == ["start", "end", "plan"]


@pytest.mark.parametrize(
    ("made", "warmup", "steps"),
    [
        pytest.param(0, None, None, id="no step"),
        pytest.param(1, None, None, id="one step"),
        pytest.param(2, 1, 1, id="two: the second"),
        pytest.param(3, 1, 2, id="three: the last two"),
        pytest.param(5, 2, 3, id="a warm-up of 3 would leave less than it takes"),
        pytest.param(6, 3, 3, id="as many as the warm-up"),
        pytest.param(20, 3, 17, id="the asked warm-up stands"),
    ],
)
def test_a_script_that_ends_early_keeps_the_later_half_of_its_steps_at_least(counted, clock, made, warmup, steps):
    run = counted(warmup=3)
    run.steps(made)
    clock.ns += 5 * S
    run.window.close(clock.ns, "script_ended")
    summary = run.window.summary(0)
    if steps is None:
        assert summary is None
    else:
        assert (summary["warmup_steps"], summary["steps"]) == (warmup, steps)
        assert summary["start_ns"] == summary["step_ends_ns"][warmup - 1]
        assert summary["end_ns"] == summary["step_ends_ns"][-1], "what came after the last step is not of the window"
        assert summary["ended_by"] == "script_ended"


@pytest.mark.parametrize(
    ("made", "after", "warmup", "steps"),
    [
        pytest.param(1, 0, None, None, id="one step"),
        pytest.param(2, 0, 1, 1, id="two: the second"),
        pytest.param(3, 0, 1, 2, id="at the end of the warm-up"),
        pytest.param(4, 0, 3, 1, id="one step after the warm-up: that one"),
        pytest.param(5, 4, None, None, id="one step after those that were to pass"),
        pytest.param(6, 4, 5, 1, id="two: the second of them"),
    ],
)
def test_a_time_limit_leaves_what_came_after_the_warm_up_or_else_the_later_half(counted, made, after, warmup, steps):
    run = counted(multiple=None, loaders=((1, 2),), after=after)
    run.steps(made)
    run.window.close(run.window.step_ends[-1], "time_limit")
    summary = run.window.summary(0)
    assert run.window.is_over
    assert (summary and (summary["warmup_steps"], summary["steps"])) == (steps and (warmup, steps))


def test_steps_that_hardly_fit_into_the_limit_are_measured(counted):
    run = counted(multiple=None)
    run.steps(3, each=91)
    summary = run.window.summary(0)
    assert (summary["warmup_steps"], summary["steps"], summary["ended_by"]) == (1, 2, "time_limit")
    assert run.session.told == ["end", "plan"]


@pytest.mark.parametrize("asked", [{"warmup": 5}, {"multiple": 1, "warmup": None}])
def test_what_is_compared_is_not_measured_in_the_warm_up(counted, asked):
    run = counted(**{"multiple": None, "warmup": None, **asked})
    run.steps(3, each=91)
    assert run.window.is_over and run.window.summary(0) is None


@pytest.mark.parametrize(("late_s", "is_measured"), [(19, True), (21, False)])
def test_a_step_that_hangs_leaves_nothing_measured(counted, late_s, is_measured):
    run = counted(multiple=None, loaders=((4, 2),))
    run.steps(3, each=10)
    run.window.close(run.window.step_ends[-1] + late_s * S, "time_limit")
    assert (run.window.summary(0) is not None) is is_measured


def test_backwards_count_only_without_an_optimizer(counted):
    run = counted()
    run.window.on_backward(has_optimizer=True)
    assert run.window.step_ends == []
    run.window.on_backward(has_optimizer=False)
    assert (run.window.steps_by, len(run.window.step_ends)) == ("backward", 1)


def test_the_first_optimizer_step_forgets_counted_backwards(counted):
    run = counted()
    for _ in range(5):
        run.window.on_backward(has_optimizer=False)
    assert run.window.start is not None
    run.steps(1)
    assert (run.window.steps_by, len(run.window.step_ends), run.window.start) == ("optimizer", 1, None)
    run.window.on_backward(has_optimizer=False)
    assert len(run.window.step_ends) == 1


@pytest.mark.parametrize(("asked", "ms"), [(None, 100), (None, 1), (30, 100)])
def test_an_optimizer_is_waited_for_unless_a_number_of_steps_was_asked_for(counted, clock, asked, ms):
    """A script that computes importances of weights by gradients, before it makes its optimizer."""
    run = counted(steps=asked)
    for _ in range(windows.LEAST_WARMUP + 30):
        clock.ns += ms * S // 1000
        run.window.on_backward(has_optimizer=False)
    assert run.window.is_over is (asked is not None)
    while not run.window.is_over:
        clock.ns += ms * S // 1000
        run.window.on_backward(has_optimizer=False)
    assert asked or clock.ns >= windows.NO_OPTIMIZER_S * S


@pytest.mark.parametrize(("part", "seconds"), [(1.0, 10), (0.5, 20), (0.1, 30)])
def test_on_a_busy_machine_it_is_waited_for_longer(counted, clock, monkeypatch, part, seconds):
    """`part`: of a CPU, what the training thread gets."""
    monkeypatch.setattr(windows.clock, "thread_cpu", lambda: int(part * clock.ns))
    run = counted()
    while not run.window.is_over:
        clock.ns += S // 10
        run.window.on_backward(has_optimizer=False)
    start, end = run.window.span()
    assert (end - start) / S == pytest.approx(seconds, abs=3.2)


@pytest.mark.parametrize(
    ("compiled_at", "begins"),
    [
        pytest.param((1,), 3, id="compiled in the first step"),
        pytest.param((3,), 4, id="compiled where the warm-up would end"),
        pytest.param((3, 4, 5), 6, id="still compiling"),
        pytest.param(range(1, 40), windows.MOST_EXTRA_WARMUP, id="always compiling"),
    ],
)
def test_a_step_that_compiled_ends_no_warm_up(counted, monkeypatch, compiled_at, begins):
    stats = {"unique_graphs": 0}
    fake = SimpleNamespace(counters={"stats": stats})
    monkeypatch.setitem(windows.sys.modules, "torch._dynamo.utils", fake)
    run = counted()
    for step in range(1, begins + 1):
        assert run.window.start is None
        stats["unique_graphs"] += step in compiled_at
        run.steps(1)
    assert run.window.warmup == begins
    assert run.window.compiling_steps == len([step for step in compiled_at if step <= begins])


def test_steps_of_the_window_that_a_profiler_records_are_counted(counted):
    def note(*_):
        pass

    run = counted(steps=4, warmup=2)
    for profile in (note, note, None, note, note, None):
        windows.sys.setprofile(profile)
        run.steps(1)
    windows.sys.setprofile(None)
    assert run.window.is_over
    assert run.window.profiled_steps == 2


@pytest.mark.parametrize(
    ("compiled_at", "begins"),
    [((), 3), ((1,), windows.MOST_EXTRA_WARMUP), ((1, 3, 7), windows.MOST_EXTRA_WARMUP)],
    ids=["never", "once", "for each shape"],
)
def test_ranks_that_compile_begin_at_the_same_step(counted, monkeypatch, compiled_at, begins):
    stats = {"unique_graphs": 0}
    fake = SimpleNamespace(counters={"stats": stats})
    monkeypatch.setitem(windows.sys.modules, "torch._dynamo.utils", fake)
    run = counted()
    run.session.ranks = 2
    for step in range(1, begins + 1):
        stats["unique_graphs"] += step in compiled_at
        run.steps(1)
    assert run.window.warmup == begins


@pytest.mark.parametrize(("multiple", "each", "steps"), [(1, 0.1, 30), (24, 0.1, 48), (24, 0.005, 120), (45, 0.1, 45)])
def test_a_window_whose_length_is_chosen_holds_a_multiple(counted, multiple, each, steps):
    one = counted(multiple=multiple)
    one.steps(1000, each)
    assert one.window.summary(0)["steps"] == steps


def test_steps_that_are_asked_for_are_made_exactly(counted):
    one = counted(multiple=24, steps=30)
    one.steps(1000)
    assert one.window.summary(0)["steps"] == 30


def epochs(one, length, count, each=0.1, line=3):
    """As many epochs of that length, the first of which began before any step."""
    for _ in range(count):
        one.window.on_iterator({"file": "train.py", "line": line})
        one.steps(length, each)


@pytest.mark.parametrize(
    ("length", "each", "steps"),
    [(24, 0.1, 48), (24, 0.01, 72), (31, 0.1, 31), (60, 0.1, 30), (1, 0.1, 30)],
    ids=["two epochs", "as long as a window has to be", "one", "the second begins too late", "an iterator each step"],
)
def test_a_diagnosis_holds_whole_epochs_that_are_seen_to_be_short(counted, length, each, steps):
    one = counted(multiple=None)
    epochs(one, length, 200 // length, each)
    assert one.window.summary(0)["steps"] == steps


def test_longer_epochs_are_not_waited_for(counted):
    one = counted(multiple=None, default_steps=90)
    epochs(one, 60, 4)
    assert one.window.summary(0)["steps"] == 90


def test_epochs_whose_ends_do_not_come_are_waited_for_as_long_as_a_short_one_takes(counted):
    one = counted(multiple=None)
    epochs(one, 17, 2)
    one.steps(1000)
    assert one.window.summary(0)["steps"] == 34
    other = counted(multiple=None)
    for length in range(20, 1000, 7):
        epochs(other, length, 1)
    assert 30 <= other.window.summary(0)["steps"] <= 81


def test_a_loader_that_is_made_anew_for_each_epoch_is_one(counted):
    one = counted(multiple=None)
    for _ in range(5):
        epochs(one, 13, 1, line=9)
    assert one.window.summary(0)["steps"] == 39


def test_ranks_wait_for_no_epoch(counted):
    one = counted(multiple=None)
    one.session.ranks = 2
    epochs(one, 24, 5)
    assert one.window.summary(0)["steps"] == 30


def test_profiled_steps_of_a_short_script_are_those_of_its_late_window(counted):
    run = counted(warmup=10)
    windows.sys.setprofile(lambda *_: None)
    run.steps(6)
    windows.sys.setprofile(None)
    run.window.close(windows.clock.now(), "script_ended")
    assert run.window.profiled_steps == len(run.window.step_ends) - run.window.warmup > 0


def test_before_a_window_no_step_of_it_was_profiled(counted):
    assert counted().window.profiled_steps == 0


@pytest.mark.parametrize(("averages", "flag", "count"), [(True, 3, 4), (True, 1, 4), (False, 3, 0), (True, 2, 0)])
def test_backwards_after_which_ddp_averages_are_counted_in_the_window(counted, averages, flag, count):
    run = counted(steps=2, warmup=1)
    for _ in range(5):
        for _ in range(2):
            run.window.on_forward(SimpleNamespace(require_backward_grad_sync=averages), flag)
            run.window.on_forward(SimpleNamespace(require_backward_grad_sync=averages), flag)
            run.window.on_backward(has_optimizer=True)
        run.steps(1)
    assert run.window.averaged_backwards == count


def test_of_accumulated_micro_batches_only_the_last_is_averaged(counted):
    run = counted(steps=2, warmup=1)
    for _ in range(4):
        for is_last in (False, True):
            run.window.on_forward(SimpleNamespace(require_backward_grad_sync=is_last), 3)
            run.window.on_backward(has_optimizer=True)
        run.steps(1)
    assert run.window.averaged_backwards == 2


def test_other_models_average_nothing(counted):
    run = counted(steps=2, warmup=1)
    for _ in range(4):
        run.window.on_forward(SimpleNamespace(), 3)
        run.window.on_backward(has_optimizer=True)
        run.steps(1)
    assert run.window.averaged_backwards == 0


def test_on_cuda_the_edges_lie_where_the_device_has_done_what_was_queued(counted, clock, monkeypatch):
    """30 steps of 30 ms that the host queues in 0.3 ms take 900 ms and not 9."""
    made = counted(warmup=3, steps=30)
    made.session.on_cuda = True
    queued = []

    def drained(moment, *, on_cuda):
        clock.ns += int(0.03 * S) * (len(made.window.step_ends) - sum(queued))
        queued.append(len(made.window.step_ends) - sum(queued))
        return clock.ns if on_cuda else moment

    monkeypatch.setattr(windows.device_clock, "drained", drained)
    made.steps(33, each=0.0003)
    row = made.window.summary(0)
    assert queued == [3, 30]
    assert (row["end_ns"] - row["start_ns"]) / S == pytest.approx(30 * 0.0303)
    assert row["step_ends_ns"][2] == row["start_ns"]
    assert row["step_ends_ns"][-1] == row["end_ns"]
