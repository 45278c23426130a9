"""Requests about the server: the federation, tokens, secrets, the world and the server's health."""

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.client.records import Record, Table
from pilotage.client.shapes import (
    ATTEMPTS,
    AUDIT_CHECK,
    AUDIT_RECORD,
    CALLER,
    CHANGED_FEDERATION,
    FAILURE_HISTORY,
    FEDERATION,
    FEDERATION_VERSION,
    HEALTH,
    PERSON,
    QUOTA,
    QUOTAS,
    READINESS,
    SECRET,
    SERVERS,
    SIGN_IN_OFFER,
    STUCK,
    TOKEN,
    USAGE,
    WORLD,
)

from .api import AsyncApi


def _holder(name: str, vo: str | None) -> dict[str, str | None]:
    kind, mark, rest = name.partition(":")
    if not mark:
        return {"kind": "person", "name": name, "vo": vo}
    return {"kind": "vo", "vo": rest} if kind == "vo" else {"kind": kind, "name": rest, "vo": vo}


class AsyncAdministration(AsyncApi):
    """The federation, tokens, the world and the server's health."""

    async def federation(self) -> Record:
        """Return the federation in force. Only operators see options, which may hold credentials."""
        return await self._record("/federation", FEDERATION)

    async def load_federation(
        self,
        federation: Mapping[str, Any],
        *,
        dry_run: bool = False,
        force: bool = False,
        file: str = "",
        expected: int | None = None,
        note: str = "",
    ) -> Record:
        """Replace the federation without a restart. One with faults is refused as a whole.

        Raises ``Conflict`` if running jobs or known files would be lost, unless it is forced, and if
        another version than the ``expected`` one is in force. ``file`` is the name of the file that it comes
        from, ``note`` the reason for the history.
        """
        return await self._sent(
            "PUT",
            "/federation",
            CHANGED_FEDERATION,
            query={
                "dry_run": dry_run,
                "force": force,
                "file": file or None,
                "expected": expected,
                "note": note or None,
            },
            body=dict(federation),
        )

    async def federation_history(self, *, after: str | None = None, limit: int = 20) -> Table[Record]:
        """Return who changed the federation, when and why, newest first."""
        return await self._table(
            "versions", "/federation/history", FEDERATION_VERSION, after=after, limit=limit
        )

    async def roll_back_federation(
        self, version: int, *, dry_run: bool = False, force: bool = False
    ) -> Record:
        """Put an earlier version in force again. Raises as ``load_federation`` does."""
        body = {"version": version, "dry_run": dry_run, "force": force}
        return await self._posted("/federation/rollback", CHANGED_FEDERATION, None, body)

    async def world(self) -> Record:
        """Return everything that decisions read, as of now."""
        return await self._record("/world", WORLD)

    async def whoami(self) -> Record:
        """Return who you are for the server: name, VO, group, role, the token's rights and its end."""
        return await self._record("/whoami", CALLER)

    async def issuers(self) -> Table[Record]:
        """Return the identity providers that people can sign in with. It needs no token."""
        return await self._table("issuers", "/sign-in", SIGN_IN_OFFER)

    async def tokens(self, *, after: str | None = None, limit: int = 100) -> Table[Record]:
        """Return the unexpired tokens of people, newest first, without their secrets."""
        return await self._table("tokens", "/tokens", TOKEN, after=after, limit=limit)

    async def make_token(
        self,
        name: str,
        *,
        role: str = "user",
        vo: str = "",
        group: str = "",
        vo_role: str = "",
        expires_in: float | None = None,
        purpose: str = "",
        sites: Sequence[str] = (),
    ) -> str:
        """Make a token of a role, such as user or operator, and return it. It expires after s, or never."""
        who = {"role": role, "name": name, "vo": vo, "group": group, "vo_role": vo_role}
        body = {**who, "expires_in": expires_in, "purpose": purpose, "sites": [*sites]}
        return str((await self._posted("/tokens", {"token": str}, None, body, needs=["token"]))["token"])

    async def rotate_token(self, token: str, *, overlap: float = 86_400.0) -> str:
        """Make a token like one, named as the list names it. The old one ends after ``overlap`` s."""
        body, path = {"overlap": overlap}, {"token": token}
        answer = await self._posted("/tokens/{token}/rotate", {"token": str}, path, body, needs=["token"])
        return str(answer["token"])

    async def revoke_token(self, token: str) -> Record:
        """Revoke a token, named as the list names it."""
        return await self._sent("DELETE", "/tokens/{token}", {}, {"token": token})

    async def quotas(self) -> Record:
        """Return what limits your work (``of_caller``), and ``exceptions`` for people, groups and VOs."""
        return await self._record("/quotas", QUOTAS)

    async def set_quota(
        self,
        holder: str,
        *,
        because: str,
        vo: str | None = None,
        tasks: int | None = None,
        jobs: int | None = None,
        files: int | None = None,
        stored: int | None = None,
        uploaded: float | None = None,
        core_hours: float | None = None,
        transferred: float | None = None,
        target: float | None = None,
    ) -> Record:
        """Set limits of a person, ``"group:NAME"`` or ``"vo:NAME"``, in place of earlier ones.

        Or the ``target`` of ``"share:NAME"``.

        ``stored`` is in MB, ``uploaded`` in GB. ``core_hours`` and ``transferred``, in GB of inputs and
        outputs, are those of a calendar month.
        """
        limits: dict[str, float | None] = {"tasks": tasks, "jobs": jobs, "files": files, "stored": stored}
        limits |= {"uploaded": uploaded, "core_hours": core_hours, "transferred": transferred}
        limits |= {"target": target}
        given = {name: value for name, value in limits.items() if value is not None}
        body = {**_holder(holder, vo), "because": because, **given}
        return await self._sent("PUT", "/quotas", QUOTA, body=body)

    async def lift_quota(self, holder: str, *, because: str, vo: str | None = None) -> Record:
        """End the limits of a person, ``"group:NAME"``, ``"vo:NAME"``, or the target of ``"share:NAME"``."""
        return await self._posted("/quotas/lift", QUOTA, None, {**_holder(holder, vo), "because": because})

    async def close_person(
        self, name: str, *, because: str, vo: str | None = None, dry_run: bool = False
    ) -> Record:
        """End a person's tokens, tasks, private pilots and secrets; return these, and what remains."""
        body = {"name": name, "vo": vo, "because": because, "dry_run": dry_run}
        return await self._posted("/people/close", PERSON, None, body)

    async def secrets(self, *, after: str | None = None, limit: int = 100) -> Table[Record]:
        """Return your secrets of payloads, without their values."""
        return await self._table("secrets", "/secrets", SECRET, after=after, limit=limit)

    async def set_secret(self, name: str, value: str) -> Record:
        """Keep a secret for your payloads. Tasks that were held for it go on."""
        return await self._posted("/secrets", {"released": [int]}, None, {"name": name, "value": value})

    async def remove_secret(self, name: str) -> None:
        """Remove a secret. Jobs that need it are held when a pilot would take them."""
        await self._connection.send("DELETE", "/secrets/{name}", {"name": name})

    async def stuck(self) -> Table[Record]:
        """Return what made no progress for longer than usual, with reasons and commands."""
        return await self._table("stuck", "/stuck", STUCK)

    async def failure_history(self, *, days: int = 7) -> Record:
        """Return failed attempts by day, error and queue over some days: your own, or everybody's."""
        return await self._record("/failures", FAILURE_HISTORY, None, days=days)

    async def usage(
        self,
        *,
        by: str | Sequence[str] = "day",
        since: float | None = None,
        until: float | None = None,
        mine: bool = False,
        limit: int | None = None,
    ) -> Record:
        """Return what attempts used, yours or everybody's: ``rows`` by dimensions, ``total`` and ``lost``.

        Dimensions: day, person, vo, group, site, queue, task, share, cause. ``since`` and ``until`` are in s
        since 1970 UTC, and their days count whole; None: seven days ago, and now. An attempt counts when it
        has ended. There are 500 rows at most, or ``limit``.
        """
        words = by if isinstance(by, str) else ",".join(by)
        return await self._record(
            "/usage", USAGE, None, by=words, since=since, until=until, mine=mine or None, limit=limit
        )

    async def ended_attempts(
        self,
        *,
        after: int = 0,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = None,
    ) -> Record:
        """Return ``attempts`` that ended, after a number, for operators: ``next`` is the last one.

        There are 1000 at most, or ``limit``.

        ``since`` and ``until`` are in s since 1970 UTC. The order stays, so no page repeats an attempt.
        """
        return await self._record(
            "/attempts", ATTEMPTS, None, after=after, since=since, until=until, limit=limit
        )

    async def audit(
        self,
        *,
        person: str = "",
        verb: str = "",
        record: str = "",
        since: float | None = None,
        until: float | None = None,
        oldest_first: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Table[Record]:
        """Return who did what, newest first: you, and others to your records; for an operator all.

        ``record`` is as in ``task 12``; ``since`` and ``until`` are in s since 1970 UTC. With
        ``oldest_first``, go on later after the ``id`` of the last record.
        """
        return await self._table(
            "records",
            "/audit",
            AUDIT_RECORD,
            person=person or None,
            verb=verb or None,
            record=record or None,
            since=since,
            until=until,
            oldest_first=oldest_first or None,
            after=after,
            limit=limit,
        )

    async def audit_check(self, *, after: int = 0, limit: int = 10_000) -> Record:
        """Return whether records of the audit were deleted or changed: ``faults``, and ``next`` to go on."""
        return await self._record("/audit/check", AUDIT_CHECK, None, after=after, limit=limit)

    async def kept_worlds(self) -> Table[Record]:
        """Return the worlds of decisions that the server kept, oldest first."""
        return await self._table("worlds", "/worlds", {})

    async def last_simulation(self) -> Record:
        """Return your last simulation of the page: its ``text``, ``fault`` and ``pictures``.

        Raises ``NotFound`` if you started none within a day.
        """
        return await self._record("/simulation", {})

    async def servers(self) -> Record:
        """Return the ``servers`` that share the store, with their loops, leases and missing packages."""
        return await self._record("/servers", SERVERS)

    async def health(self) -> Record:
        """Return a sign of life, with the server's version. It needs no token."""
        return await self._record("/health/live", HEALTH)

    async def readiness(self) -> Record:
        """Return whether the server can do its work, and the fault if not. It needs no token."""
        return await self._sent("GET", "/health/ready", READINESS, statuses=(503,))
