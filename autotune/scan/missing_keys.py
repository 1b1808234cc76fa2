"""Settings that a library has a key for and that nobody gives it: where the key would stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune import catalogue
from autotune.catalogue.dialects import DialectReading, Version, dialects, is_own, readings
from autotune.model.evidence import Setting
from autotune.model.scanned import Bundle, ConsumerCall
from autotune.model.source import SCRIPTS
from autotune.scan.settings import SUBJECTS, merge_consumers

BARE = ("torch",)
"""Dialects of calls that a script makes itself: what they lack is added at the call."""


def missing_settings(found: Bundle, versions: Mapping[str, Version]) -> Iterator[Setting]:
    """A Setting without a value for each that the main library takes and nobody gives it, with its consumer's place.

    It is trusted where no script of the user's could give the value: then the library's own default was in force.
    """
    mains = [
        call for call in merge_consumers(found.calls) if is_own(call.dialect, call.name) and call.dialect not in BARE
    ]
    main = next(iter(mains), None)
    if main is None or main.is_open:
        return
    known = {setting.name for setting in found.settings}
    framework = dialects()[main.dialect]["frameworks"][0]
    has_script = any(file.endswith(SCRIPTS) for file in found.files)
    for reading in readings(main.dialect, versions):
        spelling = catalogue.spelling(framework, reading.setting, versions)
        is_open = reading.setting in known or _is_given(reading, main) or _has_no_holder(reading, main)
        if is_open or spelling is None or spelling.call not in ("", _call(main)):
            continue
        known.add(reading.setting)
        subject = SUBJECTS[catalogue.settings()[reading.setting].subject]
        yield Setting(reading.setting, subject, None, "default", main.location, not has_script, spelling=spelling.key)


def _call(main: ConsumerCall) -> str:
    """What the library's own settings are given to."""
    return str(dialects()[main.dialect].get("call", "")) or main.name


def _has_no_holder(reading: DialectReading, main: ConsumerCall) -> bool:
    """Whether the key is an argument of a class that nobody names: `optimizer.init_args.fused` without a class_path."""
    head, is_argument, _ = reading.keys[0].partition(".init_args.")
    return bool(is_argument) and not {head, f"{head}.class_path"} & main.arguments.keys()


def _is_given(reading: DialectReading, main: ConsumerCall) -> bool:
    keys = {*reading.keys, *(key for row in reading.values.values() for key in row)}
    return not (reading.is_config or reading.is_main) or not keys.isdisjoint(main.arguments)
