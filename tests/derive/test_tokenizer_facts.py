from __future__ import annotations

import pytest
from build import MS, facts_of, loader, steps, what_if

from autotune.model.recording import Sample

LIBRARIES = "/env/lib/python3.11/site-packages"


def sample(leaf_file: str, user_function: str, count: int = 30) -> Sample:
    return Sample("fetch", leaf_file, "leaf", "/home/me/train.py", 7, user_function, count)


@pytest.mark.parametrize(
    ("leaf_file", "user_function", "expected"),
    [
        pytest.param(f"{LIBRARIES}/tiktoken/core.py", "__getitem__", 1.0, id="tiktoken has a frame in Python"),
        pytest.param(f"{LIBRARIES}/nltk/tokenize/destructive.py", "__getitem__", 1.0, id="another library"),
        pytest.param("/usr/lib/python3.11/re/__init__.py", "encode", 1.0, id="an own encoder in a regular expression"),
        pytest.param("/home/me/train.py", "get_pairs", 1.0, id="an own byte-pair encoding"),
        pytest.param("/home/me/train.py", "bpe", 1.0, id="by its short name"),
        pytest.param("/home/me/train.py", "_tokenise", 1.0, id="a compiled tokenizer called by a function"),
        pytest.param("/home/me/train.py", "collate_and_tokenize", 1.0, id="in the collate function"),
        pytest.param("/home/me/train.py", "__getitem__", 0.0, id="a compiled tokenizer that leaves no name"),
        pytest.param("/home/me/train.py", "collate_tokenized", 0.0, id="it was tokenised before"),
        pytest.param("/home/me/train.py", "encode_image", 0.0, id="another kind of encoding"),
        pytest.param("/usr/lib/python3.11/tokenize.py", "__getitem__", 0.0, id="Python's own tokens"),
        pytest.param("/home/me/tokenizers_project/train.py", "__getitem__", 0.0, id="the folder's name"),
    ],
)
def test_what_is_a_tokenizer(leaf_file, user_function, expected):
    facts = facts_of("loader#train", script=steps(3), samples=(sample(leaf_file, user_function),))
    assert facts["loader.tokenize_share"] == expected


def test_it_is_a_share_of_preparing_a_batch():
    rows = (sample("/home/me/train.py", "encode", 15), sample("/home/me/train.py", "crop", 5))
    assert facts_of("loader#train", script=steps(3), samples=rows)["loader.tokenize_share"] == 0.75


def test_with_workers_the_loader_alone_tells():
    row = {"phase": "fetch", "leaf_file": "/home/me/train.py", "user_function": "bpe", "count": 40}
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[], samples=[row])
    loaders = (loader(0, arguments={"num_workers": 2}),)
    assert facts_of("loader#train", script=steps(3), what_ifs=(alone,), loaders=loaders)["loader.tokenize_share"] == 1.0


def constant_share(**changes):
    items = {"batch_size": 10, "is_own": True, "are_same": True, "item_ns": [60_000] * 3, "item_cpu_ns": [60_000] * 3}
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[MS] * 4, items=items | changes)
    return facts_of("loader#train", script=steps(3), what_ifs=(alone,))["loader.constant_share"]


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, 0.6),
        ({"are_same": False}, 0.0),
        ({"is_own": False}, 0.0),
        ({"item_ns": [49_000] * 3, "item_cpu_ns": [49_000] * 3}, 0.0),
        ({"item_cpu_ns": [29_000] * 3}, 0.0),
        ({"item_cpu_ns": [30_000] * 3}, 0.6),
        ({"batch_size": 100}, 1.0),
    ],
    ids=["computed", "differs", "of a library", "only read", "waited for", "half is computed", "at most all"],
)
def test_what_the_scripts_own_dataset_computes_again(changes, share):
    assert constant_share(**changes) == pytest.approx(share)


def test_what_was_not_read_twice_is_not_known_but_of_a_stream():
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[MS] * 4)
    stream = loader(0, dataset={"type": "Data", "module": "__main__", "length": None, "map_style": False})
    assert "loader.constant_share" not in facts_of("loader#train", script=steps(3), what_ifs=(alone,))
    assert facts_of("loader#train", script=steps(3), loaders=(stream,))["loader.constant_share"] == 0.0


def test_what_repeats_is_the_larger_of_what_was_seen_and_what_was_read_twice():
    items = {"batch_size": 10, "is_own": True, "are_same": True, "item_ns": [60_000], "item_cpu_ns": [60_000]}
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[MS] * 4, items=items)
    rows = (sample("/home/me/train.py", "encode", 10), sample("/home/me/train.py", "crop", 30))
    facts = facts_of("loader#train", script=steps(3), samples=rows, what_ifs=(alone,))
    assert (facts["loader.tokenize_share"], facts["loader.repeated_share"]) == (0.25, pytest.approx(0.6))


@pytest.mark.parametrize("decoding", [0, 10, 36, 40])
def test_the_parts_of_preparing_a_batch_are_no_more_than_all_of_it(decoding):
    """What __getitem__ decodes is a part of what it computes again: the two are not added up."""
    items = {"batch_size": 10, "is_own": True, "are_same": True, "item_ns": [60_000], "item_cpu_ns": [60_000]}
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[MS] * 4, items=items)
    rows = (
        sample("/usr/lib/python3.11/json/decoder.py", "load", decoding),
        sample("/home/me/train.py", "crop", 40 - decoding),
    )
    facts = facts_of("loader#train", script=steps(3), samples=rows, what_ifs=(alone,))
    parts = [facts[f"loader.{name}"] for name in ("tokenize_share", "decode_share", "other_constant_share")]
    assert sum(parts) == pytest.approx(max(0.6, decoding / 40))
    assert facts["loader.repeated_share"] == pytest.approx(sum(parts))


def at(line, leaf_file="/home/me/train.py", count=30):
    return Sample("fetch", leaf_file, "leaf", "/home/me/train.py", line, "draw", count)


def test_the_line_that_takes_most_of_preparing_a_batch():
    facts = facts_of("loader#train", script=steps(3), samples=(at(34, count=30), at(40, count=10)))
    assert (facts["loader.hot_line"], facts["loader.hot_line_share"]) == ("draw (train.py:34)", 0.75)
    assert facts["loader.hot_line_step_share"] == pytest.approx(0.75 * facts["loader.input_share"])


@pytest.mark.parametrize(
    "leaf_file",
    [
        f"{LIBRARIES}/torchvision/transforms/functional.py",
        f"{LIBRARIES}/PIL/Image.py",
        f"{LIBRARIES}/tiktoken/core.py",
        "/usr/lib/python3.11/json/decoder.py",
    ],
)
def test_a_line_of_a_library_that_augments_tokenises_or_decodes_is_not_it(leaf_file):
    facts = facts_of("loader#train", script=steps(3), samples=(at(34, leaf_file), at(40, count=10)))
    assert ("loader.hot_line" in facts, facts["loader.hot_line_share"]) == (False, 0.25)


def test_from_few_samples_no_line_is_named():
    assert "loader.hot_line" not in facts_of("loader#train", script=steps(3), samples=(at(34, count=19),))
