"""What advice needs beside its words: the command of an install, a generated script. Nothing here runs either."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from autotune.collect import artefacts
from autotune.engine.fixes import applying_fixes
from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.finding import Finding, GeneratedScript, Install
from autotune.model.rule import Fix
from autotune.model.scanned import Pin
from autotune.patch.installs import install
from autotune.patch.script_templates import Stage, Tokenise, stage, tokenise

ScriptPath = Callable[[str], str]
"""The path of the generated script of this name, "" where there is none."""

RELEASES = {
    "python": "software.python",
    "torch": "software.torch",
    "torch_cuda": "software.torch_cuda",
    "transformers": "software.transformers",
    "driver_cuda": "machine.driver_cuda",
    "capability": "machine.gpu_capability",
}
"""What decides which wheel fits, by its name in installs.toml."""


def with_attachments(
    finding: Finding, evidence: Evidence, python: str, script_path: ScriptPath, pins: Iterable[Pin] = ()
) -> Finding:
    """`finding` with the install and the script that its advice needs.

    `python` is the script's interpreter, `pins` are what the project's files bound.
    """
    fixes = applying_fixes(finding.rule, evidence, finding.subject)
    return replace(
        finding,
        install=_install(fixes, evidence, python or "python", tuple(pins)),
        script=_script(fixes, evidence, finding.subject, script_path),
    )


def written_scripts(folder: Path) -> ScriptPath:
    """The paths of the scripts that an earlier `write` left in `folder`."""
    return lambda name: str(folder / name) if (folder / name).is_file() else ""


def write(findings: Iterable[Finding]) -> None:
    """Write the generated scripts to their paths."""
    for finding in findings:
        if finding.script is not None:
            artefacts.write_text(Path(finding.script.path), finding.script.text)


def _install(fixes: Iterable[Fix], evidence: Evidence, python: str, pins: tuple[Pin, ...]) -> Install | None:
    """Of several installs the first that fits, else the first."""
    values = {name: evidence.lookup(RUN, fact) for name, fact in RELEASES.items()}
    known = {name: value for name, value in values.items() if isinstance(value, tuple)}
    platform = _text(evidence.lookup(RUN, "machine.platform")) or None
    installs = [install(fix.install, known, platform, python=python, pins=pins) for fix in fixes if fix.install]
    return next((each for each in installs if each.fits), installs[0] if installs else None)


def _script(fixes: Iterable[Fix], evidence: Evidence, subject: str, script_path: ScriptPath) -> GeneratedScript | None:
    kind = next((fix.script for fix in fixes if fix.script), None)
    if kind is None:
        return None
    script = MAKERS[kind](evidence, subject)
    path = script_path(_file_name(script.name, subject))
    return replace(script, path=path) if path else None


def _file_name(name: str, subject: str) -> str:
    """A name of its own for every loader that needs one: "stage_data.py" of loader#train, "stage_data_2.py"."""
    file, number = Path(name), subject.partition("#")[2]
    return name if number in ("", "train") else f"{file.stem}_{number}{file.suffix}"


def _stage(evidence: Evidence, subject: str) -> GeneratedScript:
    def number(name: str) -> float | None:
        return _number(evidence.lookup(subject, name))

    source = _text(evidence.lookup(subject, "loader.data_path"))
    folder = _text(evidence.lookup(RUN, "machine.local_folder"))
    step_s = _product(number("step.mean_ms"), 1e-3)
    return stage(
        Stage(
            source=source,
            destination=str(Path(folder, f"staged-{Path(source).name}")) if folder else "",
            num_bytes=number("loader.data_bytes"),
            free_bytes=number("machine.local_free_bytes"),
            read_bytes_per_step=number("loader.read_bytes_per_step"),
            step_s=step_s,
            wait_s_per_step=_product(number("loader.wait_share"), step_s),
        )
    )


def _tokenise(evidence: Evidence, subject: str) -> GeneratedScript:
    def number(name: str) -> float | None:
        return _number(evidence.lookup(subject, name))

    def whole(name: str) -> int | None:
        value = number(name)
        return None if value is None else math.floor(value)

    num_samples = _product(number("loader.num_batches"), number("loader.batch_size"))
    return tokenise(
        Tokenise(
            output="tokenised",
            max_length=whole("data.max_length"),
            num_proc=max(1, whole("machine.cpu_quota") or 1),
            # Whether several ranks share the samples or each has them all is not known.
            num_samples=num_samples if number("run.world_size") == 1 else None,
            free_bytes=number("machine.cwd_free_bytes"),
            batch_s=_product(number("loader.batch_ms"), 1e-3),
            batch_size=whole("loader.batch_size"),
            tokenise_share=number("loader.tokenize_share"),
            wait_s_per_step=_product(number("loader.wait_share"), number("step.mean_ms"), 1e-3),
        )
    )


MAKERS: dict[str, Callable[[Evidence, str], GeneratedScript]] = {"stage": _stage, "tokenise": _tokenise}
"""By the name that a rule gives them."""


def _number(value: Value | None) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Value | None) -> str:
    return value if isinstance(value, str) else ""


def _product(*factors: float | None) -> float | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None
