from __future__ import annotations

import subprocess

import pytest
from edit_builders import NAMES, changed
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.model.source import Scalar, ShellCommand, ShellWord
from autotune.syntax import edit_shell, shell


def commands(data: bytes) -> tuple[ShellCommand, ...]:
    return shell.read(data, "file").commands


def word(data: bytes, value: str) -> ShellWord:
    return next(one for command in commands(data) for one in command.words if one.value == value)


def replaced(text: str, old: str, value: Scalar, *, takes_value: bool = False) -> str:
    data = text.encode()
    return changed(data, edit_shell.replaced(word(data, old), value, takes_value=takes_value)).decode()


def added(text: str, flag: str, value: Scalar, number: int = 0) -> str:
    data = text.encode()
    return changed(data, edit_shell.flag(data, commands(data)[number], flag, value)).decode()


@pytest.mark.parametrize(
    ("text", "old", "value", "expected"),
    [
        ("t --bs 8 # x\n", "8", 16, "t --bs 16 # x\n"),
        ("t --lr 1e-4", "1e-4", 3e-4, "t --lr 3e-4"),
        ("t --lr 0.0001", "0.0001", 3e-4, "t --lr 0.0003"),
        ("t --wd 0.", "0.", 0.0, "t --wd 0."),
        ('t --p "fp16"', "fp16", "bf16", 't --p "bf16"'),
        ("t --p 'fp16'", "fp16", "a b", "t --p 'a b'"),
        ("t --bs=8", "--bs=8", 16, "t --bs=16"),
        ('t --p="fp16"', "--p=fp16", "bf16", 't --p="bf16"'),
        ('t "--p=fp16"', "--p=fp16", "bf16", 't "--p=bf16"'),
        ("t data.bs=8", "data.bs=8", 16, "t data.bs=16"),
        ("t +a.fast=true", "+a.fast=true", False, "t +a.fast=false"),
        ("t --bf16 True", "True", False, "t --bf16 False"),
        ("t --bf16 yes", "yes", False, "t --bf16 no"),
        ("t --bf16 1", "1", False, "t --bf16 0"),
        ("BS=8\nt --bs $BS\n", "8", 16, "BS=16\nt --bs $BS\n"),
        ('BS="8"\nt --bs "${BS}"\n', "8", 16, 'BS="16"\nt --bs "${BS}"\n'),
        ("t --bs ${BS:-8}\n", "8", 16, "t --bs ${BS:-16}\n"),
        ("BS=8\nt --bs=$BS\n", "--bs=8", 16, "BS=8\nt --bs=16\n"),
        ("A=(--bs 8)\nt ${A[@]}\n", "8", 16, "A=(--bs 16)\nt ${A[@]}\n"),
    ],
)
def test_a_word_is_written_in_the_style_of_the_old(text: str, old: str, value: Scalar, expected: str) -> None:
    assert replaced(text, old, value) == expected


def test_an_exported_variable_is_replaced() -> None:
    data = b'export N="4" # x\nt\n'
    ((_, found),) = commands(data)[-1].variables
    assert changed(data, edit_shell.replaced(found, 8)) == b'export N="8" # x\nt\n'


def test_a_flag_without_a_value_gets_one_where_the_script_takes_it() -> None:
    assert replaced("t --bf16 --x", "--bf16", False, takes_value=True) == "t --bf16 False --x"
    assert replaced("t --bf16 --x", "--bf16", True) == "t --bf16 --x"
    with pytest.raises(UsageError, match="take it away"):
        replaced("t --bf16 --x", "--bf16", False)


@pytest.mark.parametrize(("text", "value"), [("t --bs $(nproc)", 4), ('X="a b"\nt --p "$X"', "c d")])
def test_what_is_not_certain_is_refused(text: str, value: Scalar) -> None:
    with pytest.raises(UsageError, match=r"only known|needs quotes"):
        edit_shell.replaced(commands(text.encode())[-1].words[-1], value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t a.py", "t a.py --k 4"),
        ("t a.py --a 1 | tee x\n", "t a.py --a 1 --k 4 | tee x\n"),
        ("t a.py --a=1 --b=2 >x 2>&1\n", "t a.py --a=1 --b=2 --k=4 >x 2>&1\n"),
        ("t a.py \\\n  --a 1 \\\n  --b 2\n\nu\n", "t a.py \\\n  --a 1 \\\n  --b 2 \\\n  --k 4\n\nu\n"),
        ("t a.py \\\r\n\t--a 1\r\n", "t a.py \\\r\n\t--a 1 \\\r\n\t--k 4\r\n"),
        ("t a.py \\\n  --a 1 --b 2 \\\n\n", "t a.py \\\n  --a 1 --b 2 --k 4 \\\n\n"),
        ('t a.py --a 1 "$@"\n', 't a.py --a 1 --k 4 "$@"\n'),
        ("B=4\nt a.py --a 1 --b $B\n", "B=4\nt a.py --a 1 --k 4 --b $B\n"),
        ("A=(\n  --a 1\n  --b 2 # x\n)\nt a.py ${A[@]}\n", "A=(\n  --a 1\n  --b 2 # x\n  --k 4\n)\nt a.py ${A[@]}\n"),
        ('A="--a 1"\nt a.py $A\n', 'A="--a 1 --k 4"\nt a.py $A\n'),
        ('A="--a 1"\nt a.py --b 2 $A\nu $A\n', 'A="--a 1"\nt a.py --b 2 --k 4 $A\nu $A\n'),
        ("if x; then t a.py --a 1; fi\n", None),
        ("t a.py --a $(f) # x\n", "t a.py --a $(f) --k 4 # x\n"),
    ],
)
def test_a_flag_is_added_in_the_style_of_the_command(text: str, expected: str | None) -> None:
    number = 1 if expected is None else 0
    assert added(text, "--k", 4, number) == (expected or "if x; then t a.py --a 1 --k 4; fi\n")


@pytest.mark.parametrize(
    ("text", "flag", "value", "expected"),
    [
        ("t a.py --a 1", "--k", True, "t a.py --a 1 --k"),
        ("t a.py --a True", "--k", True, "t a.py --a True --k True"),
        ("t a.py --a false", "--k", True, "t a.py --a false --k true"),
        ("t a.py --a 1", "--k", False, "t a.py --a 1 --k False"),
        ("t a.py a.b=1", "a.k", True, "t a.py a.b=1 a.k=True"),
        ("t a.py", "--k", "a b", "t a.py --k 'a b'"),
        ("t a.py", "--k", 3e-4, "t a.py --k 0.0003"),
    ],
)
def test_values_of_added_flags(text: str, flag: str, value: Scalar, expected: str) -> None:
    assert added(text, flag, value) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t --k 1", "there already"),
        ("t --k=1", "there already"),
        ('A="t a.py"\n$A\nu $A\n', "no certain place"),
    ],
)
def test_a_flag_that_cannot_be_added_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        added(text, "--k", 4)


def test_a_command_of_another_file_is_refused() -> None:
    with pytest.raises(UsageError, match="not in the file"):
        edit_shell.flag(b"t\n", commands(b"u\n")[0], "--k", 1)


@st.composite
def scripts(draw: st.DrawFn) -> bytes:
    """A command with flags of any style, partly from variables and arrays, and comments and commands around it."""
    flags = draw(
        st.lists(st.tuples(NAMES, st.sampled_from(["", " 1", "=2", " 'a b'", ' "c"', " $X", ' "${Y:-5}"'])), max_size=5)
    )
    words = [f"--{name}_{value}" for name, value in flags]
    cut = draw(st.integers(0, len(words)))
    between = draw(st.sampled_from([" ", " \\\n    ", "  \\\n"]))
    array = draw(st.sampled_from([" ", "\n  ", " # c )\n"])).join(words[cut:])
    tail = draw(st.sampled_from(["", " | cat", " # --x", ' "$@"', " 2>&1"]))
    line = between.join(["echo a.py", *words[:cut], '"${A[@]}"'])
    return f"X=7 # x\nA=({array}\n)\nexport Z=1\n{line}{tail}\necho '--é' $X\nwait".encode()


def arguments(data: bytes) -> list[str]:
    ended = subprocess.run(["bash", "-c", data.replace(b"echo", b"printf '%s\\n'").decode()], capture_output=True)
    return ended.stdout.decode().splitlines()


@settings(deadline=None, max_examples=25)
@given(scripts(), st.sampled_from([4, True, 0.5, "a b", "x"]))
def test_bash_passes_the_new_flag_and_nothing_else(data: bytes, value: Scalar) -> None:
    command = next(one for one in commands(data) if one.words[1].value == "a.py")
    new = changed(data, edit_shell.flag(data, command, "--NEW", value))
    before, after = arguments(data), arguments(new)
    at = next(index for index, one in enumerate(after) if one.startswith("--NEW"))
    number = len(after) - len(before)
    assert [*after[:at], *after[at + number :]] == before
    assert after[at : at + number] in (["--NEW"], ["--NEW", str(value)], [f"--NEW={value}"])
    assert "--é" in after[at + number :]


@settings(deadline=None, max_examples=25)
@given(scripts(), st.sampled_from([4, 0.5, "x"]))
def test_bash_passes_a_new_value_and_nothing_else(data: bytes, value: Scalar) -> None:
    command = next(one for one in commands(data) if one.words[1].value == "a.py")
    for one in command.words[2:]:
        if one.value is None or (one.text.startswith("--") and "=" not in one.text):
            continue
        splice = edit_shell.replaced(one, value)
        before, after = arguments(data), arguments(changed(data, splice))
        assert len(before) == len(after)
        assert {new for old, new in zip(before, after, strict=True) if old != new} <= {
            str(value),
            f"{(one.value or '').split('=')[0]}={value}",
        }
        assert before != after
