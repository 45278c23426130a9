"""Accept tasks: resolve their inputs, check them against the federation, and record them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256

from pilotage import request_budget
from pilotage.federation import checks
from pilotage.federation.documents import MOST_TASKS
from pilotage.federation.faults import field_name
from pilotage.flow.calls.data import corrections, inputs
from pilotage.flow.calls.data.catalogue import refuse_beyond_quota
from pilotage.flow.calls.data.datasets import OutputDatasets
from pilotage.flow.calls.data.inputs import Fault, Resolved
from pilotage.flow.calls.work import chains, notifications, resumption, secrets, use_limits
from pilotage.flow.errors import KeyReused, NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Create, Creation, Decision
from pilotage.model.documents.serialization import to_json
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.chains import NewStage, StageReuse
from pilotage.model.records.federation import Federation
from pilotage.model.records.inputs import Input
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.work import InputFile, NewTask, Replica, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_output, maker
from pilotage.policies.tasks.quotas import Quota
from pilotage.store import DatasetTaken, FileConflict, Store

FILES_AT_ONCE = 3000
"""Input files recorded by one commit: it blocks the only writer for well under 100 ms."""


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """Tasks by their index in the submission: ids of accepted ones, (field, message) of each fault of
    others."""

    tasks: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, list[Fault]]] = field(default_factory=list)
    stages: list[StageReuse] = field(default_factory=list)
    """What became of each stage of a resumed workflow."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The name of a request (see ``name_of``), the end of its tasks' lease, the name of their workflow,
    their predecessors, and what becomes of the stages if the workflow is resumed."""

    name: str = ""
    lease_end: float | None = None
    workflow: str = ""
    links: Mapping[int, chains.Links] = field(default_factory=dict)
    stages: tuple[StageReuse, ...] = ()


def submit(
    runtime: Runtime,
    specs: Sequence[TaskSpec],
    owner: Identity,
    whole: bool = False,
    submission: str = "",
    lease_end: float | None = None,
    workflow: str = "",
    resume: bool = False,
) -> SubmissionOutcome:
    """Accept each task that can be accepted. A refused one does not keep the others out.

    With ``whole``, record all tasks or, if any is refused, none. This also holds for a new ``workflow`` with
    this name. With ``resume``, earlier tasks stand for its stages where they may. ``submission`` names the
    request (see ``name_of``): a repeated one returns the tasks that the first created. Tasks are cancelled at
    ``lease_end`` unless that is renewed. Raises ``KeyReused`` if the first request had other tasks, and
    NotNow for a person beyond the quota of stored bytes.
    """
    if submission and (earlier := runtime.store.queries.submitted(submission, MOST_TASKS)):
        if any(index >= len(specs) or specs[index].name != name for index, _, name in earlier):
            raise KeyReused
        return SubmissionOutcome(tasks=[(index, id_) for index, id_, _ in earlier])
    _refuse_beyond_quota(runtime, owner)
    whole = whole or bool(workflow)
    submitted, accepted, links = _examined_chains(runtime, specs, owner, workflow)
    if not (whole and submitted.refused):
        terms = Terms(submission, lease_end, workflow, links)
        if resume:
            terms, accepted = _resumed(runtime, accepted, owner, terms)
            submitted.stages.extend(terms.stages)
        _record(runtime, accepted, owner, submitted, terms, whole)
    return submitted


def _resumed(
    runtime: Runtime, accepted: list[tuple[int, Resolved]], owner: Identity, terms: Terms
) -> tuple[Terms, list[tuple[int, Resolved]]]:
    """Return the tasks of a workflow that run, with links to the earlier ones that stand for the others."""
    stages = tuple(
        NewStage(spec=resolved.spec, fellows=terms.links[at].fellows, earlier=terms.links[at].earlier)
        for at, resolved in accepted
    )
    reuses = resumption.decide(runtime, owner, terms.workflow, stages)
    tasks = {at: reuse.task for at, reuse in enumerate(reuses) if reuse.is_skipped and reuse.task is not None}
    rest = [(at, resolved) for at, resolved in accepted if at not in tasks]
    places = {at: place for place, (at, _) in enumerate(rest)}
    links = {at: terms.links[at].after(tasks, places) for at in places}
    return replace(terms, links=links, stages=tuple(reuses)), rest


MEGABYTE = 1_000_000


def _refuse_beyond_quota(runtime: Runtime, owner: Identity) -> None:
    """Raise NotNow if a person's tasks take as many bytes as they may."""
    quotas = runtime.store.federation().quotas.for_owner(owner)
    if quotas.are_monthly:
        use_limits.refuse_beyond_month(runtime, quotas, owner)
    quota = quotas.stored_by_user
    if (have := runtime.store.stored_by(owner)) >= quota * MEGABYTE:
        raise NotNow(
            f"your tasks take {have / MEGABYTE:,.0f} MB of the store, and {quota:,} MB are the most "
            "(quotas.stored_by_user); name long texts as input files instead of writing them into tasks, and "
            "ask an operator to archive your ended tasks (`pilotage history archive`) or for more"
        )


def name_of(owner: Identity, key: str) -> str:
    """Return a request's name from its owner and the client's key; empty without a key."""
    return sha256(to_json((owner.name, owner.vo, key))).hexdigest() if key else ""


def examine(runtime: Runtime, specs: Sequence[TaskSpec], owner: Identity) -> SubmissionOutcome:
    """Return the refusals of each task by itself, without recording anything."""
    return examined(runtime, enumerate(specs), owner)[0]


def _examined_chains(
    runtime: Runtime, specs: Sequence[TaskSpec], owner: Identity, workflow: str
) -> tuple[SubmissionOutcome, list[tuple[int, Resolved]], Mapping[int, chains.Links]]:
    """Return the refused tasks, the others with resolved inputs, and their predecessors, by index."""
    predecessors = chains.find_predecessors(runtime.store, specs, owner, bool(workflow))
    submitted, accepted = examined(runtime, enumerate(map(chains.completed, specs)), owner)
    faults = dict(submitted.refused)
    refused = {
        at: [*predecessors.faults.get(at, ()), *faults.get(at, ())] for at in {*predecessors.faults, *faults}
    }
    outcome = SubmissionOutcome(refused=sorted(refused.items()))
    return outcome, [(at, resolved) for at, resolved in accepted if at not in refused], predecessors.links


def examined(
    runtime: Runtime, specs: Iterable[tuple[int, TaskSpec]], owner: Identity
) -> tuple[SubmissionOutcome, list[tuple[int, Resolved]]]:
    """Return the refused tasks, and the others by index with resolved inputs."""
    federation = runtime.store.federation()
    quota = quota_of(runtime.store, federation, owner)
    datasets = OutputDatasets(runtime)
    default_receivers = cache(lambda: runtime.store.notification_settings.of(owner).notify)
    ads = cache(lambda: runtime.world("advertisements").advertisements)
    return examined_offline(
        (
            (index, inputs.scoped(notifications.with_own(runtime, spec, default_receivers()), owner))
            for index, spec in specs
        ),
        federation,
        inputs.lookup_for(runtime, owner),
        lambda spec, federation: [
            *faults_in(spec, federation, owner, ads() if spec.stations else ()),
            *inputs.out_of_scope(spec, federation, owner),
            *foreign_outputs(runtime.store, spec, federation, owner),
            *datasets.faults(spec, federation),
            *secrets.faults(runtime.store, spec, owner),
            *notifications.refused(runtime, spec.notify),
        ],
        # A refused task takes no part of a quota.
        quota.take,
    )


def quota_of(store: Store, federation: Federation, owner: Identity) -> Quota:
    """Return the current work of the owner and its VO.

    The commit counts again, including what others add until then.
    """
    live = store.queries.live_work(owner.vo)
    return Quota(federation.quotas, owner, live.get(owner.name, LiveWork()), LiveWork.total(live.values()))


def examined_offline(
    specs: Iterable[tuple[int, TaskSpec]],
    federation: Federation,
    lookup: inputs.Lookup,
    faults_of: Callable[[TaskSpec, Federation], list[Fault]] | None = None,
    excess_of: Callable[[TaskSpec], list[Fault]] = lambda _: [],
) -> tuple[SubmissionOutcome, list[tuple[int, Resolved]]]:
    """Do the same without a store. Tasks may belong to any VO."""
    submitted = SubmissionOutcome()
    accepted: list[tuple[int, Resolved]] = []
    for index, spec in specs:
        request_budget.check()
        resolved, faults = inputs.resolve(spec, federation, lookup)
        # Check the rest in the same round: of the original task if some inputs are missing.
        further = (faults_of or faults_in)(spec if faults else resolved.spec, federation)
        faults = _all_faults(faults, further) or excess_of(resolved.spec)
        if faults:
            submitted.refused.append((index, faults))
        else:
            accepted.append((index, resolved))
    return submitted, accepted


def _all_faults(first: Sequence[Fault], second: Iterable[Fault]) -> list[Fault]:
    """Return both, but only the first faults of an input, and each field's fault once."""
    places = tuple(field.split(".")[0] for field, _ in first if field.startswith("inputs["))
    return [*first, *(fault for fault in second if not (places and fault[0].startswith(places)))]


def faults_in(
    spec: TaskSpec,
    federation: Federation,
    owner: Identity | None = None,
    ads: Iterable[Advertisement] = (),
) -> list[Fault]:
    """Return the faults that a task has in a federation, given its sites' newest ads."""
    faults = checks.check_task(spec, federation, owner, ads)
    return [(field_name(path), message) for path, message in faults]


def foreign_outputs(store: Store, spec: TaskSpec, federation: Federation, owner: Identity) -> list[Fault]:
    """Return a fault for each input that is the output of another owner's task in this federation."""
    names = (file.name for file in spec.inputs if isinstance(file, InputFile))
    outputs = {maker(federation.name, name): name for name in names if is_output(name)}
    faults: list[Fault] = []
    for number, name in request_budget.asking(outputs.items()):
        if number is None or not inputs.is_task_of(store, owner, number):
            faults.append(("inputs", f"{name} is not an output of a task of yours"))
    return faults


def _record(
    runtime: Runtime,
    accepted: list[tuple[int, Resolved]],
    owner: Identity,
    submitted: SubmissionOutcome,
    terms: Terms,
    whole: bool = False,
    *,
    is_corrected: bool = False,
) -> None:
    """Record all in one commit. If one contradicts a known file, record one by one, and refuse the wrong
    ones.

    With ``whole`` record none then, and refuse all tasks with this file. If other requests have filled a
    quota since, record the tasks that still fit.
    """
    if not accepted:
        return
    try:
        ids = _commit(runtime, accepted, owner, terms)
    except (FileConflict, DatasetTaken) as conflict:
        if not is_corrected and isinstance(conflict, FileConflict):
            files = (file for _, resolved in accepted for file in resolved.spec.inputs)
            named = [file for file in files if isinstance(file, InputFile)]
            if corrections.correct(runtime, named, f"user:{owner.name}"):
                _record(runtime, accepted, owner, submitted, terms, whole, is_corrected=True)
                return
        if whole or len(accepted) == 1:
            fields = ((at, _field(resolved.spec, conflict)) for at, resolved in accepted)
            submitted.refused.extend((at, [(field, str(conflict))]) for at, field in fields if field)
            return
        for task in accepted:
            _record(runtime, [task], owner, submitted, terms, is_corrected=True)
        return
    if ids:
        submitted.tasks.extend((index, ids[index]) for index, _ in accepted)
    else:
        _record_fitting(runtime, accepted, owner, submitted, terms, whole)


def _record_fitting(
    runtime: Runtime,
    accepted: list[tuple[int, Resolved]],
    owner: Identity,
    submitted: SubmissionOutcome,
    terms: Terms,
    whole: bool,
) -> None:
    """Refuse tasks beyond the quotas, and record the rest; with ``whole`` only if all fit."""
    quota = quota_of(runtime.store, runtime.store.federation(), owner)
    faults = [(index, resolved, quota.take(resolved.spec)) for index, resolved in accepted]
    submitted.refused.extend((index, excess) for index, _, excess in faults if excess)
    fitting = [(index, resolved) for index, resolved, excess in faults if not excess]
    if not whole or len(fitting) == len(accepted):
        _record(runtime, fitting, owner, submitted, terms, whole)


def _field(spec: TaskSpec, conflict: FileConflict | DatasetTaken) -> str:
    """Return the field of a task that causes a conflict; empty if none does."""
    if isinstance(conflict, DatasetTaken):
        return "output_dataset" if spec.output_dataset == conflict.dataset else ""
    return "inputs" if any(_is(file, conflict.file) for file in spec.inputs) else ""


def _is(file: Input, identifier: str) -> bool:
    return isinstance(file, InputFile) and file.identifier == identifier


def _commit(
    runtime: Runtime, accepted: list[tuple[int, Resolved]], owner: Identity, terms: Terms
) -> dict[int, int]:
    """Record tasks. Return their ids by index, also if an earlier request with the same name made them.

    Record none if they would exceed a quota.
    """
    tasks = tuple(
        NewTask(
            spec=resolved.spec,
            owner=owner,
            submission=f"{terms.name}:{index}" if terms.name else "",
            lease_end=terms.lease_end,
            datasets=resolved.datasets,
            workflow=terms.workflow,
            stages=terms.stages if place == 0 else (),
            predecessors=links.earlier,
            new_predecessors=links.fellows,
        )
        for place, (index, resolved) in enumerate(accepted)
        for links in [terms.links.get(index, chains.Links())]
    )
    actor = f"user:{owner.name}"
    records = _record_files(runtime, [resolved for _, resolved in accepted], actor)
    limits = Quota(runtime.store.federation().quotas, owner).limits
    create = Create(records=(*tasks, *records), cause="submitted", work_limits=limits)
    ((*created,),) = runtime.store.commit(_decided(runtime, create), actor).created
    ids = {index: id_ for (index, _), id_ in zip(accepted, created, strict=False) if id_}
    if len(ids) < len(accepted) and terms.name:
        # The same request was sent twice, and the other one was faster.
        ids |= {index: id_ for index, id_, _ in runtime.store.queries.submitted(terms.name, MOST_TASKS)}
    return ids


def _record_files(runtime: Runtime, tasks: Iterable[Resolved], actor: str) -> Sequence[Creation]:
    """Record the input files of large tasks in parts. Return the last part for the commit of the tasks.

    No part blocks the only writer for long. Contradictions to known files were excluded before.
    """
    named = [(file, task.paths) for task in tasks for file in task.spec.inputs if isinstance(file, InputFile)]
    if named:
        refuse_beyond_quota(runtime, actor)
    if len(named) > FILES_AT_ONCE:
        runtime.store.queries.refuse_conflicts([file.described() for file, _ in named])
    # The last part goes with the tasks, so that a small submission is one commit.
    last = max(0, len(named) - FILES_AT_ONCE)
    for start in range(0, last, FILES_AT_ONCE):
        part = tuple(_file_records(named[start : min(start + FILES_AT_ONCE, last)]))
        runtime.store.commit(_decided(runtime, Create(records=part, cause="named by a task")), actor)
    return tuple(_file_records(named[last:]))


def _file_records(named: Iterable[tuple[InputFile, inputs.Paths]]) -> Iterator[Creation]:
    for file, paths in named:
        yield file.described()
        for storage in file.replicas:
            yield Replica(
                file=file.identifier, storage=storage, path=paths.get((file.identifier, storage), "")
            )


def _decided(runtime: Runtime, change: Create) -> Decision:
    return Decision(step="submit", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
