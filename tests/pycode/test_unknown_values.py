"""A value whose place may not decide is told apart from one whose place does."""

from __future__ import annotations

import pytest
from scanning import call_of, scan

HEAD = "import argparse\nfrom torch.utils.data import DataLoader\n"
PARSER = "p = argparse.ArgumentParser()\np.add_argument('--workers', type=int, default=0)\n"
LOADER = "DataLoader(d, num_workers=args.workers)\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass C:\n    workers: int = 0\n"


def workers(code: str):
    return call_of(scan(HEAD + code), "DataLoader").arguments["num_workers"]


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        (PARSER + "args = p.parse_args()\n" + LOADER, ""),
        (PARSER + "args = p.parse_args()\nargs.workers = 0\n" + LOADER, "more than one place sets it: lines 4, 6"),
        (
            PARSER + "def fix(a):\n    a.workers = 0\n    return a\nargs = fix(p.parse_args())\n" + LOADER,
            "more than one place sets it: lines 4, 6",
        ),
        ("W = 0\nif ci:\n    W = 0\nDataLoader(d, num_workers=W)\n", "more than one place sets it: lines 3, 5"),
        ("W = 0\nDataLoader(d, num_workers=W)\n", ""),
    ],
)
def test_whether_the_place_decides(code: str, doubt: str) -> None:
    found = workers(code)
    assert (found.value, found.known, found.doubt) == (0, True, doubt)


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        ("kw = {}\nif cuda:\n    kw['num_workers'] = 4\n", "line 5 sets it only under a condition"),
        ("kw = {'num_workers': 4} if cuda else {}\n", "line 3 sets it only under a condition"),
        (
            "kw = {}\nif cuda:\n    kw['num_workers'] = 4\nif slow:\n    kw['num_workers'] = 8\n",
            "lines 5, 7 set it only under a condition",
        ),
        (
            "kw = {'num_workers': 0}\nif cuda:\n    kw.update(num_workers=4)\n",
            "a condition decides which of lines 3, 5 sets it",
        ),
        (
            "kw = {'num_workers': 4}\nkw.update(more)\n",
            "line 3 sets it, but the dict is only partly known",
        ),
        ("kw = {'num_workers': count()}\n", ""),
    ],
)
def test_why_a_value_of_a_dict_is_unknown(code: str, doubt: str) -> None:
    found = workers(f"{code}DataLoader(d, **kw)\n")
    assert (found.known, found.doubt) == (False, doubt)


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ("vars(args).update(load())\n", "the script may change its options at line 6 (vars)"),
        ("def fix(a):\n    a.workers = 8\nfix(args)\n", "the script sets it again at line 7"),
    ],
)
def test_why_an_option_that_is_changed_later_is_unknown(change: str, doubt: str) -> None:
    found = workers(f"{PARSER}args = p.parse_args()\n{change}{LOADER}")
    assert (found.known, found.doubt) == (False, doubt)


@pytest.mark.parametrize("key", ["'workers'", "name"])
def test_an_option_that_is_set_by_its_key_is_in_doubt(key: str) -> None:
    found = workers(f"{PARSER}args = p.parse_args()\nc = vars(args)\nc[{key}] = 8\n{LOADER}")
    assert found.doubt == "the script may change its options at line 6 (vars)"


def test_another_key_that_is_set_in_the_options_changes_nothing() -> None:
    assert workers(f"{PARSER}args = p.parse_args()\nc = vars(args)\nc['name'] = c['name'].value\n{LOADER}").doubt == ""


@pytest.mark.parametrize(
    "code",
    [
        PARSER + "args = p.parse_args(['--workers', '0'])\n" + LOADER,
        PARSER + "args = p.parse_args(namespace=filled)\n" + LOADER,
        DATACLASS + "    def __post_init__(self):\n        self.workers = 4\nargs = C()\n" + LOADER,
    ],
    ids=["a list of its own", "a filled namespace", "__post_init__"],
)
def test_a_value_that_is_replaced_is_unknown(code: str) -> None:
    assert not workers(code).known


def test_a_dataclass_that_changes_nothing_is_followed() -> None:
    assert workers(DATACLASS + "args = C()\n" + LOADER).value == 0


ENCODES = "enc = tokenizer(text, padding='max_length', max_length=512)\n"


@pytest.mark.parametrize(
    ("code", "is_safe"),
    [
        (ENCODES + "DataLoader(d)\n", False),
        (ENCODES + "Trainer(model, train_dataset=d)\n", False),
        (ENCODES + "Trainer(model, data_collator=DefaultDataCollator())\n", False),
        (ENCODES + "Trainer(model, tokenizer=tokenizer, data_collator=default_data_collator)\n", False),
        (ENCODES + "torch.nn.functional.pad(x, (0, 1))\n", False),
        (ENCODES + "Trainer(model, tokenizer=tokenizer)\n", True),
        (ENCODES + "Trainer(model, processing_class=tokenizer)\n", True),
        (ENCODES + "Trainer(model, data_collator=DataCollatorWithPadding(tokenizer))\n", True),
        (ENCODES + "def collate(rows):\n    return self.tokenizer.pad(rows)\n", True),
        (ENCODES + "def collate(rows):\n    return pad_sequence(rows)\n", True),
        (f"def collate(rows):\n    {ENCODES}    return enc\nDataLoader(d, collate_fn=collate)\n", True),
        (f"def collate(rows):\n    {ENCODES}    return enc\nDataLoader(d, collate_fn=lambda r: collate(r))\n", True),
        (
            f"class C:\n    def __call__(self, rows):\n        {ENCODES}        return enc\n"
            "c = C()\nDataLoader(d, collate_fn=c)\n",
            True,
        ),
        (f"def encode(text):\n    {ENCODES}    return enc\nDataLoader(d, collate_fn=stack)\n", False),
    ],
)
def test_a_tokenizer_that_pads_alone_is_not_to_be_told_otherwise(code: str, is_safe: bool) -> None:
    script = scan(HEAD + "tokenizer = make()\n" + code)
    (call,) = [call for call in script.calls if call.name.endswith("tokenizer")]
    found = call.arguments["padding"]
    assert (found.value, found.known) == ("max_length", True)
    assert ("pad in the collate function" in found.doubt) is not is_safe
