"""A task of TES as a task of Pilotage: one job, whose script runs the executors."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from posixpath import dirname
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pilotage.model.records.federation import Federation
from pilotage.model.records.inputs import InputPattern
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.spec_parts import OutputDestination
from pilotage.model.values.patterns import WILDCARDS
from pilotage.model.values.types import LabelName
from pilotage.server.api.documents import read
from pilotage.server.api.edge.answers import FieldFault, faults_of
from pilotage.server.api.tes import container_paths as paths
from pilotage.server.api.tes.records import TesInput, TesOutput, TesTask
from pilotage.server.api.tes.script import SCRIPT, PlacedInput, made_folders, script
from pilotage.server.api.tes.storage_urls import WrongUrlError, pattern_of, place_of

DOCUMENT = ".tes.json"
"""The payload file with the task as its client sent it, without the contents of inputs."""

LABEL = "ga4gh.tes"
"""The label of tasks that came by TES."""

VERSION = "1.1"
KEY_TAG = "idempotency_key"
"""The tag that names a request: a repeated one makes no second task."""

BACKEND_PARAMETERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "pilotage_walltime": ("walltime", float),
    "pilotage_priority": ("priority", int),
    "pilotage_share": ("share", str),
    "pilotage_gpus": ("gpus", int),
    "pilotage_max_attempts": ("max_attempts", int),
}
"""Fields of tasks, and how their text is read, by the key of a backend parameter."""

ONE_JOB = 2**31 - 1
"""As many files as a task can have: one job reads all."""

LONG_ENOUGH = 86_400.0
"""s that a queue must give to a job of unknown walltime (B20)."""

MEGABYTES = 1000
"""MB of a GB."""

_NAME_FIRST, _NAME_OTHER = re.compile(r"[A-Za-z0-9]"), re.compile(r"[^A-Za-z0-9_.:@+-]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_NAME: TypeAdapter[str] = TypeAdapter(LabelName)
_FIELDS = {
    "name": "name",
    "labels": "tags",
    "container_name": "executors.0.image",
    "cores": "resources.cpu_cores",
    "ram": "resources.ram_gb",
    "work_disk": "resources.disk_gb",
    "queues": "resources.zones",
    "mounts": "executors",
    "payload_files": "inputs",
    "command": "executors",
    **{name: f"resources.backend_parameters.{key}" for key, (name, _) in BACKEND_PARAMETERS.items()},
}
"""Fields of TES tasks by ours, for faults."""


class RefusedTesTask(Exception):
    """A task that Pilotage cannot run, with all its faults by field."""

    def __init__(self, faults: Sequence[FieldFault]) -> None:
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))
        self.faults = faults


@dataclass
class Translation:
    """A task of TES, its task of Pilotage in the making, and the faults so far."""

    task: TesTask
    federation: Federation
    with_containers: bool
    faults: list[FieldFault] = field(default_factory=list)
    patterns: dict[InputPattern, int] = field(default_factory=dict)
    """The inputs, each with its place among those of the TES task."""
    placed: list[PlacedInput] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    """Folders to mount."""
    outputs: dict[str, int] = field(default_factory=dict)
    """The outputs in our spelling, each with its place among those of the TES task."""
    destinations: dict[str, OutputDestination] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of Pilotage's task by backend parameters."""

    def spec(self) -> TaskSpec:
        """Return the task of Pilotage. Raises RefusedTesTask with all faults."""
        for part in (
            self._executors,
            self._inputs,
            self._outputs,
            self._volumes,
            self._tags,
            self._parameters,
        ):
            part()
        queues = self._queues()
        if self.faults:
            raise RefusedTesTask(self.faults)
        task, mounts = self.task, paths.mounts(self.folders)
        made = made_folders(
            task.executors, [item.path for item in task.outputs if not _is_pattern(item)], self._shared()
        )
        text = script(task.executors, self.placed, made, mounts)
        values: dict[str, Any] = {
            "name": name_of(task.name or ""),
            "labels": {**task.tags, LABEL: VERSION},
            "command": ["sh", SCRIPT],
            "payload_files": {**self.texts, SCRIPT: text, DOCUMENT: self._document()},
            "inputs": [asdict(pattern) for pattern in self.patterns],
            "outputs": list(self.outputs),
            "destinations": {name: asdict(place) for name, place in self.destinations.items()},
            "mounts": mounts,
            "container_name": task.executors[0].image if self.with_containers else "",
            "files_per_job": ONE_JOB,
            "scouts": 0,
            "max_attempts": 1,
            "queues": list(queues),
            "walltime": self._longest(queues),
        }
        return self._read(values | self._resources() | self.fields)

    def _resources(self) -> dict[str, Any]:
        resources = self.task.resources
        if not resources:
            return {}
        return {
            "cores": max(1, resources.cpu_cores or 1),
            "ram": MEGABYTES * (resources.ram_gb or 0),
            "ram_unit": "MB",
            "work_disk": MEGABYTES * (resources.disk_gb or 0),
        }

    def _read(self, values: Mapping[str, Any]) -> TaskSpec:
        spec = read(TaskSpec, values)
        if isinstance(spec, TaskSpec):
            return spec
        raise RefusedTesTask(
            [FieldFault(self.field_of(fault.field), fault.message) for fault in faults_of(spec)]
        )

    def field_of(self, ours: str) -> str:
        """Return the field of the TES task behind one of ours, as submissions name it."""
        head, *rest = re.split(r"[.\[\]]+", ours)
        if head in ("inputs", "outputs") and rest and rest[0].isdecimal():
            places = list((self.patterns if head == "inputs" else self.outputs).values())
            at = places[int(rest[0])] if int(rest[0]) < len(places) else 0
            return f"{head}.{at}.{'url' if head == 'inputs' else 'path'}"
        if head == "destinations":
            named = [at for output, at in self.outputs.items() if ours.startswith(f"destinations.{output}")]
            return f"outputs.{max(named, default=0)}.url"
        return _FIELDS.get(head, head)

    def refuse(self, place: str, message: str) -> None:
        """Note a fault; an empty message is none."""
        if message:
            self.faults.append(FieldFault(place, message))

    def _executors(self) -> None:
        first = self.task.executors[0].image
        for at, executor in enumerate(self.task.executors):
            place = f"executors.{at}"
            if self.with_containers and executor.image != first:
                self.refuse(
                    f"{place}.image",
                    f"differs from executors.0.image, and a job runs in one image; give {first!r} to all, or "
                    "submit several tasks",
                )
            if not executor.command[0]:
                self.refuse(f"{place}.command.0", "is empty; give the program to run")
            if any("\0" in word for word in (*executor.command, *executor.env.values())):
                self.refuse(place, "holds a null character; leave it out")
            for name in executor.env:
                if not _VARIABLE.fullmatch(name):
                    message = f"{name[:80]!r} is not the name of a variable; give letters, digits and _"
                    self.refuse(f"{place}.env", message)
            self._executor_paths(place, executor.workdir, executor.stdin, executor.stdout, executor.stderr)

    def _executor_paths(self, place: str, workdir: str | None, *streams: str | None) -> None:
        if workdir:
            self._mount(f"{place}.workdir", workdir, paths.folder_fault(workdir))
        for name, path in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            if path:
                self._mount(f"{place}.{name}", dirname(paths.plain(path)), paths.file_fault(path))

    def _mount(self, place: str, folder: str, fault: str) -> None:
        self.refuse(place, fault)
        if not fault:
            self.folders.append(folder)

    def _inputs(self) -> None:
        for at, item in enumerate(self.task.inputs):
            place, is_folder = f"inputs.{at}", item.type == "DIRECTORY"
            fault = paths.folder_fault(item.path) if is_folder else paths.file_fault(item.path)
            folder = item.path if is_folder else dirname(paths.plain(item.path))
            self._mount(f"{place}.path", folder, fault)
            if source := self._source(at, item):
                self.placed.append(PlacedInput(source, item.path, is_folder))

    def _source(self, at: int, item: TesInput) -> str:
        """Return the path of an input in the job's directory; empty if it is at fault."""
        if item.content or (item.content is not None and not item.url):
            if item.type == "DIRECTORY":
                self.refuse(f"inputs.{at}.type", "is that of a folder, but content makes a file; give FILE")
            name = f".tes-input-{at}"
            self.texts[name] = item.content
            return name
        if not item.url:
            self.refuse(f"inputs.{at}.url", "is missing; give a url, or the text as content")
            return ""
        try:
            pattern, name = pattern_of(item.url, self.federation.storages, is_folder=item.type == "DIRECTORY")
        except WrongUrlError as error:
            self.refuse(f"inputs.{at}.url", str(error))
            return ""
        self.patterns.setdefault(pattern, at)
        return f"inputs/{name}"

    def _outputs(self) -> None:
        for at, item in enumerate(self.task.outputs):
            place, is_folder = f"outputs.{at}", item.type == "DIRECTORY"
            fixed = WILDCARDS.split(item.path)[0] if _is_pattern(item) else item.path
            holder = fixed if is_folder and not _is_pattern(item) else dirname(fixed)
            fault = paths.output_fault(item.path) or paths.folder_fault(holder)
            if _is_pattern(item) and not fault:
                fault = _prefix_fault(item)
            self._mount(f"{place}.path", holder, fault)
            if not fault:
                self._destination(at, item)

    def _destination(self, at: int, item: TesOutput) -> None:
        pattern = (
            re.sub(r"\*+", "*", paths.inside(item.path)) if _is_pattern(item) else paths.inside(item.path)
        )
        name = f"{pattern}/" if item.type == "DIRECTORY" else pattern
        if name in self.outputs:
            self.refuse(f"outputs.{at}.path", f"is that of outputs.{self.outputs[name]} too; give each once")
            return
        self.outputs[name] = at
        prefix = ""
        if _is_pattern(item):
            prefix = paths.inside(item.path_prefix or "")
        elif item.type == "DIRECTORY":
            prefix = pattern
        try:
            place = place_of(item.url, self.federation.storages)
        except WrongUrlError as error:
            self.refuse(f"outputs.{at}.url", str(error))
            return
        self.destinations[name] = OutputDestination(storage=place.storages[0], path=place.name, prefix=prefix)

    def _volumes(self) -> None:
        for at, volume in enumerate(self.task.volumes):
            self._mount(f"volumes.{at}", volume, paths.folder_fault(volume))

    def _shared(self) -> list[str]:
        folders = [
            item.path for item in self.task.outputs if item.type == "DIRECTORY" and not _is_pattern(item)
        ]
        return [*self.task.volumes, *folders]

    def _tags(self) -> None:
        for name in self.task.tags:
            if name == LABEL or not is_label(name):
                self.refuse(
                    "tags",
                    f"{name[:80]!r} cannot be the key of a tag; give letters, digits and _ . / -, up to 63, "
                    f"and not {LABEL}",
                )

    def _parameters(self) -> None:
        resources = self.task.resources
        for key, text in (resources.backend_parameters if resources else {}).items():
            place = f"resources.backend_parameters.{key}"
            if key.lower() not in BACKEND_PARAMETERS:
                if resources and resources.backend_parameters_strict:
                    known = ", ".join(sorted(BACKEND_PARAMETERS))
                    self.refuse(place, f"is no key that Pilotage has, and they are strict; known are {known}")
                continue
            name, parse = BACKEND_PARAMETERS[key.lower()]
            try:
                self.fields[name] = parse(text)
            except ValueError:
                self.refuse(place, f"{text[:80]!r} is no number; give one, as text")

    def _queues(self) -> tuple[str, ...]:
        queues: dict[str, None] = {}
        for at, zone in enumerate(self.task.resources.zones if self.task.resources else ()):
            places = [queue.name for queue in self.federation.queues if zone in (queue.site, queue.name)]
            if not places:
                sites = ", ".join(sorted(site.name for site in self.federation.sites)[:20])
                self.refuse(
                    f"resources.zones.{at}", f"there is no site or queue {zone[:80]!r}; sites are {sites}"
                )
            queues |= dict.fromkeys(places)
        return tuple(queues)

    def _longest(self, queues: Sequence[str]) -> float:
        """Return the walltime of a task that gives none, in s: the most that any queue gives.

        0 if a queue takes jobs of unknown walltime.
        """
        limits = [
            queue.max_walltime for queue in self.federation.queues if not queues or queue.name in queues
        ]
        if any(limit == 0 or limit >= LONG_ENOUGH for limit in limits):
            return 0
        return max(max(limits, default=0) - 1, 0)

    def _document(self) -> str:
        task = self.task
        kept = task.model_dump(exclude_none=True, exclude={"inputs": {"__all__": {"content"}}})
        if task.resources:
            parameters = task.resources.backend_parameters
            known = {key: text for key, text in parameters.items() if key.lower() in BACKEND_PARAMETERS}
            kept["resources"]["backend_parameters"] = known
        return json.dumps({"task": kept, "warnings": list(self._warnings())}, ensure_ascii=False)

    def _warnings(self) -> Iterator[str]:
        resources = self.task.resources
        for key in resources.backend_parameters if resources else ():
            if key.lower() not in BACKEND_PARAMETERS:
                yield f"the backend parameter {key[:80]} has no effect here"
        if resources and resources.preemptible:
            yield "preemptible has no effect here"
        if not self.with_containers:
            yield "this server runs TES tasks without their images, on the nodes themselves"


def _is_pattern(item: TesOutput) -> bool:
    return bool(WILDCARDS.search(item.path))


def _prefix_fault(item: TesOutput) -> str:
    if not item.path_prefix:
        return "has wildcards, so path_prefix must say what its paths lose at their URL"
    prefix = paths.plain(item.path_prefix)
    if WILDCARDS.search(prefix) or not item.path.startswith(f"{prefix}/"):
        return f"does not lie below path_prefix {item.path_prefix[:80]!r}; give a folder that it begins with"
    return ""


def is_label(name: str) -> bool:
    """Return whether a tag's key can be a label."""
    try:
        _LABEL_NAME.validate_python(name)
    except ValidationError:
        return False
    return True


def name_of(name: str) -> str:
    """Return the name of Pilotage's task. Signs that it cannot have are replaced; prefixes stay prefixes."""
    if not name:
        return "tes"
    first = name[0] if _NAME_FIRST.fullmatch(name[0]) else "x"
    return (first + _NAME_OTHER.sub("_", name[1:]))[:200]
