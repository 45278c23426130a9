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
        now, uses = store.clock(), share_uses(store.queries.shares())
        if any(use.running for use in uses):
            sample = [
                ShareSample(share=use.name, running=use.running, used=use.used, target=use.target)
                for use in uses
                if use.running or use.target
            ]
            store.past.add_sample(sample[:MOST_SHARES], now)
        store.past.forget(now)

    return SoleLoop(store, presence, RECORD_USE, PERIOD, work)
