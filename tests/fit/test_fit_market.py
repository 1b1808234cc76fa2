"""The lowest prices of a catalogue in gpuhunt's own format: made here, read by gpuhunt."""

from __future__ import annotations

import zipfile
from datetime import date

import pytest

from autotune.catalogue.devices import asked, devices
from autotune.errors import UsageError
from autotune.fit import market
from autotune.fit.prices import Price

gpuhunt = pytest.importorskip("gpuhunt", reason='of the extra "prices"')


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    """catalogue(provider, version, *offers) publishes a part, as gpuhunt's publish_catalog.sh does."""
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", tmp_path.as_uri())
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)

    def publish(provider, version, *offers):
        from gpuhunt._internal import storage

        folder = tmp_path / provider / version
        folder.mkdir(parents=True)
        storage.dump([offer(provider, **one) for one in offers], str(folder / f"{provider}.csv"))
        with zipfile.ZipFile(folder / "catalog.zip", "w") as archive:
            archive.write(folder / f"{provider}.csv", f"{provider}.csv")
        (tmp_path / provider / "version").write_text(f"{version}\n")

    return publish


def lowest(num_devices=1):
    """The prices of all cards."""
    return market.prices(tuple(devices().values()), num_devices).by_card


def offer(provider, price, name="A100", memory=80.0, count=1, spot=False, instance="machine", flags=()):
    return gpuhunt.CatalogItem(
        provider=provider,
        instance_name=instance,
        location="somewhere",
        price=price,
        cpu=8,
        memory=64.0,
        gpu_count=count,
        gpu_name=name,
        gpu_memory=memory,
        spot=spot,
        disk_size=None,
        gpu_vendor=gpuhunt.AcceleratorVendor.NVIDIA,
        flags=list(flags),
    )


def test_the_lowest_price_has_its_provider_its_kind_and_the_day_of_its_part(catalogue):
    catalogue("runpod", "20261120-41", {"price": 1.64}, {"price": 0.9, "spot": True}, {"price": 0.5, "memory": 40.0})
    catalogue("lambdalabs", "20261118-7", {"price": 1.29})
    found = lowest()
    assert found["a100-80"] == Price(
        0.9,
        date(2026, 11, 20),
        "runpod, spot (on demand $1.29 at lambdalabs, 2026-11-18), SXM or PCIe not told",
    )
    assert found["a100-40"] == Price(0.5, date(2026, 11, 20), "runpod, on demand")
    assert set(found) == {"a100-80", "a100-80-pcie", "a100-40"}


def test_a_machine_whose_name_tells_the_form_is_of_that_card_alone(catalogue):
    pcie, sxm = {"price": 1.0, "instance": "gpu_1x_h100_pcie"}, {"price": 3.0, "instance": "NVIDIA H100 80GB HBM3"}
    catalogue("lambdalabs", "20261118-7", *({**one, "name": "H100"} for one in (pcie, sxm)))
    found = lowest()
    assert {name: one.usd_per_hour for name, one in found.items()} == {"h100-80": 3.0, "h100-pcie": 1.0}
    assert found["h100-80"].where == "lambdalabs, on demand"


@pytest.mark.parametrize(("num_devices", "price"), [(1, 5.0), (4, 4.0), (8, 3.0), (16, 3.0), (12, None), (3, None)])
def test_a_price_is_of_machines_of_so_many_cards(catalogue, num_devices, price):
    machines = [{"price": each * count, "count": count, "name": "T4", "memory": 16.0} for count, each in SIZES]
    catalogue("aws", "20261120-41", *machines)
    found = lowest(num_devices).get("t4")
    assert (found.usd_per_hour if found else None) == price


SIZES = ((1, 5.0), (4, 4.0), (8, 3.0))


def test_memory_may_be_told_as_a_driver_shows_it(catalogue):
    catalogue("aws", "20261120-41", {"price": 1.0, "name": "L40S", "memory": 44.7})
    assert list(lowest()) == ["l40s"]


def test_a_part_without_a_day_gives_no_price(catalogue):
    catalogue("aws", "latest", {"price": 1.0})
    with pytest.raises(UsageError, match="tells its day"):
        lowest()
    catalogue("gcp", "20261120-41", {"price": 2.0})
    assert lowest()["a100-80"].usd_per_hour == 2.0


def test_a_card_without_an_offer_is_named_with_the_number_of_cards(catalogue):
    catalogue("aws", "20261120-41", {"price": 8.0, "count": 8})
    cards = (asked("a100-80"), asked("h200"))
    assert market.prices(cards, 8).notes[-1] == "gpuhunt's catalogue has no offer of h200 in machines for 8 cards"
    assert market.prices(cards, 1).notes[-1] == (
        "gpuhunt's catalogue has no offer of a100-80, h200 in machines for 1 card"
    )
    every = market.prices(tuple(devices().values()), 8).notes[-1]
    assert f"h100-nvl, h200 and {len(devices()) - 7} more" in every


def test_what_could_not_be_read_is_named(catalogue, tmp_path):
    for name in market.PROVIDERS:
        catalogue(name, "20261120-41", {"price": 1.0})
    assert market.prices((asked("a100-80"),), 1).notes == ()
    (tmp_path / "gcp" / "version").unlink()
    (tmp_path / "oci" / "20261120-41" / "catalog.zip").write_bytes(b"no zip")
    (note,) = market.prices((asked("a100-80"),), 1).notes
    assert note.startswith("prices without gcp, oci: ")


@pytest.mark.parametrize(
    ("flags", "counts"),
    [((), True), (("oci-spot",), True), (("gcp-dws-calendar-mode",), False), (("runpod-cluster",), False)],
)
def test_an_offer_that_not_everybody_can_take_is_none(catalogue, flags, counts):
    catalogue("gcp", "20261120-41", {"price": 2.0}, {"price": 1.0, "flags": flags})
    assert lowest()["a100-80"].usd_per_hour == (1.0 if counts else 2.0)


@pytest.mark.parametrize("price", [float("nan"), float("inf"), 0.0, -1.0])
def test_what_is_no_price_is_none(catalogue, price):
    catalogue("aws", "20261120-41", {"price": price}, {"price": 2.0})
    assert lowest()["a100-80"].usd_per_hour == 2.0


def test_a_catalogue_that_cannot_be_read_is_an_error_without_a_traceback(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", (tmp_path / "nothing").as_uri())
    with pytest.raises(UsageError, match="cannot be read") as raised:
        lowest()
    assert "prices.toml" in raised.value.to_do
    assert capfd.readouterr() == ("", "")
