"""Read scenarios from files, with their federation and log. Find the queues that their work may use."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor
from pathlib import Path as FilePath

from pilotage.federation import checks, documents, source_files
from pilotage.federation.faults import BadDocument, BadFile, Fault, FileFault, Path
from pilotage.federation.source_files import SourceFile
from pilotage.federation.task_checks import task_faults
from pilotage.model.records.federation import ComputingElement, Federation, Queue
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.unified_queues import conditioned
from pilotage.model.records.work import InputFile, TaskOutputs
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.policies import KNOWN, REFERENCE_RUN, Policy, changed
from pilotage.simulation.scenario import (
    MOST_DRAWN,
    SHORTEST_INTERVAL,
    Scenario,
    Spell,
    SwfWork,
    expected_jobs,
)
from pilotage.simulation.swf import BadLog, LoggedJob, arrivals, jobs, text_of, used_jobs


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with the content of its files. ``log`` has the jobs of a log of work."""

    scenario: Scenario
    federation: Federation
    log: tuple[LoggedJob, ...] = ()


def read(path: FilePath) -> Case:
    """Read the scenario of a file with its federation and log.

    Raises ``BadFile`` with every fault.
    """
    federations: list[Federation] = []
    log: list[LoggedJob] = []

    def checks(scenario: Scenario) -> Iterator[Fault]:
        faults = list(_faults(scenario))
        yield from faults
        declared = yield from _named(("federation",), path.parent / scenario.federation)
        if declared is None:
            return
        federations.append(documents.read(Federation, declared))
        yield from _contradictions(scenario, federations[0])
        if scenario.swf and not faults:
            file = yield from _named(("swf", "path"), path.parent / scenario.swf.path, _log_file)
            log.extend(_log(file, scenario.swf) if file else ())
        yield from _late(scenario, log)

    scenario = documents.read(Scenario, path, further_faults=checks)
    return Case(scenario, virtual(federations[0], scenario), tuple(log))


def _log_file(path: FilePath) -> SourceFile:
    """Read a log's file, compressed or not. Raises BadFile."""
    data = source_files.read_bytes(path)
    try:
        return SourceFile(str(path), text_of(data, source_files.MAX_BYTES))
    except ValueError as error:
        raise BadFile(
            [FileFault(str(path), None, "", str(error), "give a log as text, or as .gz")]
        ) from error


def _named(
    field: Path, path: FilePath, read: Callable[[FilePath], SourceFile] = SourceFile.of
) -> Generator[Fault, None, SourceFile | None]:
    """Read the file that a field of the scenario names. If it cannot be read, yield a fault of that field."""
    try:
        return read(path)
    except BadFile as bad:
        for fault in bad.faults:
            place = fault.file if fault.line is None else f"{fault.file}:{fault.line}"
            yield Fault(field, f"{place}: {fault.message}", fault.remedy)
        return None


def _log(file: SourceFile, work: SwfWork) -> tuple[LoggedJob, ...]:
    path = file.path
    try:
        logged = tuple(jobs(file.content))
    except BadLog as bad:
        remedy = "give 18 numbers, -1 for what is not known"
        raise BadFile([FileFault(str(path), bad.line, "", bad.message, remedy)]) from bad
    if not used_jobs(logged, work):
        message = f"none of the {len(logged)} jobs that ran is taken"
        raise BadFile([FileFault(str(path), None, "", message, "give other first or most_cores")])
    return logged


def _late(scenario: Scenario, log: Sequence[LoggedJob]) -> Iterator[Fault]:
    """Yield work that would arrive after the end of the simulation."""
    path: Path
    if scenario.swf is not None:
        path, times = ("swf", "jobs"), arrivals(log, scenario.swf)
    elif scenario.generated is not None:
        path, times = ("generated", "arrivals"), [scenario.generated.arrivals]
    else:
        path, times = ("tasks",), [arrival.at for arrival in scenario.tasks]
    late = [time for time in times if time > scenario.limit]
    if not late:
        return
    subject = "tasks come" if scenario.generated else f"{len(late)} of {len(times)} tasks come"
    needed = floor(max(late)) + 1
    message = (
        f"{subject} later than {scenario.limit:.0f} s after the beginning, when the simulation ends (limit)"
    )
    remedy = f"give limit: {needed} or more, or less work"
    yield Fault(path, message, f"{remedy}, or draw it together with faster" if scenario.swf else remedy)


def virtual(federation: Federation, scenario: Scenario) -> Federation:
    """Return the federation with virtual computing elements. Each knows its queue."""
    federation = conditioned(federation)
    unified = {queue.parent for queue in federation.queues}
    queues = tuple(
        queue
        if queue.name in unified and queue.computing_element is None
        else replace(
            queue,
            computing_element=replace(
                queue.computing_element or ComputingElement(),
                kind="virtual",
                servers=(),
                credentials=(),
                rank="",
                list_match=False,
                options={"queue": queue.name},
            ),
        )
        for queue in federation.queues
    )
    loops = replace(federation.loops, period=scenario.period, heartbeat=scenario.heartbeat)
    return replace(federation, queues=queues, loops=loops)


def _faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield faults that show without the federation."""
    kinds = [name for name in ("generated", "swf", "tasks") if getattr(scenario, name)]
    if len(kinds) != 1:
        message = f"work is given by {' and '.join(kinds)}" if kinds else "no work is given"
        yield Fault((), message, "give one of generated, swf and tasks")
    if scenario.generated and (drawn := expected_jobs(scenario.generated)) > MOST_DRAWN:
        message = f"some {drawn:.3g} jobs in all would be drawn"
        yield Fault(
            ("generated", "jobs"), message, f"give fewer tasks or jobs, for at most {MOST_DRAWN} in all"
        )
    for place, spells in _spells(scenario):
        for at, spell in enumerate(spells):
            if spell.ends <= spell.begins:
                yield Fault((*place, at, "ends"), "the spell ends before it begins", "give a later end")
    for at, arrival in enumerate(scenario.tasks):
        for fault in task_faults(arrival.task):
            yield Fault(("tasks", at, "task", *fault.path), fault.message, fault.remedy)
        for number, item in enumerate(arrival.task.inputs):
            if not isinstance(item, InputFile | TaskOutputs):
                path = ("tasks", at, "task", "inputs", number)
                yield Fault(path, "virtual storages list no files", "name each file, with size and replicas")


def _spells(scenario: Scenario) -> Iterator[tuple[tuple[str, ...], tuple[Spell, ...]]]:
    places: list[tuple[str, ...]] = [("default_site",), *(("sites", name) for name in scenario.sites)]
    for place in places:
        site = scenario.default_site if len(place) == 1 else scenario.sites[place[1]]
        yield (*place, "busy"), site.busy
        yield (*place, "outages"), site.outages
    for name, storage in scenario.storages.items():
        yield ("storages", name, "outages"), storage.outages


def _contradictions(scenario: Scenario, federation: Federation) -> Iterator[Fault]:
    """Yield names and behaviour in a scenario that contradict its federation."""
    sites = [site.name for site in federation.sites]
    for name in scenario.sites:
        yield from _unknown(("sites", name), "site", name, sites)
    storages = [storage.name for storage in federation.storages]
    for name in scenario.storages:
        yield from _unknown(("storages", name), "storage", name, storages)
    if (work := scenario.generated) is not None:
        yield from _unknown(("generated", "nucleus"), "site", work.nucleus or sites[0], sites)
        for at, user in enumerate(work.users):
            shares = [share.name for share in federation.shares]
            yield from _unknown(("generated", "users", at, "share"), "share", user.share or shares[0], shares)
            yield from _unserved(("generated", "users", at, "vo"), user.vo, federation)
    if scenario.swf is not None:
        yield from _unserved(("swf", "vo"), scenario.swf.vo, federation)
    for at, arrival in enumerate(scenario.tasks):
        yield from _unserved(("tasks", at, "vo"), arrival.vo, federation)
        for path, message in checks.check_task(arrival.task, federation):
            yield Fault(("tasks", at, "task", *path), message)
    yield from _too_wide(scenario, federation)
    for name, policy in scenario.policies.items():
        yield from _of_policy(name, policy, federation)


def _unknown(path: Path, kind: str, name: str, names: Sequence[str]) -> Iterator[Fault]:
    if name not in names:
        # List only ten names: a thousand such faults would each list all names of a large federation.
        names = ", ".join([*names[:10], *(["..."] if len(names) > 10 else [])])
        yield Fault(path, f"the federation has no {kind} {name}", f"it has {names}")


def _unserved(path: Path, vo: str, federation: Federation) -> Iterator[Fault]:
    """Yield a VO if its jobs would wait until the end. An imported federation serves only its own VOs."""
    served = [queue.vos for queue in federation.queues if queue.is_online]
    if served and all(vos and vo not in vos for vos in served):
        vos_served = sorted({name for vos in served for name in vos})
        yield Fault(
            path, f"no queue that is online serves VO {vo}", f"these are served: {', '.join(vos_served)}"
        )


def _too_wide(scenario: Scenario, federation: Federation) -> Iterator[Fault]:
    """Yield sites with fewer slots than a pilot needs. It would wait there for ever.

    If other users take a part of the slots, a pilot never gets all of them. Ignore closed queues unless a
    task names them: they get no pilots.
    """
    for queue in open_queues(federation, (arrival.task for arrival in scenario.tasks)):
        site = scenario.site(queue.site)
        pilot_slots = queue.computing_element.pilot_slots if queue.computing_element else 1
        needed = pilot_slots + (site.slots_taken > 0)
        if site.slots is not None and needed > site.slots:
            path = (
                ("sites", queue.site, "slots") if queue.site in scenario.sites else ("default_site", "slots")
            )
            reserve = ", of which others take some (slots_taken)" if needed > pilot_slots else ""
            each = f"each takes {pilot_slots} slots (pilot_slots), there are {site.slots}{reserve}"
            yield Fault(path, f"no pilot of {queue.name} starts: {each}", f"give {needed} or more")


def _of_policy(name: str, policy: Policy, federation: Federation) -> Iterator[Fault]:
    if name in KNOWN or name == REFERENCE_RUN:
        yield Fault(("policies", name), f"the policy {name} is known already", "give another name")
    if "computing_element" in policy.queues:
        path = ("policies", name, "queues", "computing_element")
        message = "computing elements are virtual here, one for each queue"
        yield Fault(path, message, "change them in another federation")
        return
    try:
        heartbeat = changed(federation, policy).loops.heartbeat
        if heartbeat < SHORTEST_INTERVAL:
            place = ("policies", name, "constants", "loops", "heartbeat")
            yield Fault(place, f"{heartbeat:g} is below {SHORTEST_INTERVAL:g}", "give seconds")
    except BadDocument as bad:
        yield from (replace(fault, path=("policies", name, *fault.path)) for fault in bad.faults)


def usable_queues(federation: Federation, tasks: Collection[SimulatedTask]) -> Federation:
    """Return the federation with only those queues that accept jobs of these tasks (B4, F1)."""
    vos = {task.owner.vo for task in tasks}
    queues = open_queues(federation, (task.spec for task in tasks))
    return replace(
        federation, queues=tuple(queue for queue in queues if not queue.vos or not vos.isdisjoint(queue.vos))
    )


def open_queues(federation: Federation, specs: Iterable[TaskSpec]) -> Iterator[Queue]:
    """Yield the queues that accept work: online ones, and the ones that a task names (B4)."""
    named = {name for spec in specs for name in spec.queues}
    return (queue for queue in federation.queues if queue.is_online or queue.name in named)
