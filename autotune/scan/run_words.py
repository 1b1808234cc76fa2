"""What no file of a run names, and what some file of it names: facts that need all files, and of each only its words.

A detector sees one file, and cannot say that a run has no autocast: another module may bring it. Here a word in any
file of the run is enough for silence.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from autotune import reading
from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN, Fact, Location

UNUSED = re.compile(
    rb"(?:^|(?<=\s))#[^\n]*|(?s:(\"{3}|'{3}).*?\1)"
    rb"|^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b(?![^\n]*\bas\b)(?:[^\n(\\;]|\\\n)*(?:\([^)]*\))?"
    rb"|\b(?:\w+\.)*autocast\([^()\n]*\benabled\s*=\s*False\b[^()\n]*\)",
    re.MULTILINE,
)
"""What of a Python file says nothing of a run: comments, texts over several lines, imports, whose names count where
they are used (under another name the import tells), and what keeps a part in fp32."""

LOWER_PRECISION = re.compile(
    rb"autocast|GradScaler|b?float16|\.half\(|(?<![a-z])amp(?![a-z])|bf16|fp16|tf32|matmul_precision|mixed_precision"
    rb"|getattr\(torch,|\b(?:conf\w*|cfg|args|opts?|hparams)\.(?:\w+\.)*(?:\w+_)?(?:dtype|precision)\b"
    rb"|[\"']--?(?:\w+[_-])?(?:dtype|precision)[\"']",
    re.IGNORECASE,
)
"""Words of autocast, of 16-bit types and of TF32, and of types that an option or a config gives."""

HEAVY = re.compile(
    rb"from_pretrained|\btimm\b|torchvision.*models|[uU][nN]et(?![a-z])|[rR]es[nN]et\d*|[eE]fficient[nN]et|\bmonai\b"
    rb"|segmentation_models"
)
"""Words of models that consist of large products and convolutions. One that a script builds of torch's own layers may
be of any size."""

ELSEWHERE = re.compile(rb"torch\.fft|rfftn?\(|[rR]asteriz|tinycudann|nerfacc|[cC]omplexF")
"""Words of models whose time goes into other kernels."""

TEXT = re.compile(
    rb"\b\w+For(?:CausalLM|Seq2SeqLM|MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering)\b"
    rb"|\b(?:M?T5|M?Bart|Pegasus|LED)ForConditionalGeneration\b"
)
"""Classes of transformers that read and write text."""

SAMPLES_ELSEWHERE = re.compile(rb"\b(?:unsloth|fast_inference|rollout_func|sglang)\b")
"""Words of scripts whose completions another engine samples, or a function of their own."""

CONVOLVES = re.compile(
    rb"[cC]onv(?:\d|[nN]e[xX]t|olution)|\b(?:LSTM|GRU|RNN)\b|\btimm\b|torchvision|diffusers|[vV]ision|[iI]mage|[pP]ixel"
    rb"|[aA]udio|[sS]peech|[wW]av2|[wW]hisper|[hH]ubert|[mM]amba|[uU][nN]et(?![a-z])|[rR]es[nN]et|CLIP|ViT"
)
"""Words of layers that cuDNN computes, and of what models read or write that have them: pictures and sound."""

SAVES = re.compile(rb"\btorch\.save\(")

SAVE_LINE = re.compile(rb"^[^#\n]*?\b(?:torch\.save|joblib\.dump|pickle\.dump|save_pretrained)\(", re.MULTILINE)

RESTORES = re.compile(
    rb"(?:opt|sched|solver|adam|sgd|trainer)\w*(?:\[[^\]\n]*\])?\.load_state_dict\(|[\])]\.load_state_dict\("
    rb"|(?<![\w.])(?:state|obj|module|attr|component|item|value|v)\w?\.load_state_dict\(|load_state_dict\([^\n]*opt"
    rb"|(?<![\w.])\w{1,2}\.load_state_dict\(|checkpointer\w*\.load\("
    rb"|load_state\(|auto_resume|load_optim|dcp\.load|resume_or_load|load_objects|fabric\.load",
    re.IGNORECASE,
)
"""Words that restore an optimizer, or may."""

HELPER = re.compile(rb"(?<!def )\b(load_checkpoint|restore)\(")
"""Functions that may restore an optimizer, where a run does not define them itself."""

RESUMES = re.compile(rb"\.resume\b|--resume\b", re.IGNORECASE)

LOADS = re.compile(rb"\btorch\.load\(")
"""Where a run that resumes loads a file itself and restores no optimizer, it goes on with the weights alone."""

SAMPLER = re.compile(rb"^([^#\n]*?)\bDistributedSampler\(((?:[^()]|\([^()]*\))*)\)", re.MULTILINE)

HELD_OUT = re.compile(rb"val|test|eval|dev_|query|gallery", re.IGNORECASE)


def _shuffling_samplers(name: str, text: bytes) -> Iterator[Location]:
    """Where a file makes a DistributedSampler that shuffles, for training."""
    for match in SAMPLER.finditer(text):
        is_shuffled = not re.search(rb"shuffle\s*=\s*(?!True)", match[2])
        if is_shuffled and not HELD_OUT.search(match[1]) and b"class " not in match[1]:
            yield Location(name, text.count(b"\n", 0, match.start()) + 1)


LIGHTNING = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(?:pytorch_lightning|lightning)\b", re.MULTILINE)

SETS_PRECISION = re.compile(rb"precision|" + LOWER_PRECISION.pattern, re.IGNORECASE)

SETTING_FILES = (
    *(".py", ".yaml", ".yml", ".json", ".jsonnet", ".toml", ".cfg", ".ini", ".gin"),
    *(".sh", ".bash", ".sbatch", ".slurm", "Makefile"),
)

UNREAD = b"precision set_epoch"
"""Stands for what was not read: it may say anything that is looked for."""

MAX_FILES, MAX_BYTES = 3_000, 500_000
"""Files of a project that are searched for what may set the precision of a Trainer, and the most that one may have."""

ALL_READ = 40
"""Files of a run below which none of its own was left out."""

SMALL_DATA, LARGE_DATA = re.compile(rb"CIFAR|MNIST"), re.compile(rb"[iI]mage[nN]et|IMAGENET|COCO")
"""Data sets of small pictures, with which a model of any kind is soon trained, and others."""


@lru_cache(maxsize=4096)
def _has(pattern: re.Pattern[bytes], data: bytes) -> bool:
    return pattern.search(data) is not None


@lru_cache
def _wrapping() -> re.Pattern[bytes]:
    """Imports of what may set the precision from outside: trainer frameworks and engines."""
    names = {package for one in frameworks().values() for package in one.packages}
    others = ("apex", "deepspeed", "fairseq", "speechbrain", "catalyst", "mmengine", "mmcv", "detectron2", "torch_xla")
    packages = "|".join(sorted(re.escape(name) for name in {*names, *others} - {"transformers"}))
    return re.compile(rf"^[ \t]*(?:from|import)[ \t]+(?:{packages})\b".encode(), re.MULTILINE)


def facts(files: Mapping[str, bytes], near: Iterable[bytes], others: Iterable[bytes], step: Location) -> Iterator[Fact]:
    """Facts `code.names_no_lower_precision`, `code.has_heavy_model`, `code.never_restores_optimizer` and
    `code.never_sets_epoch` of a run that trains in a loop of its own; `step` is where its model is called, `files` are
    what is written in all files of the run, `near` in those that were read as code, which tell the model, and `others`
    in those of the project."""
    texts = list(files.values())
    if any(_has(_wrapping(), one) for one in texts):
        return
    yield _heavy_model(list(near), step)
    samplers = [place for name, text in files.items() for place in _shuffling_samplers(name, text)]
    if samplers and not any(b"set_epoch" in one for one in itertools.chain(texts, others)):
        yield Fact("code.never_sets_epoch", RUN, True, tuple(samplers))
    if any(_has(SAVES, one) for one in texts) and not _may_go_on([_code(name, text) for name, text in files.items()]):
        yield Fact("code.never_restores_optimizer", RUN, True, _saves(files, step))
    if not any(_has(LOWER_PRECISION, _code(name, text)) for name, text in files.items()):
        yield Fact("code.names_no_lower_precision", RUN, True, (step,))


@lru_cache(maxsize=4096)
def _code(name: str, text: bytes) -> bytes:
    """What of a file says something of a run; comments of a config count, as those of a notebook are in its JSON."""
    return UNUSED.sub(b"", text) if name.endswith(".py") else text


def text_facts(files: Mapping[str, bytes]) -> Iterator[Fact]:
    """Fact `code.trains_text_alone`, where the files of a run name a text model of transformers, and none of them
    anything that convolves; fact `code.samples_elsewhere`, where they name another engine for completions."""
    for name, text in files.items():
        if (word := SAMPLES_ELSEWHERE.search(text)) is not None:
            place = Location(name, text.count(b"\n", 0, word.start()) + 1)
            yield Fact("code.samples_elsewhere", RUN, True, (place,))
            break
    found = ((name, one) for name, text in files.items() if (one := TEXT.search(text)) is not None)
    first = next(found, None)
    if first is not None and not any(_has(CONVOLVES, one) for one in files.values()):
        name, one = first
        place = Location(name, files[name].count(b"\n", 0, one.start()) + 1)
        yield Fact("code.trains_text_alone", RUN, True, (place,))


def lightning_facts(files: Mapping[str, bytes], others: Iterable[bytes], step: Location) -> Iterator[Fact]:
    """Facts `code.names_no_lower_precision` and `code.has_heavy_model`, where Lightning trains and no file of the
    project names a precision, `others` among them: its Trainer takes one from scripts, configs and command lines.

    `step` is where the Trainer is made.
    """
    texts = list(files.values())
    if not any(_has(LIGHTNING, one) for one in texts) or any(_has(SETS_PRECISION, one) for one in texts):
        return
    if not any(SETS_PRECISION.search(one) for one in others):
        yield _heavy_model(texts, step)
        yield Fact("code.names_no_lower_precision", RUN, True, (step,))


def _may_go_on(texts: Sequence[bytes]) -> bool:
    """Whether an interrupted run may get the state of its optimizer back."""
    if any(_has(RESTORES, one) for one in texts):
        return True
    helpers = {match[1] for one in texts for match in HELPER.finditer(one)}
    if any(not any(re.search(rb"\bdef " + name + rb"\(", one) for one in texts) for name in helpers):
        return True
    resuming = [one for one in texts if _has(RESUMES, one)]
    return bool(resuming) and not (len(texts) < ALL_READ and any(_has(LOADS, one) for one in resuming))


def _saves(files: Mapping[str, bytes], step: Location) -> tuple[Location, ...]:
    """Where a model is saved: in the file of the loop, else in the first file that saves one."""
    places = {
        name: tuple(Location(name, text.count(b"\n", 0, one.end()) + 1) for one in SAVE_LINE.finditer(text))
        for name, text in files.items()
    }
    return places.get(step.file, ()) or next((found for found in places.values() if found), (step,))


def _heavy_model(texts: Sequence[bytes], step: Location) -> Fact:
    is_small = any(_has(SMALL_DATA, one) for one in texts) and not any(_has(LARGE_DATA, one) for one in texts)
    is_elsewhere = is_small or any(_has(ELSEWHERE, one) for one in texts)
    return Fact("code.has_heavy_model", RUN, not is_elsewhere and any(_has(HEAVY, one) for one in texts), (step,))


def setting_files(root: Path) -> Iterator[bytes]:
    """What the files hold that may set something, hidden folders left out; more than MAX_FILES may set anything."""
    number = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in (one for one in sorted(names) if one.endswith(SETTING_FILES)):
            number += 1
            if number > MAX_FILES:
                yield UNREAD
                return
            try:
                yield reading.read(Path(folder, name), most_bytes=MAX_BYTES)
            except OSError:
                yield UNREAD
