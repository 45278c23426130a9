"""From where a file is best brought to a storage: one rule for brokerage and staging (B5, B19)."""

from pilotage.model.records.federation import Link, Storage
from pilotage.model.rules.sources import Sources
from pilotage.testing import three_sites


def test_the_best_source_is_disk_then_near_then_measured_then_close() -> None:
    storages = [
        Storage(name="tape", site="east", url="memory://tape", tape=True),
        Storage(name="east-2", site="east", url="memory://east-2"),
        Storage(name="north", site="north", url="memory://north"),
        Storage(name="west", site="west", url="memory://west"),
        Storage(name="bad", site="west", url="memory://bad", blacklisted=("read_wan",)),
        Storage(name="east", site="east", url="memory://east"),
    ]
    links = [
        Link(source="west", destination="east", throughput_1w=5.0),
        Link(source="north", destination="east"),
    ]
    sources = Sources(three_sites(links, storages))
    assert sources.ranked([storage.name for storage in storages], "east") == (
        "east-2",
        "west",
        "north",
        "tape",
    )


def test_b5_a_blocked_link_or_an_unknown_storage_is_no_source() -> None:
    links = [Link(source="west", destination="east", closeness=-1)]
    assert Sources(three_sites(links)).ranked(["west", "nowhere"], "east") == ()


def test_an_unmeasured_link_comes_after_a_slow_one_that_is_known() -> None:
    links = [
        Link(source="north", destination="east", closeness=0),
        Link(source="west", destination="east", closeness=10, throughput_1h=0.1),
    ]
    assert Sources(three_sites(links)).ranked(["north-a", "west"], "east") == ("west", "north-a")


def test_b19_local_reading_is_blacklisted_apart_from_reading_from_afar() -> None:
    storages = [
        Storage(name="east", site="east", url="memory://east"),
        Storage(name="east-2", site="east", url="memory://east-2", blacklisted=("read_lan",)),
        Storage(name="north-b", site="north", url="memory://north-b"),
        Storage(name="west", site="west", url="memory://west"),
    ]
    sources = Sources(three_sites(storages=storages))
    assert sources.ranked(["east-2"], "east") == ()
    assert sources.ranked(["east-2"], "west") == ("east-2",)
    assert sources.sites_reached("east-2") == {"north", "west"}
