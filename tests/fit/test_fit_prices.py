from __future__ import annotations

import sys
from datetime import date

import pytest

from autotune.catalogue.devices import devices
from autotune.errors import UsageError
from autotune.fit import market
from autotune.fit.prices import Price, read


def written(tmp_path, text):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return path


def test_prices_are_found_by_any_name_of_a_card(tmp_path):
    path = written(tmp_path, '[4090]\nusd_per_hour = 0.44\ndate = 2026-11-20\nwhere = "a market"\n')
    assert read(path).by_card == {"rtx4090": Price(0.44, date(2026, 11, 20), "a market")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[4090]\nusd_per_hour = 0.44\n", "date"),
        ("[4090]\nusd_per_hour = 0\ndate = 2026-11-20\n", "not above 0"),
        ("[4090]\nusd_per_hour = nan\ndate = 2026-11-20\n", "no finite number"),
        ("[4090]\nusd_per_hour = inf\ndate = 2026-11-20\n", "no finite number"),
        ("[4090\n", "no file of prices"),
        ("[gtx1]\nusd_per_hour = 1.0\ndate = 2026-11-20\n", "gtx1"),
    ],
)
def test_what_is_no_price_is_refused(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        read(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="nothing"):
        read(tmp_path / "nothing.toml")


def test_an_unknown_card_is_reported_at_the_file(tmp_path):
    path = written(tmp_path, "[gtx1]\nusd_per_hour = 1.0\ndate = 2026-11-20\n")
    with pytest.raises(UsageError) as raised:
        read(path)
    assert raised.value.where == str(path)


def test_without_gpuhunt_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    with pytest.raises(UsageError, match="gpuhunt is missing") as raised:
        market.prices(tuple(devices().values()), 1)
    assert 'pip install "autotune-advisor[prices]"' in raised.value.to_do


def test_what_the_catalogue_calls_a_card_is_of_one_card_and_form():
    markets = [one.market for one in devices().values() if one.market is not None]
    assert len(markets) == len(set(markets)) > 20
