"""rules: every rule, and the one that a name means."""

from __future__ import annotations

from difflib import get_close_matches

from autotune.engine.load import load_rules
from autotune.engine.static import decides_without_a_run
from autotune.errors import UsageError
from autotune.model.explanation import ListedRule
from autotune.model.rule import Rule


def list_rules() -> tuple[ListedRule, ...]:
    """Every rule, by id. Raises RuleError when a file is wrong."""
    return tuple(ListedRule(rule, decides_without_a_run(rule)) for rule in load_rules())


def find_rule(name: str) -> Rule:
    """The rule whose id (in any case) or name is `name`. Raises UsageError that suggests near ones."""
    rules = load_rules()
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
