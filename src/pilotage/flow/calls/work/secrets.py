"""Secrets of people for their payloads: set, list, remove, and give to the pilot of a job."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pilotage.agent.wire import Secret
from pilotage.flow.calls.data.inputs import Fault
from pilotage.flow.errors import NotNow
from pilotage.flow.outside.secret_keys import KeyMissing, SecretSpoilt
from pilotage.flow.runtime import Runtime
from pilotage.flow.task_changes import change_task
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.moves import FRESH, JobMoves
from pilotage.model.documents.world import World
from pilotage.model.records.secrets import MOST_SECRETS, KeptSecret
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Task
from pilotage.model.values.identity import Identity
from pilotage.model.values.step_names import MATCH
from pilotage.policies.tasks import holding
from pilotage.store import Store, note_act

if TYPE_CHECKING:
    from pilotage.flow.matching.matched import Matched

_STAYING = "its secrets, which no queue hands to another Pilotage: pilotage set TASK queues=OTHERS,"
"""The reason to hold a task with secrets at a queue that forwards; brokerages place none there."""

log = logging.getLogger(__name__)
ACTOR = "secrets"
OTHER_SERVERS = "a server that lacks the key of its secrets"

Values = Mapping[int, tuple[Secret, ...]]
"""Secrets with their values, by task."""


def listed(store: Store, owner: Identity) -> tuple[KeptSecret, ...]:
    """Return the secrets of a person, without their values."""
    return store.secrets.names(owner.name, owner.vo)


def set_(runtime: Runtime, owner: Identity, name: str, value: str) -> list[int]:
    """Keep a secret, in place of an earlier one. Return the tasks that were held for it and are released.

    Raises ``NotNow`` if the server has not the key, or the person has too many.
    """
    secrets = runtime.store.secrets
    note_act(record=f"secret {name}")
    try:
        keys = runtime.secret_keys.read_or_make(secrets.keys)
    except KeyMissing as error:
        raise NotNow(f"this server cannot keep secrets: {error}") from None
    if not secrets.put(keys.encrypt(owner.name, owner.vo, name, value), MOST_SECRETS):
        raise NotNow(f"you have {MOST_SECRETS} secrets, the most; remove one: pilotage secrets remove NAME")
    runtime.unreadable_secrets.forget()
    reasons = _lack(name), _damage(name)
    return sorted(task for reason in reasons for task in _released(runtime, reason, owner))


def remove(store: Store, owner: Identity, name: str) -> bool:
    """Remove a secret. Return whether it was there. Jobs that need it are held when their turn comes."""
    return store.secrets.remove(owner.name, owner.vo, name)


def begin(runtime: Runtime) -> None:
    """Warn if this server cannot decrypt all secrets."""
    if fault := key_fault(runtime):
        log.warning("jobs with secrets are left to servers that have their key; this one has not: %s", fault)


def waits_for_key(runtime: Runtime, vo: str, owner: str) -> list[str]:
    """Return why a person's jobs with secrets wait for another server; empty if this one can give them."""
    if (vo, owner) not in runtime.unreadable_secrets.at(runtime.clock()):
        return []
    fault = key_fault(runtime)
    return [f"its jobs wait for a server that has the key of their secrets; this one has not: {fault}"]


def key_fault(runtime: Runtime) -> str:
    """Return why this server cannot decrypt the stored secrets; empty if it can, or if there are none."""
    needed = runtime.store.secrets.keys()
    try:
        lacking = needed - runtime.secret_keys.read().by_digest.keys() if needed else needed
    except KeyMissing as error:
        return str(error)
    return f"{len(lacking)} of the keys that encrypted them are not here" if lacking else ""


def faults(store: Store, spec: TaskSpec, owner: Identity) -> list[Fault]:
    """Return a fault for each secret that the task names and its owner has not set."""
    if not spec.secrets:
        return []
    names = {secret.name for secret in listed(store, owner)}
    return [
        (f"secrets[{at}]", f"you have no secret {secret.name!r}: pilotage secrets set {secret.name}")
        for at, secret in enumerate(spec.secrets)
        if secret.name not in names
    ]


def of_match(runtime: Runtime, matched: "Matched", time: float, seed: int) -> tuple["Matched", Values]:
    """Return the secrets of a pilot's new jobs, by task.

    If one cannot be read, the jobs go back. Their task is held with the reason, unless another server may
    have the key.
    """
    values: dict[int, tuple[Secret, ...]] = {}
    reasons: dict[int, str] = {}
    forwards = matched.queue is not None and matched.queue.forwards
    for task in matched.tasks:
        outcome: tuple[Secret, ...] | str = ()
        if task.spec.secrets:
            outcome = _STAYING if forwards else _values(runtime, task)
        if isinstance(outcome, str):
            reasons[task.id] = outcome
        else:
            values[task.id] = outcome
    if not reasons:
        return matched, values
    moves = JobMoves()
    for job in matched.jobs:
        if job.task in reasons:
            cause = f"given back by {reasons[job.task] or OTHER_SERVERS}"
            moves.add(job, JobState.SENT, JobState.DEFINED, cause=cause, changes=FRESH, next_attempt=True)
    back = Decision(step=MATCH, time=time, seed=seed, changes=moves.gathered())
    runtime.store.commit(back, ACTOR)
    for number, reason in sorted(reasons.items()):
        if reason:
            log.warning("task %d is held by %s", number, reason, extra={"task": number})
            change_task(runtime, number, ACTOR, partial(_hold, who=reason))
    jobs = tuple(job for job in matched.jobs if job.task not in reasons)
    return replace(matched, jobs=jobs), values


def _hold(world: World, who: str) -> Decision:
    """Hold the world's one task, unless it is held already."""
    if world.tasks[0].held not in ("", who):
        return Decision(step="hold", time=world.time, seed=world.seed)
    return holding.hold(world, who)


def _values(runtime: Runtime, task: Task) -> tuple[Secret, ...] | str:
    """Return the secrets of a task, or why to hold it; empty if another server may have the key."""
    owner = task.owner
    names = {secret.name for secret in task.spec.secrets}
    stored = {secret.name: secret for secret in runtime.store.secrets.find(owner.name, owner.vo, names)}
    if lacking := sorted(names - stored.keys()):
        return _lack(lacking[0])
    plain: dict[str, str] = {}
    for name, secret in sorted(stored.items()):
        try:
            plain[name] = runtime.secret_keys.read().decrypt(secret)
        except KeyMissing as error:
            log.warning("jobs of task %d go back: %s", task.id, error, extra={"task": task.id})
            runtime.unreadable_secrets.forget()
            return ""
        except SecretSpoilt as error:
            log.error(
                "the secrets of task %d cannot be decrypted: %s", task.id, error, extra={"task": task.id}
            )
            return _damage(name)
    return tuple(
        Secret(plain[secret.name], secret.in_variable, secret.file or "") for secret in task.spec.secrets
    )


def _released(runtime: Runtime, who: str, owner: Identity) -> list[int]:
    tasks = runtime.store.queries.held_by(who, owner)
    for task in tasks:
        change_task(runtime, task, ACTOR, holding.release)
    return tasks


def _lack(name: str) -> str:
    """Return the reason of a hold: a secret of the task is not set."""
    return f"its missing secret {name} (pilotage secrets set {name})"


def _damage(name: str) -> str:
    """Return the reason of a hold: the key does not decrypt a secret of the task."""
    return f"its damaged secret {name} (pilotage secrets set {name})"
