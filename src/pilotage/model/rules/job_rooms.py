"""Room for live jobs below the quotas of their user, group and VO (rules T): one sum for all callers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import OwnerJobs
from pilotage.model.values.identity import Identity

Key = tuple[str, str, str]


class JobQuota(NamedTuple):
    """One quota of live jobs: its holder, in words and as a key; the constant of its limit; and the limit."""

    holder: str
    key: Key
    constant: str
    limit: int


def quotas_of(constants: QuotaConstants, owner: Identity) -> Iterator[JobQuota]:
    """Yield the quotas of an owner's jobs. Owners without a group have no group quota."""
    vo, constants = owner.vo, constants.for_owner(owner)
    yield JobQuota(f"user {owner.name}", ("user", vo, owner.name), "jobs_by_user", constants.jobs_by_user)
    if owner.group:
        key = "group", vo, owner.group
        yield JobQuota(f"group {owner.group}", key, "jobs_by_group", constants.jobs_by_group)
    holder = f"VO {vo}" if vo else "those without a VO"
    yield JobQuota(holder, ("vo", vo, ""), "jobs_by_vo", constants.jobs_by_vo)


class JobRooms:
    """The room of each owner, as jobs take it one after the other."""

    def __init__(self, constants: QuotaConstants, live: Iterable[OwnerJobs]) -> None:
        self._constants = constants
        self._quotas: dict[Identity, tuple[JobQuota, ...]] = {}
        self._have: Counter[Key] = Counter()
        self._throttled: Counter[tuple[str, str, str]] = Counter()
        for owner_jobs in live:
            self._throttled[owner_jobs.vo, owner_jobs.group, owner_jobs.owner] += owner_jobs.throttled
            owner = Identity(name=owner_jobs.owner, vo=owner_jobs.vo, group=owner_jobs.group)
            for quota in self._of(owner):
                self._have[quota.key] += owner_jobs.live

    def _of(self, owner: Identity) -> tuple[JobQuota, ...]:
        if owner not in self._quotas:
            self._quotas[owner] = tuple(quotas_of(self._constants, owner))
        return self._quotas[owner]

    def room(self, owner: Identity) -> int:
        """Return how many more jobs may become live."""
        return max(0, min(quota.limit - self._have[quota.key] for quota in self._of(owner)))

    def take(self, owner: Identity, jobs: int) -> None:
        """Count jobs that become live."""
        for quota in self._of(owner):
            self._have[quota.key] += jobs

    def release(self, owner: Identity) -> None:
        """Count a throttled job that becomes live."""
        self.take(owner, 1)
        self._throttled[owner.vo, owner.group, owner.name] -= 1

    def has_backlog(self, owner: Identity) -> bool:
        """Return whether throttled jobs of an owner go before new ones."""
        return self._throttled[owner.vo, owner.group, owner.name] > 0

    def live(self, owner: Identity) -> int:
        """Return how many live jobs an owner has in a VO."""
        return self._have["user", owner.vo, owner.name]

    def full(self, owner: Identity) -> list[tuple[JobQuota, int]]:
        """Return the full quotas, each with its live jobs."""
        quotas = ((quota, self._have[quota.key]) for quota in self._of(owner))
        return [(quota, have) for quota, have in quotas if have >= quota.limit]
