"""What this process knows of its computing elements, in the worlds that brokerages decide from (B26)."""

from dataclasses import replace

from pilotage.model.world import QueueReport, World

from .runtime import Runtime


def with_problems(runtime: Runtime, world: World) -> World:
    """The same world, told at which queues this process could not submit a pilot.

    One that submits none leaves the world as it is: pilots may be submitted from another machine.
    """
    if not runtime.submits_pilots:
        return world
    reports = {report.queue: report for report in world.queue_reports}
    for queue in world.federation.queues:
        if problem := runtime.elements.problem(queue):
            known = reports.get(queue.name, QueueReport(queue=queue.name))
            reports[queue.name] = replace(known, pilots_possible=False, pilots_problem=problem)
    return replace(world, queue_reports=tuple(reports[name] for name in sorted(reports)))
