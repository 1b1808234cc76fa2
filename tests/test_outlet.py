from __future__ import annotations

import pytest

from autotune.outlet import plain, print_stderr, print_stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("größer 数据 🙂", "größer 数据 🙂"),
        ("\x1b]52;c;eA==\x07", "\\x1b]52;c;eA==\\x07"),
        ("\x9b31m \x7f \r\n", "\\x9b31m \\x7f \\r\n"),
        ("a\u202eb\u2066\u200b\u2028\ufeff", "a\\u202eb\\u2066\\u200b\\u2028\\ufeff"),
        ("bad \udcff", "bad \\udcff"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("a\n \t::error::x ::", "a\n \t\\::error::x ::"),
        ("a\n\u3000\xa0::stop-commands::x", "a\n\u3000\xa0\\::stop-commands::x"),
        ("\xad\u034f\u115f\u180e\u3164\U000e0100", "\\xad\\u034f\\u115f\\u180e\\u3164\\U000e0100"),
        ("a ##[command]x ##vso[task.x] ##", "a ##\\[command]x ##\\vso[task.x] ##"),
        ("x = a[::2]", "x = a[::2]"),
    ],
)
def test_what_would_be_acted_on_is_written_out(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(expected) == expected


def test_both_streams_get_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_stdout("::a")
    print_stderr("\x1b[8m")
    assert capsys.readouterr() == ("\\::a\n", "\\x1b[8m\n")
