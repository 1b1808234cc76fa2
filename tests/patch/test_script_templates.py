from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys

import pytest
from msgspec.structs import replace

from autotune.patch.script_templates import Stage, Tokenise, stage, tokenise


def start(generated, folder, *arguments):
    """Write the script into `folder` and run it there, offline."""
    (folder / generated.name).write_text(generated.text)
    environ = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "HF_DATASETS_CACHE": str(folder / "c"),
    }
    return subprocess.run(
        [sys.executable, generated.name, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def data(tmp_path):
    """A folder of five files in two folders, 5 KB, one of them a link."""
    source = tmp_path / "nfs"
    (source / "deep").mkdir(parents=True)
    for number in range(4):
        (source / ("deep" if number % 2 else ".") / f"part {number}.bin").write_bytes(bytes([number]) * 1024)
    (source / "link.bin").symlink_to(source / "part 0.bin")
    (source / "deep" / "up").symlink_to(source)
    return source


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COPIED = {f"{folder}part {n}.bin": bytes([n]) * 1024 for n, folder in enumerate(("", "deep/", "", "deep/"))}
COPIED["link.bin"] = bytes(1024)


def test_stage_copies_and_says_what_it_took(data, tmp_path):
    done = start(stage(Stage(str(data), "local/data", wait_s_per_step=0.5)), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(tmp_path / "local" / "data") == COPIED
    assert "to copy: 5 KiB in 5 of 5 files; free on the disk of" in done.stdout
    assert re.search(r"copy time took: \d+\.\d s; it pays off after about \d+ steps", done.stdout)
    assert f"read {tmp_path / 'local' / 'data'} instead of {data}" in done.stdout


def test_stage_goes_on_where_it_was_interrupted(data, tmp_path):
    script = stage(Stage(str(data), "local"))
    assert start(script, tmp_path).returncode == 0
    (tmp_path / "local" / "part 2.bin").write_bytes(b"half")
    (tmp_path / "local" / "deep" / "part 3.bin").unlink()
    (tmp_path / "local" / "deep" / "part 3.bin.part").write_bytes(b"half")
    done = start(script, tmp_path)
    assert "2 KiB in 2 of 5 files" in done.stdout
    assert tree(tmp_path / "local") == COPIED
    assert "0 bytes in 0 of 5 files" in start(script, tmp_path).stdout


def test_stage_of_one_file(data, tmp_path):
    assert start(stage(Stage(str(data / "part 2.bin"), "local")), tmp_path).returncode == 0
    assert tree(tmp_path / "local") == {"part 2.bin": COPIED["part 2.bin"]}


def test_a_dry_run_of_stage_copies_nothing(data, tmp_path):
    script = stage(Stage(str(data), "local", read_bytes_per_step=1024, step_s=2.0, wait_s_per_step=1.0))
    done = start(script, tmp_path, "--dry-run")
    assert done.returncode == 0
    assert "copy time expected: 10.0 s; it pays off after about 11 steps" in done.stdout
    assert not (tmp_path / "local").exists()


def test_stage_refuses_what_does_not_fit(data, tmp_path):
    script = stage(Stage(str(data), "local"))
    full = replace(script, text=re.sub("(?m)^RESERVE_BYTES = .*", "RESERVE_BYTES = 1 << 62", script.text))
    done = start(full, tmp_path)
    assert done.returncode == 1
    assert "this does not fit" in done.stderr
    assert not (tmp_path / "local").exists()


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [("missing", "local", "missing has no files"), ("nfs", "nfs/copy", "lies inside of nfs")],
)
def test_stage_refuses_what_makes_no_sense(data, tmp_path, source, destination, words):
    done = start(stage(Stage(source, destination)), tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_stage_says_why_it_stopped(data, tmp_path):
    (tmp_path / "local").write_text("a file, where the folder should be")
    done = start(stage(Stage(str(data), "local")), tmp_path)
    assert done.returncode == 1
    assert "start again to go on" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_staging_takes():
    found = stage(Stage("/nfs", "/tmp/x", 6e9, 50e9, read_bytes_per_step=2e6, step_s=0.1, wait_s_per_step=0.05))
    assert (found.needed_bytes, found.free_bytes) == (6e9, 50e9)
    assert found.takes_s == pytest.approx(300)
    assert found.break_even_steps == pytest.approx(6000)


@pytest.mark.parametrize("unknown", ["num_bytes", "read_bytes_per_step", "step_s", "wait_s_per_step"])
def test_what_is_not_known_of_staging_stays_unknown(unknown):
    known = Stage("/nfs", "/tmp/x", 6e9, 50e9, read_bytes_per_step=2e6, step_s=0.1, wait_s_per_step=0.05)
    found = stage(replace(known, **{unknown: None}))
    assert found.break_even_steps is None
    assert (found.takes_s is None) == (unknown != "wait_s_per_step")


@pytest.fixture
def texts(tmp_path):
    """A JSON-lines data set of 50 samples with a label, and a tokenizer of whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("datasets")
    rows = [{"text": "a b c " * (1 + n % 3), "label": n % 2} for n in range(50)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, "[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (tmp_path / "tokenizer").mkdir()
    words.save(str(tmp_path / "tokenizer" / "tokenizer.json"))
    (tmp_path / "tokenizer" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"})
    )
    return Tokenise("ids", "json", "tokenizer", "text", data_files="train.jsonl", max_length=5)


@pytest.mark.train
def test_tokenise_saves_ids_and_the_other_columns(texts, tmp_path):
    done = start(tokenise(replace(texts, num_proc=2, tokenise_share=0.5, wait_s_per_step=0.1)), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "50 samples, about 4.32 tokens each" in done.stdout
    assert "it pays off after about" in done.stdout
    assert f"load_from_disk({str(tmp_path / 'ids')!r})" in done.stdout
    saved = loaded(tmp_path, "ids")
    assert saved["columns"] == ["attention_mask", "input_ids", "label"]
    assert saved["ids"][:3] == [[1, 2, 3], [1, 2, 3, 1, 2], [1, 2, 3, 1, 2]]
    assert saved["labels"] == [n % 2 for n in range(50)]
    again = start(tokenise(texts), tmp_path)
    assert again.returncode == 1
    assert "exists already" in again.stderr


@pytest.mark.train
def test_tokenise_reads_what_save_to_disk_wrote(texts, tmp_path):
    assert start(tokenise(texts), tmp_path).returncode == 0
    code = "import datasets as d; d.load_dataset('json', data_files='train.jsonl', split='train').save_to_disk('raw')"
    run(tmp_path, code)
    whole = replace(texts, dataset="raw", data_files=None, output="from_disk", max_length=None)
    assert start(tokenise(whole), tmp_path).returncode == 0
    assert loaded(tmp_path, "from_disk")["ids"][2] == [1, 2, 3] * 3


@pytest.mark.train
def test_a_dry_run_of_tokenise_saves_nothing(texts, tmp_path):
    done = start(tokenise(texts), tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "free:" in done.stdout
    assert not (tmp_path / "ids").exists()


@pytest.mark.train
def test_tokenise_names_the_columns_that_there_are(texts, tmp_path):
    done = start(tokenise(replace(texts, column="content")), tmp_path)
    assert done.returncode == 1
    assert "there is no column 'content', only text, label" in done.stderr


def test_what_tokenising_takes():
    values = Tokenise("o", "d", "t", "text", num_proc=4, num_samples=1_000_000, mean_tokens=300.0, free_bytes=1e12)
    found = tokenise(replace(values, batch_s=0.08, batch_size=8, tokenise_share=0.5, wait_s_per_step=0.1))
    assert found.needed_bytes == pytest.approx(3e9)
    assert found.takes_s == pytest.approx(1250)
    assert found.break_even_steps == pytest.approx(25_000)
    assert tokenise(values).takes_s is None
    assert tokenise(values).break_even_steps is None


EMPTY = [
    (stage(Stage("", "")), "SOURCE and DESTINATION"),
    (tokenise(Tokenise("o")), "DATASET and COLUMN and TOKENIZER"),
]


@pytest.mark.parametrize(("script", "names"), EMPTY, ids=["stage", "tokenise"])
@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_what_nobody_told_has_to_be_filled_in(script, names, arguments, tmp_path):
    assert set(script.to_fill) == set(names.split(" and "))
    for name in script.to_fill:
        assert re.search(rf'(?m)^{name} = ""|^{name} = \'\'  # FILL IN: ', script.text)
    done = start(script, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"fill in {names} at the top of ")
    assert "Traceback" not in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == [script.name]


@pytest.mark.parametrize("script", [script for script, _ in EMPTY], ids=["stage", "tokenise"])
def test_help_and_what_is_no_argument(script, tmp_path):
    assert "--dry-run" in start(script, tmp_path, "--help").stdout
    assert start(script, tmp_path, "--dryrun").returncode == 2


def test_what_is_known_need_not_be_filled_in():
    assert stage(Stage("/nfs", "")).to_fill == ("DESTINATION",)
    assert stage(Stage("/nfs", "/tmp/x")).to_fill == ()


NAMES = ["a b", "it's", 'q"uote', "back\\slash", "line\nbreak", "# VALUES", "naïve"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [lambda name: stage(Stage(name, name)), lambda name: tokenise(Tokenise(*[name] * 4))])
def test_values_are_written_as_python(make, name):
    body = ast.parse(make(name).text).body
    values = [ast.literal_eval(one.value) for one in body if isinstance(one, ast.Assign)]
    assert values.count(name) in (2, 4)


def run(folder, code):
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "c")}
    words = [sys.executable, "-c", code]
    return subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=True, timeout=120
    ).stdout


def loaded(folder, name):
    """What training would read, in a process of its own: datasets warns in ways that are not ours to fix."""
    code = (
        f"import json, datasets; d = datasets.load_from_disk({name!r}); "
        "print(json.dumps({'columns': sorted(d.column_names), 'ids': d['input_ids'][:], 'labels': d['label'][:]}))"
    )
    return json.loads(run(folder, code))
