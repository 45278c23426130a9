"""A program for tests: records of jobs, pilots and transfers with one more field, from a row to an answer.

It imports the records with a line more each, and nothing else is changed.
"""

import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

LINE = '    colour: Settable[str] = "grey"\n'


def widen(name: str, *lines: str) -> None:
    """Import a module with the new field before each of these lines."""
    spec = find_spec(name)
    assert spec
    assert spec.origin
    source = Path(spec.origin).read_text()
    for line in lines:
        assert source.count(line) == 1, line
        source = source.replace(line, LINE + line)
    sys.modules[name] = module_from_spec(spec)
    exec(compile(source, spec.origin, "exec"), vars(sys.modules[name]))


def run(url: str) -> None:
    """Set the field of a record of each kind, and check who sees it."""
    from pilotage.model.documents.decision import Touch
    from pilotage.model.records.matching import ClaimRequest, Head
    from pilotage.model.records.states import JobState, PilotState
    from pilotage.server.api.edge.answers import answer
    from pilotage.store import Store
    from pilotage.testing.records import NOW
    from pilotage.testing.stores import (
        FEDERATION,
        create,
        decision,
        move,
        moved,
        new_jobs,
        new_pilot,
        new_task,
        new_transfer,
    )

    store = Store.open(url)
    store.save_federation(FEDERATION, "test")
    (job,) = new_jobs(store, new_task(store))
    pilot = new_pilot(store)
    (transfer,) = create(store, new_transfer("s:f"))
    for source, target in (
        (PilotState.CREATED, PilotState.SUBMITTED),
        (PilotState.SUBMITTED, PilotState.RUNNING),
    ):
        moved(store, move("pilot", [pilot], source, target))
    before = store.snapshots.whole(NOW, 1)

    def colours(*records: Any) -> set[str]:
        return {record.colour for record in records}

    assert colours(*before.jobs, *before.pilots, *before.transfers) == {"grey"}
    red = {"colour": "red"}
    activation = move("job", [job], JobState.DEFINED, JobState.ACTIVATED, red | {"queue": "CERN-q"})
    touches = (
        Touch(kind="pilot", ids=(pilot,), changes=red),
        Touch(kind="transfer", ids=(transfer,), changes=red),
    )
    assert store.commit(decision(activation, *touches), "test").handed_back == 0
    world = store.snapshots.whole(NOW, 1)
    assert colours(*world.jobs, *world.pilots, *world.transfers) == {"red"}
    claim = ClaimRequest(pilot=pilot, queue="CERN-q", heads=(Head(requirements="r", priority=500, jobs=1),))
    (taken,) = store.matches.commit(decision(claim))
    assert colours(*taken.jobs) == {"red"}
    views = (store.queries.job(job), store.queries.pilot(pilot), store.transfer_queries.transfer(transfer))
    assert all(b'"colour":"red"' in answer(view).body for view in views)
    store.close()


if __name__ == "__main__":
    widen("pilotage.model.records.data", "    state: TransferState\n")
    widen("pilotage.model.records.work", "    state: JobState\n", "    state: PilotState\n")
    run(sys.argv[1])
