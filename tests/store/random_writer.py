"""A process that makes random commits until it is killed, and notes each match that the store answered.

Run as ``python -m tests.store.random_writer URL SEED NOTES OPERATIONS``.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import text

from pilotage.model.records.counters import Claim
from pilotage.model.records.matching import ClaimRequest, Head
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.store import Store
from pilotage.testing.stores import decision, move, new_jobs, new_pilot, new_task

QUEUES = ("CERN-q", "PIC-q")
LIMIT = 30
"""Most jobs at a queue in the states of ``AT_QUEUE``."""
AT_QUEUE = (J.ACTIVATED, J.SENT, J.STARTING, J.RUNNING)
NEXT = {
    J.SENT: (J.STARTING, J.RUNNING),
    J.STARTING: (J.RUNNING,),
    J.RUNNING: (J.FINISHED, J.HOLDING, J.FAILED),
}


class RandomWriter:
    """Makes one random commit after another."""

    def __init__(self, store: Store, seed: int, notes: TextIO) -> None:
        self._store, self._dice, self._notes = store, random.Random(seed), notes
        self._pilots = {queue: self._new_pilot(queue) for queue in QUEUES}

    def run(self, operations: int) -> None:
        """Make this number of commits."""
        ways: list[Callable[[], None]] = [self._make, self._cancel, self._retry]
        ways += [self._activate] * 3 + [self._match] * 5 + [self._report] * 6 + [self._lose, self._add_up]
        for _ in range(operations):
            self._dice.choice(ways)()

    def _make(self) -> None:
        new_jobs(self._store, new_task(self._store), self._dice.randint(1, 10))

    def _cancel(self) -> None:
        state = self._dice.choice([J.DEFINED, J.ACTIVATED, J.RUNNING])
        self._move(state, J.CANCELLED, most=2)

    def _retry(self) -> None:
        self._move(J.FAILED, J.DEFINED, most=5, next_attempt=True)

    def _activate(self) -> None:
        # A job has the same queue at each attempt, so the events show how many jobs a queue had.
        number = self._dice.randrange(len(QUEUES))
        queue = QUEUES[number]
        claim = Claim(counter="jobs_by_queue", key=(queue, None), states=AT_QUEUE, limit=LIMIT)
        self._move(
            J.DEFINED, J.ACTIVATED, most=8, remainder=number, changes={"queue": queue}, claims=(claim,)
        )

    def _report(self) -> None:
        state = self._dice.choice([*NEXT])
        target = self._dice.choice(NEXT[state])
        used = {"wall_seconds": self._dice.uniform(0, 1e4)} if state is J.RUNNING else {}
        self._move(state, target, most=4, changes=used)

    def _lose(self) -> None:
        self._move(J.HOLDING, self._dice.choice([J.FAILED, J.CANCELLED]), most=2)

    def _add_up(self) -> None:
        self._store.add_measurements()

    def _match(self) -> None:
        queue = self._dice.choice(QUEUES)
        heads = (Head(requirements="r", priority=500, jobs=self._dice.randint(1, 4)),)
        (result,) = self._store.matches.commit(
            decision(ClaimRequest(pilot=self._pilots[queue], queue=queue, heads=heads))
        )
        for job in result.jobs:
            self._notes.write(f"{job.id}.{job.attempt}\n")
        self._notes.flush()

    def _move(self, source: J, target: J, *, most: int, remainder: int | None = None, **rest: Any) -> None:
        """Move some jobs, which another writer may have moved since they were read.

        With a ``remainder``, take only jobs with such a number.
        """
        query = text(
            "SELECT id, attempt FROM (SELECT id, attempt FROM jobs WHERE state = :state"
            " AND (:any OR id % :queues = :remainder) LIMIT 200) AS candidates ORDER BY random() LIMIT :most"
        )
        values = {
            "state": source,
            "any": remainder is None,
            "queues": len(QUEUES),
            "remainder": remainder or 0,
            "most": self._dice.randint(1, most),
        }
        jobs = self._store.database.read(lambda connection: connection.execute(query, values).all())
        if jobs:
            ids, attempts = zip(*sorted((row[0], row[1]) for row in jobs), strict=True)
            step = move("job", ids, source, target, attempts=attempts, **rest)
            self._store.commit(decision(step), "writer")

    def _new_pilot(self, queue: str) -> int:
        pilot = new_pilot(self._store, queue)
        for step in ((P.CREATED, P.SUBMITTED), (P.SUBMITTED, P.RUNNING)):
            self._store.commit(decision(move("pilot", [pilot], *step)), "writer")
        return pilot


if __name__ == "__main__":
    url, seed, notes, operations = sys.argv[1:]
    with Path(notes).open("a") as file:
        RandomWriter(Store.open(url), int(seed), file).run(int(operations))
