"""Set limits of people, groups and VOs, and targets of shares, and show what is used of quotas."""

from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.flow.calls.work.use_limits import used_of_month
from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.restricting import put_limits_in_force
from pilotage.flow.runtime import Runtime
from pilotage.model.records.quotas import MOST_EXCEPTIONS, HolderKind, QuotaException
from pilotage.model.records.spec import LiveWork
from pilotage.model.rules.global_shares import path
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedQuota:
    """A quota that limits a person's work."""

    __pydantic_config__ = DESCRIBED

    holder: str
    """Whose: the person, their group or their VO."""
    constant: str
    """The name of the limit in the federation."""
    used: float
    """What is used: tasks, jobs or input files that have not ended, MB, or core hours or GB of this month."""
    limit: float | None
    """The limit; null: there is none."""


def put(runtime: Runtime, exception: QuotaException) -> None:
    """Put limits of a person, group or VO, or the target of a share in force, in place of earlier ones."""

    def change(before: tuple[QuotaException, ...]) -> tuple[QuotaException, ...]:
        after = (*_without(before, exception.key), exception)
        if len(after) > MOST_EXCEPTIONS:
            raise NotNow(f"{MOST_EXCEPTIONS} people, groups, VOs and shares have limits, the most; lift some")
        return after

    limits = ", ".join(f"{name} {value:g}" for name, value in exception.limits.items())
    note = f"quota of {exception.holder}: {limits}: {exception.because}"
    put_limits_in_force(runtime, change, exception.actor, note)
    _follow(runtime, exception)


def lift(runtime: Runtime, key: tuple[HolderKind, str, str], actor: str, because: str) -> QuotaException:
    """End limits of a person, group or VO, or the target of a share. Return them. Raises ``NotThere``."""
    found = next((exception for exception in runtime.store.quotas() if exception.key == key), None)
    if found is None:
        holder = " ".join(filter(None, key))
        raise NotThere(f"nothing was set for {holder}: what the federation declares holds")
    note = f"quota of {found.holder} lifted: {because}"
    put_limits_in_force(runtime, lambda before: _without(before, key), actor, note)
    _follow(runtime, found)
    return found


def _follow(runtime: Runtime, exception: QuotaException) -> None:
    """Let targets that follow use begin with the new one immediately."""
    if exception.kind == "share":
        runtime.store.past.follow_use(runtime.store.unrestricted_federation(), runtime.clock())


def vos_of_share(runtime: Runtime, name: str) -> tuple[str, frozenset[str]]:
    """Return the VO of a share, and those of the shares above it. Raises ``NotThere``."""
    shares = {share.name: share for share in runtime.store.declared_federation().shares}
    if name not in shares:
        raise NotThere(f"the federation declares no share {name!r}; pilotage federation show has its shares")
    return shares[name].vo, frozenset(shares[above].vo for above in path(name, shares)[:-1])


def of_person(runtime: Runtime, owner: Identity) -> Sequence[UsedQuota]:
    """Return the quotas that limit a person's work, with what is used of each."""
    quotas = runtime.store.federation().quotas.for_owner(owner)
    live = runtime.store.queries.live_work(owner.vo)
    person, vo = live.get(owner.name, LiveWork()), LiveWork.total(live.values())
    of_vo = f"VO {owner.vo}" if owner.vo else "those without a VO"
    rows = [
        (f"user {owner.name}", "tasks_by_user", person.tasks),
        (f"user {owner.name}", "most_jobs_by_user", person.jobs),
        (f"user {owner.name}", "files_by_user", person.files),
        (f"user {owner.name}", "stored_by_user", runtime.store.stored_by(owner) / 1e6),
        (of_vo, "tasks_by_vo", vo.tasks),
        (of_vo, "most_jobs_by_vo", vo.jobs),
        (of_vo, "files_by_vo", vo.files),
    ]
    return [
        *(
            UsedQuota(holder=holder, constant=name, used=used, limit=getattr(quotas, name))
            for holder, name, used in rows
        ),
        *(
            UsedQuota(holder=month.holder, constant=month.constant, used=month.used, limit=month.limit)
            for month in used_of_month(runtime, quotas, owner, limited=False)
        ),
    ]


def _without(
    exceptions: Sequence[QuotaException], key: tuple[HolderKind, str, str]
) -> tuple[QuotaException, ...]:
    return tuple(exception for exception in exceptions if exception.key != key)
