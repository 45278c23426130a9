"""The plan of staging tells the account of the shares: slots, needs, emergencies, who waits behind what."""

from dataclasses import replace

from pilotage.explain.plans import of_decision
from pilotage.model.states import TransferState as X
from pilotage.staging.slots import start
from pilotage.testing import NOW, three_sites, transfer, world


def test_the_account_of_shares_tells_what_each_waits_for() -> None:
    fed = three_sites(delivery_slots=3, sub_shares=False, base_priorities={"a": 60, "b": 40, "c": 10, "d": 5})
    storages = tuple(replace(one, transfer_slots=1) if one.name == "west" else one for one in fed.storages)
    slow = NOW - 1000
    transfers = [
        *(transfer(number, X.DELIVERING, share="a", since=slow) for number in (1, 2)),
        transfer(3, X.DELIVERING, share="c", source="west", since=slow),
        *(transfer(number, X.PREPARED, share="a") for number in (4, 5)),
        *(transfer(number, X.PREPARED, share="b") for number in (6, 7)),
        transfer(8, X.PREPARED, share="d", source="west"),
    ]
    seen = world(replace(fed, storages=storages), transfers=transfers)
    lines = of_decision(start(seen), seen, [])
    assert "delivering: 3 slots, 3 in use, 0 given now; 1 beyond them in emergency" in lines
    told = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line[:2] in ("a ", "b ", "d ")}
    assert told["a"] == "60 2 2 0 1 0 0 2 behind its own part of the slots"
    assert told["b"] == "40 0 2 0 1 0 1 1 until a slot of a, c is free"
    assert told["d"] == "5 0 0 1 0 0 0 for a storage or link that is full"
