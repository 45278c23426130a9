"""Why jobs are throttled: the full quotas of live jobs (rules T)."""

from pilotage.flow.runtime import Runtime
from pilotage.model.rules.job_rooms import JobQuota, JobRooms
from pilotage.model.values.identity import Identity
from pilotage.store.worlds.throttled_jobs import throttled_jobs
from pilotage.store.worlds.unsplit_tasks import unsplit_tasks


def full_quotas(runtime: Runtime, owner: str, vo: str) -> list[tuple[JobQuota, int]]:
    """Return the full quotas that throttle an owner's jobs, with the live jobs of each."""
    world = runtime.world(unsplit_tasks(), throttled_jobs())
    rooms = JobRooms(world.federation.quotas, world.live_jobs)
    found = {
        quota: have
        for one in world.live_jobs
        if (one.owner, one.vo) == (owner, vo) and one.throttled
        for quota, have in rooms.full(Identity(name=owner, vo=vo, group=one.group))
    }
    return list(found.items())
