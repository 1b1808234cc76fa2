"""What a Trainer's own loader decodes for each sample, and `map` that decodes or tokenises in one process."""

from __future__ import annotations

import pytest
from scanning import facts, lines, scan

TRAINER = """
import librosa
import torchaudio
from PIL import Image
from datasets import DatasetDict, load_dataset
from torch.utils.data import Dataset
from transformers import AutoImageProcessor, Trainer, TrainingArguments

class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows
    def __getitem__(self, i):
        return {item}

class Collator:
    def __init__(self, processor):
        self.processor = processor
    def __call__(self, rows):
        return {batch}

class OwnLoader(Trainer):
    def get_train_dataloader(self):
        return make(self.train_dataset)

def transform(rows):
    return {transform}

rows = load_dataset("org/rows")
{before}
trainer = {trainer}(args=TrainingArguments("out"), train_dataset={dataset}, data_collator={collator})
trainer.train()
"""

PLAIN = {
    "item": "self.rows[i]",
    "batch": "stack(rows)",
    "transform": "rows",
    "before": "",
    "trainer": "Trainer",
    "dataset": "Rows(rows)",
    "collator": "Collator(processor)",
}


@pytest.mark.parametrize(
    ("told", "decodes"),
    [
        ({"item": "resize(Image.open(self.rows[i]))"}, True),
        ({"item": "torchaudio.load(self.rows[i])"}, True),
        ({"item": "librosa.load(self.rows[i])", "dataset": "DatasetDict({'train': Rows(rows)})['train']"}, True),
        ({"batch": "self.processor(text=texts, images=rows)"}, True),
        ({"batch": "self.processor.pad([row['input_features'] for row in rows])"}, True),
        ({"batch": "[row['image'].convert('RGB') for row in rows]"}, True),
        ({"collator": "lambda rows: image_processor(images=rows)"}, True),
        ({"dataset": "rows", "before": "rows.set_transform(transform)", "transform": "Image.open(rows)"}, True),
        (
            {"dataset": "rows", "before": "rows = rows.with_transform(transform)", "transform": "Image.open(rows)"},
            True,
        ),
        ({}, None),
        ({"item": "self.tokenizer(self.rows[i])"}, None),
        ({"batch": "self.processor(rows)"}, None),  # of texts alone
        ({"batch": "self.processor(text=rows)"}, None),
        ({"batch": "value.convert('int')"}, None),
        ({"dataset": "rows", "transform": "Image.open(rows)"}, None),  # nobody uses the function
        ({"dataset": "rows", "before": "rows.set_transform(transform)"}, None),
        ({"item": "Image.open(self.rows[i])", "trainer": "OwnLoader"}, None),  # a loader of its own
    ],
)
def test_what_a_trainer_decodes_for_each_sample(told: dict[str, str], decodes: bool | None) -> None:
    text = TRAINER
    for key, value in (PLAIN | told).items():
        text = text.replace(f"{{{key}}}", value)
    assert facts(scan(text)).get("loader.decodes_files") is decodes


MAP = """
import argparse
import librosa
from datasets import load_dataset
from transformers import AutoFeatureExtractor, AutoTokenizer, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=None)
args = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained("org/model")
def sound(row):
    audio = row["audio"]
    row["input_values"] = feature_extractor(audio["array"], sampling_rate=16_000)
    return row
def text(row):
    return tokenizer(row["text"])
def words(row):
    return {"text": row["text"].strip()}
rows = load_dataset(NAME)
rows = rows.map(MAPPED)
Trainer(args=TrainingArguments("out"), train_dataset=rows).train()
"""

MEDIA, TEXT = {"code.maps_in_one_process", "code.maps_media_in_one_process"}, {"code.maps_in_one_process"}


@pytest.mark.parametrize(
    ("mapped", "name", "flags", "found"),
    [
        ("sound", "'org/speech'", None, MEDIA),
        ("sound, num_proc=1", "'org/speech'", None, MEDIA),
        ("sound, batched=True", "'org/speech'", None, MEDIA),
        ("function=lambda row: librosa.load(row['path'])", "'org/speech'", None, MEDIA),
        ("sound, num_proc=args.workers", "'org/speech'", {}, MEDIA),
        ("sound, num_proc=args.workers", "'org/speech'", {"workers": "8"}, set()),
        ("sound, num_proc=args.workers", "'org/speech'", None, set()),  # the command is not known
        ("sound, num_proc=8", "'org/speech'", None, set()),
        ("sound, **options", "'org/speech'", None, set()),
        ("sound", "'org/speech', streaming=True", None, set()),
        ("sound", "'org/speech', streaming=args.stream", None, set()),
        ("sound", "'hf-internal-testing/librispeech_asr_dummy'", None, set()),
        ("sound", "'org/speech', split='train[:100]'", None, set()),
        ("text", "'org/texts'", None, TEXT),
        ("text, batched=False", "'org/texts'", None, TEXT),
        ("text, batched=True", "'org/texts'", None, set()),  # a fast tokenizer has threads
        ("text, num_proc=8", "'org/texts'", None, set()),
        ("words", "'org/texts'", None, set()),
    ],
)
def test_a_map_in_one_process(mapped: str, name: str, flags: dict[str, str | bool] | None, found: set[str]) -> None:
    script = scan(MAP.replace("MAPPED", mapped).replace("NAME", name), flags)
    assert {one for one in facts(script) if one.startswith("code.maps")} == found
    if found:
        assert lines(script, "code.maps_in_one_process") == [19]


def test_a_map_of_another_library_is_none() -> None:
    text = MAP.replace("MAPPED", "sound").replace("NAME", "'a'").replace("from datasets import", "from mine import")
    assert not any(one.startswith("code.maps") for one in facts(scan(text)))


def test_a_package_of_the_project_with_the_hubs_name_is_none() -> None:
    text = MAP.replace("MAPPED", "sound").replace("load_dataset(NAME)", "build_dataset(args)")
    assert not any(one.startswith("code.maps") for one in facts(scan(text)))


def test_a_pipeline_of_its_own_beside_the_hubs_is_none() -> None:
    text = MAP.replace("rows.map(MAPPED)", "wds.WebDataset(SHARDS).map(sound)").replace("NAME", "'a'")
    assert not any(one.startswith("code.maps") for one in facts(scan(text)))
