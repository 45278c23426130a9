"""What steps read: fields of the store's world by name, parts of it, and news from outside.

A step takes news before it reads the store, so that the store's state is at least as new as the question
behind an answer. Then it adds other facts of this process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pilotage.model.documents.world import World
from pilotage.model.records.states import NotificationState, PilotState, PublicationState, TransferState
from pilotage.store import Pass
from pilotage.store.worlds.fields import FIELDS
from pilotage.store.worlds.parts import ALWAYS, WorldPart

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime


@dataclass(frozen=True, slots=True)
class News:
    """A field with the news since the last pass. News wake the steps that read it."""

    field: str
    read: Callable[["Runtime"], Any]

    @property
    def fields(self) -> tuple[str, ...]:
        """The field."""
        return (self.field,)


@dataclass(frozen=True, slots=True)
class ProcessFields:
    """Fields with facts of this process, given the store's world.

    With ``wakes``, news from outside wake the steps that read it.
    """

    fields: tuple[str, ...]
    read: Callable[["Runtime", World], Mapping[str, Any]]
    wakes: bool = False


Reads = Sequence[str | WorldPart | News | ProcessFields]
"""What a step reads, in order."""


def _server_presence(runtime: "Runtime", world: World) -> Mapping[str, Any]:
    """Return which process takes this pass, and which of the servers at work are gone."""
    presence = runtime.presence
    named = {record.server for record in world.transfers if record.state is TransferState.DELIVERING}
    named |= {record.server for record in world.publications if record.state is PublicationState.PUBLISHING}
    named |= {record.server for record in world.notifications if record.state is NotificationState.SENDING}
    named |= {
        record.server
        for record in world.pilots
        if record.state is PilotState.CREATED and not record.reference
    }
    gone = presence.gone(named - {"", presence.name})
    return {"server": presence.name, "servers_gone": tuple(sorted(gone))}


def _list_matches(runtime: "Runtime", world: World) -> Mapping[str, Any]:
    inquiries = runtime.elements.inquiries
    inquiries.lift(world.lifted_breakers)
    return {
        "list_matches": inquiries.list_matches(world.time),
        "silent_servers": inquiries.silent_servers(),
    }


def _pool_reports(runtime: "Runtime", world: World) -> Mapping[str, Any]:
    pools = runtime.elements.pools
    pools.configure(world.federation.director.submit_pools)  # as it is now (P11)
    return {"pool_reports": pools.reports()}


_OUTSIDE: Sequence[News | ProcessFields] = (
    News("deliveries", lambda runtime: runtime.deliveries.news()),
    News("submissions", lambda runtime: runtime.elements.submissions.news()),
    News("sightings", lambda runtime: runtime.elements.sightings.news()),
    News("published", lambda runtime: runtime.publishing.news()),
    News("notified", lambda runtime: runtime.notifying.news()),
    ProcessFields(
        ("notification_limits",), lambda runtime, _: {"notification_limits": runtime.notifying.sender.limits}
    ),
    News("space_sightings", lambda runtime: runtime.spaces.news()),
    ProcessFields(("server", "servers_gone"), _server_presence),
    ProcessFields(
        ("server_reports",),
        lambda runtime, _: {"server_reports": runtime.elements.inquiries.server_reports()},
        wakes=True,
    ),
    ProcessFields(("list_matches", "silent_servers"), _list_matches, wakes=True),
    ProcessFields(("pool_reports",), _pool_reports),
    ProcessFields(
        ("unable_queues",),
        lambda runtime, world: {"unable_queues": runtime.elements.lacking(world.federation)},
    ),
    ProcessFields(
        ("unusable_credentials",),
        lambda runtime, world: {
            "unusable_credentials": runtime.elements.unusable_credentials(world.federation, world.time)
        },
    ),
)

OUTSIDE: Mapping[str, News | ProcessFields] = {name: source for source in _OUTSIDE for name in source.fields}
"""News from outside, by field."""


# Steps with policies that read queue reports use this: it adds adapters that cannot be made here (B26).
startable = ProcessFields(
    ("queue_reports",),
    lambda runtime, world: {"queue_reports": runtime.elements.queue_reports(world)},
)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a step reads, sorted by source. It is made once, when the step is declared."""

    news: tuple[News, ...]
    parts: tuple[WorldPart, ...]
    process_fields: tuple[ProcessFields, ...]

    @classmethod
    def of(cls, reads: Reads) -> "ReadPlan":
        """Find the reader of each. Raises ValueError for a name without a reader."""
        readers = tuple({id(reader): reader for reader in map(_reader_of, reads)}.values())
        return cls(
            tuple(reader for reader in readers if isinstance(reader, News)),
            tuple(reader for reader in readers if isinstance(reader, WorldPart)),
            tuple(reader for reader in readers if isinstance(reader, ProcessFields)),
        )

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields that a world has by this plan."""
        read: tuple[News | WorldPart | ProcessFields, ...] = (*self.news, *self.parts, *self.process_fields)
        return ALWAYS.union(*(reader.fields for reader in read))

    @property
    def hears(self) -> frozenset[str]:
        """Return the fields that have news from outside."""
        waking: tuple[News | ProcessFields, ...] = (
            *self.news,
            *(reader for reader in self.process_fields if reader.wakes),
        )
        return frozenset(name for reader in waking for name in reader.fields)

    def read(self, runtime: "Runtime", now: Pass) -> World:
        """Read a world: news from outside, then the store, then other facts of this process."""
        facts = {reader.field: reader.read(runtime) for reader in self.news}
        world = runtime.store.snapshots.read_parts(now, self.parts)
        for reader in self.process_fields:
            facts.update(reader.read(runtime, world))
        return replace(world, **facts) if facts else world


def _reader_of(item: str | WorldPart | News | ProcessFields) -> WorldPart | News | ProcessFields:
    named = (OUTSIDE.get(item) or FIELDS.get(item)) if isinstance(item, str) else item
    if named is None:
        names = ", ".join(sorted({*OUTSIDE, *FIELDS}))
        raise ValueError(f"no field {item!r} can be read by its name; these can: {names}")
    return named
