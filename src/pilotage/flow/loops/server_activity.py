"""A server's report to other servers: the last passes of its loops, and the parts that it lacks."""

from collections.abc import Iterator, Sequence

from pilotage.flow.loops.sole import SoleLoop
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step
from pilotage.model.records.federation import Federation
from pilotage.model.records.servers import ServerActivity
from pilotage.model.records.unable_ways import UnableWay
from pilotage.store import NoFederation

MOST_LACKS = 20
"""Most missing parts that a server reports."""


def server_activity(runtime: Runtime, steps: Sequence[Step], sole: Sequence[SoleLoop]) -> ServerActivity:
    """Return this process's report. May block while adapters are made for the first time."""
    passes = {**runtime.passes, **{loop.name: loop.last for loop in sole if loop.last is not None}}
    try:
        federation = runtime.store.federation()
    except NoFederation:
        return ServerActivity(passes=passes)
    lacks = [lack for step in steps for lack in _lacks(runtime, step, federation)]
    return ServerActivity(passes=passes, lacks=tuple(sorted(set(lacks))[:MOST_LACKS]))


def _lacks(runtime: Runtime, step: Step, federation: Federation) -> Iterator[str]:
    """Yield the parts that a step leaves to other servers."""
    if "unable_queues" in step.fields:
        for queue, reason in runtime.elements.lacking(federation).items():
            yield f"adapter of queue {queue}: {reason}"
    if "deliveries" in step.fields:
        for pair in runtime.deliveries.unable(federation):
            yield _mover_text(pair)
    if step.asks_plugins:
        for name, reason in runtime.brokerages.lacking.items():
            yield f"brokerage {name}: {reason}"


def _mover_text(pair: UnableWay) -> str:
    kinds = pair.source if pair.source == pair.destination else f"{pair.source} to {pair.destination}"
    return f"mover for {kinds}: {pair.reason}"
