"""The runtime: everything that lives longer than a pass, and every way to the outside.

Each Pilotage has one.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.cache import Cache, RecentAnswers
from pilotage.flow.loops.broker_read_plan import BrokerReadPlan
from pilotage.flow.loops.set_aside import SetAside
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.loops.wakeups import Wakeable, Wakeups
from pilotage.flow.matching.idle_timeouts import IdleTimeouts
from pilotage.flow.matching.site_variables import SiteVariables
from pilotage.flow.outside.catalogues import Catalogues
from pilotage.flow.outside.catalogues import Load as LoadCatalogue
from pilotage.flow.outside.deliveries import Deliveries
from pilotage.flow.outside.elements import Elements, Load
from pilotage.flow.outside.fence import FencedWorkers
from pilotage.flow.outside.file_readers import MOST_OF_PILOTS, FileReaders, LookUps
from pilotage.flow.outside.kept_worlds import KeptWorlds
from pilotage.flow.outside.left_manifests import keep
from pilotage.flow.outside.log_readers import LogReaders
from pilotage.flow.outside.notifying import Notifying
from pilotage.flow.outside.own_catalogue import OwnCatalogue
from pilotage.flow.outside.publishing import Publishing
from pilotage.flow.outside.secret_keys import SecretKeys
from pilotage.flow.outside.spaces import Spaces
from pilotage.flow.outside.workers import Workers, WorkersPort
from pilotage.model.documents.remarks import Remark
from pilotage.model.documents.world import World
from pilotage.model.records.catalogues import ExternalCatalogue
from pilotage.model.records.federation import Federation
from pilotage.model.records.servers import LoopPass
from pilotage.ports import Clock, Seeds
from pilotage.ports.catalogue import CatalogueError, CataloguePort
from pilotage.ports.moving import Movers
from pilotage.ports.notifying import NoSender, NotificationSender
from pilotage.ports.operator_file import Inbox
from pilotage.ports.presence import Presence, Unnamed
from pilotage.store import Pass, Store
from pilotage.store.worlds.parts import WorldPart

if TYPE_CHECKING:
    from pilotage.flow.matching.matching import Matching

OF_ELEMENTS = ("submissions", "sightings", "server_reports", "list_matches")
"""Fields of the world with news from computing elements."""


def system_seed() -> int:
    """Return a seed for a world. It is stored with the decision, so that the decision can be repeated."""
    return secrets.randbits(32)


def no_catalogue(declared: ExternalCatalogue, _: Federation) -> CataloguePort:
    """Refuse, because this Pilotage has no adapters of catalogues."""
    raise CatalogueError(f"the catalogue {declared.name} is not asked from here")


class Runtime:
    """Store, ports, clock, seeds, workers, caches and wake-ups of one Pilotage.

    ``clock`` returns the time in s since 1970 (UTC), by default the store's. ``server_url`` is the server's
    address for pilots. ``load`` makes the adapter of a computing element, ``load_catalogue`` the adapter of
    an external catalogue. ``movers`` makes the movers, given a callback for news. ``priorities`` is where
    operators leave priorities of transfers (D9). ``presence`` knows which servers are gone, and whether this
    one may act. ``passes`` are the last passes of its loops by step. ``time_limit`` limits the time of
    decisions. ``secret_keys`` encrypt secrets of payloads; without them there are none. ``sender`` sends
    notifications. ``unreadable_secrets`` are people, by VO and name, with secrets that need a key which this
    server lacks.
    """

    kept_worlds = KeptWorlds(None)
    """Keeps the worlds of some passes; a server has a folder for them."""

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
        secret_keys: SecretKeys | None = None,
        sender: NotificationSender | None = None,
    ) -> None:
        self.store, self.seeds, self.clock = store, seeds, clock or store.clock
        self.server_url, self.priorities = server_url, priorities
        self.presence, self.secret_keys = presence or Unnamed(), secret_keys or SecretKeys(None)
        self.unreadable_secrets = Cache(lambda _: store.secrets.owners_beyond(self.secret_keys.digests()))
        self.workers, self.time_limit = workers or Workers(), time_limit or TimeLimit()
        self.wakeups, self.brokerages, self.set_aside = Wakeups(steps), Brokerages(), SetAside(store)
        self.recent_stuck, self.recent_remarks = RecentAnswers[str](), RecentAnswers[Remark]()
        self.broker_read_plan, self.log_readers = BrokerReadPlan(self.clock), LogReaders(store)
        self.idle_timeouts, self.site_variables = IdleTimeouts(store), SiteVariables(store)
        self.passes, self.news = dict[str, LoopPass](), list[Callable[[], None]]()
        tell, fenced = partial(partial, self.wakeups.tell), FencedWorkers(self.workers, self.presence)
        submits, keeper = any("submissions" in step.hears for step in steps), partial(keep, store, self.clock)
        self.elements = Elements(load, self.workers, tell(*OF_ELEMENTS), submits, fenced, keeper)
        on_this_machine = movers(tell("deliveries"))
        self.deliveries = Deliveries(on_this_machine, self.workers, tell("deliveries"), fenced)
        self.spaces = Spaces(on_this_machine, self.workers, self.clock, tell("space_sightings"))
        self.file_readers, self.look_ups = FileReaders(self.deliveries.open), LookUps()
        self.pilot_files = FileReaders(self.deliveries.open, MOST_OF_PILOTS)
        self.catalogues = self._catalogues(fenced, load_catalogue)
        self.publishing = Publishing(self.catalogues, tell("published"))
        self.notifying = self._notifying(sender or NoSender(), fenced, tell("notified"))
        store.listeners += (self.wakeups.committed, lambda *_: self.tell_news())

    def _notifying(
        self, sender: NotificationSender, workers: WorkersPort, on_news: Callable[[], None]
    ) -> Notifying:
        return Notifying(self.store, sender, workers, on_news, self.server_url.partition(",")[0])

    def _catalogues(self, fenced: WorkersPort, load: LoadCatalogue) -> Catalogues:
        own_catalogue = OwnCatalogue(self.store, self.clock, self.seeds)
        return Catalogues(own_catalogue, self.store.federation, self.workers, fenced, load)

    @cached_property
    def matching(self) -> "Matching":
        """The cache of matches, made for the first match because it imports numpy."""
        from pilotage.flow.matching.matching import Matching

        return Matching(self.store, unreadable=self.unreadable_secrets.at)

    def tell_news(self) -> None:
        """Call ``news`` after a commit of this process, or a notice of another one's. They must not block."""
        for tell in self.news:
            tell()

    def begin(self, batch: int) -> Pass:
        """Return a pass that starts now."""
        return Pass(self.clock(), self.seeds(), batch)

    def world(self, *reads: str | WorldPart, batch: int = 1) -> World:
        """Read parts of the current world for a call."""
        return self.store.snapshots.read(self.begin(batch), reads)

    def save_federation(self, federation: Federation, actor: str) -> int:
        """Put a federation in force without a restart. Return the number of its version."""
        version = self.store.save_federation(federation, actor)
        self.wakeups.wake_all()
        return version

    def close(self) -> None:
        """Give up running calls to the outside. The store stays open, because it belongs to its opener."""
        self.deliveries.stop()
        self.elements.pools.close()
        self.workers.close()
