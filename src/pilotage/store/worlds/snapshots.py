"""Read worlds, each at one moment: the fields that a step or call declares.

The cost does not depend on the number of waiting jobs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pilotage.model.documents.moves import FULL
from pilotage.model.documents.world import World
from pilotage.model.records.failures import Failure
from pilotage.store.database.engine import Database
from pilotage.store.files.known_inputs import KnownInputs
from pilotage.store.jobs import borrowings, failures, waiting
from pilotage.store.pilots.table import LivePilots
from pilotage.store.queues.federations import Federations
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import SpecCache
from pilotage.store.transfers.link_rates import LinkRates
from pilotage.store.worlds.fields import Reads, parts_of
from pilotage.store.worlds.parts import Pass, Reading, WorldPart
from pilotage.store.worlds.whole import WHOLE

T = TypeVar("T")

EVERYTHING = 1_000_000
"""Most records of a kind that a whole world bounds."""


class Snapshots:
    """Reads worlds. Raises ``NoFederation`` while there is none."""

    def __init__(
        self, database: Database, federations: Federations, specs: SpecCache, live: LivePilots
    ) -> None:
        self._database = database
        self._federations = federations
        self._specs = specs
        self._live = live
        self._link_rates = LinkRates()
        self._known_inputs = KnownInputs()

    def read(self, now: Pass, reads: Reads) -> World:
        """Read a world at the time of a pass: its fields by name and its parts, in order."""
        return self.read_parts(now, parts_of(reads))

    def read_parts(self, now: Pass, parts: Sequence[WorldPart]) -> World:
        """Read a world of parts."""
        return self._use(now, parts, _kept)

    def _use(self, now: Pass, parts: Sequence[WorldPart], use: Callable[[World], T]) -> T:
        def work(connection: Any) -> T:
            declared = self._federations.in_force(connection)
            federation = self._link_rates.applied(connection, declared.federation, now.time)
            empty = World(
                time=now.time, seed=now.seed, federation=federation, queues_changed=declared.changed
            )
            reader = RecordReader(connection, self._specs)
            reading = Reading(reader, now, empty, self._live, self._known_inputs)
            for part in parts:
                if (values := part.read(reading)) is None:
                    break
                reading.add(part, values)
            world = World(
                time=now.time,
                seed=now.seed,
                federation=federation,
                queues_changed=declared.changed,
                **reading.values,
            )
            return use(world)

        return self._database.read(work)

    def whole(self, time: float, seed: int) -> World:
        """Return everything live, in order, with a request for work from every running pilot."""
        return self.use_whole(time, seed, _kept)

    def use_whole(self, time: float, seed: int, use: Callable[[World], T]) -> T:
        """Return what ``use`` makes of the whole world. Its jobs can only be iterated over, and only there.

        ``use`` is called again if the database was away.
        """
        return self._use(Pass(time, seed, EVERYTHING), parts_of(WHOLE), use)

    def tasks_pending_for_room(self) -> set[int]:
        """Return tasks with jobs that are pending for lack of room (B36, B37), by the oldest pending job."""
        return self._database.read(
            lambda connection: waiting.tasks_pending_for_room(RecordReader(connection, self._specs), FULL)
        )

    def newest_choices(self) -> dict[str, int]:
        """Return, by queue, the newest choice that lets its pilots take others' jobs."""
        return self._database.read(
            lambda connection: borrowings.newest_choices(RecordReader(connection, self._specs))
        )

    def failures(self, time: float) -> tuple[Failure, ...]:
        """Return the failed attempts that count against queues and nodes (F2)."""
        return self._database.read(
            lambda connection: failures.of_places(RecordReader(connection, self._specs), time)
        )


def _kept(world: World) -> World:
    """Return a world that needs no transaction: with all of its jobs."""
    return world if isinstance(world.jobs, tuple) else replace(world, jobs=tuple(world.jobs))
