"""check from files to findings, on small projects that are written for it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.check import check as api
from autotune.check.profile import Profile
from autotune.engine import evaluate as engine_evaluate
from autotune.engine.evidence import NOT_SEEN, join
from autotune.errors import UsageError
from autotune.model.checked import ASIDE, MINOR, Checked
from autotune.model.evidence import RUN, Evidence, Fact, Location, Setting
from autotune.model.rule import Severity

WRONG = """
    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler()
    loader = DataLoader(open_dataset(), batch_size=4)
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x.to(device)).sum()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.empty_cache()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(textwrap.dedent(WRONG))
    return tmp_path


def check(root: Path, *paths: str, **options: object) -> Checked:
    asked = {"with_minor": True, **options}
    given = api.CheckOptions(tuple(Path(path) for path in paths or (".",)), **asked)  # type: ignore[arg-type]
    return api.check(given, cwd=root)


def found(checked: Checked) -> set[str]:
    return {finding.rule.id for finding in checked.findings}


def edit(root: Path, old: str, new: str) -> None:
    file = root / "train.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_what_files_decide_fires_and_the_rest_needs_a_run(project) -> None:
    checked = check(project)
    assert {"DL001", "PR005", "SY005"} <= found(checked)
    (one,) = checked.bundles
    assert "CK001" in {skipped.rule.id for skipped in one.skipped}
    assert (checked.root, checked.num_files) == (str(project), 1)
    subjects = {(finding.rule.id, finding.subject) for finding in one.findings}
    skipped = {(each.rule.id, each.subject) for each in one.skipped}
    assert not subjects & skipped
    assert one.num_passed > 0


def test_minor_findings_are_counted_and_fail_nothing(project) -> None:
    edit(project, "open_dataset()", "open_dataset(), pin_memory=False")
    everything = check(project, fail_on=Severity.LOW)
    minor = {finding.rule.id for finding in everything.findings if finding.is_minor}
    assert {"DL001", "DL004"} <= minor
    checked = check(project, fail_on=Severity.LOW, with_minor=False)
    assert found(checked) == found(everything) - minor
    silenced = {each.finding.rule.id for each in checked.bundles[0].silenced if each.by == MINOR}
    assert silenced == minor
    only = check(project, select=("DL",), fail_on=Severity.LOW, with_minor=False)
    assert not only.findings
    assert not only.fails


def test_what_makes_it_costly_here_is_said(project) -> None:
    edit(project, "loss = model(x.to(device)).sum()", "loss = model(x.to(device)).sum(); print(loss.item())")
    assert "SY001" not in found(check(project, with_minor=False))
    edit(project, "print(loss.item())", "print(loss.item()); a.append(loss.item()); b.append(float(loss))")
    assert "SY001" in found(check(project, with_minor=False))


@pytest.mark.parametrize("folder", ["tests", "third_party/lib", "docs"])
def test_what_is_no_training_of_the_project_is_left_out_unless_it_is_named_or_critical(project, folder) -> None:
    (project / folder).mkdir(parents=True)
    (project / "train.py").rename(project / folder / "train.py")
    checked = check(project, with_minor=False)
    assert found(checked) == {"PR005"}
    assert (ASIDE, f"in {folder.split('/')[0]}/") in {(one.by, one.reason) for one in checked.bundles[0].silenced}
    assert "SY005" in found(check(project, with_minor=True))
    assert "SY005" in found(check(project, folder, with_minor=False))


def test_a_static_part_names_the_setting_to_edit(tmp_path) -> None:
    (tmp_path / "sft.yaml").write_text(
        "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ncutoff_len: 512\n"
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
    )
    (one,) = [each for each in check(tmp_path).findings if each.rule.id == "GA004"]
    assert one.location.key == "per_device_train_batch_size"


def test_a_finding_shows_its_place(project) -> None:
    finding = next(one for one in check(project).findings if one.rule.id == "SY005")
    assert (finding.location.file, finding.location.line) == ("train.py", 17)


@pytest.mark.parametrize(("limit", "fails"), [(Severity.HIGH, True), (Severity.CRITICAL, True), (None, False)])
def test_grave_findings_fail(limit: Severity | None, fails: bool, project) -> None:
    assert "PR005" in found(check(project))
    assert check(project, fail_on=limit).fails is fails


def test_milder_findings_do_not_fail(project) -> None:
    assert not check(project, select=("DL",)).fails
    assert check(project, select=("DL",), fail_on=Severity.MEDIUM).fails


def test_select_and_ignore(project) -> None:
    assert found(check(project, select=("DL001", "SY"))) == {"DL001", "SY005"}
    assert "DL001" not in found(check(project, ignore=("DL",)))
    assert check(project, select=("DL001",)).num_rules == 1


def test_the_configuration_chooses_rules_and_files(project) -> None:
    (project / "pyproject.toml").write_text('[tool.autotune]\nselect = ["DL"]\nexclude = ["old"]\n')
    (project / "old").mkdir()
    (project / "old" / "train.py").write_text(textwrap.dedent(WRONG))
    checked = check(project)
    assert (found(checked) & {"DL001", "PR005"}, checked.num_files) == ({"DL001"}, 2)


def test_names_do_not_depend_on_where_the_command_is_typed(project) -> None:
    (project / "deep").mkdir()
    (project / "train.py").rename(project / "deep" / "train.py")
    for cwd, path in ((project, "."), (project, "deep/train.py"), (project / "deep", "."), (project / "deep", "..")):
        checked = check(cwd, path)
        assert ({one.bundle.name for one in checked.bundles}, checked.root) == ({"deep/train.py"}, str(project))


def test_without_a_repository_names_are_relative_to_here_or_to_the_folder(tmp_path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "train.py").write_text(textwrap.dedent(WRONG))
    assert [one.bundle.name for one in check(tmp_path, "a").bundles] == ["a/b/train.py"]
    (tmp_path / "elsewhere").mkdir()
    assert [one.bundle.name for one in check(tmp_path / "elsewhere", "../a").bundles] == ["b/train.py"]


def test_a_comment_with_a_reason_silences(project) -> None:
    edit(project, "batch_size=4)", "batch_size=4)  # autotune: ignore[DL001] the data is in memory")
    checked = check(project)
    assert "DL001" not in found(checked)
    silenced = {(one.finding.rule.id, one.by, one.reason) for one in checked.bundles[0].silenced}
    assert silenced == {("DL001", "comment", "the data is in memory")}


def test_a_comment_at_the_top_of_a_config_silences_what_it_leaves_out(tmp_path) -> None:
    config = "output_dir: out\nper_device_train_batch_size: 2\nnum_train_epochs: 1\n"
    (tmp_path / "c.yaml").write_text(config)
    assert {one.rule.id for one in check(tmp_path).findings if one.location.line == 1} == {"DL001"}
    (tmp_path / "c.yaml").write_text("# autotune: ignore[DL001] the data is in memory\n" + config)
    assert "DL001" not in found(check(tmp_path))


def test_a_comment_without_reason_or_of_no_rule_is_noted(project) -> None:
    edit(project, "batch_size=4)", "batch_size=4)  # autotune: ignore[DL001]")
    edit(project, "scaler.update()", "scaler.update()  # autotune: ignore[XX999] why not")
    checked = check(project)
    assert "DL001" in found(checked)
    assert sorted(note.where for note in checked.notes) == ["train.py:16", "train.py:9"]


def test_a_baseline_silences_today_and_reports_what_is_new(project) -> None:
    today = check(project, write_baseline=Path("base.json"))
    assert (found(today), today.fails) == (set(), False)
    edit(project, "import torch\n", "import torch\n\n# moved\n")
    assert found(check(project, baseline=Path("base.json"))) == set()
    edit(project, "scaler.update()", "scaler.update()\n    gc.collect()")
    edit(project, "import torch\n", "import gc\nimport torch\n")
    later = check(project, baseline=Path("base.json"))
    assert found(later) == {"SY006"}
    assert {one.by for one in later.bundles[0].silenced} == {"baseline"}
    assert json.loads((project / "base.json").read_text())["schema"] == 1


def test_another_place_below_one_of_the_baseline_is_new(project) -> None:
    edit(project, "scaler.update()\n", "scaler.update()\n    print(loss.item())\n")
    check(project, write_baseline=Path("base.json"), select=("SY001",))
    assert found(check(project, baseline=Path("base.json"), select=("SY001",))) == set()
    edit(project, "torch.cuda.empty_cache()\n", "torch.cuda.empty_cache()\n    total += loss.item()\n")
    (new,) = check(project, baseline=Path("base.json"), select=("SY001",)).findings
    assert new.location is not None
    assert (project / "train.py").read_text().splitlines()[new.location.line - 1].strip() == "total += loss.item()"


def test_a_script_of_two_commands_is_reported_once(project) -> None:
    (project / "a.sh").write_text("python train.py\n")
    (project / "b.sh").write_text("torchrun --nproc_per_node 2 train.py\n")
    checked = check(project)
    assert len(checked.bundles) == 2
    ids = [(one.rule.id, one.location) for one in checked.findings]
    assert len(ids) == len(set(ids))


def test_per_file_ignores_silence(project) -> None:
    (project / "pyproject.toml").write_text('[tool.autotune.per-file-ignores]\n"tr*.py" = ["PR", "SY"]\n')
    checked = check(project)
    assert not {one[:2] for one in found(checked)} & {"PR", "SY"}
    assert {one.by for one in checked.bundles[0].silenced} == {"configuration"}


def test_this_machine_is_added_on_request(project) -> None:
    def versions(checked: Checked) -> set[str]:
        needs = {need for one in checked.bundles[0].skipped for need in one.needs}
        return {need for need in needs if need.startswith(("software.torch", "machine.host_cpus"))}

    assert versions(check(project)) - versions(check(project, env=True))
    with pytest.raises(UsageError, match="no-python-here"):
        check(project, env=True, python="no-python-here")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"paths": "gone"}, "gone"),
        ({"select": ("XX",)}, "XX"),
        ({"baseline": Path("gone.json")}, "gone.json"),
        ({"profile": "gone.json"}, "there is no such run or recording"),
    ],
)
def test_wrong_usage_names_what_is_wrong(options: dict[str, object], named: str, project) -> None:
    paths = (options.pop("paths"),) if "paths" in options else ()
    with pytest.raises(UsageError, match=named):
        check(project, *paths, **options)  # type: ignore[arg-type]


def test_what_was_measured_goes_before_what_is_written(project, monkeypatch) -> None:
    """The files of the run were others: one of its scripts asked for torch.compile, and read scalars in each step."""
    train = "loader#train"
    place = Location(str(project / "train.py"), 9, "DataLoader", end_line=9)
    settings = [
        Setting("loader.num_workers", train, 0, "observed", place),
        Setting("loader.pin_memory", train, True, "observed", Location("train.yaml", 3), trusted=True),
        Setting("train.compile", RUN, True, "static", Location("old.py", 3), why_not=NOT_SEEN),
    ]
    facts = [
        Fact("loader.wait_share", train, 0.4),
        Fact("loader.wait_share", "loader#1", 0.1),
        Fact("code.num_scalar_reads_in_step", RUN, 3),
    ]
    profile = SimpleNamespace(evidence=join(facts, settings))
    monkeypatch.setattr(api, "_load_profile", lambda name, cwd: Profile(profile) if name else None)
    asked: list[Evidence] = []
    evaluate = engine_evaluate.evaluate
    monkeypatch.setattr(
        engine_evaluate,
        "evaluate",
        lambda rules, evidence, static: asked.append(evidence) or evaluate(rules, evidence, static=static),
    )
    check(project, profile="run")
    (evidence,) = asked
    workers, pinned = (evidence.setting(train, f"loader.{name}") for name in ("num_workers", "pin_memory"))
    assert workers is not None
    assert (workers.value, workers.location.file, workers.trusted) == (0, "train.py", True)
    assert (pinned.value, pinned.location, pinned.trusted) == (True, None, False)
    assert evidence.lookup("loader#1", "loader.wait_share") == 0.1
    assert evidence.lookup(train, "loader.wait_share") == 0.4
    assert evidence.lookup(RUN, "train.compile") is None
    assert evidence.lookup(RUN, "code.num_scalar_reads_in_step") != 3
    assert evidence.lookup(RUN, "code.uses_cuda") is True


HF_ON_CPU = """
    import torch
    from transformers import HfArgumentParser, Trainer, TrainingArguments

    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            loss = model(**inputs).loss
            print(loss.item())
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            return loss

    (args,) = HfArgumentParser((TrainingArguments,)).parse_yaml_file("config.yaml")
    Own(model=None, args=args).train()
"""

HF_CONFIG = """
    output_dir: out
    per_device_train_batch_size: 4
    logging_steps: 1
    torch_empty_cache_steps: 1
    use_cpu: {on_cpu}
"""


def said_of_the_gpu(root: Path, on_cpu: str) -> set[str]:
    (root / ".git").mkdir(exist_ok=True)
    (root / "train.py").write_text(textwrap.dedent(HF_ON_CPU))
    (root / "config.yaml").write_text(textwrap.dedent(HF_CONFIG.format(on_cpu=on_cpu)))
    (root / "run.sh").write_text("python train.py config.yaml\n")
    found = [one for bundle in check(root).bundles for one in bundle.findings]
    return {one.rule.id for one in found if "GPU" in one.message or "empty_cache" in one.message}


def test_nothing_is_said_of_a_gpu_that_the_configuration_does_not_use(tmp_path: Path) -> None:
    assert {"SY001", "SY004", "SY005"} <= said_of_the_gpu(tmp_path, "false")
    assert said_of_the_gpu(tmp_path, "true") == set()


def test_a_recording_is_of_the_run_that_its_command_starts(tmp_path: Path, monkeypatch) -> None:
    """Of several runs in a folder, what was measured of one is not said of the others, and is not forgotten."""
    (tmp_path / ".git").mkdir()
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text(textwrap.dedent(WRONG))
    seen = {RUN: {"device.type": "cpu"}, "loader#train": {"loader.is_train": True, "loader.wait_share": 0.0}}
    of_train = SimpleNamespace(
        evidence=Evidence(seen, {}), run=SimpleNamespace(command=("python", "./train.py", "--a"))
    )
    monkeypatch.setattr(api, "_load_profile", lambda name, cwd: Profile(of_train) if name else None)
    found = {
        bundle.bundle.name: {one.rule.id for one in bundle.findings}
        for bundle in check(tmp_path, profile="last").bundles
    }
    assert "SY005" in found["other.py"]
    assert "SY005" not in found["train.py"]
