"""The store's interface for other packages."""

import secrets
from collections.abc import Callable, Collection
from typing import NamedTuple

from sqlalchemy import Connection

from pilotage.model.circuit_breakers.changes import BreakerState, NotedKey
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.records.federation import Federation
from pilotage.model.records.measurements import COMMITS, MEASURES
from pilotage.model.records.quotas import QuotaException
from pilotage.model.records.restrictions import Restriction
from pilotage.model.rules.federation_changes import WorkThere
from pilotage.model.values.identity import Identity, UnfitName
from pilotage.store import schema
from pilotage.store.audit.acts import facts_of, has_changed
from pilotage.store.audit.audit import Audit
from pilotage.store.clock import Clock, clock_of
from pilotage.store.commit.archive import Archive
from pilotage.store.commit.checks import check
from pilotage.store.commit.commit import Commit, is_light
from pilotage.store.commit.deletion import Deletion
from pilotage.store.commit.event_retention import EventRetention
from pilotage.store.commit.heartbeats import Heartbeats
from pilotage.store.commit.measuring import CommitMeasurements
from pilotage.store.database.acts import ACT
from pilotage.store.database.driver_errors import OUTAGE
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import NoFederation, SessionsShared
from pilotage.store.database.inspection import share_a_session
from pilotage.store.database.notices import Notices
from pilotage.store.files.catalogue import Catalogue
from pilotage.store.files.datasets import Datasets, registered_by
from pilotage.store.files.publications import PublicationQueries
from pilotage.store.files.uploads import uploaded_bytes
from pilotage.store.history.decisions import candidates_alone, documents
from pilotage.store.history.event_log import EventLog
from pilotage.store.history.events import NewEvents, log_transitions, meanings
from pilotage.store.history.history import Entries, TransitionKinds
from pilotage.store.history.stuck import StuckQueries
from pilotage.store.jobs import daily_failures, log_volumes
from pilotage.store.jobs.counters import fold
from pilotage.store.jobs.lists import JobLists
from pilotage.store.jobs.logs import Logs
from pilotage.store.matching.matches import Matches, committed
from pilotage.store.past import Past
from pilotage.store.people.credential_ends import CredentialEnds
from pilotage.store.people.grants import Grants
from pilotage.store.people.notification_settings import NotificationSettings
from pilotage.store.people.notifications import NotificationQueries
from pilotage.store.people.secrets import Secrets
from pilotage.store.people.sessions import Sessions
from pilotage.store.people.sign_ins import SignIns
from pilotage.store.people.simulations import Simulations
from pilotage.store.people.tokens import Tokens
from pilotage.store.pilots.absences import Absences
from pilotage.store.pilots.table import LivePilots, PilotWaits
from pilotage.store.pilots.waiting_results import ResultsInSpools
from pilotage.store.queries import Queries
from pilotage.store.queues import circuit_breakers, work_there
from pilotage.store.queues.federations import FederationFile, Federations
from pilotage.store.servers import iterations, metrics
from pilotage.store.servers.metrics import MetricsQueries
from pilotage.store.servers.servers import Leases, Servers
from pilotage.store.servers.set_aside import SetAsideRecords
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.lists import TaskLists
from pilotage.store.tasks.resumption import ResumptionQueries
from pilotage.store.tasks.table import SpecCache
from pilotage.store.tasks.workflows import WorkflowQueries
from pilotage.store.transfers.queries import TransferQueries
from pilotage.store.transfers.storages import Removals, StorageMoves
from pilotage.store.worlds.snapshots import Snapshots

Listener = Callable[[Decision, Committed], None]


READINESS = "readiness"
"""A name that is written only to test whether writing works."""

FOLDED_AFTER = 500
"""Number of commits beside others before their differences are added to the counters."""


class _Written(NamedTuple):
    """What a transaction wrote: true if it changed any record."""

    committed: Committed
    measured: CommitMeasurements
    events: NewEvents
    has_changed: bool

    def __bool__(self) -> bool:
        return self.has_changed


class Store:
    """Everything that Pilotage stores, in one database. Safe to use from many threads and processes.

    After each commit of this process, ``listeners`` are called in its thread. ``clock`` returns the time in s
    since 1970 UTC. ``new_token`` makes random tokens. If reasons are not kept, choices are numbered but not
    stored. If events are not kept, clients cannot follow them.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        new_token: Callable[[], str],
        keeps_reasons: bool = True,
        keeps_events: bool = True,
    ) -> None:
        self.database, self.measurements = database, database.measurements
        self._keeps_reasons, self._keeps_events = keeps_reasons, keeps_events
        self.clock = clock
        self.listeners: list[Listener] = []
        self._meanings = TransitionKinds(database)
        self.federations = Federations(database, self._meanings, keeps_events)
        specs, live = SpecCache(), LivePilots()
        self.snapshots = Snapshots(database, self.federations, specs, live)
        self.queries = Queries(database, self.federations, specs, live)
        self.job_lists = JobLists(database, self.federations, specs)
        self.task_lists, self.results_in_spools = TaskLists(database), ResultsInSpools(database)
        self.matches = Matches(database, specs, self._meanings, self._left_beside, self.tell, keeps_events)
        self.heartbeats, self.notices = Heartbeats(database), Notices(database)
        self._beside = 0
        self.logs, self.log_retention = Logs(database), log_volumes.LogRetention(database)
        self.archive, self.deletion = Archive(database, specs), Deletion(database, specs)
        self.event_log, self.event_retention = EventLog(database), EventRetention(database)
        self.catalogue = Catalogue(database, specs)
        self.datasets = Datasets(database)
        self.transfer_queries = TransferQueries(database)
        self.publication_queries, self.storage_moves = PublicationQueries(database), StorageMoves(database)
        self.workflow_queries = WorkflowQueries(database, specs)
        self.resumption, self.past = ResumptionQueries(database, specs), Past(database)
        self.metrics_queries, self.simulations = MetricsQueries(database, specs), Simulations(database)
        self.notification_queries, self.stuck_queries = NotificationQueries(database), StuckQueries(database)
        self.batch_waits, self.set_aside = PilotWaits(database), SetAsideRecords(database)
        self.servers, self.absences, self.leases = Servers(database), Absences(database), Leases(database)
        self.removals, self.secrets = Removals(database), Secrets(database, clock)
        self.tokens, self.grants = Tokens(database, clock, new_token), Grants(database, clock)
        self.notification_settings = NotificationSettings(database, clock, new_token)
        self.sign_ins, self.sessions = SignIns(database, clock), Sessions(database, clock, new_token)
        self.audit, self.credential_ends = Audit(database, clock), CredentialEnds(database)

    @classmethod
    def open(
        cls,
        url: str,
        clock: Clock | None = None,
        new_token: Callable[[], str] = secrets.token_urlsafe,
        keeps_reasons: bool = True,
        keeps_events: bool = True,
        server: str = "",
    ) -> "Store":
        """Open a store and bring its tables up to date, as the ``server`` of this name, if any.

        ``url`` is ``sqlite:///PATH``, ``postgresql+psycopg://...``, or ``sqlite:///:memory:`` for one that
        ends with this object. The clock is the database's by default. Reasons and events are kept by default.
        Raises ValueError for another kind of address, ``NewerStore``, ``NotUnicode``, and for a server
        ``SessionsShared``.
        """
        database = Database(url, server)
        try:
            if server and database.is_postgresql and share_a_session(database.engine):
                raise SessionsShared
            database.write(schema.upgrade)
            database.mark_commits()
            clock = clock or clock_of(database)
        except BaseException:
            database.close()
            raise
        return cls(database, clock, new_token, keeps_reasons, keeps_events)

    @staticmethod
    def is_current(url: str) -> bool:
        """Return whether ``open`` would find current tables. Raises ValueError like it."""
        database = Database(url)
        try:
            return database.write(schema.is_current)
        finally:
            database.close()

    def try_to_write(self) -> None:
        """Write a few bytes beside other writers. Raises the database's error if that fails."""
        self.database.write(
            lambda connection: iterations.note(connection, READINESS, self.clock()), alone=False, tries=2
        )

    def add_measurements(self) -> None:
        """Add this process's measurements to the store, and ended attempts of all processes to their days.

        Keep them for the next time if that fails.
        """
        sums, latest = self.measurements.take()

        def write(connection: Connection) -> None:
            metrics.add_measurements(
                connection, {key: sums[key] for key in sums if key.name in MEASURES}, latest
            )
            daily_failures.add(connection, sums)
            log_volumes.add(connection, sums)

        try:
            self.database.write(write, alone=False)
        except BaseException:
            self.measurements.add(sums)
            raise
        self.past.add_attempts()
        self.audit.update()

    def noted_breakers(self) -> dict[NotedKey, BreakerState]:
        """Return the last state that each circuit breaker's events reported, without closed ones."""
        breakers = self.database.read(circuit_breakers.noted)
        return {key: state for key, (state, _) in breakers.items()}

    def last_done(self, work: str) -> float:
        """Return when some work of the servers was last done, in s since 1970 UTC; 0 if never."""
        return self.database.read(lambda connection: iterations.last(connection, work) or 0.0)

    def note_done(self, work: str) -> None:
        """Record that some work of the servers is done now."""
        self.database.write(lambda connection: iterations.note(connection, work, self.clock()))

    def away(self) -> str:
        """Return in one line why the database is away; empty if it answers, or if no call had to wait."""
        return self.database.reach.fault and f"{OUTAGE}: {self.database.reach.fault}"

    def held_by(self) -> str:
        """Return the other process that may write SQLite's file now; empty if unknown."""
        return self.database.held_by()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def commit(self, decision: Decision, actor: str) -> Committed:
        """Write the parts of a decision that still hold, in one transaction. Return the others as conflicts.

        It writes nothing and raises IllegalTransition or IllegalColumn for a change that no decision may
        make, FileConflict for an input with another size or checksum in the catalogue, DatasetTaken for
        another task's dataset, and PersonClosed for a task of a closed person. A decision with requests of
        pilots has no other part: they are committed like matches.
        """
        with self.measurements.timed(COMMITS):
            return self._commit(decision, actor)

    def _commit(self, decision: Decision, actor: str) -> Committed:
        if decision.requests:
            if len(decision.requests) < len(decision.changes):
                raise ValueError("requests of pilots are committed apart from other changes")
            return committed(self.matches.commit(decision))
        check(decision)
        if not decision.changes and not decision.choices:
            return Committed()
        # Pack the reasons before the transaction, so that other writers do not wait for that.
        reasons = documents(decision) if self._keeps_reasons else candidates_alone(decision)
        # SQLite has one writer anyway, so running beside it gains nothing.
        light = self.database.is_postgresql and is_light(decision)
        numbers = self._meanings.numbers(meanings(decision, actor))
        entries = Entries(numbers, decision.time, actor)

        def write(connection: Connection) -> _Written:
            measured = CommitMeasurements(decision.time)
            events = NewEvents(decision.time, self._keeps_events)
            work = Commit(connection, decision, reasons, actor, entries, events, measured, light)
            committed = work.run()
            if (act := ACT.get()) is not None:
                act.note(**facts_of(decision, committed))
            return _Written(committed, measured, events, has_changed(decision, committed))

        result, measured, events, _ = self.database.write(write, alone=not light)
        self.measurements.add(measured.own.take()[0])
        if light:
            self._left_beside()
        kinds = {number: kind for kind, number in numbers.items()}
        log_transitions(((kinds[kind], task, records) for kind, task, records in events.groups), actor)
        self.tell(decision, result)
        return result

    def _left_beside(self) -> None:
        """Count a commit that ran beside others. Now and then, merge such commits' counter differences."""
        # Without a lock: a lost count only delays the next time.
        self._beside += 1
        if self._beside >= FOLDED_AFTER:
            self._beside = 0
            self.database.write(fold)

    def tell(self, decision: Decision, committed: Committed) -> None:
        """Tell the listeners about a commit."""
        for listener in self.listeners:
            listener(decision, committed)

    def save_federation(
        self,
        federation: Federation,
        actor: str,
        file: FederationFile | None = None,
        *,
        expected: int | None = None,
        note: str = "",
    ) -> int:
        """Put this federation in force. Return its version. Loops use it from their next pass on.

        The store remembers the ``file`` that it was loaded from. Raises ``FederationRenamed``, and
        ``FederationChanged`` if another version than the ``expected`` one is in force.
        """
        return self.federations.save(federation, actor, self.clock(), file, expected=expected, note=note)

    def loaded_version(self, file: FederationFile, federation: Federation) -> int | None:
        """Return the version that a file was last loaded as; None if its declaration has changed."""
        return self.federations.loaded(file, federation)

    def version(self) -> int:
        """Return the number of the federation in force; 0 if there is none."""
        try:
            return self.database.read(self.federations.in_force).version
        except NoFederation:
            return 0

    def matches_begin(self) -> float:
        """Return when jobs go to pilots again after a restore, in s since 1970 UTC; 0 without one."""
        begin = iterations.MATCHES_BEGIN
        return self.database.read(lambda connection: iterations.last(connection, begin) or 0.0)

    def work_there(self, queues: Collection[str], storages: Collection[str]) -> WorkThere:
        """Return the work and files at queues and storages."""
        return self.database.read(lambda connection: work_there.read(connection, queues, storages))

    def registered_by(self, actor: str) -> int:
        """Return how many files and members of datasets a person has registered."""
        return registered_by(self.database, actor)

    def uploaded_bytes(self, folder: str) -> int:
        """Return the bytes of the catalogue's files in a folder of uploads."""
        return uploaded_bytes(self.database, folder)

    def stored_by(self, owner: Identity) -> int:
        """Return how many bytes a person's tasks take, ended ones included until they are archived."""
        return task_rows.volume_of(self.database, owner)

    def federation(self) -> Federation:
        """Return the current federation. Raises ``NoFederation``."""
        return self.federations.read()

    def declared_federation(self) -> Federation:
        """Return the current federation without restrictions. Raises ``NoFederation``."""
        return self.database.read(self.federations.in_force).declared

    def refuse_unknown_sites(self, names: Collection[str]) -> None:
        """Raise ``UnfitName`` unless the federation has the sites of these names."""
        if names and (unknown := sorted(frozenset(names) - self._site_names())):
            raise UnfitName("sites", f"has {unknown[0]}, which is no site here; `pilotage sites` lists them")

    def _site_names(self) -> frozenset[str]:
        try:
            federation = self.declared_federation()
        except NoFederation:
            return frozenset()
        return frozenset(
            {site.name for site in federation.sites} | {queue.site for queue in federation.queues}
        )

    def unrestricted_federation(self) -> Federation:
        """Return it with the limits and targets that people set. Raises ``NoFederation``."""
        return self.database.read(self.federations.in_force).unrestricted

    def quotas(self) -> tuple[QuotaException, ...]:
        """Return limits and targets that people set beside the federation's file. Raises ``NoFederation``."""
        return self.database.read(self.federations.in_force).quotas

    def restrictions(self) -> tuple[Restriction, ...]:
        """Return what operators drain or have closed. Raises ``NoFederation``."""
        return self.database.read(self.federations.in_force).restrictions

    @property
    def federation_version(self) -> int:
        """The federation's version that this process read last; 0 before the first."""
        return self.federations.version

    def last_federation(self) -> Federation:
        """Return the federation that this process read last. Raises ``NoFederation``."""
        return self.federations.last()
