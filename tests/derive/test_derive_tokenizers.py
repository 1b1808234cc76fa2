from __future__ import annotations

import pytest
from build import facts_of, loader, steps, what_if

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
