"""Results of `check` for tests: the cases that every output prints, and random ones full of hostile text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from report_builders import rule, skipped

from autotune.model.checked import Checked, CheckedBundle, Gate, Silenced
from autotune.model.evidence import Fact, Location, Span
from autotune.model.finding import Finding, SettingChange, Skipped
from autotune.model.rule import Effect, Rule, Severity
from autotune.model.scanned import Bundle, ScanNote

GOLDEN = Path(__file__).parent / "golden" / "check"
SCHEMAS = Path(__file__).parent / "schemas"
TRAIN = "loader#train"

WORKERS = rule(
    "DL001",
    "batches-prepared-in-the-training-process",
    summary="The training process prepares its own batches.",
    why="With num_workers=0 the DataLoader reads, transforms and\ncollates inside next().",
    references=("torch 2.13 utils/data/dataloader.py: _SingleProcessDataLoaderIter",),
)
PRECISION = rule(
    "PR002",
    "full-precision-on-tensor-cores",
    severity=Severity.MEDIUM,
    confidence="medium",
    summary="Matrix products run in fp32.",
    why="Tensor cores multiply bf16 faster than fp32.",
)
SAVES = rule(
    "CK003",
    "optimizer-saved-with-every-checkpoint",
    severity=Severity.LOW,
    summary="Every checkpoint has the optimizer's state.",
    why="AdamW keeps two values per parameter: the file is three times as large.",
)


def checked(*bundles: CheckedBundle, **given: Any) -> Checked:
    fields: dict[str, Any] = {
        "root": "/home/user/project",
        "notes": (),
        "num_files": 14,
        "num_rules": 72,
        "fail_on": Severity.HIGH,
    }
    return Checked(bundles=bundles, **{**fields, **given})


def bundle(
    name: str = "train.py",
    *findings: Finding,
    files: tuple[str, ...] = (),
    skipped: tuple[Skipped, ...] = (),
    silenced: tuple[Silenced, ...] = (),
    starts: bool = True,
    is_module: bool = False,
    home: str = "",
) -> CheckedBundle:
    facts = (Fact("code.has_main_guard", "run", True),) if starts and name.endswith(".py") else ()
    made = Bundle(name, files or (name,), ("hf_trainer",), facts, (), is_module=is_module, home=home)
    return CheckedBundle(made, findings, skipped, 30, silenced)


def finding(
    of: Rule,
    message: str,
    location: Location | None = None,
    *changes: SettingChange,
    advice: tuple[str, ...] = (),
    places: tuple[Location, ...] = (),
    subject: str = "run",
) -> Finding:
    return Finding(of, subject, message, changes, advice, location, places=places)


CALL = Location("train.py", 23, "DataLoader", 14, 29)
KEY = Location("configs/sft.yaml", 4, "", 25, 0, "dataloader_num_workers", Span(81, 82))

NO_WORKERS = finding(
    WORKERS,
    "the training process prepares its own batches (0 workers)",
    CALL,
    SettingChange(
        "loader.num_workers", 0, 4, Effect.EQUIVALENT, KEY, "dataloader_num_workers", "workers draw other numbers"
    ),
    advice=("prepare the batches once, before training",),
    places=(CALL, KEY),
    subject=TRAIN,
)
FULL_PRECISION = finding(
    PRECISION,
    "parameters and activations are fp32",
    Location("train.py", 41, "TrainingArguments", 5),
    SettingChange("train.precision", "fp32", "bf16", Effect.ALTERING, None, "bf16=True"),
)
BIG_SAVES = finding(SAVES, "every checkpoint has the optimizer's state", advice=("set save_only_model where it fits",))


def nothing() -> Checked:
    """No training code at all."""
    return checked(num_files=3)


def only_skipped() -> Checked:
    """A script of which files decide nothing."""
    needs = (skipped("DL002", "loader.wait_share", subject=TRAIN), skipped("CK001", "checkpoint.cost_share"))
    return checked(bundle(skipped=needs))


def full() -> Checked:
    """Two bundles with findings of three severities, and everything that can be left out."""
    quiet = Silenced(finding(SAVES, "every checkpoint has the optimizer's state", CALL), "comment", "resumed often")
    known = Silenced(finding(PRECISION, "parameters are fp32", Location("eval.py", 9)), "baseline", "")
    return checked(
        bundle(
            "train.py",
            FULL_PRECISION,
            NO_WORKERS,
            files=("train.py", "configs/sft.yaml", "run.sh"),
            skipped=(skipped("DL002", "loader.wait_share", subject=TRAIN),),
            silenced=(quiet, known),
        ),
        bundle(
            "configs/ds.json",
            BIG_SAVES,
            skipped=(skipped("DL002", "loader.wait_share"), skipped("CK001", "checkpoint.cost_share")),
        ),
        notes=(
            ScanNote("data/rows.json", "larger than 2 MB"),
            ScanNote("broken.yaml:3:7", "a tab indents", is_error=True),
            ScanNote("configs/ds.json", "`zero_optimization` is given by a variable"),
        ),
        gates=(
            Gate("step.data_wait_share", 0.14, 0.1, False, ""),
            Gate("step.median_ms", 81.2, 83.4, True, "5 % above the baseline"),
        ),
    )


CASES: dict[str, Callable[[], Checked]] = {"nothing": nothing, "only_skipped": only_skipped, "full": full}

ANY = st.text(alphabet=st.characters(), max_size=40) | st.sampled_from(
    [
        "a|b",
        "</details>",
        "`x`",
        "::error::x",
        "{0} [a](b)",
        "%0A",
        "a\nb\r\nc",
        "\x1b[31m",
        "- 1. x",
        "ü\u202e",
        "\udcff",
    ]
)
NUMBER = st.integers(min_value=1, max_value=10**9)
VALUE = st.booleans() | st.integers() | st.floats() | ANY | st.just((2, 13))
LOCATION = st.builds(Location, ANY, NUMBER, ANY, st.integers(0, 500), st.integers(0, 10**9), ANY)
WORDS = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)
RULE = st.builds(
    lambda rule_id, name, severity, confidence, why, texts: rule(
        rule_id, name, severity=severity, confidence=confidence, why=why, summary=why, references=texts
    ),
    WORDS,
    WORDS,
    st.sampled_from(Severity),
    st.sampled_from(["high", "medium", "low"]),
    WORDS,
    st.lists(WORDS, max_size=2).map(tuple),
)
CHANGE = st.builds(
    SettingChange, ANY, st.none() | VALUE, VALUE, st.sampled_from(Effect), st.none() | LOCATION, ANY, ANY
)
FINDING = st.builds(
    lambda of, message, location, changes, advice, places, subject: finding(
        of, message, location, *changes, advice=advice, places=places, subject=subject
    ),
    RULE,
    ANY,
    st.none() | LOCATION,
    st.lists(CHANGE, max_size=2),
    st.lists(ANY, max_size=2).map(tuple),
    st.lists(LOCATION, max_size=3).map(tuple),
    ANY,
)
NOTE = st.builds(ScanNote, ANY, ANY, st.booleans())
BUNDLE = st.builds(
    lambda name, findings, needs, silenced: bundle(name, *findings, skipped=needs, silenced=silenced),
    ANY,
    st.lists(FINDING, max_size=3),
    st.lists(st.builds(skipped, ANY, ANY), max_size=2).map(tuple),
    st.lists(st.builds(Silenced, FINDING, st.sampled_from(["comment", "baseline"]), ANY), max_size=2).map(tuple),
)
CHECKED = st.builds(
    lambda bundles, notes, gates, fail_on: checked(*bundles, notes=notes, gates=gates, fail_on=fail_on),
    st.lists(BUNDLE, max_size=3),
    st.lists(NOTE, max_size=3).map(tuple),
    st.lists(st.builds(Gate, ANY, st.none() | st.floats(), st.floats(), st.booleans(), ANY), max_size=2).map(tuple),
    st.none() | st.sampled_from(Severity),
)
