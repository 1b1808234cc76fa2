"""Fixes that are a script to run: stage the data on a local disk, tokenise it once.

The texts are in scripts/; the user's values are filled in as constants at their top. One that nobody knows is left
empty and marked there: the script refuses to start until it is filled in. Each script checks free space, tells time
and break-even before it starts, and runs without autotune.
"""

from __future__ import annotations

from importlib import resources

from msgspec import Struct

from autotune.model.finding import GeneratedScript

_MARK = "# VALUES\n"
_RESERVE_BYTES = 2**30
_TOKEN_BYTES = 5
"""Of one token in Arrow: input_ids in 4 bytes, attention_mask in 1 (datasets/arrow_writer.py)."""


class Stage(Struct, frozen=True):
    """Copy the file or folder `source` to `destination`; None, or "" for these two, is not known.

    `read_bytes_per_step`, `step_s` and `wait_s_per_step` (for batches) were measured, `free_bytes` is on the disk of
    the destination. The copy is expected to be as fast as training reads: an upper bound of its time, as it reads
    files in one go.
    """

    source: str
    destination: str
    num_bytes: float | None = None
    free_bytes: float | None = None
    read_bytes_per_step: float | None = None
    step_s: float | None = None
    wait_s_per_step: float | None = None


class Tokenise(Struct, frozen=True):
    """Tokenise `column` of `dataset` into the folder `output`; None, or "" for a text, is not known.

    `dataset` is a folder of save_to_disk, or what load_dataset takes together with `config`, `data_files` and `split`.
    `batch_s` is the time to prepare one micro-batch of `batch_size` samples in one process, `tokenise_share` the
    tokenizer's part of it, `wait_s_per_step` the wait for batches of one optimizer step.
    """

    output: str
    dataset: str = ""
    tokenizer: str = ""
    column: str = ""
    split: str = "train"
    config: str | None = None
    data_files: str | None = None
    max_length: int | None = None
    num_proc: int = 1
    num_samples: float | None = None
    mean_tokens: float | None = None
    free_bytes: float | None = None
    batch_s: float | None = None
    batch_size: int | None = None
    tokenise_share: float | None = None
    wait_s_per_step: float | None = None


def stage(values: Stage) -> GeneratedScript:
    """The script that copies the data; a second start goes on where the first one ended."""
    bytes_per_s = _ratio(values.read_bytes_per_step, values.step_s)
    takes_s = _ratio(values.num_bytes, bytes_per_s)
    constants: dict[str, str | float | None] = {
        "SOURCE": values.source,
        "DESTINATION": values.destination,
        "RESERVE_BYTES": _RESERVE_BYTES,
        "BYTES_PER_S": bytes_per_s,
        "WAIT_S_PER_STEP": values.wait_s_per_step,
    }
    comments = {
        "SOURCE": "a file, or a folder with all that is below it",
        "DESTINATION": "a folder on a local disk",
        "RESERVE_BYTES": "stay free on the disk",
        "BYTES_PER_S": "as fast as training reads; None: not measured",
        "WAIT_S_PER_STEP": "for batches, measured; None: not measured",
    }
    return GeneratedScript(
        name="stage_data.py",
        text=_fill_template("stage", constants, comments),
        to_fill=_empty_constants(constants),
        needed_bytes=values.num_bytes,
        free_bytes=values.free_bytes,
        takes_s=takes_s,
        break_even_steps=_ratio(takes_s, values.wait_s_per_step),
    )


def tokenise(values: Tokenise) -> GeneratedScript:
    """The script that tokenises once; it fails rather than overwrite what an earlier start saved."""
    takes_s = _tokenise_s(values)
    saved_s = _product(values.wait_s_per_step, values.tokenise_share)
    constants: dict[str, str | float | None] = {
        "DATASET": values.dataset,
        "CONFIG": values.config,
        "DATA_FILES": values.data_files,
        "SPLIT": values.split,
        "COLUMN": values.column,
        "TOKENIZER": values.tokenizer,
        "MAX_LENGTH": values.max_length,
        "OUTPUT": values.output,
        "NUM_PROC": values.num_proc if values.num_proc > 1 else None,
        "SAVED_S_PER_STEP": saved_s,
    }
    comments = {
        "DATASET": "a folder of save_to_disk, or what load_dataset takes",
        "COLUMN": "the one with the texts",
        "TOKENIZER": "what AutoTokenizer.from_pretrained takes",
        "MAX_LENGTH": "longer samples are cut; None: nothing is cut",
        "NUM_PROC": "processes; None: this one",
        "SAVED_S_PER_STEP": "the tokenizer's part of the measured wait; None: not measured",
    }
    tokens = _product(values.num_samples, values.mean_tokens)
    return GeneratedScript(
        name="tokenise_once.py",
        text=_fill_template("tokenise", constants, comments),
        to_fill=_empty_constants(constants),
        # The cache of map, and the copy that save_to_disk makes of it.
        needed_bytes=_product(tokens, 2 * _TOKEN_BYTES),
        free_bytes=values.free_bytes,
        takes_s=takes_s,
        break_even_steps=_ratio(takes_s, saved_s),
    )


def _tokenise_s(values: Tokenise) -> float | None:
    """Seconds to tokenise all samples, by the measured time of one; a batched tokenizer takes less."""
    per_sample_s = _ratio(_product(values.batch_s, values.tokenise_share), values.batch_size)
    return _ratio(_product(per_sample_s, values.num_samples), values.num_proc)


def _fill_template(script: str, constants: dict[str, str | float | None], comments: dict[str, str]) -> str:
    template = resources.files("autotune.patch").joinpath("scripts", f"{script}.py.txt").read_text(encoding="utf-8")
    lines = [_line(name, value, comments.get(name, "")) for name, value in constants.items()]
    return template.replace(_MARK, "\n".join(lines) + "\n", 1)


def _line(name: str, value: str | float | None, comment: str) -> str:
    mark = "FILL IN: " if value == "" else ""
    return f"{name} = {value!r}" + (f"  # {mark}{comment}" if comment else "")


def _empty_constants(constants: dict[str, str | float | None]) -> tuple[str, ...]:
    return tuple(name for name, value in constants.items() if value == "")


def _product(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


def _ratio(a: float | None, b: float | None) -> float | None:
    """a / b; not known where one of them is not, or b is 0."""
    return None if a is None or not b else a / b
