"""The director: number, kind and size of the pilots of an iteration (P1 to P10, P12)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from numpy.random import Generator

from pilotage.model.circuit_breakers.empty_pilots import after_empty_ones
from pilotage.model.documents.decision import Begin, Create, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import NewPilot, Pilot, Requirements
from pilotage.model.rules.site_limits import Bounds, all_bounds
from pilotage.model.values.phrases import plural
from pilotage.model.values.step_names import PROVISION
from pilotage.policies.pilots import balanced, formula
from pilotage.policies.pilots.apportionment import Wants
from pilotage.policies.pilots.circuit_breakers import has_closed, room
from pilotage.policies.pilots.demand import Demand, demand
from pilotage.policies.pilots.list_match import without_unanswered
from pilotage.policies.pilots.new_pilots import Maker, PilotPlace
from pilotage.policies.pilots.owner_credentials import without_obstructed
from pilotage.policies.pilots.pilot_capacity import (
    LimitedQueues,
    Rooms,
    SiteRoom,
    limited_queues,
    live,
    shared,
    site_claims,
    site_room,
)
from pilotage.policies.pilots.pilots_for_borrowable import pilots_for_borrowable
from pilotage.policies.pilots.servers import OpenServer, open_servers
from pilotage.policies.pilots.task_queues import by_queue, element_of
from pilotage.policies.pilots.weighted_draw import randomness
from pilotage.policies.pilots.withdrawal import is_void

POLICIES: Mapping[str, Callable[[World, Demand], Wants]] = {
    "taskqueue": formula.wants,
    "balanced": balanced.wants,
}

SOON = 1 / 6
"""Part of a period until the next iteration, if no pilot of the last one waits."""


def due_in(world: World) -> float:
    """Return the seconds until the next iteration; 0 if it is due (P2).

    The next iteration comes soon if all pilots of the last one were withdrawn, because their work was
    cancelled. So it does under ``balanced`` if they have all called: the remaining jobs may need more. A
    server that cannot submit to some queues with waiting jobs waits half a period longer, so that one that
    can goes first. After a successful probe of a breaker, ``balanced`` does not wait.
    """
    director = world.federation.director
    if world.iterated is None or (director.policy == "balanced" and has_closed(world, world.iterated)):
        return 0.0
    is_early = is_void(world) or (director.policy == "balanced" and _all_called(world))
    period = director.period * (SOON if is_early else 1)
    late = period / 2 if any(entry.queue in world.unable_queues for entry in world.task_queues) else 0.0
    return max(0.0, world.iterated + period + late - world.time)


def _all_called(world: World) -> bool:
    """Return whether all pilots of the last iteration have called home."""
    new_pilots = [pilot for pilot in world.pilots if pilot.created == world.iterated]
    return bool(new_pilots) and all(pilot.heartbeat is not None for pilot in new_pilots)


def provision(world: World) -> Decision:
    """Return pilots for the waiting task queues. The store has them before they are submitted (P10).

    There is one iteration per period, however often this is called. Only task queues with jobs take part, at
    open queues with a computing element. If nothing waits, no iteration begins. If there is no room for any
    requested pilot, it begins once there is room. ``notes`` explains each number.
    """
    places = list(_iteration(_servable(world))) if due_in(world) <= 0 else []
    begin = (Begin(step=PROVISION, last=world.iterated),) if places and not _lacks_room(places) else ()
    return Decision(
        step=PROVISION,
        time=world.time,
        seed=world.seed,
        changes=(*begin, *_creates([(place, records) for place, records, _ in places])),
        notes={"task_queues": [note for _, _, note in places]},
    )


def _lacks_room(places: Sequence[tuple[PilotPlace, list[NewPilot], Mapping[str, Any]]]) -> bool:
    """Return whether pilots were requested but none had room."""
    asks = any(min(note["target"], note["bound"] - note["waiting"]) > 0 for *_, note in places)
    return asks and not any(records for _, records, _ in places)


def _servable(world: World) -> World:
    """Return the world with the task queues and computing elements that can get pilots from this server."""
    return without_unanswered(without_obstructed(_submitted_here(world)))


def _submitted_here(world: World) -> World:
    """Return the world without computing elements at queues where this server cannot submit pilots."""
    if not world.unable_queues:
        return world
    queues = tuple(
        replace(queue, computing_element=None) if queue.name in world.unable_queues else queue
        for queue in world.federation.queues
    )
    return replace(world, federation=replace(world.federation, queues=queues))


def _creates(places: Iterable[tuple[PilotPlace, list[NewPilot]]]) -> Iterator[Create]:
    """Yield one change per queue, because all its new pilots claim the same room."""
    for name, group in groupby(places, key=lambda place: place[0].queue.name):
        parts = list(group)
        records = tuple(record for _, records in parts for record in records)
        if records:
            yield Create(records=records, cause=f"jobs wait at {name}", claims=parts[0][0].claims)


def _iteration(world: World) -> Iterator[tuple[PilotPlace, list[NewPilot], dict[str, object]]]:
    """Yield for each task queue its place, its new pilots, and a note that explains their number."""
    foreign = pilots_for_borrowable(world)
    texts = {entry.requirements for entry in (*world.task_queues, *foreign)}
    waiting = demand(world, {text: Requirements.from_text(text) for text in texts}, foreign)
    if not waiting.entries:
        return
    random = randomness(world, "room")
    limited, queues = _limited_sites(world), limited_queues(world)
    places = _places(world, waiting, limited, queues, random)
    wants = POLICIES[world.federation.director.policy](world, waiting)
    counts = shared(waiting, wants, _rooms(places, queues, limited), random)
    maker = Maker(world, randomness(world, "private"))
    columns = (counts, wants.means, wants.targets, wants.bounds, wants.waiting, waiting.elsewhere)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for entry, requirements, (count, mean, target, bound, present, elsewhere) in zip(
        waiting.entries, waiting.requirements, numbers, strict=True
    ):
        expected = f"{mean:.3g}" if mean < 1000 else f"{mean:.0f}"
        waited = plural(entry.jobs, "job")
        reason = f"{waited} waited: mean {expected}, {target} asked, {bound} at most, {present} there" + (
            f"; {elsewhere} of the jobs wait at other queues" if elsewhere else ""
        )
        place = places[entry.queue]
        records, problem = maker.make(place, entry.requirements, requirements, count, reason)
        note = {
            "queue": entry.queue,
            "requirements": entry.requirements,
            "jobs": entry.jobs,
            "priority": entry.priority,
            "mean": mean,
            "target": target,
            "bound": bound,
            "elsewhere": elsewhere,
            "waiting": present,
            "submitted": len(records),
            "problem": problem,
        }
        yield place, records, note


def _places(
    world: World,
    waiting: Demand,
    sites: Mapping[str, "_LimitedSite"],
    limited: Mapping[str, Sequence[LimitedQueues]],
    random: Generator,
) -> dict[str, PilotPlace]:
    present = by_queue(world.pilots)
    places = {}
    for queue, _ in waiting.rows():
        pilots = present.get(queue.name, [])
        servers = _servers(world, queue, pilots, random)
        limits = limited[queue.name]
        open_rooms = sum(server.room for each in servers.values() for server in each)
        free = int(min(*(limit.room for limit in limits), open_rooms))
        if world.federation.director.policy == "balanced":
            breaker = after_empty_ones(queue.name, pilots, world.federation.director, world.lifted_breakers)
            free = int(min(free, room(breaker, pilots, world.time)))
        slots, claimed = element_of(queue).pilot_slots, tuple(limit.claim for limit in limits)
        if (site := sites.get(queue.site)) is not None:
            slots = site.room.slots_of(queue)
            free = min(free, site.room.pilots_of(slots))
            claimed += site_claims(queue.site, site.bounds, site.advertisement, slots)
        places[queue.name] = PilotPlace(
            queue=queue,
            servers=servers,
            room=free,
            slots=slots,
            claims=claimed,
        )
    return places


def _servers(
    world: World, queue: Queue, pilots: Sequence[Pilot], random: Generator
) -> dict[str, list[OpenServer]]:
    """Return the servers of a queue that accept pilots, by credential."""
    submitted: dict[str, list[Pilot]] = {"": []}
    submitted |= {credential.name: [] for credential in element_of(queue).credentials}
    for pilot in pilots:
        if pilot.credential in submitted:
            submitted[pilot.credential].append(pilot)
    return {name: open_servers(world, queue, each, random, name) for name, each in submitted.items()}


class _LimitedSite(NamedTuple):
    """A site with limits: its limits, its last advertisement, and its room for more pilots."""

    bounds: Bounds
    advertisement: Advertisement | None
    room: SiteRoom


def _limited_sites(world: World) -> Mapping[str, _LimitedSite]:
    """Return the sites with limits by name (M5, M8)."""
    bounds = all_bounds(world)
    pilots: dict[str, list[Pilot]] = {name: [] for name in bounds}
    for pilot in world.pilots if bounds else ():
        if pilot.site in pilots:
            pilots[pilot.site].append(pilot)
    advertisements = {ad.site: ad for ad in world.advertisements}
    sites = {}
    for name, site_bounds in bounds.items():
        sites[name] = _LimitedSite(
            site_bounds, advertisements.get(name), site_room(site_bounds, live(pilots[name]))
        )
    return sites


def _rooms(
    places: Mapping[str, PilotPlace],
    limited: Mapping[str, Sequence[LimitedQueues]],
    sites: Mapping[str, _LimitedSite],
) -> Rooms:
    """Return the most new pilots of each queue and site. The smallest pilots of a site determine its
    number."""
    slots: dict[str, int] = {}
    for place in places.values():
        site = place.queue.site
        slots[site] = min(place.slots, slots.get(site, place.slots))
    return Rooms(
        queues={name: place.room for name, place in places.items()},
        together={
            limit.limit.queues: limit.room
            for name in places
            for limit in limited[name]
            if limit.limit.queues[1:]
        },
        sites={name: sites[name].room.pilots_of(least) for name, least in slots.items() if name in sites},
    )
