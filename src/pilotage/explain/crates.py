"""A task that has ended as an RO-Crate: what ran where and when, from which files, and which files it made.

It is the document ``ro-crate-metadata.json`` of a Process Run Crate, one entity a line. It is made while it
is sent, and jobs are read several times, so that no list of them is in memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pilotage.model.documents.serialization import given_json
from pilotage.model.records.data import File
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.runs import JobRun
from pilotage.model.records.spec import RELEASE, TaskSpec
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules.job_payload import first_seed, parameters_of
from pilotage.model.values.paths import path_in_job
from pilotage.model.values.phrases import LAST_MOMENT

NAME = "ro-crate-metadata.json"
"""The name that a crate's document has in its folder."""

DOCUMENT = "#task-document"
"""The entity that has the document of the task as its text."""

MOST_ACTIONS = 10_000
"""Most jobs that are described one by one. A task of more is one action, with all of its files."""

CRATE, PROFILE = "https://w3id.org/ro/crate/1.1", "https://w3id.org/ro/wfrun/process/0.5"
TERMS = "https://w3id.org/ro/terms/workflow-run"
PILOTAGE = "#pilotage"
CONTEXT = [
    f"{CRATE}/context",
    f"{TERMS}/context",
    {"adler32": "http://spdx.org/rdf/terms#checksumAlgorithm_adler32"},
]

COMMAND, MERGE, CONTAINER, OWNER, LICENSE = "#command", "#merge", "#container", "#owner", "#license"
_DONE, _FAILED = "http://schema.org/CompletedActionStatus", "http://schema.org/FailedActionStatus"
MOST_ERROR = 300
"""Most characters of an error."""

Entity = dict[str, Any]
Runs = Callable[[], Iterator[JobRun]]
"""Yields the runs of a task's jobs, each time from the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateTask:
    """A task that has ended, with the places and the program that ran it."""

    id: int
    name: str
    state: TaskState
    owner: str
    vo: str
    created: float
    ended: float
    error: str
    jobs: int
    spec: TaskSpec
    federation: str
    sites: Mapping[str, str]
    """The site of each queue."""
    version: str
    """The version of Pilotage, with its commit."""

    @property
    def action(self) -> str:
        """Return the name of the entity of the task as a whole."""
        return f"#task-{self.id}"


@dataclass(slots=True)
class _RunPlaces:
    """The places and versions that runs name: their entities come after the runs."""

    nodes: dict[tuple[str, str], None] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)

    def note(self, run: JobRun) -> str:
        """Return the entity of a run's place; empty if no pilot had the job."""
        if run.agent_version:
            self.agents[run.agent_version] = None
        if not run.queue:
            return ""
        self.nodes[run.queue, run.node] = None
        return _node(run.queue, run.node) if run.node else _queue(run.queue)


def crate(task: CrateTask, runs: Runs) -> Iterator[bytes]:
    """Yield the document, in pieces."""
    yield b'{"@context": ' + _json(CONTEXT) + b', "@graph": [\n'
    for number, entity in enumerate(_entities(task, runs)):
        yield b",\n" if number else b""
        yield from _written(entity)
    yield b"\n]}\n"


def output_id(job: int, kind: str, file: str) -> str:
    """Return an output's name as an entity: its path in the folder where ``fetch`` puts the task."""
    path = path_in_job(file)
    return quote(path if kind == "merge" else f"{job}/{path}")


def _entities(task: CrateTask, runs: Runs) -> Iterator[Entity]:
    """Yield the entities. A value may be an iterator of many."""
    yield {"@id": NAME, "@type": "CreativeWork", "conformsTo": {"@id": CRATE}, "about": {"@id": "./"}}
    yield _root(task, runs)
    yield {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    yield from _of_task(task)
    places = _RunPlaces()
    if task.jobs > MOST_ACTIONS:
        yield _whole_action(task, runs)
    for run in runs():
        place = places.note(run)
        if task.jobs <= MOST_ACTIONS and run.started is not None:
            yield from _action(task, run, place)
        for file in run.outputs:
            yield _output(run, file)
    yield from (_input(task, item) for item in _files_of(task))
    yield from _of_places(task, places)
    yield {
        "@id": f"{task.action}-organized",
        "@type": "OrganizeAction",
        "name": f"Pilotage ran task {task.id} ({task.name})",
        "startTime": _time(task.created),
        "endTime": _time(task.ended),
        "agent": {"@id": OWNER},
        "object": {"@id": DOCUMENT},
        "instrument": [{"@id": PILOTAGE}, *({"@id": _agent(version)} for version in places.agents)],
    }


def _root(task: CrateTask, runs: Runs) -> Entity:
    inputs = (_reference(_file_id(task, item.identifier)) for item in _files_of(task))
    outputs = (_reference(output_id(run.job, run.kind, file.name)) for run in runs() for file in run.outputs)
    started = (_reference(f"#job-{run.job}") for run in runs() if run.started is not None)
    actions = started if task.jobs <= MOST_ACTIONS else iter([_reference(task.action)])
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{task.name}: task {task.id} of {task.federation}",
        "description": f"{task.jobs:,} jobs of {task.owner}, {task.state}: {_line(task.spec.command)}"[:2000],
        "identifier": f"{task.federation}/tasks/{task.id}",
        "dateCreated": _time(task.created),
        "datePublished": _time(task.ended),
        "conformsTo": {"@id": PROFILE},
        "author": {"@id": OWNER},
        "license": {"@id": LICENSE},
        "isBasedOn": {"@id": DOCUMENT},
        "hasPart": _each(inputs, outputs),
        "mentions": _each(actions, iter([_reference(f"{task.action}-organized")])),
    }


def _each(*parts: Iterator[Entity]) -> Iterator[Entity]:
    for part in parts:
        yield from part


def _of_task(task: CrateTask) -> Iterator[Entity]:
    """Yield the owner, the task's document, its programs and what they need."""
    spec = task.spec
    yield {"@id": OWNER, "@type": "Person", "name": task.owner} | (
        {"affiliation": {"@id": "#vo"}} if task.vo else {}
    )
    if task.vo:
        yield {"@id": "#vo", "@type": "Organization", "name": task.vo}
    yield {
        "@id": LICENSE,
        "@type": "CreativeWork",
        "name": "no license stated",
        "description": "The owner has stated no license: put one here before you publish this crate.",
    }
    yield {
        "@id": DOCUMENT,
        "@type": "CreativeWork",
        "name": f"document of task {task.id}, for pilotage rerun",
        "encodingFormat": "application/json",
        # With its seeds, so that another task gets the same ones. People publish it, so it has no
        # receivers of notifications: the address of a webhook is a secret.
        "text": given_json(replace(spec, seed=first_seed(spec, task.id), notify=())).decode(),
    }
    needs = [*_needs(spec)]
    requirements = _list("softwareRequirements", [need["@id"] for need in needs])
    yield _program(COMMAND, spec.command) | requirements
    yield from needs
    if spec.merge:
        yield _program(MERGE, spec.merge.command) | requirements
    if image := spec.container_name:
        kind = "SIFImage" if image.startswith("/") or image.endswith(".sif") else "DockerImage"
        extra = {"additionalType": {"@id": f"{TERMS}#{kind}"}}
        yield {"@id": CONTAINER, "@type": "ContainerImage", "name": image, **extra}
    for name, value in spec.environment.items():
        yield {"@id": _variable(name), "@type": "PropertyValue", "name": name, "value": value}
    program = {"@id": PILOTAGE, "@type": "SoftwareApplication", "name": "Pilotage"}
    yield program | {"softwareVersion": task.version}


def _program(name: str, command: tuple[str, ...]) -> Entity:
    title = command[0].rpartition("/")[2] if command else "nothing"
    return {"@id": name, "@type": "SoftwareApplication", "name": title, "description": _line(command)}


def _needs(spec: TaskSpec) -> Iterator[Entity]:
    """Yield modules, the conda environment and the release that the programs run in."""
    for module in spec.modules:
        name, _, version = module.partition("/")
        yield _software(f"#module-{quote(module, safe='')}", f"environment module {name}", version)
    if spec.conda:
        yield _software("#conda", f"conda environment {spec.conda}", "")
    if spec.sw_project:
        yield _software("#release", " ".join(str(getattr(spec, name)) for name in RELEASE), "")


def _software(id_: str, name: str, version: str) -> Entity:
    software = {"@id": id_, "@type": "SoftwareApplication", "name": name}
    return software | ({"softwareVersion": version} if version else {})


def _whole_action(task: CrateTask, runs: Runs) -> Entity:
    """Return the one action of a task with many jobs."""
    inputs = (_reference(_file_id(task, item.identifier)) for item in _files_of(task))
    outputs = (_reference(output_id(run.job, run.kind, file.name)) for run in runs() for file in run.outputs)
    return {
        "@id": task.action,
        "@type": "CreateAction",
        "name": f"task {task.id} ({task.name})",
        "description": f"{task.jobs:,} jobs, which {DOCUMENT} describes",
        **_circumstances(task, is_merge=False),
        "startTime": _time(task.created),
        "endTime": _time(task.ended),
        **_status(task.state is TaskState.FINISHED, task.error),
        "object": inputs,
        "result": outputs,
    }


def _action(task: CrateTask, run: JobRun, place: str) -> Iterator[Entity]:
    """Yield the action of a job, after its parameters."""
    parameters = parameters_of(task.spec, run.index)
    values = {f"#job-{run.job}-{quote(name, safe='')}": (name, value) for name, value in parameters.items()}
    for id_, (name, value) in values.items():
        yield {"@id": id_, "@type": "PropertyValue", "name": name, "value": value}
    place_in_task = f"index {run.index}" if run.index is not None else f"a {run.kind} job"
    code = f", exit code {run.exit_code}" if run.exit_code else ""
    yield {
        "@id": f"#job-{run.job}",
        "@type": "CreateAction",
        "name": f"job {run.job}",
        "description": f"{place_in_task}, attempt {run.attempt}{code}",
        **_circumstances(task, run.kind == "merge"),
        "startTime": _time(run.started or 0),
        **({"endTime": _time(run.ended)} if run.ended is not None else {}),
        **_status(run.state is JobState.FINISHED, run.error),
        **({"location": {"@id": place}} if place else {}),
        **_list("object", [*(_file_id(task, name) for name in run.inputs), *values]),
        **_list("result", [output_id(run.job, run.kind, file.name) for file in run.outputs]),
    }


def _circumstances(task: CrateTask, is_merge: bool) -> Entity:
    """Return who ran what in which container with which variables."""
    container = {"containerImage": {"@id": CONTAINER}} if task.spec.container_name else {}
    return {
        "instrument": {"@id": MERGE if is_merge else COMMAND},
        "agent": {"@id": OWNER},
        **container,
        **_list("environment", [_variable(name) for name in task.spec.environment]),
    }


def _status(is_done: bool, error: str) -> Entity:
    if is_done:
        return {"actionStatus": _DONE}
    text = error.partition("\n")[0][:MOST_ERROR] or "it did not finish"
    return {"actionStatus": _FAILED, "error": text}


def _output(run: JobRun, file: File) -> Entity:
    """Return an output. Its position is the place of its job in the task."""
    position = {} if run.index is None else {"position": run.index}
    path = output_id(run.job, run.kind, file.name)
    return _file(path, path_in_job(file.name), file.name, file.size, file.checksum) | position


def _input(task: CrateTask, item: InputFile) -> Entity:
    return _file(_file_id(task, item.identifier), item.name, item.identifier, item.size, item.checksum)


def _file(id_: str, name: str, identifier: str, size: int, checksum: str) -> Entity:
    kind, _, digits = checksum.partition(":")
    return {
        "@id": id_,
        "@type": "File",
        "name": name,
        "identifier": identifier,
        "contentSize": str(size),
        **({kind: digits} if digits else {}),
    }


def _of_places(task: CrateTask, places: _RunPlaces) -> Iterator[Entity]:
    """Yield the nodes, queues and sites of runs, and the versions of their pilots."""
    queues = dict.fromkeys(queue for queue, _ in places.nodes)
    for queue, node in places.nodes:
        if node:
            yield _place(_node(queue, node), f"node {node}", _queue(queue))
    for queue in queues:
        site = task.sites.get(queue, "")
        yield _place(_queue(queue), f"queue {queue}", _site(site) if site else "")
    for site in dict.fromkeys(filter(None, (task.sites.get(queue, "") for queue in queues))):
        yield _place(_site(site), f"site {site}", "")
    for version in places.agents:
        yield _software(_agent(version), "Pilotage's pilot", version)


def _place(id_: str, name: str, within: str) -> Entity:
    place = {"@id": id_, "@type": "Place", "name": name}
    return place | ({"containedInPlace": {"@id": within}} if within else {})


def _files_of(task: CrateTask) -> Iterator[InputFile]:
    return (item for item in task.spec.inputs if isinstance(item, InputFile))


def _file_id(task: CrateTask, identifier: str) -> str:
    """Return the name of a file of the catalogue: such a file is not in the crate's folder."""
    return f"urn:pilotage:{quote(task.federation, safe='')}:{quote(identifier)}"


def _node(queue: str, node: str) -> str:
    return f"#node-{quote(queue, safe='')}-{quote(node, safe='')}"


def _queue(queue: str) -> str:
    return f"#queue-{quote(queue, safe='')}"


def _site(site: str) -> str:
    return f"#site-{quote(site, safe='')}"


def _agent(version: str) -> str:
    return f"#pilot-{quote(version, safe='')}"


def _variable(name: str) -> str:
    return f"#environment-{quote(name, safe='')}"


def _list(name: str, ids: list[str]) -> Entity:
    """Return a property that names entities; none if there are none. RO-Crate wants a single one alone."""
    references = [_reference(id_) for id_ in ids]
    return {name: references if len(references) > 1 else references[0]} if references else {}


def _reference(id_: str) -> Entity:
    return {"@id": id_}


def _line(command: tuple[str, ...]) -> str:
    return json.dumps(command, ensure_ascii=False) if command else "nothing"


def _time(time: float) -> str:
    """Return a moment (s since 1970) by ISO 8601."""
    return datetime.fromtimestamp(min(max(time, 0.0), LAST_MOMENT), UTC).isoformat(timespec="seconds")


def _json(value: object) -> bytes:
    # Names may hold lone surrogates, which UTF-8 cannot have: so write ASCII.
    return json.dumps(value).encode()


def _written(entity: Entity) -> Iterator[bytes]:
    """Yield an entity as JSON, with its iterators as lists."""
    many = {name: value for name, value in entity.items() if isinstance(value, Iterator)}
    text = _json({name: value for name, value in entity.items() if name not in many})
    if not many:
        yield text
        return
    yield text[:-1]
    for name, values in many.items():
        yield f', "{name}": ['.encode()
        for number, value in enumerate(values):
            yield (b", " if number else b"") + _json(value)
        yield b"]"
    yield b"}"
