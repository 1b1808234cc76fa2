"""What fills the preparation of a batch, by stack samples: tokenising, decoding, or anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict

from autotune.derive.loaders import Loader
from autotune.derive.view import View
from autotune.model.evidence import Value
from autotune.model.recording import Json

LEAST_SAMPLES = 20
TOKENIZE = re.compile(
    r"[/\\](tokenizers|sentencepiece|tiktoken)[/\\]|[/\\]transformers[/\\].*tokeniz"
    r"|[/\\](site|dist)-packages[/\\].*tokeni[sz]"
)
OWN_TOKENIZER = re.compile(
    r"tokeni[sz](e(?!d)|ing|ation)|(^|_)(bpe|byte_pair|wordpiece|get_pairs)(_|$)|^_?encode(_text|_ordinary|_chunk)?$"
)
"""The user's functions that tokenise, by their names."""

DECODE = re.compile(
    r"[/\\](cv2|librosa|torchaudio|soundfile|torchcodec|imageio)([/\\]|\.py)"
    r"|[/\\]PIL[/\\](ImageFile|\w+ImagePlugin)\.py"
    r"|[/\\]torchvision[/\\]io[/\\]|[/\\]datasets[/\\]features[/\\](image|audio|video)\.py|[/\\]json[/\\]"
    r"|[/\\](zipfile|gzip|bz2|lzma|_compression)([/\\]|\.py)"
)
"""Files whose functions decode. The rest of PIL changes images, at random as a rule: each epoch has to do that anew."""

PIL_DECODES = frozenset({"open", "load", "convert"})
"""Functions of PIL/Image.py that decode."""


def shares(view: View, loader: Loader, collate_share: Value | None) -> dict[str, Value | None]:
    """Facts `loader.tokenize_share`, `decode_share` and `repeated_share`; none from few samples.

    A library's collate function pads with the tokenizer, and tokenises nothing: as much as it takes is not counted.
    """
    rows = [row for row in _samples(view, loader) if row["phase"] == "fetch"]
    total = sum(row["count"] for row in rows)
    if total < LEAST_SAMPLES:
        return {}
    tokenized = sum(row["count"] for row in rows if tokenizes(row))
    decoded = sum(row["count"] for row in rows if decodes(row) and not tokenizes(row))
    is_own = loader.own.get("has_own_collate") is not False
    collating = collate_share if isinstance(collate_share, float) and not is_own else 0.0
    tokenizing = max(0.0, tokenized / total - collating)
    return {
        "tokenize_share": tokenizing,
        "decode_share": decoded / total,
        "repeated_share": tokenizing + decoded / total,
    }


def tokenizes(row: Json) -> bool:
    """Whether a sample is in a tokenizer: of a library by its file, of the user's own by the name of the function.

    Compiled tokenizers leave no frame: one that `__getitem__` calls directly is not told from the rest of it.
    """
    return bool(TOKENIZE.search(row["leaf_file"]) or OWN_TOKENIZER.search(row.get("user_function", "")))


def decodes(row: Json) -> bool:
    """Whether a sample is in a function that decodes an image, audio, JSON or an archive."""
    is_image = re.search(r"[/\\]PIL[/\\]Image\.py$", row["leaf_file"]) is not None
    return bool(DECODE.search(row["leaf_file"])) or (is_image and row.get("leaf_function") in PIL_DECODES)


def _samples(view: View, loader: Loader) -> Sequence[Json]:
    """The stack samples as rows: those of the loader alone, which are finer, or else those of the window.

    With workers the training process only waits in the window.
    """
    alone = [
        sample
        for what_if in view.recording.what_ifs
        if what_if.name == "loader_alone" and what_if.arguments.get("loader") in loader.ids
        for sample in what_if.result.get("samples", ())
    ]
    is_enough = sum(sample["count"] for sample in alone) >= LEAST_SAMPLES
    return alone if is_enough or loader.num_workers else [asdict(sample) for sample in view.recording.samples]
