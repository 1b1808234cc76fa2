"""rules and explain: what the tool knows, without a run."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from autotune.engine.load import load_rules
from autotune.errors import UsageError
from autotune.model.rule import Rule


def list_rules(folder: Path | None = None) -> tuple[Rule, ...]:
    """Every rule of `folder` (None: the shipped ones), by id. Raises RuleError when a file is wrong."""
    return load_rules(folder)


def find_rule(name: str, folder: Path | None = None) -> Rule:
    """The rule whose id (in any case) or name is `name`. Raises UsageError that suggests near ones."""
    rules = load_rules(folder)
    found = next((rule for rule in rules if name.upper() == rule.id or name == rule.name), None)
    if found is not None:
        return found
    by_word = {word: rule.id for rule in rules for word in (rule.id, rule.name)}
    near = [
        _three_digits(name.upper()),
        *get_close_matches(name.upper(), by_word, cutoff=0.7),
        *get_close_matches(name.lower(), by_word),
    ]
    ids = list(dict.fromkeys(by_word[word] for word in near if word in by_word))
    guess = f"Did you mean {' or '.join(ids)}? " if ids else ""
    raise UsageError(f'there is no rule "{name}"', to_do=f"{guess}`autotune rules` lists them.")


def _three_digits(name: str) -> str:
    """The id that was probably meant by one with too few or too many zeros: DL01 is DL001."""
    letters = name.rstrip("0123456789")
    digits = name.removeprefix(letters)
    return f"{letters}{int(digits):03}" if digits else name
