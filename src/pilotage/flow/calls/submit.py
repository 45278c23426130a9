"""Accept tasks: look up their inputs, check them against the federation, and record them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import monotonic

from pilotage.federation import checks
from pilotage.federation.documents import MOST_TASKS
from pilotage.federation.faults import field_name
from pilotage.flow.errors import KeyReused
from pilotage.flow.runtime import Runtime
from pilotage.model.decision import Create, Creation, Decision
from pilotage.model.documents import to_json
from pilotage.model.federation import Federation, Storage
from pilotage.model.identity import Identity
from pilotage.model.paths import is_output, maker
from pilotage.model.scopes import default_scope, scopes_of
from pilotage.model.spec import LiveWork
from pilotage.model.work import File, InputFile, InputPattern, NewTask, Replica, TaskSpec
from pilotage.ports.moving import StorageError
from pilotage.store import FileConflict, Store
from pilotage.tasks.quotas import Quota

from . import catalogue

Fault = tuple[str, str]
Scan = Callable[[Storage, str], list[InputFile]]
Known = Callable[[InputPattern], list[InputFile]]

FILES_AT_ONCE = 3000
"""Input files that one commit records: it holds the only writer for well under 100 ms."""

SCAN_TIME = 30.0
"""Seconds that looking up the patterns of one submission may take."""


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """Tasks by their index in the submission: ids of those accepted, (field, message) of each fault of
    others.
    """

    tasks: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, list[Fault]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Terms:
    """The name of a request (see :func:`name_of`), and when the lease of its tasks is over."""

    name: str = ""
    lease_end: float | None = None


def submit(
    runtime: Runtime,
    specs: Sequence[TaskSpec],
    owner: Identity,
    whole: bool = False,
    submission: str = "",
    lease_end: float | None = None,
) -> SubmissionOutcome:
    """Accept each task that can be accepted; one that cannot does not keep the others out.

    With ``whole`` all are accepted or none: nothing is recorded where any is refused. ``submission`` names
    the request (see :func:`name_of`): a repeated one answers with the tasks that the first created. Raises
    :class:`~pilotage.flow.errors.KeyReused` where that had other tasks. They are cancelled at ``lease_end``
    unless that is renewed.
    """
    if submission and (known := runtime.store.queries.submitted(submission, MOST_TASKS)):
        if any(index >= len(specs) or specs[index].name != name for index, _, name in known):
            raise KeyReused
        return SubmissionOutcome(tasks=[(index, id_) for index, id_, _ in known])
    submitted, accepted = examined(runtime, enumerate(specs), owner)
    if not (whole and submitted.refused):
        _record(runtime, accepted, owner, submitted, Terms(submission, lease_end), whole)
    return submitted


def name_of(owner: Identity, key: str) -> str:
    """Name a request by its owner and the key that the client made; empty without a key."""
    return sha256(to_json((owner.name, owner.vo, key))).hexdigest() if key else ""


def examine(runtime: Runtime, specs: Sequence[TaskSpec], owner: Identity) -> SubmissionOutcome:
    """Find what would be refused, as far as that shows without recording anything."""
    return examined(runtime, enumerate(specs), owner)[0]


def examined(
    runtime: Runtime, specs: Iterable[tuple[int, TaskSpec]], owner: Identity
) -> tuple[SubmissionOutcome, list[tuple[int, TaskSpec]]]:
    """The tasks that are refused, and the other tasks by index, their inputs looked up."""
    federation = runtime.store.federation()
    quota = _quota(runtime.store, federation, owner)
    return examined_offline(
        ((index, _scoped(spec, owner)) for index, spec in specs),
        federation,
        _scan_within(runtime, SCAN_TIME),
        lambda spec, federation: (
            _faults(spec, federation, owner)
            or _out_of_scope(spec, owner)
            or _foreign(runtime.store, spec, federation, owner)
            or quota.take(spec)
        ),
        known=lambda pattern: catalogue.matching(runtime, pattern, owner),
    )


def _quota(store: Store, federation: Federation, owner: Identity) -> Quota:
    """Count what the owner and its VO have now; the commit counts again, with what others add until then."""
    live = store.queries.live_work(owner.vo)
    return Quota(federation.quotas, owner, live.get(owner.name, LiveWork()), LiveWork.total(live.values()))


def _scan_within(runtime: Runtime, seconds: float) -> Scan:
    """Scans that take no longer than this all together: one request keeps its thread no longer."""
    # Not the runtime's clock: this bounds how long a thread is held, also in virtual time.
    end = monotonic() + seconds

    def scan(storage: Storage, glob: str) -> list[InputFile]:
        left = end - monotonic()
        if left <= 0:
            raise TimeoutError(f"no time is left of the {seconds:g} s that a submission has")
        return runtime.deliveries.scan(storage, glob, left)

    return scan


def examined_offline(
    specs: Iterable[tuple[int, TaskSpec]],
    federation: Federation,
    scan: Scan,
    faults_of: Callable[[TaskSpec, Federation], list[Fault]] | None = None,
    known: Known | None = None,
) -> tuple[SubmissionOutcome, list[tuple[int, TaskSpec]]]:
    """The same without a store, where tasks may be of any VO.

    ``scan`` finds the files of a pattern on a storage, ``known`` those of the catalogue, where there is one.
    """
    submitted = SubmissionOutcome()
    accepted: list[tuple[int, TaskSpec]] = []
    for index, spec in specs:
        resolved, faults = _resolve(spec, federation, scan, known)
        faults = faults or (faults_of or _faults)(resolved, federation)
        if faults:
            submitted.refused.append((index, faults))
        else:
            accepted.append((index, resolved))
    return submitted, accepted


def _faults(spec: TaskSpec, federation: Federation, owner: Identity | None = None) -> list[Fault]:
    found = checks.check_task(spec, federation, owner)
    return [(field_name(path), message) for path, message in found]


def _scoped(spec: TaskSpec, owner: Identity) -> TaskSpec:
    """Give each input the scope that it is in, where its task leaves it out."""
    inputs = (
        item
        if item.scope
        else replace(
            item, scope=default_scope(owner, item.name if isinstance(item, InputFile) else item.glob)
        )
        for item in spec.inputs
    )
    return replace(spec, inputs=tuple(inputs))


def _out_of_scope(spec: TaskSpec, owner: Identity) -> list[Fault]:
    """Refuse names in scopes that are not the owner's, one for each scope."""
    mine = scopes_of(owner)
    # Backwards, so that the first item of each scope is the one that is named.
    others = {item.scope: at for at, item in reversed([*enumerate(spec.inputs)]) if item.scope not in mine}
    return [
        (f"inputs[{at}].scope", f"{scope!r} is not yours; give one of {', '.join(mine)}, or leave it out")
        for scope, at in sorted(others.items())
    ]


def _foreign(store: Store, spec: TaskSpec, federation: Federation, owner: Identity) -> list[Fault]:
    """Refuse outputs of tasks that are not the owner's, or another instance's: one for each task."""
    names = (file.name for file in spec.inputs if isinstance(file, InputFile))
    outputs = {maker(federation.name, name): name for name in names if is_output(name)}
    faults: list[Fault] = []
    for number, name in outputs.items():
        task = None if number is None else store.queries.task(number)
        if task is None or (task.owner, task.vo) != (owner.name, owner.vo):
            faults.append(("inputs", f"{name} is not an output of a task of yours"))
    return faults


def _record(
    runtime: Runtime,
    accepted: list[tuple[int, TaskSpec]],
    owner: Identity,
    submitted: SubmissionOutcome,
    terms: Terms,
    whole: bool = False,
) -> None:
    """Record all in one commit; where a file contradicts what is known, one by one, to refuse who is wrong.

    With ``whole`` none is recorded then, and all who name the file are refused. Where other requests filled
    a quota in the meantime, what still fits is tried again.
    """
    if not accepted:
        return
    try:
        ids = _commit(runtime, accepted, owner, terms)
    except FileConflict as conflict:
        if whole or len(accepted) == 1:
            naming = [at for at, spec in accepted if any(_is(file, conflict.file) for file in spec.inputs)]
            submitted.refused.extend((at, [("inputs", str(conflict))]) for at in naming)
            return
        for one in accepted:
            _record(runtime, [one], owner, submitted, terms)
        return
    if ids:
        submitted.tasks.extend((index, ids[index]) for index, _ in accepted)
    else:
        _record_fitting(runtime, accepted, owner, submitted, terms, whole)


def _record_fitting(
    runtime: Runtime,
    accepted: list[tuple[int, TaskSpec]],
    owner: Identity,
    submitted: SubmissionOutcome,
    terms: Terms,
    whole: bool,
) -> None:
    """Refuse what no longer fits the quotas, and record the rest; with ``whole`` only if that is all."""
    quota = _quota(runtime.store, runtime.store.federation(), owner)
    faults = [(index, spec, quota.take(spec)) for index, spec in accepted]
    submitted.refused.extend((index, found) for index, _, found in faults if found)
    fitting = [(index, spec) for index, spec, found in faults if not found]
    if not whole or len(fitting) == len(accepted):
        _record(runtime, fitting, owner, submitted, terms, whole)


def _is(file: InputFile | InputPattern, identifier: str) -> bool:
    return isinstance(file, InputFile) and file.identifier == identifier


def _commit(
    runtime: Runtime, accepted: list[tuple[int, TaskSpec]], owner: Identity, terms: Terms
) -> dict[int, int]:
    """Record tasks; return their ids by index, those of another request of the same name too.

    None is recorded where they would pass a quota.
    """
    tasks = tuple(
        NewTask(
            spec=spec,
            owner=owner,
            submission=f"{terms.name}:{index}" if terms.name else "",
            lease_end=terms.lease_end,
        )
        for index, spec in accepted
    )
    actor = f"user:{owner.name}"
    records = _record_files(runtime, [spec for _, spec in accepted], actor)
    limits = Quota(runtime.store.federation().quotas, owner).limits
    create = Create(records=(*tasks, *records), cause="submitted", work_limits=limits)
    ((*created,),) = runtime.store.commit(_decided(runtime, create), actor).created
    ids = {index: id_ for (index, _), id_ in zip(accepted, created, strict=False) if id_}
    if len(ids) < len(accepted) and terms.name:
        # The same request was sent twice, and the other one was a moment faster.
        ids |= {index: id_ for index, id_, _ in runtime.store.queries.submitted(terms.name, MOST_TASKS)}
    return ids


def _record_files(runtime: Runtime, specs: Iterable[TaskSpec], actor: str) -> Sequence[Creation]:
    """Record the input files of large tasks, part by part; return the records that are left for the task.

    No part holds the only writer for long. That none contradicts what is known is looked up before.
    """
    named = [file for spec in specs for file in spec.inputs if isinstance(file, InputFile)]
    if len(named) > FILES_AT_ONCE:
        runtime.store.queries.refuse_conflicts([_file(one) for one in named])
    # The last part goes with the tasks, so that a small submission is one commit.
    last = max(0, len(named) - FILES_AT_ONCE)
    for start in range(0, last, FILES_AT_ONCE):
        part = tuple(_file_records(named[start : min(start + FILES_AT_ONCE, last)]))
        runtime.store.commit(_decided(runtime, Create(records=part, cause="named by a task")), actor)
    return tuple(_file_records(named[last:]))


def _file_records(named: Iterable[InputFile]) -> Iterator[Creation]:
    for one in named:
        yield _file(one)
        for storage in one.replicas:
            yield Replica(file=one.identifier, storage=storage)


def _file(named: InputFile) -> File:
    return File(name=named.identifier, size=named.size, checksum=named.checksum)


def _decided(runtime: Runtime, change: Create) -> Decision:
    return Decision(step="submit", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))


def _resolve(
    spec: TaskSpec, federation: Federation, scan: Scan, known: Known | None
) -> tuple[TaskSpec, list[Fault]]:
    """The same with every pattern replaced by the files it finds, each with all storages that hold it."""
    if not any(isinstance(item, InputPattern) for item in spec.inputs):
        return spec, []
    storages = {storage.name: storage for storage in federation.storages}
    found: dict[str, InputFile] = {}
    faults: list[Fault] = []
    for index, item in enumerate(spec.inputs):
        try:
            files = [item] if isinstance(item, InputFile) else _found(item, storages, scan, known)
        except (LookupError, StorageError, OSError) as error:
            faults.append((f"inputs[{index}]", str(error)))
            continue
        faults.extend((f"inputs[{index}]", fault) for fault in _merge(found, files))
    return replace(spec, inputs=tuple(found[name] for name in sorted(found))), faults


def _found(
    pattern: InputPattern, storages: Mapping[str, Storage], scan: Scan, known: Known | None
) -> list[InputFile]:
    """The files of a pattern. Raises LookupError for an unknown storage, and where it finds nothing."""
    if not pattern.storages and known is None:
        raise LookupError("there is no catalogue here to look in; name the storages")
    files: list[InputFile] = [] if pattern.storages or known is None else known(pattern)
    for name in pattern.storages:
        if name not in storages:
            raise LookupError(f"there is no storage {name!r}; known are {', '.join(sorted(storages))}")
        try:
            found = scan(storages[name], pattern.glob)
            files.extend(replace(file, scope=pattern.scope) for file in found)
        except TimeoutError as error:
            raise StorageError(
                f"looking for {pattern.glob!r} on {name} took too long: {error}; narrow the pattern, or name "
                "the files with their sizes"
            ) from error
    if not files:
        where = f"on {', '.join(pattern.storages)}" if pattern.storages else f"in the scope {pattern.scope}"
        raise LookupError(f"no file matches {pattern.glob!r} {where}")
    return files


def _merge(found: dict[str, InputFile], files: Iterable[InputFile]) -> Iterator[str]:
    """Add files to those found, replicas of one file together; yields what contradicts."""
    for file in files:
        known = found.get(file.name)
        if known and not _same(known, file):
            places = ", ".join((*known.replicas, *file.replicas))
            yield f"{file.name} is not the same everywhere: its copies at {places} differ"
            continue
        replicas = {*file.replicas, *(known.replicas if known else ())}
        checksum = file.checksum or (known.checksum if known else "")
        found[file.name] = replace(file, checksum=checksum, replicas=tuple(sorted(replicas)))


def _same(one: InputFile, other: InputFile) -> bool:
    """Tell whether two files may be copies: the checksum of a large file is not read when it is found."""
    alike = one.checksum == other.checksum or not one.checksum or not other.checksum
    return one.size == other.size and alike
