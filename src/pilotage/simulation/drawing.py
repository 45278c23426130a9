"""Scenarios drawn at random from any federation: its queues, under conditions without any tuning."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

from pilotage.flow.calls.work.preview import preview
from pilotage.model.documents.serialization import to_document
from pilotage.model.documents.world import World
from pilotage.model.records.federation import (
    UNKNOWN_CORE_POWER,
    ComputingElement,
    Federation,
    Link,
    Queue,
    Site,
    Storage,
)
from pilotage.model.records.unified_queues import conditioned
from pilotage.model.records.work import InputFile, TaskSpec
from pilotage.simulation.recording import changed_fields
from pilotage.simulation.scenario import (
    SHORT,
    GeneratedWork,
    Scenario,
    SiteBehaviour,
    Spell,
    User,
    expected_jobs,
)

MOST_SLOTS = 64
"""Most slots of one pilot, however many cores its queue has."""

WORK, WORK_SPREAD, JOB_SPREAD, ESTIMATE_SPREAD = 36_000.0, 0.5, 0.2, 0.5
"""Median HS23 s of a job, and the spreads between tasks, between jobs of a task, and of tasks' estimates."""

LONGEST = 8.3
"""Factor on the median work that one task in a thousand exceeds: three times both spreads of its estimate."""

FEDERATION_FILE, SCENARIO_FILE = "federation.yaml", "scenario.yaml"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A federation and a scenario, drawn from the ``fitting`` queues of another federation."""

    federation: Federation
    scenario: Scenario
    fitting: int
    left_out: Mapping[str, int]
    """The number of queues that refuse the work, by check."""


class TooFewQueues(ValueError):
    """A federation has too few queues that fit the work."""


def drawn(declared: Federation, queues: int, seed: int) -> Drawn:
    """Draw that many queues of a federation, facts that its files lack, and work for these queues.

    The same federation, number and seed give the same scenario. Raises ``TooFewQueues``.
    """
    dice = random.Random(f"{queues} of {declared.name} by {seed}")
    declared = _without_unified(declared)
    virtual = _virtual(declared)
    forwarding = [queue.name for queue in declared.queues if queue.forwards]
    left_out = _unfit(virtual) | dict.fromkeys(forwarding, "M1 forwards")
    fitting = [at for at, queue in enumerate(virtual.queues) if queue.name not in left_out]
    counted = dict(Counter(left_out.values()).most_common())
    if len(fitting) < queues:
        raise TooFewQueues(_too_few(declared, queues, len(fitting), counted))
    chosen = [virtual.queues[at] for at in sorted(dice.sample(fitting, queues))]
    limits = {queue.name: _most_slots(queue) for queue in declared.queues}
    sized = tuple(_sized(queue, limits[queue.name], dice) for queue in chosen)
    sites = dict.fromkeys(queue.site for queue in sized)
    used = {queue.storage for queue in sized}
    storages = tuple(storage for storage in virtual.storages if storage.name in used)
    places = dict.fromkeys([*sites, *(storage.site for storage in storages)])
    federation = replace(
        virtual,
        queues=sized,
        storages=storages,
        sites=tuple(site for site in virtual.sites if site.name in places),
        links=_links(declared.links, list(places), dice),
    )
    return Drawn(federation, _scenario(federation, queues, seed, dice), len(fitting), counted)


def _without_unified(declared: Federation) -> Federation:
    """Return the federation without unified queues: each pseudo-queue has its part of the pilots (B2)."""
    parts = Counter(queue.parent for queue in declared.queues if queue.parent)
    queues = []
    for queue in conditioned(declared).queues:
        element = queue.computing_element
        if element and queue.parent:
            element = replace(element, max_pilots=max(1, element.max_pilots // parts[queue.parent]))
        queues += [] if queue.name in parts else [replace(queue, computing_element=element)]
    return replace(declared, queues=tuple(queues))


def _too_few(declared: Federation, queues: int, fitting: int, left_out: Mapping[str, int]) -> str:
    checks = ", ".join(f"{count} by {check}" for check, count in left_out.items())
    refused = f" ({checks} left out)" if checks else ""
    remedy = f"give --queues {fitting} or fewer" if fitting else "give a federation with others"
    takes = f"{fitting} of the {len(declared.queues)} queues of {declared.name} take the work"
    return f"{queues} queues are to be drawn, and {takes}{refused}: {remedy}"


def _virtual(declared: Federation) -> Federation:
    """Return the federation to draw from: its queues have slots of one core, its storages are empty disks.

    Constants stay. Users, VOs' plugins and catalogues go. Drawn slots replace the limits of sites.
    """
    return Federation(
        name=declared.name,
        sites=tuple(Site(name=site.name, nucleus=site.nucleus) for site in declared.sites),
        storages=tuple(
            Storage(name=storage.name, site=storage.site, url=f"virtual://{number}", remote_reads=True)
            for number, storage in enumerate(declared.storages)
        ),
        queues=tuple(_of_one_core(queue) for queue in declared.queues if not queue.forwards),
        brokerage=replace(declared.brokerage, nqueue_limit_site_by_share={}),
        staging=declared.staging,
        director=declared.director,
        binding=declared.binding,
        timeouts=declared.timeouts,
        loops=declared.loops,
        guard=declared.guard,
    )


def _of_one_core(queue: Queue) -> Queue:
    """Return the queue with one slot per core for its pilots.

    Limits of a whole slot are divided among these.
    """
    cores = max(1, queue.cores)
    declared = queue.computing_element or ComputingElement()
    element = ComputingElement(
        kind="virtual",
        max_pilots=declared.max_pilots,
        pilot_slots=min(MOST_SLOTS, declared.pilot_slots * cores),
        # Pilots live as long as the queue's longest jobs.
        pilot_walltime=queue.max_walltime or ComputingElement().pilot_walltime,
    )
    divided = {name: getattr(queue, name) / cores for name in ("min_memory", "max_memory", "max_workdir")}
    return replace(queue, parent="", cores=1, num_slots=None, computing_element=element, **divided)


def _unfit(federation: Federation) -> dict[str, str]:
    """Return, by queue, the first check that keeps the drawn work away.

    A queue must accept both the shortest and the longest job. VOs do not matter: there is work of all VOs.
    """
    served = tuple(replace(queue, vos=()) for queue in federation.queues)
    if not served:
        return {}
    world = World(time=0.0, seed=0, federation=replace(federation, queues=served))
    sizes = (SHORT / LONGEST, LONGEST)
    tasks = [(at, _prototype(WORK * size, federation)) for at, size in enumerate(sizes)]
    checks: dict[str, str] = {}
    for planned in preview(world, tasks, None).tasks:
        for choice in planned.choices:
            for refusal in choice.refusals:
                for queue in refusal.queues:
                    checks.setdefault(queue, f"{refusal.rule} {refusal.name}")
    # B1 leaves out test queues without a refusal.
    named = {queue.name for queue in served if "test" in queue.name.lower()}
    return checks | dict.fromkeys(sorted(named), "B1 its name")


def _prototype(work: float, federation: Federation) -> TaskSpec:
    file = InputFile(name="input", size=10**9, replicas=(federation.storages[0].name,))
    return TaskSpec(
        name="task",
        share=federation.shares[0].name,
        command=("run",),
        cpu_time=work,
        cpu_efficiency=1.0,
        inputs=(file,),
        scouts=0,
    )


def _most_slots(queue: Queue) -> int | None:
    """Return the cores that all pilots of a declared queue may have together; None if others start them."""
    element = queue.computing_element
    return element.max_pilots * element.pilot_slots * max(1, queue.cores) if element else None


def _sized(queue: Queue, limit: int | None, dice: random.Random) -> Queue:
    """Return the queue with slots (16 in the median, at most the declared number) and with a core power."""
    slots, power = round(dice.lognormvariate(log(16), 1)), round(dice.uniform(8, 16), 1)
    element = queue.computing_element or ComputingElement()
    if limit is not None:
        slots = min(slots, limit)
    pilots = max(1, round(slots / element.pilot_slots))
    return replace(
        queue,
        core_power=queue.core_power or power,
        computing_element=replace(element, max_pilots=pilots),
    )


def _links(declared: Iterable[Link], sites: Sequence[str], dice: random.Random) -> tuple[Link, ...]:
    """Return a link each way between every two sites, at its declared rate, else at the slower end's rate."""
    declared_links = {(link.source, link.destination): link for link in declared}
    rates = {site: dice.lognormvariate(log(40), 0.8) for site in sites}
    links = []
    for source in sites:
        for destination in sites:
            if source != destination:
                link = declared_links.get((source, destination)) or Link(
                    source=source, destination=destination
                )
                declared_rate = link.throughput_1h or link.throughput_1d or link.throughput_1w
                rate = declared_rate or round(max(1.0, min(rates[source], rates[destination])), 1)
                links.append(replace(link, throughput_1h=rate))
    return tuple(links)


def _scenario(federation: Federation, queues: int, seed: int, dice: random.Random) -> Scenario:
    work = GeneratedWork(
        tasks=max(4, round(1.25 * queues)),
        jobs=50,
        work=WORK,
        work_spread=WORK_SPREAD,
        job_spread=JOB_SPREAD,
        short=0.2,
        file_size=round(dice.lognormvariate(log(300), 0.5)),
        replicas=dice.choice((1, 2, 2, 3)),
        users=_users(federation.queues),
    )
    # At this rate of arrivals, jobs use this part of the time of the slots that other users leave.
    load = dice.uniform(0.3, 1.0)
    rate = sum(slots_of(queue) * (queue.core_power or UNKNOWN_CORE_POWER) for queue in federation.queues)
    arrivals = round(max(7200.0, expected_jobs(work) * WORK / (rate * load)))
    return Scenario(
        name=f"{federation.name[:150]}-{queues}-{seed}",
        federation=FEDERATION_FILE,
        sites=_weather(federation, arrivals, dice),
        generated=replace(work, arrivals=arrivals),
        estimate_spread=ESTIMATE_SPREAD,
        limit=arrivals + 7 * 86_400,
        tick=300,
        heartbeat=max(1.0, min(1800.0, federation.timeouts.heartbeat / 4)),
    )


def slots_of(queue: Queue) -> int:
    """Return how many payloads of one core all pilots of a drawn queue can run together."""
    element = queue.computing_element or ComputingElement()
    return element.max_pilots * element.pilot_slots


def _users(queues: Sequence[Queue]) -> tuple[User, ...]:
    """Return one user for each VO, at most 1000. A VO with more slots submits more of the work."""
    vos = list(dict.fromkeys(vo for queue in queues for vo in queue.vos)) or ["sim"]
    parts: defaultdict[str, float] = defaultdict(float)
    for queue in queues:
        serves = queue.vos or vos
        for vo in serves:
            parts[vo] += slots_of(queue) / len(serves)
    largest = sorted(parts, key=lambda vo: (-parts[vo], vo))[:1000]
    return tuple(User(name=vo, vo=vo, part=round(parts[vo], 2) or 0.01) for vo in largest)


def _weather(federation: Federation, arrivals: float, dice: random.Random) -> dict[str, SiteBehaviour]:
    """Draw each site's batch system: how long pilots wait, and at a third of the sites other users' work."""
    slots: defaultdict[str, int] = defaultdict(int)
    widest: defaultdict[str, int] = defaultdict(int)
    for queue in federation.queues:
        slots[queue.site] += slots_of(queue)
        element = queue.computing_element or ComputingElement()
        widest[queue.site] = max(widest[queue.site], element.pilot_slots)
    weather = {}
    for site in slots:
        wait = round(min(4 * 3600.0, max(10.0, dice.lognormvariate(log(600), 1))))
        spread = round(dice.uniform(0.5, 1.5), 2)
        begins, lasts = dice.uniform(0, arrivals), dice.uniform(3600, 4 * 3600)
        taken_part, is_busy = round(dice.uniform(0.1, 0.5), 2), dice.random() < 1 / 3
        weather[site] = SiteBehaviour(
            slots=slots[site],
            # If others take a part of the slots, a pilot never finds all of them free.
            slots_taken=taken_part if is_busy and slots[site] > widest[site] else 0,
            wait=wait,
            wait_spread=spread,
            busy=(Spell(begins=round(begins), ends=round(begins + lasts)),) if is_busy else (),
            payload_fails=0.01,
        )
    return weather


def jobs_expected(scenario: Scenario) -> int:
    """Return the expected number of jobs of a drawn scenario over all seeds."""
    return round(expected_jobs(scenario.generated)) if scenario.generated else 0


def document_of(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as a document without fields that have their default."""
    document = changed_fields(to_document(scenario), to_document(Scenario(name="-", federation="-")))
    site, work = to_document(SiteBehaviour()), to_document(GeneratedWork())
    user = to_document(User(name="-"))
    document["sites"] = {name: changed_fields(item, site) for name, item in document["sites"].items()}
    document["generated"] = changed_fields(document["generated"], work)
    if "users" in document["generated"]:
        document["generated"]["users"] = [
            changed_fields(item, user) for item in document["generated"]["users"]
        ]
    return document
