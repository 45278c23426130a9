"""What shares use is recorded all the time, so that people see it over days."""

from pilotage.flow.loops.sole import Pause, SoleLoop
from pilotage.ports.presence import Presence
from pilotage.store import ShareSample, Store, share_uses

RECORD_USE = "record-use"
"""The name of the loop."""

PERIOD = 300.0
"""Seconds between two samples. Those of an hour are added up."""

MOST_SHARES = 50
"""Most shares of a sample, those with most running jobs."""


def recording_use(store: Store, presence: Presence) -> SoleLoop:
    """Return the loop that adds a sample of each share, and deletes old ones, and old failures."""

    def work(_: Pause) -> None:
        now, found = store.clock(), share_uses(store.queries.shares())
        if any(one.running for one in found):
            sample = [
                ShareSample(share=one.name, running=one.running, used=one.used, target=one.target)
                for one in found
                if one.running or one.target
            ]
            store.past.add_sample(sample[:MOST_SHARES], now)
        store.past.forget(now)

    return SoleLoop(store, presence, RECORD_USE, PERIOD, work)
