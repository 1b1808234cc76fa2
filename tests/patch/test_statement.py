"""The functions that take a setting: how edits name what they take."""

from __future__ import annotations

from autotune.catalogue.dialects import functions
from autotune.patch import statement


def test_the_key_of_a_function_names_it() -> None:
    assert functions()["set_num_threads"] == "torch.set_num_threads"
    assert statement.function_of_key(statement.statement_key("set_num_threads")) == "set_num_threads"
    assert [statement.function_of_key(key) for key in ("set_num_threads", "DataLoader.num_workers", "f()", "--lr")] == [
        ""
    ] * 4
