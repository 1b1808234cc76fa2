"""Edits of shell scripts: a word, or a flag that a command gets in the style of its other flags."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Scalar, ShellCommand, ShellWord, Splice
from autotune.syntax import shell
from autotune.syntax.edit_effect import spliced
from autotune.syntax.edit_style import decimal, is_same

_QUOTED = re.compile(r"""(['"])(.*)\1""", re.DOTALL)
_NAMED = re.compile(r"((?:--?|[+~]{0,2})[A-Za-z_][\w.@/-]*=)(.*)", re.DOTALL)
_FLAG = re.compile(r"--?[A-Za-z]")
_SAFE = re.compile(r"[\w.,:/@%+=^-]*", re.ASCII)
_GAP = re.compile(rb"([ \t]*\\)?(?:[ \t]+#[^\r\n]*)?(\r?\n[ \t]*)|[ \t]+")
_REST = re.compile(rb"[ \t]+#[^\r\n]*")
_BOOLS = {"true": "false", "false": "true", "yes": "no", "no": "yes", "on": "off", "off": "on", "1": "0", "0": "1"}


def replaced(word: ShellWord, value: Scalar, *, takes_value: bool = False) -> Splice:
    """The edit that makes a word say `value`; --name=old, name=old and quotes stay what they are around it.

    A flag that stands alone (--bf16) becomes `--bf16 False` where the script's parser `takes_value` for it, which
    argparse's store_true does not. Raises UsageError for a word that only the running script knows.
    """
    if word.value is None:
        raise _by_hand(f"{word.text} is only known when the script runs", word.line)
    quotes = _QUOTED.fullmatch(word.text)
    quote, inner = (quotes[1], quotes[2]) if quotes else ("", word.text)
    named = _NAMED.fullmatch(inner)
    if named is None and _FLAG.match(inner):
        return _switched(word, value, takes_value)
    name, old = (named[1], named[2]) if named else ("", inner)
    if _reads(_unquoted(old), value):
        return Splice(word.span, word.text)
    new = _written(value, _unquoted(old))
    own = "" if quote or not _QUOTED.fullmatch(old) else old[0]
    if not _SAFE.fullmatch(new) and not _is_safe_in(new, quote or own):
        raise _by_hand(f"{new!r} needs quotes that may not fit where {word.text} stands", word.line)
    return Splice(word.span, f"{quote}{name}{own}{new}{own}{quote}")


def flag(data: bytes, command: ShellCommand, flag: str, value: Scalar) -> Splice:
    """The edit that adds `flag` ("--num_workers", or an override "data.num_workers") behind those of the command.

    In front of "$@"; on a line of its own where the last flag has one. What is True is a flag without a value, unless
    the command spells that out elsewhere. Raises UsageError when it has the flag, or when no place is certain.
    """
    if any(_text(word).split("=")[0] == flag for word in command.words):
        raise _by_hand(f"{flag} is there already", command.line)
    script = shell.read(data, "")
    if command not in script.commands:
        raise _by_hand("this command is not in the file", command.line)
    place, new = script.commands.index(command), _flag(command.words, flag, value)
    wanted = [list(map(_value, one.words)) for one in script.commands]
    for at in _ends(command.words):
        splice = _behind(data, command.words, at, new)
        found = _words(spliced(data, splice))
        if found == [*wanted[:place], [*wanted[place][:at], *new, *wanted[place][at:]], *wanted[place + 1 :]]:
            return splice
    raise _by_hand(f"no certain place for {flag} in this command", command.line)


def _switched(word: ShellWord, value: Scalar, takes_value: bool) -> Splice:
    if value is True:
        return Splice(word.span, word.text)
    if not takes_value:
        what = "take it away" if value is False else f"the script may not take {value} for it"
        raise _by_hand(f"{word.text} has no value: {what}", word.line)
    return Splice(word.span, f"{word.text} {shlex.quote(_written(value, ''))}")


def _by_hand(what: str, line: int) -> UsageError:
    return UsageError(what, where=f"line {line}", to_do="Edit it by hand.")


def _unquoted(old: str) -> str:
    quotes = _QUOTED.fullmatch(old)
    return quotes[2] if quotes else old


def _is_safe_in(text: str, quote: str) -> bool:
    unsafe = {"'": "'", '"': '"$`\\!'}
    return text.isprintable() and quote in unsafe and not set(text) & set(unsafe[quote])


def _reads(old: str, value: Scalar) -> bool:
    """Whether a script that wants a value of this type takes `old` for `value`."""
    if isinstance(value, bool):
        return old.lower() == str(value).lower()
    try:
        return value is not None and is_same(type(value)(old), value)
    except ValueError:
        return False


def _written(value: Scalar, old: str) -> str:
    if isinstance(value, bool):
        return _bool(value, old)
    return decimal(value, old) if isinstance(value, float) else str(value)


def _bool(value: bool, old: str) -> str:
    """In the words and the case of `old` where that is a bool."""
    if old.lower() not in _BOOLS:
        return str(value)
    is_true = old.lower() in ("true", "yes", "on", "1")
    word = old.lower() if is_true is value else _BOOLS[old.lower()]
    return word.upper() if old.isupper() else word.title() if old[0].isupper() else word


def _flag(words: Sequence[ShellWord], flag: str, value: Scalar) -> list[str]:
    """The words of the new flag."""
    spelled = [word.value for word in words if word.value and word.value.lower() in ("true", "false")]
    if value is True and not spelled and flag.startswith("-"):
        return [flag]
    written = _written(value, spelled[-1] if spelled else "")
    flags = [_text(word) for word in words if _FLAG.match(_text(word))]
    joined = sum("=" in one for one in flags)
    if not flag.startswith("-") or joined > len(flags) - joined:
        return [f"{flag}={written}"]
    return [flag, written]


def _ends(words: Sequence[ShellWord]) -> Iterator[int]:
    """The numbers of words behind which a flag and its values end, the last first; behind "$@" nothing goes."""
    last = len(words)
    while last > 1 and words[last - 1].value is None and re.fullmatch(r'"?\$\{?[@*].*', words[last - 1].text):
        last -= 1
    yield last
    yield from (at for at in range(last - 1, 1, -1) if _FLAG.match(_text(words[at])))


def _behind(data: bytes, words: Sequence[ShellWord], at: int, new: Sequence[str]) -> Splice:
    place = words[at - 1].span.end
    gap = _gap(data, words[:at])
    rest = _REST.match(data, place)
    if "\n" in gap and "\\" not in gap and rest:
        place = rest.end()
    return Splice(Span(place, place), gap + " ".join(map(shlex.quote, new)))


def _gap(data: bytes, words: Sequence[ShellWord]) -> str:
    """What stands in front of the last flag: blanks, or a line break with its backslash and the indentation."""
    for before, word in reversed(list(pairwise(words))):
        found = _GAP.fullmatch(data, before.span.end, max(before.span.end, word.span.start))
        if found and _FLAG.match(_text(word)) and found[2]:
            return f"{' ' + chr(92) if found[1] else ''}{found[2].decode()}"
        if found and _FLAG.match(_text(word)):
            return " "
    return " "


def _words(data: bytes) -> list[list[str]]:
    try:
        return [list(map(_value, command.words)) for command in shell.read(data, "").commands]
    except UsageError:
        return []


def _value(word: ShellWord) -> str:
    return f"unknown: {word.text}" if word.value is None else word.value


def _text(word: ShellWord) -> str:
    return word.text if word.value is None else word.value
