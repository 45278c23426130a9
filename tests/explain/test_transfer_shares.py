"""The plan of staging tells the account of the shares: slots, needs, emergencies, who waits behind what."""

from dataclasses import replace

from pilotage.explain.plans import of_decision
from pilotage.model.records.states import TransferState as X
from pilotage.policies.staging.preparing import prepare
from pilotage.policies.staging.slots import start
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
    assert told == {"a": "60 2 2 0 1 0 0", "b": "40 0 2 0 1 0 1", "d": "5 0 0 1 0 0 0"}
    assert lines[-3:] == [
        "  a: 2 wait behind its own, in all slots that it is entitled to",
        "  b: 1 wait for a slot of a, c",
        "  d: 1 wait for a storage or link that is full or fails",
    ]


def test_shares_that_hold_emergency_slots_are_told_on_narrow_screens_too() -> None:
    fed = three_sites(delivery_slots=2, base_priorities={"atlas-calibration": 90, "atlas": 80})
    transfers = [
        *(transfer(number, X.DELIVERING, share="atlas-download") for number in (1, 2)),
        transfer(3, X.DELIVERING, share="atlas-calibration", emergency=True),
        *(transfer(number, X.PREPARED, share="_default-download") for number in range(4, 200)),
    ]
    seen = world(fed, transfers=transfers)
    lines = of_decision(start(seen), seen, [], width=80)
    assert all(len(line) <= 80 for line in lines)
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert rows["atlas-calibration"] == ["90", "1", "0", "0", "1", "0", "1"]
    assert "  _default-download: 195 wait for a slot of atlas-calibration, atlas-download" in lines


def test_what_waits_behind_the_bound_on_what_is_prepared_says_so() -> None:
    fed = three_sites(max_prepared=2, highest_pass=0, delivery_slots=1)
    transfers = [
        transfer(1, X.DELIVERING, share="a"),
        *(transfer(number, X.PREPARED, share="a") for number in (2, 3)),
        *(transfer(number, X.QUEUED, share="a") for number in range(4, 9)),
    ]
    seen = world(fed, transfers=transfers)
    lines = of_decision(prepare(seen), seen, [])
    assert "  a: 5 wait until prepared transfers are delivered" in lines
