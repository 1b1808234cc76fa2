"""Progress lines as tools print them, and lines made by rule: what was written is read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.model.outlook import ProgressLine
from autotune.predict.progress_line import clock_s, progress

LINES = {
    "12%|#| 1200/10000 [46:47<5:42:11, 2.33s/it]": ProgressLine(1200, 10000, 2.33),
    " 12%|#1        | 1,200/10,000 [46:47<5:42:11,  2.33s/it, loss=1.2, step=7]": ProgressLine(1200, 10000, 2.33),
    "[47/3558 00:38<46:47, 1.25it/s]": ProgressLine(47, 3558, 0.8),
    "[47/3558 00:38 < 46:47, 1.25 it/s, Epoch 0.04/3]": ProgressLine(47, 3558, 0.8),
    "Epoch 3:  45%|####     | 450/1000 [00:20<00:25, 21.8it/s, v_num=1]": ProgressLine(450, 1000, 1 / 21.8, epoch=3),
    "Epoch 3/9 ━━━━ 450/1000 0:00:20 • 0:00:25 21.80it/s v_num: 1.000": ProgressLine(450, 1000, 1 / 21.8, epoch=3),
    "\x1b[32mEpoch 1/3:\x1b[0m 5%| | 5/100 [00:10<03:10, 2.00s/it]": ProgressLine(5, 100, 2.0, epoch=1),
    " 10/100 [00:10<01:30, 1.00it/s]\r 11/100 [00:11<01:29, 1.00it/s]": ProgressLine(11, 100, 1.0),
    "  0%|          | 0/1000 [00:00<?, ?it/s]": ProgressLine(0, 1000),
    "1200it [46:47, 2.33s/it]": ProgressLine(1200, None, 2.33),
    "1.20k/10.0k [46:47<5:42:11, 2.33s/it]": ProgressLine(1200, 10000, 2.33),
    "60%|######    | 6/10 [1:00:00<40:00, 600.00s/it]": ProgressLine(6, 10, 600.0),
    "5/10 [1 day, 2:00:00<1d 2:00:00, 18720s/it]": ProgressLine(5, 10, 18720.0),
    "step 1200/50000": ProgressLine(1200, 50000),
    "Step: 1,200 of 50,000": ProgressLine(1200, 50000),
    "2026/11/21 12:00:00 INFO step 5/50 loss 3.2": ProgressLine(5, 50),
    "iteration      100/    1000 | elapsed time per iteration (ms): 120.0": ProgressLine(100, 1000),
    "iter 1200: loss 2.1043, time 83.12ms, mfu 2.11%": ProgressLine(1200),
    "{'global_step': 300, 'loss': 1.25}": ProgressLine(300),
    "1200/50000": ProgressLine(1200, 50000),
    "1_200": ProgressLine(1200),
    "{'loss': 1.2, 'grad_norm': 0.3, 'learning_rate': 2e-5, 'epoch': 0.12}": ProgressLine(epochs_done=0.12),
}


TRAINING = "  4%|4 | 200/5000 [03:20<1:20:00,  1.00s/it]"
SEVERAL = {
    "step=1200 loss=2.3 max_steps=50000": ProgressLine(1200),
    "step: 1200 | total_steps: 50000 | loss 2.3": ProgressLine(1200),
    "step 3 (warmup_steps: 100)": ProgressLine(3),
    "step 3 of --max-steps 100": ProgressLine(3),
    "iteration 7, gradient accumulation steps = 4, total steps: 9, Total optimization steps = 50,000": ProgressLine(7),
    "current_step=12, eval_steps=500": ProgressLine(12),
    "loss=2.3, num_updates=1200": ProgressLine(1200),
    "{'loss': 2.1, 'epoch': 0.1}\n{'loss': 2.0, 'epoch': 0.2}": ProgressLine(epochs_done=0.2),
    "{'loss': '2.1', 'epoch': '0.98'}\n{'loss': '2.0', 'epoch': '1'}": ProgressLine(epochs_done=1.0),
    "  0%|   | 0/1000 [00:00<?, ?it/s]\n 40%|#  | 20/50 [00:02<00:03, 10.0it/s]": ProgressLine(0, 1000),
    f"{TRAINING}\n100%|###| 50/50 [00:05<00:00,  9.9it/s]": ProgressLine(200, 5000, 1.0),
    f"{TRAINING}\n 40%|#  | 20/50 [00:02<00:03, 10.0it/s]": ProgressLine(200, 5000, 1.0),
    f"{TRAINING}\n 50%|## | 4000/8000 [00:40<00:40, 100it/s]\r100%|###| 8000/8000 [01:20<00:00, 100it/s]": ProgressLine(
        200, 5000, 1.0
    ),
    "Epoch 1: 980/980 [01:38<00:00, 10.0it/s] Epoch 2: 100/970 [00:10<01:27, 10.0it/s]": ProgressLine(
        100, 970, 0.1, epoch=2
    ),
    "Epoch 1: 9/9 [00:09<00:00, 1.0it/s] Epoch 2: 1/9 [00:01<00:08, 1.0it/s]": ProgressLine(1, 9, 1.0, epoch=2),
    "Epochs: 1/3 [10:00<20:00, 600s/it] Epoch 2: 20/50 [00:20<00:30, 1.0it/s]": ProgressLine(20, 50, 1.0, epoch=2),
    "1000/1000 [16:40<00:00, 1.0s/it] 50/50 [00:05<00:00, 10.0it/s]": ProgressLine(1000, 1000, 1.0),
}


@pytest.mark.parametrize("text", SEVERAL)
def test_of_several_numbers_the_position_is_read(text: str) -> None:
    assert progress(text) == SEVERAL[text]


@pytest.mark.parametrize("line", LINES)
def test_lines_as_tools_print_them(line: str) -> None:
    assert progress(line) == LINES[line]


def test_minutes_and_seconds_are_no_hours() -> None:
    """The bar that was once read as "47 hours to go": 3,511 steps at 1.25 a second are 46 min 49 s."""
    read = progress("[47/3558 00:38<46:47, 1.25it/s]")
    assert clock_s("46:47") == 46 * 60 + 47
    assert read.adds_up and read.total and read.step and read.step_s
    assert (read.total - read.step) * read.step_s == pytest.approx(2809, abs=1)


def test_a_line_whose_numbers_contradict_each_other_is_told() -> None:
    assert not progress("[150/3558 00:05<02:15, 3.50it/s]").adds_up


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "",
        "12/10",
        "1/0",
        "1.200/50.000",
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3",
        "2026/11/21",
        "loss 3.25",
        "epoch 3",
        "footsteps: many",
        "max_steps=50000",
        "Total optimization steps = 50,000",
    ],
)
def test_what_tells_no_step_is_refused(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        progress(line)
    assert caught.value.where == "--at"
    assert "step 1200/50000" in caught.value.to_do


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:38", 38), ("46:47", 2807), ("5:42:11", 20531), ("30:00:00", 108000), ("2d 1:00", 172860)]
)
def test_clocks(text: str, seconds: int) -> None:
    assert clock_s(text) == seconds


def shown(seconds: float) -> str:
    """As tqdm prints it (std.py, format_interval)."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:d}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


def bar(step: int, total: int, step_s: float) -> str:
    """As tqdm prints it (std.py, format_meter)."""
    rate = f"{1 / step_s:5.2f}it/s" if step_s < 1 else f"{step_s:5.2f}s/it"
    left = shown((total - step) * step_s)
    return f"{step / total:3.0%}|{'█' * 3}   | {step}/{total} [{shown(step * step_s)}<{left}, {rate}]"


STEP_S = st.floats(min_value=0.002, max_value=5000)


@given(st.integers(1, 10**7), st.integers(0, 10**7), STEP_S)
def test_a_bar_of_tqdm_is_read_as_it_was_written(step: int, more: int, step_s: float) -> None:
    read = progress(bar(step, step + more, step_s))
    assert (read.step, read.total, read.epoch) == (step, step + more, None)
    assert read.step_s == pytest.approx(step_s, rel=0.03 if step_s < 1 else 0.006)
    assert read.adds_up


@given(st.integers(1, 10**7), st.integers(100, 10**7), st.floats(1, 50), st.sampled_from([0.3, 0.8, 1.25, 60.0]))
def test_a_bar_with_another_rate_does_not_add_up(step: int, more: int, step_s: float, wrong: float) -> None:
    head, _, _ = bar(step, step + more, step_s).rpartition(",")
    assert not progress(f"{head}, {step_s * wrong:.4f}s/it]").adds_up


@given(
    st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from(["step", "Step:", "iter", "global_step=", "steps"])
)
def test_a_named_step_is_read_as_it_was_written(step: int, more: int, name: str) -> None:
    total = step + more + 1
    assert progress(f"{name} {step}/{total}") == ProgressLine(step, total)
    assert progress(f"[INFO] {name} {step:,} of {total:,}, loss 3.25") == ProgressLine(step, total)


@given(st.text(max_size=80) | st.text(alphabet="0123456789/:[]<,.ksit %|ep", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = progress(text)
    except UsageError:
        return
    assert read.step is not None or read.epochs_done is not None
    assert read.total is None or (read.step is not None and 0 <= read.step <= read.total and read.total > 0)
    assert read.step_s is None or read.step_s > 0
