"""Close a person: end their rights and their work, and name the rest. The last simulation of a person."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from pilotage.flow import task_cancellation
from pilotage.flow.errors import NoSuchTask, NotNow, NotThere
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import LIVE_JOBS, LIVE_TASKS, TaskState
from pilotage.model.values.identity import Identity
from pilotage.model.values.scopes import personal_scope
from pilotage.model.values.types import DESCRIBED
from pilotage.policies.pilots import withdrawal
from pilotage.store import Store, StoredSimulation, TaskFilter, TaskPage, TaskView

MOST_TASKS = 200
"""Most tasks that one call cancels. The answer says how many are left."""

MOST_DATASETS = 1000
"""Most datasets that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPerson:
    """The rights and work of a person that ended, or would end, and the rest."""

    __pydantic_config__ = DESCRIBED

    name: str
    """The person's name in their VO."""
    vo: str
    """Their virtual organisation; empty: none."""
    tokens: int
    """Their tokens as user or operator."""
    tasks: tuple[int, ...]
    """Their tasks that were cancelled."""
    jobs: int
    """Live jobs of these."""
    pilots: int
    """Their private pilots."""
    secrets: int
    """Their secrets of payloads."""
    receivers: int
    """Their receivers of notifications."""
    left: int
    """Live tasks beyond those of one call: close the person again."""
    datasets: tuple[str, ...]
    """Their datasets, which stay with their files."""


def close(
    runtime: Runtime, person: Identity, because: str, actor: str, dry_run: bool = False
) -> ClosedPerson:
    """End a person's tokens, tasks, private pilots, secrets and receivers of notifications, in this order.

    Stored outputs, datasets and ended work stay. Raises ``NotThere``.
    """
    store, reason = runtime.store, f"{person.name} was closed: {because}"
    done = _preview(runtime, person)
    if not any((done.tokens, done.tasks, done.pilots, done.secrets, done.receivers, done.datasets)):
        raise NotThere(f"{_full_name(person)} has no token, live task, pilot, secret or dataset")
    if dry_run:
        return done
    # Tokens first: without them, this person cannot submit more work.
    store.tokens.close(person)
    done = replace(_preview(runtime, person), tokens=done.tokens)
    for number in done.tasks:
        with suppress(NoSuchTask):  # it was archived since
            task_cancellation.cancel(runtime, number, reason, actor)
    _end_pilots(runtime, person, reason, actor, dry_run=False)
    for secret in store.secrets.names(person.name, person.vo):
        store.secrets.remove(person.name, person.vo, secret.name)
    if done.receivers:
        store.notification_settings.save(person, ())
    return done


def _preview(runtime: Runtime, person: Identity) -> ClosedPerson:
    """Return the rights and work of a person that would end now, and the rest."""
    store = runtime.store
    live = list(_live_tasks(runtime, person))
    return ClosedPerson(
        name=person.name,
        vo=person.vo,
        tokens=sum(token.vo == person.vo for token in store.tokens.of_person(person.name)),
        tasks=tuple(task.id for task in live[:MOST_TASKS]),
        jobs=sum(task.jobs.get(state, 0) for task in live[:MOST_TASKS] for state in LIVE_JOBS),
        pilots=_end_pilots(runtime, person, "", "", dry_run=True),
        secrets=len(store.secrets.names(person.name, person.vo)),
        receivers=len(store.notification_settings.of(person).notify),
        left=max(0, len(live) - MOST_TASKS),
        datasets=_datasets(runtime, person),
    )


def of_name(runtime: Runtime, name: str, vo: str | None) -> Identity:
    """Return the person with a name. Raises ``NotNow`` without a VO if several VOs have one."""
    if vo is not None:
        return Identity(name=name, vo=vo)
    vos = {token.vo for token in runtime.store.tokens.of_person(name)}
    task_filter, page = TaskFilter(owner=name), runtime.store.task_lists.page
    for state in LIVE_TASKS:
        vos |= {task.vo for task in page(TaskPage(task_filter=task_filter, state=state, limit=MOST_TASKS))}
    if len(vos) > 1:
        choices = " or ".join(map(repr, sorted(vos)))
        raise NotNow(f"several people are called {name}: say which, by --vo {choices}")
    return Identity(name=name, vo=vos.pop() if vos else "")


def _live_tasks(runtime: Runtime, person: Identity) -> Iterator[TaskView]:
    """Yield a person's live tasks, the last first: then the end of a task does not start its successors."""
    pages = (TaskPage(owner=person, state=state, limit=10 * MOST_TASKS) for state in LIVE_TASKS)
    # By number: a task may change its state between two pages. The next call finds tasks missed here.
    tasks = {task.id: task for page in pages for task in runtime.store.task_lists.page(page)}
    yield from sorted(tasks.values(), key=lambda task: (task.state is not TaskState.WAITING, -task.id))


def _end_pilots(runtime: Runtime, person: Identity, reason: str, actor: str, *, dry_run: bool) -> int:
    world = runtime.world("pilots")
    decision = withdrawal.end_private(world, person.name, person.vo, reason)
    if dry_run:
        return sum(len(move.ids) for move in decision.moves)
    return task_cancellation.end_pilots(runtime, world, decision, actor)


def _datasets(runtime: Runtime, person: Identity) -> tuple[str, ...]:
    versions = runtime.store.datasets.current(personal_scope(person), "", MOST_DATASETS)
    return tuple(version.dataset for version in versions)


def _full_name(person: Identity) -> str:
    return f"{person.name} of VO {person.vo}" if person.vo else f"{person.name} without a VO"


MOST_TIME = 600.0
"""Seconds after which a command of a simulation is ended."""

LONGEST = 2 * MOST_TIME + 60.0
"""Seconds after which a simulation without an end counts as broken off by its server's end."""


def last_simulation(store: Store, person: str, now: float) -> StoredSimulation | None:
    """Return the last simulation of a person; None if none was started within a day."""
    simulation = store.simulations.of(person, now)
    if simulation is None or simulation.ended is not None or now - simulation.begun < LONGEST:
        return simulation
    lost = replace(simulation.result, fault="its server ended before it did; start it again")
    return replace(simulation, ended=now, result=lost)
