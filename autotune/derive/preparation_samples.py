"""What fills the preparation of a batch: tokenising and decoding by stack samples, and what is the same each time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

from msgspec import to_builtins

from autotune.derive.loaders import LoaderSubject
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import Location, Value
from autotune.model.recording import Json, WhatIf

LEAST_SAMPLES = 20
LEAST_ITEM_NS = 50_000
"""A sample that takes less is read, not computed: indexing a tensor takes some microseconds."""

LEAST_CPU_SHARE = 0.5
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

AUGMENTS = re.compile(r"[/\\](PIL|torchvision|albumentations|kornia|imgaug|torchaudio|audiomentations)[/\\]")
"""Libraries that change samples, at random as a rule."""

PIL_DECODES = frozenset({"open", "load", "convert"})
"""Functions of PIL/Image.py that decode."""


def shares(view: RecordingView, loader: LoaderSubject, collate_share: Value | None) -> dict[str, Value | None]:
    """Facts `loader.tokenize_share`, `decode_share`, `constant_share`, `repeated_share` ...; none that is not known."""
    seen = _seen(view, loader, collate_share)
    constant = _constant_share(view, loader)
    # What workers compute again is not what is waited for, or not all of it.
    computed = [constant] if constant is not None and not loader.num_workers else []
    known = [*([sum(seen.values())] if seen else []), *computed]
    # Tokenising and decoding are a part of what is computed anew, as far as __getitem__ does them.
    other = None if constant is None else max(0.0, constant - sum(seen.values()))
    own = {"constant_share": constant, "other_constant_share": other}
    return {**seen, **own, "repeated_share": max(known, default=None)}


def _seen(view: RecordingView, loader: LoaderSubject, collate_share: Value | None) -> dict[str, float]:
    """The shares of tokenising and decoding; nothing from few samples.

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
    return {"tokenize_share": max(0.0, tokenized / total - collating), "decode_share": decoded / total}


def hottest_place(view: RecordingView, loader: LoaderSubject) -> Location | None:
    """The user's line in which most of the preparation is sampled; None from few samples, or without such a line."""
    rows = [row for row in _samples(view, loader) if row["phase"] == "fetch"]
    counts: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if row.get("user_file") and row.get("user_line"):
            counts[row["user_file"], row["user_line"]] += row["count"]
    if sum(row["count"] for row in rows) < LEAST_SAMPLES or not counts:
        return None
    return Location(*counts.most_common(1)[0][0])


def hot_line(view: RecordingView, loader: LoaderSubject) -> tuple[Location, str, float] | None:
    """The user's line that takes most of the preparation, its function, and its share.

    None from few samples, or without such a line. Tokenising, decoding and the work of libraries that change images at
    random are not counted: other facts are about the first two, and an augmentation is what it is.
    """
    rows = [row for row in _samples(view, loader) if row["phase"] == "fetch"]
    counts: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        is_known = tokenizes(row) or decodes(row) or AUGMENTS.search(row["leaf_file"])
        if row.get("user_line") and not is_known:
            counts[row["user_file"], row["user_line"], row.get("user_function", "")] += row["count"]
    total = sum(row["count"] for row in rows)
    if total < LEAST_SAMPLES or not counts:
        return None
    (file, line, function), count = counts.most_common(1)[0]
    return Location(file, line), function, count / total


def _constant_share(view: RecordingView, loader: LoaderSubject) -> float | None:
    """Of preparing a batch, what the script's own `__getitem__` computes to give the same samples again.

    Samples that are read in next to no time, or are mostly waited for, are not computed.
    """
    if not loader.own["dataset"]["map_style"]:
        return 0.0
    for what_if in _alone(view, loader):
        items, batch_ns = what_if.result.get("items"), what_if.result.get("batch_ns")
        if not items or not batch_ns:
            continue
        if not items["is_own"] or not items["are_same"] or not items["item_ns"]:
            return 0.0
        item_ns, cpu_ns = median(items["item_ns"]), median(items["item_cpu_ns"])
        if item_ns < LEAST_ITEM_NS or cpu_ns < LEAST_CPU_SHARE * item_ns:
            return 0.0
        return float(min(1.0, item_ns * items["batch_size"] / fmean(batch_ns)))
    return None


def tokenizes(row: Json) -> bool:
    """Whether a sample is in a tokenizer: of a library by its file, of the user's own by the name of the function.

    Compiled tokenizers leave no frame: one that `__getitem__` calls directly is not told from the rest of it.
    """
    return bool(TOKENIZE.search(row["leaf_file"]) or OWN_TOKENIZER.search(row.get("user_function", "")))


def decodes(row: Json) -> bool:
    """Whether a sample is in a function that decodes an image, audio, JSON or an archive."""
    is_image = re.search(r"[/\\]PIL[/\\]Image\.py$", row["leaf_file"]) is not None
    return bool(DECODE.search(row["leaf_file"])) or (is_image and row.get("leaf_function") in PIL_DECODES)


def _samples(view: RecordingView, loader: LoaderSubject) -> Sequence[Json]:
    """The stack samples as rows: those of the loader alone, which are finer, or else those of the window.

    With workers the training process only waits in the window.
    """
    alone = [sample for what_if in _alone(view, loader) for sample in what_if.result.get("samples", ())]
    is_enough = sum(sample["count"] for sample in alone) >= LEAST_SAMPLES
    return alone if is_enough or loader.num_workers else to_builtins(view.recording.samples)


def _alone(view: RecordingView, loader: LoaderSubject) -> list[WhatIf]:
    """What was tried of the loader by itself."""
    tried = [what_if for what_if in view.recording.what_ifs if what_if.name == "loader_alone"]
    return [what_if for what_if in tried if what_if.arguments.get("loader") in loader.ids]
