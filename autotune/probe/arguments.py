"""Command-line arguments as a Recording may keep them. An allowlist: names of flags, numbers, plain words and paths."""

from __future__ import annotations

import re

HIDDEN = "***"
MOST_CHARACTERS = 256
MOST_IN_A_WORD = 64

_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_LONG_FLAG = re.compile(r"-[A-Za-z]|--[a-z][a-z_-]*[a-z]")
_KEY = re.compile(r"[-+~]*[A-Za-z_][\w./@-]*")
_SECRET = re.compile(
    r"token(?!iz|s)|secret|passw|passphrase|api[_-]?key|credential|auth(?!or)|bearer|cookie|signature|jwt|header",
    re.IGNORECASE,
)
"""Inside names of secrets; a tokenizer or a number of tokens is none."""
_SECRET_PARTS = frozenset({"key", "keys", "accesskey", "pass", "pwd", "pat", "pin", "sig", "sas", "dsn", "login"})
_NO_SECRET_BEFORE_KEY = frozenset(
    {"text", "label", "image", "sort", "target", "input", "data", "feature", "prompt", "metric", "column", "batch"}
)
_PLAIN = re.compile(r"~?[A-Za-z0-9_./-]+|(?:cuda|mps|xpu|cpu):\d+|")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_URL = re.compile(r"([A-Za-z][\w+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9._-]+(?::\d+)?")
_TOKEN = re.compile(
    r"(?:hf|ghp|gho|ghs|github_pat|glpat|sk|pk|xox[abprs]|AKIA|ASIA|eyJ)[_-]?[A-Za-z0-9_-]{12,}"
    r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
)
"""Forms that providers give their keys, and UUIDs."""
_MIXED, _RANDOM = 20, 32
"""Longest word of upper case, lower case and digits, and longest one of letters and digits, that a person writes."""


def scrub(arguments: list[str]) -> list[str]:
    """`arguments` with "***" for everything that is not known to be harmless; a URL keeps its scheme and host.

    What follows a flag that sounds like a secret is hidden whatever it is, unless it is the next flag.
    """
    clean, hide = [], False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if hide and not _LONG_FLAG.fullmatch(name):
            clean.append(HIDDEN)
            hide = False
        elif equals and _KEY.fullmatch(name) and _is_plain(name):
            clean.append(f"{name}={HIDDEN if _is_secret(name) else _shown(value)}")
            hide = False
        else:
            hide = bool(_FLAG.fullmatch(argument)) and _is_secret(argument)
            clean.append(_shown(argument))
    return clean


def _is_secret(name: str) -> bool:
    """Whether a flag or key of this name holds a secret."""
    if _SECRET.search(name):
        return True
    parts = [part.lower() for part in re.split(r"[-_./+~@]+|(?<=[a-z])(?=[A-Z])", name) if part]
    return any(
        part in _SECRET_PARTS and not (part.startswith("key") and before in _NO_SECRET_BEFORE_KEY)
        for before, part in zip(["", *parts], parts)
    )


def _shown(value: str) -> str:
    url = _URL.fullmatch(value)
    if url is not None:
        return _address(*url.groups())
    bare = value[1:-1] if value[:1] + value[-1:] in ("[]", "()") else value
    words = bare.replace(" ", "").split(",") if "," in bare else [bare]
    return value if all(_is_plain(word) for word in words) and len(value) <= MOST_CHARACTERS else HIDDEN


def _address(scheme: str, place: str, rest: str) -> str:
    """Scheme and host of a URL. An @ further on may end a password that holds a slash: then nothing is a host."""
    host = place.rpartition("@")[2]
    if "@" in rest or not _HOST.fullmatch(host) or not _is_plain(host.partition(":")[0]):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{host}" + (f"/{HIDDEN}" if rest.strip("/") else "")


def _is_plain(text: str) -> bool:
    """Whether a number, a word or a path holds nothing that looks like a key."""
    if _NUMBER.fullmatch(text):
        return True
    if not _PLAIN.fullmatch(text.lstrip("+")) or _TOKEN.search(text):
        return False
    return not any(_is_random(word) for word in re.split(r"[./_-]", text))


def _is_random(word: str) -> bool:
    has_digit, has_letter = re.search(r"\d", word), re.search(r"[A-Za-z]", word)
    has_both = re.search(r"[a-z]", word) and re.search(r"[A-Z]", word)
    longest = _MIXED if has_digit and has_both else _RANDOM - 1 if has_digit and has_letter else MOST_IN_A_WORD
    return len(word) > longest
