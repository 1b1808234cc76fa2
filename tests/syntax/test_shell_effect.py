"""An edit of a variable that several flags read is refused."""

from __future__ import annotations

import pytest
from edit_builders import changed

from autotune.errors import UsageError
from autotune.model.source import Scalar, ShellWord
from autotune.syntax import edit_shell, shell, shell_effect


def word_behind(data: bytes, flag: str) -> ShellWord:
    words = [word for command in shell.read(data, "").commands for word in command.words]
    return words[next(at for at, word in enumerate(words) if word.value == flag) + 1]


def edited(text: str, flag: str, value: Scalar) -> str:
    data = text.encode()
    word = word_behind(data, flag)
    splice = edit_shell.replaced(word, value)
    shell_effect.confirm(data, splice, word)
    return changed(data, splice).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("BS=4\npython t.py --bs $BS --out o\n", "BS=8\npython t.py --bs $BS --out o\n"),
        ("python t.py --bs 4 --eval 4\n", "python t.py --bs 8 --eval 4\n"),
        ("export BS=4\npython t.py --bs $BS\n", "export BS=8\npython t.py --bs $BS\n"),
        ("export BS=${B:-4}\npython t.py --bs $BS\n", "export BS=${B:-8}\npython t.py --bs $BS\n"),
        (
            "BS=4\npython t.py --bs $BS --seed 1\npython t.py --bs $BS --seed 2\n",
            "BS=8\npython t.py --bs $BS --seed 1\npython t.py --bs $BS --seed 2\n",
        ),
    ],
)
def test_one_flag_changes(before: str, after: str) -> None:
    assert edited(before, "--bs", 8) == after


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("BS=4\npython t.py --bs $BS --eval $BS\n", "--bs, --eval"),
        ("BS=4\npython t.py --bs $BS --out o-$BS\n", "--bs, --out"),
        ("BS=4\npython t.py --bs $BS --eval=$BS\n", "--bs, --eval"),
        ("BS=4\npython t.py --bs $BS\npython e.py --bs $BS\n", "--bs"),
        ("BS=4\nexport CHUNK=$BS\npython t.py --bs $BS\n", "--bs, CHUNK"),
        ("BS=4\npython t.py --bs $BS $BS\n", "--bs"),
    ],
)
def test_what_something_else_reads_is_refused(text: str, names: str) -> None:
    with pytest.raises(UsageError, match="read by more than one") as caught:
        edited(text, "--bs", 8)
    assert caught.value.what.endswith(f"flags: {names}")
