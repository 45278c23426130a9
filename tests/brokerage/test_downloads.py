"""Placed jobs carry the downloads of their inputs, decided together with the choice (D1, D2, B19)."""

from dataclasses import replace

import pytest

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Link, StagingConstants
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, NewTransfer, Replica
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage.contract import violations
from pilotage.policies.brokerage.production import Production
from pilotage.testing import NOW, federation, jobs, queue, task, world
from pilotage.testing.choices import decide, refusal

ALICE = Identity(name="alice", vo="atlas")


def reading(
    *inputs: tuple[str, ...],
    replicas: tuple[tuple[str, str], ...],
    links: tuple[Link, ...] = (),
    storages: dict[str, dict[str, object]] | None = None,
    bases: dict[str, int] | None = None,
) -> World:
    """Jobs with these inputs, replicas by site, and one queue at the site EAST."""
    asked = replace(task(transfer_priority=80), owner=ALICE)
    house = federation([queue("QE", site="EAST")], links=links, storages=storages)
    disks = [replace(house.storages[0], name=f"{site}-DISK", site=site) for site in ("NORTH", "WEST")]
    changed = [replace(disk, **(storages or {}).get(disk.site, {})) for disk in disks]  # type: ignore[arg-type]
    house = replace(
        house,
        sites=(*house.sites, *(replace(house.sites[0], name=disk.site, nucleus=False) for disk in disks)),
        storages=(*house.storages, *changed),
        staging=StagingConstants(base_priorities=bases or {}),
    )
    made = tuple(
        replace(jobs(asked, first=number)[0], inputs=names) for number, names in enumerate(inputs, 1)
    )
    return world(
        house,
        asked,
        jobs=made,
        files=tuple(File(name=name, size=10, checksum="") for name in {n for names in inputs for n in names}),
        replicas=tuple(Replica(file=name, storage=f"{site}-DISK") for name, site in replicas),
    )


def test_d1_d2_missing_inputs_become_downloads_of_the_submitters_share_and_priority() -> None:
    state = reading(
        ("a", "b", "c"),
        replicas=(("a", "WEST"), ("b", "EAST"), ("b", "WEST"), ("c", "NORTH")),
        bases={"atlas": 80},
    )
    (move,) = decide(state).moves
    expected = [
        NewTransfer(
            file=name,
            source=f"{site}-DISK",
            destination="EAST-DISK",
            direction="download",
            share="atlas-download",
            priority=64,
            share_priority=80,
        )
        for name, site in (("a", "WEST"), ("c", "NORTH"))
    ]
    assert move.target is JobState.ASSIGNED
    assert list(move.creates[1]) == expected


def test_d2_without_declared_shares_all_downloads_are_of_the_default_share() -> None:
    (move,) = decide(reading(("a",), replicas=(("a", "WEST"),))).moves
    (created,) = move.creates[1]
    assert isinstance(created, NewTransfer)
    assert (created.share, created.priority) == ("_default-download", 40)


def test_every_job_that_reads_a_file_carries_its_transfer_for_any_may_be_handed_back() -> None:
    (move,) = decide(reading(("a",), ("a",), replicas=(("a", "WEST"),))).moves
    assert move.creates[1] == move.creates[2]
    assert len(move.creates[1]) == 1


def test_a_job_whose_input_is_at_its_queue_carries_none() -> None:
    (move,) = decide(reading(("a",), replicas=(("a", "EAST"),))).moves
    assert (move.target, dict(move.creates)) == (JobState.ACTIVATED, {})


@pytest.mark.parametrize("off", [[], ["B19"]])
def test_b19_a_job_with_an_input_that_nobody_can_give_waits_and_says_which(off: list[str]) -> None:
    """Also where B19 is switched off: that part of it cannot be."""
    state = reading(("a",), ("a", "gone"), replicas=(("a", "WEST"),))
    decision = Production({"off": off}).decide(state)
    by_target = {move.target: move for move in decision.moves}
    placed, pending = by_target[JobState.ASSIGNED], by_target[JobState.PENDING]
    assert (placed.ids, set(placed.creates)) == ((1,), {1})
    assert (pending.ids, pending.changes["wake_at"]) == ((2,), NOW + 3600)
    assert pending.changes["error"] == "input gone cannot be read from anywhere: held by no storage"
    assert pending.choice is not None
    choice = decision.choices[pending.choice]
    assert (choice.jobs, dict(choice.placed)) == ((2,), {})
    assert refusal(choice, "B19").queues == ("QE",)


def test_b19_a_blocked_link_or_a_closed_storage_gives_nothing_and_the_queue_is_refused() -> None:
    """What brokerage accepts, staging can bring: before, jobs were placed here and then made pending."""
    blocked = Link(source="WEST", destination="EAST", closeness=-1)
    closed = {"WEST": {"blacklisted": ("read_wan",)}}
    for state in (
        reading(("a",), replicas=(("a", "WEST"),), links=(blocked,)),
        reading(("a",), replicas=(("a", "WEST"),), storages=closed),  # type: ignore[arg-type]
    ):
        (choice,) = decide(state).choices
        assert refusal(choice, "B19").name == "no readable source"
        assert dict(choice.placed) == {}


class Forgetful:
    """The production brokerage, its downloads changed afterwards."""

    def __init__(self, change: dict[str, str] | None) -> None:
        self._change = change

    def decide(self, world: World) -> Decision:
        decision = Production().decide(world)
        return replace(decision, changes=tuple(self._changed(move) for move in decision.moves))

    def _changed(self, move: Move) -> Move:
        if self._change is None:
            return replace(move, creates={})
        creates = {
            id_: tuple(replace(record, **self._change) for record in records)  # type: ignore[arg-type]
            for id_, records in move.creates.items()
        }
        return replace(move, creates=creates)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (None, "job 1 needs ['a'] at EAST-DISK, and carries downloads of []"),
        ({"destination": "NORTH-DISK"}, "job 1 needs ['a'] at EAST-DISK, and carries downloads of []"),
        ({"source": "NORTH-DISK"}, "a cannot be brought from NORTH-DISK to EAST-DISK"),
    ],
)
def test_the_contract_sees_downloads_that_are_missing_or_cannot_work(
    change: dict[str, str] | None, told: str
) -> None:
    state = reading(("a",), replicas=(("a", "WEST"),))
    assert violations(Production(), state) == []
    assert told in violations(Forgetful(change), state)
