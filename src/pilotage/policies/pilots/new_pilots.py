"""New pilots in recorded form: kinds, owners, sizes, servers and submit pools (P5 to P10)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from numpy.random import Generator

from pilotage.model.documents.world import World
from pilotage.model.records.computing_elements import entrance_of
from pilotage.model.records.counters import Claim
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import NewPilot, PilotKind, Requirements
from pilotage.model.values.identity import GENERIC, Identity
from pilotage.policies.pilots import owner_credentials
from pilotage.policies.pilots.list_match import Answers
from pilotage.policies.pilots.pools import Pools
from pilotage.policies.pilots.servers import OpenServer, taking
from pilotage.policies.pilots.task_queues import element_of, size


@dataclass(frozen=True, slots=True)
class PilotPlace:
    """A queue with servers that accept pilots by credential, its room, and the claims of new pilots.

    ``slots`` is the number of slots of a new pilot.
    """

    queue: Queue
    servers: Mapping[str, list[OpenServer]]
    room: int
    slots: int
    claims: tuple[Claim, ...]


class Way(NamedTuple):
    """Properties of a pilot that do not follow from its task queue."""

    kind: PilotKind
    server: str
    credential: str
    pool: str
    reason: str


class Maker:
    """Makes the pilots of one iteration: their kinds, sizes, servers and submit pools."""

    def __init__(self, world: World, random: Generator) -> None:
        self._world = world
        self._random = random
        self._pools = Pools(world, random)
        self._answers = Answers(world)

    def make(
        self, place: PilotPlace, text: str, requirements: Requirements, count: int, reason: str
    ) -> tuple[list[NewPilot], str]:
        """Return pilots of one task queue, and why some are missing despite room."""
        if not count:
            return [], ""
        unusable = owner_credentials.problem(self._world, place.queue, requirements)
        kinds = self._kinds(place.queue, requirements, count, is_private_possible=not unusable)
        if not kinds:
            return [], unusable or "its site does not take pilots of the kind that its work needs"
        by_credential: dict[str, list[tuple[PilotKind, int]]] = defaultdict(list)
        for kind, number in kinds:
            by_credential[owner_credentials.credential_of(place.queue, requirements, kind)].append(
                (kind, number)
            )
        new_pilots: list[NewPilot] = []
        for credential, parts in by_credential.items():
            records, problem = self._with_credential(place, text, requirements, reason, credential, parts)
            new_pilots += records
            if problem:
                return new_pilots, problem
        return new_pilots, ""

    def _with_credential(
        self,
        place: PilotPlace,
        text: str,
        requirements: Requirements,
        reason: str,
        credential: str,
        kinds: list[tuple[PilotKind, int]],
    ) -> tuple[list[NewPilot], str]:
        """Return pilots of one task queue under one credential, and why some are missing despite room."""
        servers = self._answers.taking(place.queue, requirements, place.servers[credential])
        if not servers and (problem := self._answers.problem(place.queue, requirements)):
            return [], problem
        new_pilots: list[NewPilot] = []
        for server, pilots in taking(servers, sum(number for _, number in kinds), self._random):
            pool = self._pools.choose(requirements, place.queue.name, entrance_of(server, credential))
            if not pool:
                return new_pilots, "its submit pools are full"
            for kind, number in _cut(kinds, pilots):
                shape = Way(kind, server, credential, pool, reason)
                # The same frozen record for all: they differ only by the number that the commit assigns.
                new_pilots += [self._pilot(place, text, requirements, shape)] * number
        return new_pilots, ""

    def _kinds(
        self, queue: Queue, requirements: Requirements, count: int, *, is_private_possible: bool
    ) -> list[tuple[PilotKind, int]]:
        """Return how many pilots of each kind to make, by the work's request and the kinds that the site
        accepts (P7)."""
        accepted = element_of(queue).pilot_kinds
        kinds = [kind for kind in accepted if is_private_possible or kind != "private"]
        if requirements.private:
            return [("private", count)] if "private" in kinds else []
        if requirements.force_generic:
            return [("generic", count)] if "generic" in kinds else []
        if not kinds:
            return []
        if len(set(kinds)) == 1:
            return [(kinds[0], count)]
        director = self._world.federation.director
        fraction = director.private_pilot_fraction_by_vo.get(requirements.vo, director.private_pilot_fraction)
        private = int(self._random.binomial(count, fraction))
        parts: list[tuple[PilotKind, int]] = [("private", private), ("generic", count - private)]
        return [(kind, number) for kind, number in parts if number]

    def _pilot(self, place: PilotPlace, text: str, requirements: Requirements, shape: Way) -> NewPilot:
        queue = place.queue
        cores, memory, walltime = size(requirements, queue, place.slots)
        return NewPilot(
            queue=queue.name,
            requirements=text,
            kind=shape.kind,
            owner=self._owner(requirements, shape.kind),
            cores=cores,
            memory=memory,
            walltime=walltime,
            site=queue.site,
            element=element_of(queue).kind,
            broker=shape.server,
            credential=shape.credential,
            submit_pool=shape.pool,
            reason=shape.reason,
            slots=place.slots,
            server=self._world.server,
        )

    def _owner(self, requirements: Requirements, kind: PilotKind) -> Identity:
        if kind == "private":
            return requirements.identity
        identity = self._world.federation.director.generic_identity.get(requirements.vo)
        return Identity(name=identity.name, vo=requirements.vo, group=identity.group) if identity else GENERIC


def _cut(kinds: list[tuple[PilotKind, int]], pilots: int) -> Iterator[tuple[PilotKind, int]]:
    """Remove this many pilots from the front of the list, and yield them by kind."""
    while pilots and kinds:
        kind, number = kinds.pop(0)
        yield kind, min(number, pilots)
        if number > pilots:
            kinds.insert(0, (kind, number - pilots))
        pilots -= min(number, pilots)
