"""The declared federation in every version, parsed once and cached by version."""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Integer,
    Table,
    Text,
    bindparam,
    func,
    insert,
    or_,
    select,
)

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.records.federation import Federation
from pilotage.model.records.quotas import QuotaException
from pilotage.model.records.restrictions import Restriction
from pilotage.model.rules.limited import of_shares, with_exceptions
from pilotage.model.rules.restricted import of_federation, restricted
from pilotage.model.values.urls import without_password
from pilotage.store.database.acts import note_act
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import FederationChanged, FederationRenamed, NoFederation
from pilotage.store.database.rows import raw_rows
from pilotage.store.history.events import CHANGED_FEDERATION, NO_TASK, NewEvents
from pilotage.store.history.history import TransitionKind, TransitionKinds
from pilotage.store.queues import share_targets

log = logging.getLogger(__name__)

REMEMBERED = 86_400.0
"""Seconds of versions to compare: everything made by an older one has ended."""

MOST_VERSIONS = 100
"""Newest versions to compare: more than an hour's worth at one load per minute."""

federations = Table(
    "federations",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    text_column("actor"),
    Column("document", Text, nullable=False),
    text_column("file"),
    text_column("digest"),
    text_column("restrictions"),
    text_column("note"),
    text_column("quotas"),
)

UP = "up"
"""The actor of versions that a server loaded from its file at the start."""

_VERSION = select(func.max(federations.c.version), func.coalesce(share_targets.REVISION, 0))
_NEWEST = (
    select(*(federations.c[name] for name in ("version", "document", "restrictions", "quotas")))
    .order_by(federations.c.version.desc())
    .limit(1)
)
_FIRST = (
    select(func.max(federations.c.version))
    .where(federations.c.time < select(func.max(federations.c.time)).scalar_subquery() - REMEMBERED)
    .scalar_subquery()
)
_LOADS = (
    select(federations.c.version, federations.c.file, federations.c.digest, federations.c.document)
    .where(or_(federations.c.digest != "", federations.c.actor == UP))
    .order_by(federations.c.version.desc())
)
_OF_FILE = _LOADS.where(federations.c.file == bindparam("file")).limit(1)
_LATELY = (
    select(*(federations.c[name] for name in ("version", "time", "document", "restrictions", "quotas")))
    .where(federations.c.version >= func.coalesce(_FIRST, 0), federations.c.version <= bindparam("version"))
    .order_by(federations.c.version.desc())
    .limit(MOST_VERSIONS)
)


_HISTORY = (
    select(*(federations.c[name] for name in ("version", "time", "actor", "file", "note")))
    .where(federations.c.version < bindparam("before"))
    .order_by(federations.c.version.desc())
)
_OF_VERSION = select(federations.c.document).where(federations.c.version == bindparam("version"))


class InForce(NamedTuple):
    """A version of the federation, and when its queues last changed.

    ``changed`` has these times, in s since 1970 UTC, for changes in the day before the version. Decisions
    read ``federation``: the ``declared`` one under the ``restrictions`` of operators, and with the targets
    of shares that follow use, whose number is ``share_targets``.
    """

    version: int
    federation: Federation
    changed: Mapping[str, float]
    declared: Federation
    restrictions: tuple[Restriction, ...] = ()
    quotas: tuple[QuotaException, ...] = ()
    """Limits of single people, groups and VOs, and targets of shares, that people set beside the file."""
    share_targets: int = 0

    @property
    def unrestricted(self) -> Federation:
        """Return the declared federation with limits and targets that people set."""
        return with_exceptions(self.declared, self.quotas)


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationVersion:
    """A version that is or was in force: the time, actor and file of its saving, and a note."""

    version: int
    time: float
    actor: str
    file: str
    note: str


class FederationFile(NamedTuple):
    """The file that a federation was loaded from: its path, and a digest of its declaration."""

    path: str
    digest: str


class Federations:
    """Saves and caches the federation."""

    def __init__(self, database: Database, meanings: TransitionKinds, keeps_events: bool = True) -> None:
        self._database, self._meanings, self._keeps_events = database, meanings, keeps_events
        self._lock = threading.Lock()
        self._cache: InForce | None = None

    def save(
        self,
        federation: Federation,
        actor: str,
        time: float,
        file: FederationFile | None = None,
        *,
        expected: int | None = None,
        note: str = "",
    ) -> int:
        """Put this federation in force at ``time``, in s since 1970 UTC. Return its version.

        Restrictions and targets stay if it still has their place. The store remembers its ``file``. Raises
        ``FederationRenamed`` if the store has another name, and ``FederationChanged`` if another version than
        the ``expected`` one is in force.
        """
        document = to_json(federation).decode()
        event = self._event("loaded", actor)

        def write(connection: Connection) -> int:
            newest = connection.execute(_NEWEST).one_or_none()
            version, before, restrictions, quotas = newest or (0, None, "", "")
            note_act(before={"version": version}, after={"version": version + 1})
            if before is not None and (name := json.loads(before)["name"]) != federation.name:
                raise FederationRenamed(name, federation.name)
            if expected not in (None, version):
                raise FederationChanged(expected or 0, version)
            row = {"version": version + 1, "time": time, "actor": actor, "document": document, "note": note}
            row["restrictions"] = _text(of_federation(federation, _restrictions(restrictions)))
            row["quotas"] = _text(of_shares(federation, _exceptions(quotas)))
            if file is not None:
                row |= {"file": file.path, "digest": file.digest}
            self._add(connection, row, event)
            return int(version) + 1

        return self._database.write(write)

    def restrict(
        self,
        change: Callable[[tuple[Restriction, ...]], tuple[Restriction, ...]],
        actor: str,
        time: float,
        note: str,
    ) -> int:
        """Change the restrictions, as a new version of the same federation. Return the version in force.

        Raises ``NoFederation``.
        """

        def changed(newest: Any) -> dict[str, str]:
            after = change(before := _restrictions(newest.restrictions))
            return {} if after == before else {"restrictions": _text(after)}

        return self._change(changed, actor, time, note)

    def limit(
        self,
        change: Callable[[tuple[QuotaException, ...]], tuple[QuotaException, ...]],
        actor: str,
        time: float,
        note: str,
    ) -> int:
        """Change the limits of people, groups and VOs, and targets of shares. Raises ``NoFederation``."""

        def changed(newest: Any) -> dict[str, str]:
            after = change(before := _exceptions(newest.quotas))
            return {} if after == before else {"quotas": _text(after)}

        return self._change(changed, actor, time, note)

    def _change(self, changed: Callable[[Any], Mapping[str, str]], actor: str, time: float, note: str) -> int:
        """Write a version with other columns, if there are any. Return the version in force."""
        event = self._event(note, actor)

        def write(connection: Connection) -> int:
            newest = connection.execute(_NEWEST).one_or_none()
            if newest is None:
                raise NoFederation
            columns = changed(newest)
            if not columns:
                return int(newest.version)
            kept = {name: getattr(newest, name) for name in ("document", "restrictions", "quotas")}
            row = {"version": newest.version + 1, "time": time, "actor": actor, "note": note}
            self._add(connection, {**row, **kept, **columns}, event)
            return int(newest.version) + 1

        return self._database.write(write)

    def _event(self, cause: str, actor: str) -> int:
        """Return the number of the meaning of a new version's event."""
        meaning = TransitionKind.of("federation", None, CHANGED_FEDERATION, cause, actor)
        return self._meanings.numbers([meaning])[meaning]

    def _add(self, connection: Connection, row: Mapping[str, Any], event: int) -> None:
        """Write a version, and its event."""
        connection.execute(insert(federations), row)
        events = NewEvents(row["time"], self._keeps_events)
        events.note("federation", event, NO_TASK, [row["version"]])
        events.write(connection)

    def history(self, before: int, limit: int) -> list[FederationVersion]:
        """Return versions below ``before``, newest first."""
        rows = self._database.read(
            lambda connection: connection.execute(_HISTORY.limit(limit), {"before": before}).all()
        )
        return [FederationVersion(**row._mapping) for row in rows]

    def of_version(self, version: int) -> Federation | None:
        """Return the federation that a version declared; None if there was none."""
        document = self._database.read(
            lambda connection: connection.execute(_OF_VERSION, {"version": version}).scalar()
        )
        return None if document is None else without_passwords(from_json(Federation, document))

    def loaded(self, file: FederationFile, federation: Federation) -> int | None:
        """Return the version that a file was last loaded as; None if its declaration has changed.

        It is unchanged if it equals the last load from its path, or the last load from any file. An older
        store knows the federations that servers loaded at their start.
        """

        def read(connection: Connection) -> int | None:
            last = connection.execute(_LOADS.limit(1)).all()
            for version, _, digest, document in (*last, *connection.execute(_OF_FILE, {"file": file.path})):
                if digest == file.digest or (not digest and document == to_json(federation).decode()):
                    return int(version)
            return None

        return self._database.read(read)

    def current(self, connection: Connection) -> Federation:
        """Return the federation at this connection's moment. Raises ``NoFederation``."""
        return self.in_force(connection).federation

    def sites(self, connection: Connection) -> dict[str, str]:
        """Return the sites of queues by name; none without a federation."""
        try:
            return {queue.name: queue.site for queue in self.current(connection).queues}
        except NoFederation:
            return {}

    def in_force(self, connection: Connection) -> InForce:
        """Return the version in force at this connection's moment. Raises ``NoFederation``."""
        ((version, targets_in_force),) = raw_rows(connection, _VERSION)
        if version is None:
            raise NoFederation
        with self._lock:
            current = self._cache
        # Let two threads parse the same version: waiting would take as long.
        if current is None or current.version != version:
            lately = raw_rows(connection, _LATELY, version=version)
            declared = without_passwords(from_json(Federation, lately[0][2]))
            restrictions = _restrictions(lately[0][3])
            quotas = _exceptions(lately[0][4])
            federation = restricted(with_exceptions(declared, quotas), restrictions)
            current = InForce(version, federation, _changed(lately[::-1]), declared, restrictions, quotas)
            current = self._note(_with_targets(current, connection, targets_in_force))
        elif current.share_targets != targets_in_force:
            current = self._note(_with_targets(current, connection, targets_in_force))
        return current

    def _note(self, current: InForce) -> InForce:
        with self._lock:
            self._cache = current
        return current

    def read(self) -> Federation:
        """Return the current federation. Raises ``NoFederation``."""
        return self._database.read(self.current)

    @property
    def version(self) -> int:
        """Return the version that this process read last; 0 before the first."""
        current = self._cache
        return 0 if current is None else current.version

    def last(self) -> Federation:
        """Return the federation that this process read last. Raises ``NoFederation``."""
        current = self._cache
        return self.read() if current is None else current.federation


def _with_targets(in_force: InForce, connection: Connection, number: int) -> InForce:
    """Return a version with the targets of shares that follow use."""
    targets = share_targets.read(connection)[0] if number else {}
    shares = tuple(
        replace(share, target=targets[share.name].target) if share.name in targets else share
        for share in in_force.unrestricted.shares
    )
    return in_force._replace(federation=replace(in_force.federation, shares=shares), share_targets=number)


def _restrictions(text: str) -> tuple[Restriction, ...]:
    return from_json(tuple[Restriction, ...], text) if text else ()


def _exceptions(text: str) -> tuple[QuotaException, ...]:
    return from_json(tuple[QuotaException, ...], text) if text else ()


def _text(records: tuple[Restriction, ...] | tuple[QuotaException, ...]) -> str:
    return to_json(records).decode() if records else ""


def without_passwords(federation: Federation) -> Federation:
    """Return the federation without passwords in URLs, which all users see and earlier releases accepted."""
    storages, sites = [], []
    for storage in federation.storages:
        service = storage.transfer_service
        if service is not None:
            service = replace(
                service, url=_without_credentials("the transfer service of", storage.name, service.url)
            )
        url = _without_credentials("the storage", storage.name, storage.url)
        storages.append(replace(storage, url=url, transfer_service=service))
    for site in federation.sites:
        url = _without_credentials("the monitoring of", site.name, site.monitoring_url)
        sites.append(replace(site, monitoring_url=url))
    return replace(federation, storages=tuple(storages), sites=tuple(sites))


def _without_credentials(kind: str, name: str, url: str) -> str:
    public_url = without_password(url)
    if public_url != url:
        log.warning(
            "%s %s: its URL holds a user or password, which Pilotage ignores; put credentials into options",
            kind,
            name,
        )
    return public_url


def _changed(versions: Sequence[tuple[Any, ...]]) -> dict[str, float]:
    """Return when each queue or its unified queue was added, changed, or got other restrictions."""
    times: dict[str, float] = {}
    before: dict[str, Any] | None = None
    for _, time, document, restrictions, _ in versions:
        modes = {
            (restriction.kind, restriction.name): restriction.mode
            for restriction in _restrictions(restrictions)
        }
        # Do not parse: another release's declaration may be invalid in this one.
        declared = {queue["name"]: queue for queue in json.loads(document)["queues"]}
        alone = {
            name: (queue, modes.get(("queue", name)), modes.get(("site", queue["site"])))
            for name, queue in declared.items()
        }
        queues = {name: (state, alone.get(state[0].get("parent"))) for name, state in alone.items()}
        if before is not None:
            times |= {name: time for name, queue in queues.items() if before.get(name) != queue}
        before = queues
    return times
