"""Faults of a task in any federation: contradicting fields, and words that no system accepts."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from pilotage import request_budget
from pilotage.federation import classads
from pilotage.federation.destination_checks import destination_faults
from pilotage.federation.faults import Fault, Path, repeated
from pilotage.federation.mount_checks import mount_faults
from pilotage.federation.placeholder_checks import placeholder_faults
from pilotage.federation.source_files import MAX_PAYLOAD
from pilotage.federation.stdin_checks import stdin_faults
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.notifications import Notify
from pilotage.model.records.spec import MOST_JOBS, TaskSpec
from pilotage.model.values.paths import INPUTS, RESERVED
from pilotage.model.values.software import ArchitectureError, parse_architecture
from pilotage.model.values.urls import url_fault

_SECRET_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_OWN_VARIABLES = "PILOTAGE_"

MAX_WORD = 100_000
"""Most bytes of one word of a command, or of all variables. No operating system passes more to a process."""

MOST_WORK = 1e15
"""Most HS23 seconds of one job: a million cores for years."""

MOST_MEGABYTES = 1e12
"""Most MB of memory, or of files, of one job."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONNECTIVITY = re.compile(r"(full|http|none)?(#(IPv4|IPv6)?)?")


def task_faults(spec: TaskSpec) -> list[Fault]:
    """Return the faults that a task has in any federation."""
    parts = (
        _payload,
        _words,
        _environments,
        secret_faults,
        placeholder_faults,
        stdin_faults,
        mount_faults,
        destination_faults,
        _files,
    )
    faults = chain.from_iterable(
        part(spec) for part in (*parts, _resources, _products, _notify, classads.task_faults)
    )
    return list(islice(faults, request_budget.MOST_FAULTS))


def _payload(spec: TaskSpec) -> Iterator[Fault]:
    if spec.outputs and not spec.command:
        yield Fault(("outputs",), "are requested of an empty payload", "give a command that makes them")
    if spec.payload_files and not spec.command:
        yield Fault(("payload_files",), "are for an empty payload", "give a command that uses them")
    if spec.merge and not spec.outputs:
        yield Fault(("merge",), "there is nothing to merge", "give outputs, which the merge job reads")
    for name in spec.payload_files:
        if name in RESERVED:
            yield _reserved(("payload_files", name), name)
    size = sum(len(text.encode()) for text in spec.payload_files.values())
    if size > MAX_PAYLOAD:
        message = f"have {size} bytes together, above {MAX_PAYLOAD}"
        yield Fault(("payload_files",), message, "put large files on a storage and name them as inputs")


def _reserved(path: Path, name: str) -> Fault:
    return Fault(path, f"{name!r} is there already in the directory of a payload", "give another name")


def _words(spec: TaskSpec) -> Iterator[Fault]:
    """Yield variables and commands that no operating system accepts."""
    size = sum(len(f"{name}={value}".encode()) for name, value in spec.environment.items())
    if size > MAX_WORD:
        message = f"has {size} bytes, above {MAX_WORD}"
        yield Fault(("environment",), message, "put long values into a payload file")
    for name, value in spec.environment.items():
        if not _VARIABLE.fullmatch(name):
            message = f"{name!r} is not the name of a variable"
            yield Fault(("environment", name), message, "give letters, digits and _, without a digit first")
        elif "\0" in value:
            yield Fault(("environment", name), "holds a null character", "leave it out")
    yield from _command(("command",), spec.command)
    yield from _command(("merge", "command"), spec.merge.command if spec.merge else ())


def _environments(spec: TaskSpec) -> Iterator[Fault]:
    if spec.conda and not (spec.conda.startswith("/") and spec.conda.isprintable() and ":" not in spec.conda):
        message = f"{spec.conda!r} is not the path of a folder on the nodes"
        yield Fault(("conda",), message, "give an absolute path without a colon, like /opt/conda/envs/rna")
    for name in ("conda", "modules"):
        if getattr(spec, name) and spec.container_name:
            yield Fault((name,), "is for payloads without a container", "leave out one of both")
        elif getattr(spec, name) and not spec.command:
            yield Fault((name,), "is for an empty payload", "give a command that uses it")


def _command(path: Path, command: Sequence[str]) -> Iterator[Fault]:
    if any("\0" in word for word in command):
        yield Fault(path, "holds a null character", "leave it out")
    elif command and not command[0]:
        yield Fault((*path, 0), "is empty", "give the program to run")
    sizes = [len(word.encode()) for word in command]
    remedy = "put long texts into a payload file"
    for at, size in enumerate(sizes):
        if size > MAX_WORD:
            yield Fault((*path, at), f"has {size} bytes, above {MAX_WORD}", remedy)
    if sum(sizes) > MAX_PAYLOAD:
        yield Fault(path, f"has {sum(sizes)} bytes, above {MAX_PAYLOAD}", remedy)


def _files(spec: TaskSpec) -> Iterator[Fault]:
    merged = spec.merge.outputs if spec.merge else ()
    for path, names in (("outputs",), spec.outputs), (("merge", "outputs"), merged):
        yield from repeated(path, names)
        yield from (
            _reserved((*path, at), name) for at, name in enumerate(names) if name.split("/")[0] in INPUTS
        )
    yield from repeated(("optional_outputs",), spec.optional_outputs)
    named = set(spec.outputs)
    for at, name in enumerate(spec.optional_outputs):
        if name not in named:
            yield Fault(("optional_outputs", at), f"{name!r} is not in outputs", "write it in both alike")
    jobs = -(-len(spec.inputs) // spec.files_per_job)
    if jobs > MOST_JOBS:
        message = f"{len(spec.inputs)} make {jobs} jobs, above {MOST_JOBS}"
        yield Fault(("inputs",), message, "give a larger files_per_job, or submit several tasks")
    first: dict[str, int] = {}
    for at, file in enumerate(request_budget.asking(spec.inputs)):
        if isinstance(file, InputFile):
            if file.name in first:
                message = f"{file.name!r} is inputs[{first[file.name]}] already"
                yield Fault(("inputs", at, "name"), message, "keep one, with all its replicas")
            first.setdefault(file.name, at)


def _notify(spec: TaskSpec) -> Iterator[Fault]:
    yield from receiver_faults(spec.notify, ("notify",))


def receiver_faults(notify: Sequence[Notify], path: Path) -> Iterator[Fault]:
    """Yield the faults that receivers of notifications have on any server."""
    for at, receiver in enumerate(notify):
        if len(receiver.kinds) != 1:
            named = " and ".join(receiver.kinds) or "nobody"
            yield Fault((*path, at), f"names {named}", "give either url, command or email")
        elif receiver.url and (fault := url_fault(receiver.url, ("https", "http"))):
            yield Fault((*path, at, "url"), fault, "give a URL like https://hooks.example.org/me")
    yield from repeated(path, [receiver.receiver for receiver in notify])


def _products(spec: TaskSpec) -> Iterator[Fault]:
    """Yield fields that are valid alone, but together request more than any site has."""
    work = spec.cpu_time * spec.events_per_job / spec.cpu_efficiency
    if work > MOST_WORK:
        message = f"with events_per_job and cpu_efficiency makes {work:.3g} HS23 seconds, above {MOST_WORK:g}"
        yield Fault(("cpu_time",), message, "give the HS23 seconds of one event, and fewer events a job")
    for name, size in (
        ("ram", spec.memory),
        ("out_disk", spec.out_disk * spec.events_per_job + spec.work_disk),
    ):
        if size > MOST_MEGABYTES:
            yield Fault((name,), f"makes {size:.3g} MB a job, above {MOST_MEGABYTES:g}", "give less")


def _resources(spec: TaskSpec) -> Iterator[Fault]:
    if spec.max_cores and spec.max_cores < spec.cores:
        message = f"{spec.max_cores} is below the {spec.cores} cores asked"
        yield Fault(("max_cores",), message, f"give {spec.cores} or more, or 0 for no limit")
    if not _CONNECTIVITY.fullmatch(spec.ip_connectivity):
        message = f"{spec.ip_connectivity!r} is not a connectivity"
        yield Fault(
            ("ip_connectivity",), message, "give full, http or none, then #IPv4 or #IPv6 where it matters"
        )
    if spec.force_generic and spec.private_pilots:
        yield Fault(("force_generic",), "contradicts private_pilots", "leave one of them out")
    if spec.copy_inputs and spec.direct_access_only:
        yield Fault(("copy_inputs",), "contradicts direct_access_only", "leave one of them out")
    if spec.min_events > spec.events_per_job:
        message = f"{spec.min_events} is above the {spec.events_per_job} events_per_job"
        yield Fault(("min_events",), message, f"give at most {spec.events_per_job}, or 0 for no choice")
    yield from _software(spec)
    if spec.jobs > 1 and spec.inputs:
        yield Fault(("jobs",), "is given beside inputs", "leave it out: files_per_job divides the inputs")


def _software(spec: TaskSpec) -> Iterator[Fault]:
    try:
        parse_architecture(spec.architecture)
    except ArchitectureError as error:
        yield Fault(("architecture",), str(error), "x86_64-el9-gcc13-opt#x86_64-intel&nvidia is one")
    if spec.sw_version and not spec.sw_project:
        yield Fault(("sw_project",), "is missing beside sw_version", "name the project, such as Athena")
    if spec.only_tags and not spec.container_name:
        yield Fault(("only_tags",), "is for a container, and none is named", "give container_name")


def secret_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield secrets of an empty payload, and secrets with an invalid or duplicate variable or file."""
    if spec.secrets and not spec.command:
        yield Fault(("secrets",), "are for an empty payload", "give a command that uses them")
    variables: dict[str, int] = {}
    files: dict[str, int] = {}
    for at, secret in enumerate(spec.secrets):
        variable = secret.in_variable
        if variable and not _SECRET_VARIABLE.fullmatch(variable):
            remedy = f"write {{name: {secret.name}, as: NAME_OF_VARIABLE}}, or file: for a file"
            yield Fault(("secrets", at), f"{variable!r} is not the name of a variable", remedy)
        elif variable.startswith(_OWN_VARIABLES):
            yield Fault(("secrets", at), f"{variable!r} is a variable of Pilotage's own", "give another")
        elif variable in spec.environment:
            yield Fault(("secrets", at), f"{variable!r} is in environment, too", "leave one of both out")
        elif variable in variables:
            message = f"{variable!r} is the variable of secrets[{variables[variable]}] already"
            yield Fault(("secrets", at), message, "give another name by as:")
        if secret.file in files:
            message = f"{secret.file!r} is the file of secrets[{files[secret.file]}] already"
            yield Fault(("secrets", at, "file"), message, "give another")
        if variable:
            variables.setdefault(variable, at)
        if secret.file:
            files.setdefault(secret.file, at)
