"""Copies go by age, use and quota; the last replica and what is waited for never do."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.decision import Begin, Forget
from pilotage.model.documents.world import World
from pilotage.model.records.data import CopiesSize, Copy
from pilotage.model.records.unable_ways import UnableWay
from pilotage.policies.staging.unwanted import remove
from pilotage.testing import NOW, three_sites, world

DAY = 86400.0
GB = 10**9


def copy(file: str = "atlas:f", storage: str = "east", days: float = 0.0, **values: Any) -> Copy:
    used = NOW - days * DAY
    made = Copy(
        file=file,
        storage=storage,
        path=f".copies/three/{file}",
        size=GB,
        used=used,
        wanted=False,
        elsewhere=("north-a",),
    )
    return replace(made, **values)


def seen(*copies: Copy, **constants: Any) -> World:
    sizes = [CopiesSize(storage=one.storage, scope=one.file.split(":")[0], size=one.size) for one in copies]
    return replace(world(three_sites(**constants)), copies=copies, copies_sizes=tuple(sizes))


def gone(where: World) -> list[tuple[str, str]]:
    changes = remove(where).changes
    return [
        (one.file, one.storage) for change in changes if isinstance(change, Forget) for one in change.replicas
    ]


def test_a_copy_that_was_not_used_for_two_weeks_goes() -> None:
    assert gone(seen(copy("atlas:old", days=14.1), copy("atlas:new", days=13.9))) == [("atlas:old", "east")]


def test_what_somebody_waits_for_and_the_last_replica_stay() -> None:
    kept = [copy(wanted=True, days=99), copy("atlas:g", days=99, elsewhere=())]
    assert gone(seen(*kept, copy("atlas:h", days=99, elsewhere=("left the federation",)))) == []


def test_of_two_copies_without_an_original_one_stays() -> None:
    both = [
        copy(storage="east", days=30, elsewhere=("west",)),
        copy(storage="west", days=20, elsewhere=("east",)),
    ]
    assert gone(seen(*both)) == [("atlas:f", "east")]


def test_above_the_quota_of_a_storage_the_longest_unused_go() -> None:
    copies = [copy(f"atlas:{name}", days=days) for name, days in (("a", 1), ("b", 3), ("c", 2))]
    bounded = seen(*copies)
    fed = bounded.federation
    storages = tuple(replace(one, copies_quota=1.5) if one.name == "east" else one for one in fed.storages)
    assert gone(replace(bounded, federation=replace(fed, storages=storages))) == [
        ("atlas:b", "east"),
        ("atlas:c", "east"),
    ]


def test_above_the_quota_of_a_vo_only_its_copies_go() -> None:
    copies = [copy("atlas:a", days=1), copy("ligo:a", days=5), copy("atlas:b", days=2)]
    assert gone(seen(*copies, copies_quotas={"atlas": 1})) == [("atlas:b", "east")]


def test_copies_are_looked_at_once_in_a_period_until_none_is_left_to_go() -> None:
    old = seen(copy(days=30))
    assert remove(replace(old, cleaned=NOW - 3599)).changes == ()
    assert gone(replace(old, cleaned=NOW - 3600)) == [("atlas:f", "east")]
    assert remove(replace(seen(copy()), cleaned=NOW - 3600)).changes == (
        Begin(step="clean", last=NOW - 3600),
    )


def test_of_two_copies_the_one_that_this_server_can_delete_goes() -> None:
    """Where it can delete none, its period begins, which is not that of others."""
    both = [
        copy(storage="east", days=30, elsewhere=("west",)),
        copy(storage="west", days=20, elsewhere=("east",)),
    ]
    known = seen(*both)
    fed = known.federation
    storages = tuple(replace(one, url="s3://east") if one.name == "east" else one for one in fed.storages)
    unable = (UnableWay(source="s3", destination="s3", reason="boto3 is not installed"),)
    lacking = replace(known, federation=replace(fed, storages=storages), unable=unable)
    assert gone(lacking) == [("atlas:f", "west")]
    assert remove(replace(lacking, copies=lacking.copies[:1])).changes == (
        Begin(step="clean without s3", last=None),
    )


PLACES = ("east", "west", "north-a")


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(
            st.sets(st.sampled_from(PLACES), min_size=1),
            st.sets(st.sampled_from(PLACES)),
            st.booleans(),
            st.integers(0, 30),
        ),
    ),
    st.integers(0, 3),
)
def test_no_file_ever_loses_its_last_replica(
    files: dict[str, tuple[set[str], set[str], bool, int]], quota: int
) -> None:
    copies = [
        copy(f"atlas:{name}", place, days, wanted=wanted, elsewhere=tuple(sorted(lying - {place})))
        for name, (lying, made, wanted, days) in files.items()
        for place in sorted(lying & made)
    ]
    removed = gone(seen(*copies, copies_quotas={"atlas": quota}))
    assert len(set(removed)) == len(removed)
    for name, (lying, _, wanted, _) in files.items():
        left = lying - {place for file, place in removed if file == f"atlas:{name}"}
        assert left
        assert not wanted or left == lying
