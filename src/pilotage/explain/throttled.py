"""Lines of text about throttled jobs: which quota, and what releases them (rules T)."""

from collections.abc import Iterator, Sequence

from pilotage.model.rules.job_rooms import JobQuota
from pilotage.model.values.phrases import moment, plural


def of_quotas(full: Sequence[tuple[JobQuota, int]]) -> str:
    """Return which quotas are full, and what releases a throttled job."""
    if not full:
        return "its quotas have room again: it is released at the next pass"
    told = " and ".join(
        f"{quota.whose} has {plural(have, 'live job')}, and may have {quota.most} (quotas.{quota.constant})"
        for quota, have in full
    )
    return f"{told}; each of these that ends releases one, its owner's first submitted first"


def of_job(full: Sequence[tuple[JobQuota, int]], fails_at: float) -> Iterator[str]:
    """Yield why a job is throttled, what releases it, and when it fails."""
    yield f"throttled: {of_quotas(full)}"
    yield f"  it fails at {moment(fails_at)} if it is not released until then; nothing else holds it back"
