"""Checks of the federation against this machine's packages, and of its nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from pilotage.agent import VERSION
from pilotage.model.values.phrases import plural
from pilotage.release import full_version
from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import Installation
from pilotage.server.doctor.server import LEAST_SKEW, SET_CLOCK, skew

MOST_PILOTS = 200
"""Newest pilots whose nodes are looked at."""

MOST_VERSIONS = 5
"""Most versions of agents that are named of a queue."""


@check("adapters")
def lacking_adapters(installation: Installation) -> Iterator[Finding]:
    """Name what the federation needs and this machine lacks: packages, programs, adapters."""
    from pilotage.federation.faults import field_name
    from pilotage.flow.calls.administration import acceptance

    federation = installation.federation
    for fault in acceptance.lacking(federation):
        yield warning(
            f"{field_name(fault.path)}: {fault.text}",
            "steps on this machine cannot use it; another server may",
            "pip install what it names, here",
        )
    for fault in acceptance.faults(federation):
        yield Finding(
            what=f"{field_name(fault.path)}: {fault.text}",
            why="no machine can use it",
            mend="mend the file; pilotage federation load FILE",
        )


@check("nodes")
def nodes(installation: Installation) -> Iterator[Finding]:
    """Compare the clock of the newest pilot's node at each queue with the servers' and the database's.

    A node is wrong if it differs from both. Where all nodes differ alike, these were wrong, not every site.
    """
    clocks: dict[str, tuple[str, float]] = {}
    for pilot in installation.store.queries.pilots(None, None, MOST_PILOTS):
        if pilot.queue in clocks or (node := installation.store.logs.node(pilot.id)) is None:
            continue
        clocks[pilot.queue] = pilot.node or "a node", node.get("clock_ahead", 0.0)
    differences = [ahead for _, ahead in clocks.values()]
    if len(clocks) > 1 and max(differences) - min(differences) <= LEAST_SKEW:
        effect = "all nodes agree with each other: the servers' time was wrong when these pilots began"
        yield from skew("the clock of all nodes", differences[0], effect, SET_CLOCK)
        return
    effect = "certificates and signed addresses fail there, and builds go wrong"
    for queue, (name, ahead) in clocks.items():
        mend = f"ask the site to run NTP; pilotage queues test {queue}"
        yield from skew(f"the clock of {name} of {queue}", ahead, effect, mend)


@check("versions of agents")
def old_agents(installation: Installation) -> Iterator[Finding]:
    """Name the queues with pilots that run another version of the agent than this one.

    A pilot on this machine runs from the installed package: its agent has no commit in its version.
    """
    counts_by_queue: dict[str, Counter[str]] = defaultdict(Counter)
    for queue, version, count in installation.store.queries.agent_versions():
        if version not in {full_version(), VERSION}:
            counts_by_queue[queue][version] += count
    for queue, counts in counts_by_queue.items():
        # Agents report their own version: each agent of a hostile site could report another one.
        named = sorted(counts.most_common(MOST_VERSIONS))
        versions = ", ".join(
            f"{count:,} of {f'version {name}' if name else 'an unknown version'}" for name, count in named
        )
        if remaining := counts.total() - sum(count for _, count in named):
            versions += f", {remaining:,} of others"
        yield warning(
            f"queue {queue} has {plural(counts.total(), 'pilot')} with agents of another version than "
            f"{full_version()}: {versions}",
            "they lack what was mended since; each ends with its walltime, or when it is idle",
            f'pilotage queues drain {queue} --because "old agents" --until 2h',
        )


@check("waiting work")
def sure_waits(installation: Installation) -> Iterator[Finding]:
    """Name what will surely keep jobs waiting."""
    from pilotage.federation.faults import field_name
    from pilotage.flow.calls.administration import acceptance

    for fault in acceptance.waiting(installation.federation):
        yield warning(f"{field_name(fault.path)}: {fault.message}", "jobs wait", fault.remedy)
