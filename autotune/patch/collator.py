"""The collator that pads, where a tokenizer pads no longer: what stacks samples is replaced, and imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.model.finding import SettingChange
from autotune.model.patch import Edit
from autotune.model.scanned import ConsumerCall
from autotune.model.source import Splice
from autotune.patch import syntax_for
from autotune.patch.key_locations import IMPORT
from autotune.patch.resolve import to_symbolic

PADDING = "data.padding"

COLLATOR = "collator"
"""What a scan calls the places of a collator that has to be another one."""


def edits(data: bytes, change: SettingChange, consumer: ConsumerCall, calls: Sequence[ConsumerCall]) -> Iterator[Edit]:
    """The edits of the collator's places in the file of the tokenizer `consumer`; none for any other change."""
    if change.setting != PADDING or change.new == "max_length":
        return
    file = consumer.location.file
    for call in calls:
        for new, given in call.arguments.items() if call.name == COLLATOR else ():
            at = given.location
            if at.file == file and at.span is not None:
                key = f"{at.call}.{at.key}" if at.call and at.key else f"{IMPORT}{given.value}"
                edit = Edit(file, key, syntax_for.text(data, at.span), new)
                yield to_symbolic(data, edit, Splice(at.span, new))
