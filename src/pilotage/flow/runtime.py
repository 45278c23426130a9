"""The runtime: all that lives longer than a pass, and every way to the outside. One for each Pilotage."""

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pilotage.model.documents.world import World
from pilotage.model.records.catalogues import ExternalCatalogue
from pilotage.model.records.federation import Federation
from pilotage.ports import Clock, Seeds
from pilotage.ports.catalogue import CatalogueError, CataloguePort
from pilotage.ports.moving import Movers
from pilotage.ports.operator_file import Inbox
from pilotage.ports.presence import Presence, Unnamed
from pilotage.store import Pass, Store
from pilotage.store.worlds.parts import WorldPart

from .brokerages import Brokerages
from .loops.broker_read_plan import BrokerReadPlan
from .loops.set_aside import SetAside
from .loops.time_limit import TimeLimit
from .loops.wakeups import Wakeable, Wakeups
from .matching.idle_timeouts import IdleTimeouts
from .outside.catalogues import Catalogues
from .outside.catalogues import Load as LoadCatalogue
from .outside.deliveries import Deliveries
from .outside.elements import Elements, Load
from .outside.file_readers import MOST_OF_PILOTS, FileReaders
from .outside.log_readers import LogReaders
from .outside.own_catalogue import OwnCatalogue
from .outside.publishing import Publishing
from .outside.spaces import Spaces
from .outside.workers import Workers, WorkersPort
from .recent_answers import RecentAnswers

if TYPE_CHECKING:
    from .matching.matching import Matching


OF_ELEMENTS = ("submissions", "sightings", "server_reports", "list_matches")
"""Fields of the world that computing elements have news of."""


def system_seed() -> int:
    """A seed for a world: it is stored with the decision, so that the decision can be made again."""
    return secrets.randbits(32)


def no_catalogue(declared: ExternalCatalogue, _: Federation) -> CataloguePort:
    """Refuse, as a Pilotage that was given no adapters of catalogues."""
    raise CatalogueError(f"the catalogue {declared.name} is not asked from here")


class Runtime:
    """Store, ports, clock, seeds, workers, caches and wake-ups of one Pilotage.

    ``clock`` tells the time in s since 1970 (UTC), the store's unless given. ``server_url`` is where pilots
    call home. ``load`` makes the adapter of a computing element, ``movers`` the movers, given what to call
    when they have news, ``load_catalogue`` the adapter of a catalogue that others keep.
    ``priorities`` is where operators leave priorities of transfers (D9), ``presence`` tells which servers are
    gone, ``time_limit`` bounds the time of decisions.
    """

    def __init__(
        self,
        store: Store,
        steps: Sequence[Wakeable],
        *,
        load: Load,
        movers: Callable[[Callable[[], None]], Movers],
        clock: Clock | None = None,
        seeds: Seeds = system_seed,
        workers: WorkersPort | None = None,
        server_url: str = "",
        priorities: Sequence[Inbox] = (),
        load_catalogue: LoadCatalogue = no_catalogue,
        presence: Presence | None = None,
        time_limit: TimeLimit | None = None,
    ) -> None:
        self.store = store
        self.clock = clock or store.clock
        self.seeds = seeds
        self.server_url, self.priorities = server_url, priorities
        self.presence = presence or Unnamed()
        self.workers = workers or Workers()
        self.wakeups = Wakeups(steps)
        self.brokerages = Brokerages()
        self.time_limit = time_limit or TimeLimit()
        self.set_aside, self.recent_warnings = SetAside(store), RecentAnswers()
        self.broker_read_plan = BrokerReadPlan(self.clock)
        self.log_readers, self.idle_timeouts = LogReaders(store), IdleTimeouts(store)
        submits = any("submissions" in step.hears for step in steps)
        tell = partial(partial, self.wakeups.tell)
        self.elements = Elements(load, self.workers, tell(*OF_ELEMENTS), submits)
        on_this_machine = movers(tell("deliveries"))
        self.deliveries = Deliveries(on_this_machine, self.workers, tell("deliveries"))
        self.spaces = Spaces(on_this_machine, self.workers, self.clock, tell("space_sightings"))
        self.file_readers = FileReaders(self.deliveries.open)
        self.pilot_files = FileReaders(self.deliveries.open, MOST_OF_PILOTS)
        own = OwnCatalogue(store, self.clock, seeds)
        self.catalogues = Catalogues(own, store.federation, self.workers, load_catalogue)
        self.publishing = Publishing(self.catalogues, tell("published"))
        store.listeners.append(self.wakeups.committed)

    @cached_property
    def matching(self) -> "Matching":
        """The memory of matches, made for the first of them, since it brings numpy along."""
        from .matching.matching import Matching

        return Matching(self.store)

    def begin(self, batch: int) -> Pass:
        """A pass that starts now."""
        return Pass(self.clock(), self.seeds(), batch)

    def world(self, *reads: str | WorldPart, batch: int = 1) -> World:
        """Read parts of the world as of now, for a call."""
        return self.store.snapshots.read(self.begin(batch), reads)

    def save_federation(self, federation: Federation, actor: str) -> int:
        """Put a federation in force, without a restart; returns the number of its version."""
        version = self.store.save_federation(federation, actor)
        self.wakeups.wake_all()
        return version

    def close(self) -> None:
        """Give up what is under way at the outside. The store stays open: it is its opener's."""
        self.deliveries.stop()
        self.elements.pools.close()
        self.workers.close()
