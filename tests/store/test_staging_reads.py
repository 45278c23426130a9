"""What staging reads of long queues is what the policy would start, had it read them whole (D3, D7)."""

import random
from dataclasses import replace

import pytest

from pilotage.model.federation import StagingConstants
from pilotage.model.states import TransferState
from pilotage.model.world import World
from pilotage.staging import shares
from pilotage.store import Store
from pilotage.testing import NOW
from pilotage.testing.stores import FEDERATION, create, move, moved, new_transfer

X = TransferState


@pytest.mark.parametrize("seed", range(4))
def test_a_pass_starts_what_it_would_start_if_it_had_read_all(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    slots = rng.choice([1, 3, 8])
    constants = StagingConstants(delivery_slots=slots, base_priorities={"s1": 90, "s2": 30})
    store.save_federation(replace(FEDERATION, staging=constants), "tester")
    for number in range(8):
        made = create(
            store,
            *(
                new_transfer(
                    f"f{number}.{n}",
                    share=rng.choice(["s1", "s1", "s2", "s3"]),
                    priority=rng.randint(1, 40),
                    direction=rng.choice(["download", "upload"]),
                )
                for n in range(12)
            ),
            time=NOW - rng.randint(0, 9000),
        )
        if number % 3 == 0:
            moved(store, move("transfer", made[:1], X.QUEUED, X.DELIVERING), time=NOW)
    read = store.snapshots.for_staging(NOW, seed, 1000)
    everything = store.snapshots.whole(NOW, seed)
    assert len(read.transfers) < len(everything.transfers)

    def started(world: World) -> list[tuple[int, ...]]:
        return [move.ids for move in shares.start(world).moves]

    assert started(read) == started(everything)
    assert started(read) or slots == 1
