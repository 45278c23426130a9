"""Room for live jobs below the quotas of their user, group and VO (rules T): one sum for all callers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import OwnerJobs
from pilotage.model.values.identity import Identity

Key = tuple[str, str, str]


class JobQuota(NamedTuple):
    """One quota of live jobs: whose it is, in words and as a key; the constant of its limit; and the
    limit."""

    whose: str
    key: Key
    constant: str
    most: int


def quotas_of(constants: QuotaConstants, owner: Identity) -> Iterator[JobQuota]:
    """Yield the quotas of an owner's jobs. Owners without a group have no group quota."""
    vo = owner.vo
    yield JobQuota(f"user {owner.name}", ("user", vo, owner.name), "jobs_by_user", constants.jobs_by_user)
    if owner.group:
        key = "group", vo, owner.group
        yield JobQuota(f"group {owner.group}", key, "jobs_by_group", constants.jobs_by_group)
    whose = f"VO {vo}" if vo else "those without a VO"
    yield JobQuota(whose, ("vo", vo, ""), "jobs_by_vo", constants.jobs_by_vo)


class JobRooms:
    """The room of each owner, as jobs take it one after the other."""

    def __init__(self, constants: QuotaConstants, live: Iterable[OwnerJobs]) -> None:
        self._constants = constants
        self._have: Counter[Key] = Counter()
        self._throttled: Counter[tuple[str, str, str]] = Counter()
        for one in live:
            self._throttled[one.vo, one.group, one.owner] += one.throttled
            for quota in quotas_of(constants, Identity(name=one.owner, vo=one.vo, group=one.group)):
                self._have[quota.key] += one.live

    def room(self, owner: Identity) -> int:
        """Return how many more jobs may become live."""
        return max(0, min(one.most - self._have[one.key] for one in quotas_of(self._constants, owner)))

    def take(self, owner: Identity, jobs: int) -> None:
        """Count jobs that become live."""
        for quota in quotas_of(self._constants, owner):
            self._have[quota.key] += jobs

    def release(self, owner: Identity) -> None:
        """Count a throttled job that becomes live."""
        self.take(owner, 1)
        self._throttled[owner.vo, owner.group, owner.name] -= 1

    def has_backlog(self, owner: Identity) -> bool:
        """Return whether throttled jobs of an owner go before new ones."""
        return self._throttled[owner.vo, owner.group, owner.name] > 0

    def live(self, owner: Identity) -> int:
        """Return the live jobs of an owner in a VO."""
        return self._have["user", owner.vo, owner.name]

    def full(self, owner: Identity) -> list[tuple[JobQuota, int]]:
        """Return the full quotas, each with its live jobs."""
        found = ((one, self._have[one.key]) for one in quotas_of(self._constants, owner))
        return [(quota, have) for quota, have in found if have >= quota.most]
