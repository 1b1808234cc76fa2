"""What advice needs: the command of an install, a generated script; from built evidence, and once for real."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autotune import collect, machine
from autotune.diagnose import attachments, disk_facts
from autotune.diagnose import diagnose as api
from autotune.engine.evaluate import evaluate
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence, Setting
from autotune.model.finding import Finding
from autotune.model.rule import SCRIPTS, Fix
from autotune.model.scanned import Pin
from autotune.patch.installs import install

TRAIN = "loader#train"
RULES = {rule.id: rule for rule in load_rules()}

A100 = {
    "device.type": "cuda",
    "device.capability": (8, 0),
    "machine.gpu_capability": (8, 0),
    "machine.driver_cuda": (12, 8),
    "machine.platform": "linux_x86_64",
    "machine.cpu_quota": 7.5,
    "machine.local_folder": "/tmp",
    "machine.local_free_bytes": 50 * 10**9,
    "machine.cwd_free_bytes": 20 * 10**9,
    "run.framework": "hf_trainer",
    "run.world_size": 1,
    "run.autocast": "bfloat16",
    "software.python": (3, 11, 4),
    "software.torch": (2, 8, 0),
    "software.torch_cuda": (12, 8),
    "software.transformers": (4, 41, 2),
    "software.has_flash_attn": False,
    "model.attention": "sdpa",
    "model.dtype": "float32",
    "device.attention_share": 0.3,
    "device.attention_backend": "efficient",
    "step.mean_ms": 200.0,
}
LOADER = {
    "loader.is_train": True,
    "loader.pad_share": 0.35,
    "loader.wait_share": 0.5,
    "loader.input_share": 0.5,
    "loader.cpu_demand_share": 0.1,
    "loader.storage": "nfs4",
    "loader.storage_is_network": True,
    "loader.data_path": "/nfs/data/images",
    "loader.data_bytes": 6 * 10**9,
    "loader.read_bytes_per_step": 4 * 10**6,
    "loader.tokenize_share": 0.8,
    "loader.decode_share": 0.0,
    "loader.num_batches": 1000,
    "loader.batch_ms": 80.0,
}
SETTINGS = (Setting("loader.batch_size", TRAIN, 8, "observed"), Setting("data.max_length", RUN, 512, "observed"))


def known(*without: str, subject: str = TRAIN, settings=SETTINGS, **changed) -> Evidence:
    run = {name: value for name, value in {**A100, **changed}.items() if name not in without}
    loader = {name: value for name, value in LOADER.items() if name not in without}
    owned = {(subject if one.subject == TRAIN else RUN, one.name): one for one in settings}
    return Evidence({RUN: run, subject: loader}, owned)


def completed(rule: str, evidence: Evidence, python: str = "python", place=lambda name: f"/run/{name}") -> Finding:
    (found,) = evaluate([RULES[rule]], evidence).findings
    return attachments.with_attachments(found, evidence, python, place)


def test_the_release_that_a_rule_asks_for_has_its_command() -> None:
    found = completed("EN001", known(), "/venv/bin/python")
    assert found.install is not None
    assert found.install.command == "/venv/bin/python -m pip install transformers==4.57.6"
    assert "Python 3.11.4 and torch 2.8.0 is published" in found.install.why
    assert found.script is None
    assert found.changes == ()


def test_the_pin_that_an_install_is_against_is_named() -> None:
    (found,) = evaluate([RULES["EN001"]], known()).findings
    pins = (Pin("torch<2.9", "requirements.txt:1"), Pin("transformers==4.40", "requirements.txt:3"))
    told = attachments.with_attachments(found, known(), "python", lambda name: "", pins).install
    assert told is not None
    assert told.why.endswith(
        "is published (as of 2026-11-21); requirements.txt:3 pins transformers==4.40: change it too"
    )


def test_no_rule_asks_for_a_jump_over_a_major_release() -> None:
    (fix,) = RULES["EN001"].fixes
    newest = install(fix.install, {"python": (3, 11), "torch": (2, 13)}, None)
    assert newest.command.endswith("transformers==4.57.6")
    assert "below 5" in fix.text


@pytest.mark.parametrize(
    ("without", "changed", "fits", "command"),
    [
        ((), {}, True, "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp311-cp311-linux_x86_64.whl"),
        ((), {"software.torch": (2, 13), "software.transformers": (5, 23, 0)}, True,
         'python -m pip install "transformers[kernels]==5.23.0"'),
        ((), {"software.torch": (2, 13)}, None, ""),
        ((), {"software.torch_cuda": (11, 8)}, False, ""),
        ((), {"machine.gpu_capability": (7, 5)}, False, ""),
        ((), {"machine.platform": "win_amd64"}, False, ""),
        (("machine.platform",), {}, None, ""),
        (("software.torch_cuda",), {}, None, ""),
    ],
)  # fmt: skip
def test_of_several_installs_the_first_that_fits(without, changed, fits, command) -> None:
    found = completed("AT004", known(*without, **changed)).install
    assert found is not None
    assert found.fits is fits
    assert bool(found.command) == bool(command)
    assert found.command.endswith(command)
    assert found.why


def test_nothing_is_needed_that_the_advice_does_not_ask_for() -> None:
    found = completed("AT004", known(**{"software.has_flash_attn": True}))
    assert (found.install, found.script) == (None, None)


def test_data_on_a_network_is_staged_on_the_local_disk() -> None:
    found = completed("DL009", known())
    assert found.install is None
    script = found.script
    assert script is not None
    assert script.path == "/run/stage_data.py"
    assert script.to_fill == ()
    assert "SOURCE = '/nfs/data/images'" in script.text
    assert "DESTINATION = '/tmp/staged-images'" in script.text
    assert (script.needed_bytes, script.free_bytes) == (6 * 10**9, 50 * 10**9)
    # 4 MB in 0.2 s, of 6 GB; half of each step waits.
    assert script.takes_s == pytest.approx(300)
    assert script.break_even_steps == pytest.approx(3000)


def test_what_no_fact_tells_of_staging_is_left_empty_and_unknown() -> None:
    found = completed("DL009", known("loader.data_path", "loader.data_bytes", "machine.local_folder")).script
    assert found is not None
    assert found.to_fill == ("SOURCE", "DESTINATION")
    assert (found.needed_bytes, found.takes_s, found.break_even_steps) == (None, None, None)


def test_tokenising_once_has_the_numbers_and_asks_for_the_names() -> None:
    script = completed("DL006", known()).script
    assert script is not None
    assert script.path == "/run/tokenise_once.py"
    assert script.to_fill == ("DATASET", "COLUMN", "TOKENIZER")
    assert "MAX_LENGTH = 512 " in script.text
    assert "NUM_PROC = 7 " in script.text
    assert script.free_bytes == 20 * 10**9
    # 8,000 samples at 80 ms x 0.8 / 8, in 7 processes; of a wait of 0.1 s a step, 0.8 is the tokenizer's.
    assert script.takes_s == pytest.approx(8000 * 0.008 / 7)
    assert script.break_even_steps == pytest.approx(8000 * 0.008 / 7 / 0.08)


@pytest.mark.parametrize(
    "evidence",
    [known(**{"run.world_size": 2}), known("run.world_size"), known("loader.num_batches"), known(settings=())],
    ids=["two ranks", "ranks unknown", "batches unknown", "batch size unknown"],
)
def test_how_long_tokenising_takes_is_not_guessed(evidence: Evidence) -> None:
    script = completed("DL006", evidence).script
    assert script is not None
    assert script.takes_s is None


def test_images_are_not_tokenised() -> None:
    evidence = known()
    evidence.facts[TRAIN].update({"loader.tokenize_share": 0.0, "loader.decode_share": 0.8})  # type: ignore[attr-defined]
    assert completed("DL006", evidence).script is None


def test_loaders_do_not_share_a_script() -> None:
    script = completed("DL009", known(subject="loader#2")).script
    assert script is not None
    assert script.path == "/run/stage_data_2.py"


def test_a_stored_run_names_only_what_is_there(tmp_path: Path) -> None:
    assert completed("DL009", known(), place=attachments.written_scripts(tmp_path)).script is None
    found = completed("DL009", known(), place=lambda name: str(tmp_path / name))
    attachments.write([found, completed("EN001", known())])
    assert found.script is not None
    assert [each.name for each in tmp_path.iterdir()] == ["stage_data.py"]
    assert (tmp_path / "stage_data.py").read_text(encoding="utf-8") == found.script.text
    assert completed("DL009", known(), place=attachments.written_scripts(tmp_path)).script == found.script


def test_every_script_that_a_rule_may_name_can_be_made() -> None:
    assert tuple(attachments.MAKERS) == SCRIPTS


def test_every_install_of_a_rule_is_of_a_package_that_the_table_has() -> None:
    fixes: list[Fix] = [fix for rule in RULES.values() for fix in rule.fixes if fix.install]
    assert fixes
    for fix in fixes:
        assert "nothing is known" not in install(fix.install, {}, None).why


def test_the_size_of_data(tmp_path: Path) -> None:
    def facts(path: Path) -> dict[str, object]:
        return {fact.name.removeprefix("loader.data_"): fact.value for fact in disk_facts.data_facts(TRAIN, path)}

    for name in ("a-0.arrow", "a-1.arrow"):
        (tmp_path / name).write_bytes(bytes(10))
    (tmp_path / "one.bin").write_bytes(bytes(7))
    assert facts(tmp_path / "a-0.arrow") == {"path": str(tmp_path), "bytes": 27}
    assert facts(tmp_path / "one.bin") == {"path": str(tmp_path / "one.bin"), "bytes": 7}
    assert facts(tmp_path) == {"path": str(tmp_path)}
    assert facts(tmp_path / "gone.bin") == {"path": str(tmp_path / "gone.bin")}


def test_room_is_stated_where_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts() -> dict[str, object]:
        return {fact.name: fact.value for fact in disk_facts.local_disk_facts(tmp_path)}

    monkeypatch.setattr(machine, "free_bytes", lambda path: 7 if path == tmp_path else None)
    monkeypatch.setattr(machine, "local_disk", lambda: (Path("/scratch"), 5))
    assert facts() == {
        "machine.local_folder": "/scratch",
        "machine.local_free_bytes": 5,
        "machine.cwd_free_bytes": 7,
    }
    monkeypatch.setattr(machine, "local_disk", lambda: None)
    assert facts() == {"machine.cwd_free_bytes": 7}


FIXTURE = Path(__file__).parents[2] / "fixtures" / "scripts" / "tokenise_in_getitem.py"


@pytest.mark.train
def test_a_script_is_generated_that_runs(place, tmp_path: Path) -> None:
    shutil.copy(FIXTURE, place.cwd)
    # Long enough for the stack sampler to see what the loader does, on a busy machine too.
    request = collect.Request(steps=40, warmup=2, what_ifs=False)
    options = api.DiagnoseOptions((FIXTURE.name, "--device", "cpu"), request, sys.executable, lock=False)
    report = api.diagnose(options, lambda status: None, cwd=place.cwd, environ=place.environ)
    (found,) = [one for one in report.evaluation.findings if one.rule.id == "DL006"]
    assert found.script is not None
    path = Path(found.script.path)
    assert path == Path(report.run.folder) / "tokenise_once.py"
    assert found.script in [one.script for one in api.load("last", cwd=place.cwd).evaluation.findings]
    help_ = started(path, place, "--help")
    assert (help_.returncode, help_.stderr) == (0, "")
    empty = started(path, place, "--dry-run")
    assert empty.returncode == 1
    assert empty.stderr.startswith("fill in DATASET and COLUMN and TOKENIZER at the top of ")
    fill_in(path, place.cwd)
    done = started(path, place, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "20 samples, about 3 tokens each" in done.stdout
    assert not (place.cwd / "tokenised").exists()


def fill_in(path: Path, folder: Path) -> None:
    """What the user would write into the script: a folder of texts, and a tokenizer of whole words."""
    pytest.importorskip("datasets")
    tokenizers = pytest.importorskip("tokenizers")
    (folder / "texts").mkdir()
    (folder / "texts" / "train.jsonl").write_text('{"body": "a b c"}\n' * 20)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, "[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (folder / "words").mkdir()
    words.save(str(folder / "words" / "tokenizer.json"))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "words" / "tokenizer_config.json").write_text(json.dumps(kind))
    text = path.read_text(encoding="utf-8")
    for name, value in {"DATASET": "texts", "COLUMN": "body", "TOKENIZER": "words"}.items():
        text = re.sub(rf"(?m)^{name} = ''", f"{name} = {value!r}", text)
    path.write_text(text, encoding="utf-8")


def started(path: Path, place, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**place.environ, "HF_HOME": str(place.cwd / "hf")}
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=place.cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
