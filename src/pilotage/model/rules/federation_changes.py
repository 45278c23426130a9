"""Differences between two federations, and their effects on unfinished work."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from pilotage.model.records.federation import ComputingElement, Federation, Queue, Storage
from pilotage.model.records.states import UNSTARTED_JOBS, JobState
from pilotage.model.values.types import DESCRIBED

SECRET = ("options", "servers", "credentials")
"""Endings of fields whose values are never shown, because they may hold credentials."""

PLACE_OPTIONS = (
    *("url", "endpoint", "server", "host", "port", "ssh", "schedd", "collector", "namespace", "context"),
    "kubeconfig",
)
"""Endings of options that say where a storage or a batch system is: with another value it is another one."""

STARTED = (
    JobState.SENT,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.HOLDING,
    JobState.TRANSFERRING,
)
"""States of jobs that need their queue to the end: their results lie only at its storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationChange:
    """One difference: a changed, new or removed declaration."""

    __pydantic_config__ = DESCRIBED

    path: str
    """The changed value, such as ``queues.north.status``."""
    before: str
    """The former value; empty: there was none."""
    after: str
    """The new value; empty: there is none."""

    @property
    def text(self) -> str:
        """Return the difference in one line."""
        if not self.before:
            return f"+ {self.path}" + (f": {self.after}" if self.after != ADDED else "")
        if not self.after:
            return f"- {self.path}" + (f": {self.before}" if self.before != ADDED else "")
        return f"  {self.path}: {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationEffect:
    """The effect of a change on unfinished work or stored files. Without ``lost`` all of it continues."""

    __pydantic_config__ = DESCRIBED

    subject: str
    """The queue or storage, such as ``queue north``."""
    change: str
    """The change of it."""
    standing: str
    """The affected work or files: counts and names."""
    follows: str
    """The consequence."""
    lost: bool = False
    """Whether something gets lost. Then the change is refused unless it is forced."""
    instead: str = ""
    """What would work instead, if something gets lost."""

    @property
    def text(self) -> str:
        """Return the effect in one line."""
        sentence = f"{self.subject} {self.change}, with {self.standing}: {self.follows}"
        return f"{sentence}. Instead: {self.instead}" if self.instead else sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkThere:
    """The work and the files at queues and storages, by name.

    ``replicas`` counts files, ``only`` the files that no other storage has. ``transfers`` counts live ones
    from or to a storage. ``tasks`` names some tasks with started jobs at a queue. ``submitted`` counts the
    live pilots of a queue by the server that they were submitted to.
    """

    jobs: Mapping[str, Mapping[JobState, int]] = field(default_factory=dict)
    pilots: Mapping[str, int] = field(default_factory=dict)
    submitted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    only: Mapping[str, int] = field(default_factory=dict)
    transfers: Mapping[str, int] = field(default_factory=dict)


ADDED = "declared"
REMOVED = "is removed"
ELSEWHERE = "gets its pilots from another batch system"
_NAMED = ("sites", "storages", "queues", "catalogues", "shares")


def differences(before: Federation, after: Federation) -> tuple[FederationChange, ...]:
    """Return the changed declarations, in the order of the document. Values of options are not shown."""
    return tuple(_differences("", before, after))


def _differences(path: str, before: Any, after: Any) -> Iterator[FederationChange]:
    for attribute in fields(before):
        old, new = getattr(before, attribute.name), getattr(after, attribute.name)
        at = f"{path}{attribute.name}"
        if old == new:
            continue
        if attribute.name.endswith(SECRET):
            yield FederationChange(path=at, before="otherwise", after="as in the file")
        elif not path and attribute.name in _NAMED:
            yield from _by_name(at, {each.name: each for each in old}, {each.name: each for each in new})
        elif not path and attribute.name == "links":
            ends = ({f"{each.source}-{each.destination}": each for each in links} for links in (old, new))
            yield from _by_name(at, *ends)
        elif is_dataclass(old) and is_dataclass(new):
            yield from _differences(f"{at}.", old, new)
        else:
            yield FederationChange(path=at, before=_short_text(old), after=_short_text(new))


def _by_name(at: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FederationChange]:
    for name in (*old, *(name for name in new if name not in old)):
        if name not in new:
            yield FederationChange(path=f"{at}.{name}", before=ADDED, after="")
        elif name not in old:
            yield FederationChange(path=f"{at}.{name}", before="", after=ADDED)
        else:
            yield from _differences(f"{at}.{name}.", old[name], new[name])


def _short_text(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if is_dataclass(value):
        text = ADDED
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]} ..."


def concerned(before: Federation, after: Federation) -> tuple[set[str], set[str]]:
    """Return the queues and the storages that a change affects."""
    storages = {storage.name for storage, _ in _changed_storages(before, after)}
    queues = {queue.name for queue, _ in _changed_queues(before, after)}
    return queues | {queue.name for queue in before.queues if queue.storage in storages}, storages


def effects(before: Federation, after: Federation, there: WorkThere) -> tuple[FederationEffect, ...]:
    """Return the effects of a change on the work and the files there, losses first."""
    effects = [
        *(
            effect
            for queue, change in _changed_queues(before, after)
            for effect in _of_queue(queue, change, _gone(queue, change, after), there)
        ),
        *(
            effect
            for storage, change in _changed_storages(before, after)
            for effect in _of_storage(storage, change, before, there)
        ),
    ]
    return tuple(sorted(effects, key=lambda effect: not effect.lost))


def _changed_queues(before: Federation, after: Federation) -> Iterator[tuple[Queue, str]]:
    now = {queue.name: queue for queue in after.queues}
    for queue in before.queues:
        new = now.get(queue.name)
        if new is None:
            yield queue, REMOVED
            continue
        if new.storage != queue.storage:
            yield queue, f"gets storage {new.storage} in place of {queue.storage}"
        if _moved_servers(queue, new):
            yield queue, ELSEWHERE


def _moved_servers(before: Queue, after: Queue) -> set[str]:
    """Return the servers of a queue's batch system that are gone or elsewhere now; "" is the only one."""
    old, new = before.computing_element, after.computing_element
    if old is None:
        return set()
    names = {server.name for server in old.servers} or {""}
    # If the new element does not declare a server, its own place counts.
    return {name for name in names if not new or _place(old.at(name)) != _place(new.at(name))}


def _place(element: ComputingElement) -> object:
    return element.kind, _place_options(element.options)


def _place_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in options.items() if name.lower().endswith(PLACE_OPTIONS)}


def _changed_storages(before: Federation, after: Federation) -> Iterator[tuple[Storage, str]]:
    now = {storage.name: storage for storage in after.storages}
    for storage in before.storages:
        new = now.get(storage.name)
        if new is None:
            yield storage, REMOVED
        elif new.url.rstrip("/") != storage.url.rstrip("/"):
            yield storage, f"gets the URL {new.url} in place of {storage.url}"
        elif (was := _place_options(storage.options)) != (now_at := _place_options(new.options)):
            names = sorted(name for name in was.keys() | now_at.keys() if was.get(name) != now_at.get(name))
            yield storage, f"gets another {', '.join(names)} among its options"


def _gone(queue: Queue, change: str, after: Federation) -> set[str]:
    """Return the servers that the old pilots are not at, if the batch system moves; none if it does not."""
    new = next((candidate for candidate in after.queues if candidate.name == queue.name), None)
    return _moved_servers(queue, new) if new and change == ELSEWHERE else set()


def _of_queue(queue: Queue, change: str, gone: set[str], there: WorkThere) -> Iterator[FederationEffect]:
    jobs = there.jobs.get(queue.name, {})
    subject = f"queue {queue.name}"
    pilots = there.pilots.get(queue.name, 0)
    if change == ELSEWHERE:
        pilots = sum(
            number for server, number in there.submitted.get(queue.name, {}).items() if server in gone
        )
    if change == ELSEWHERE and not pilots:
        return
    if started := {state: jobs[state] for state in STARTED if jobs.get(state)}:
        tasks = there.tasks.get(queue.name, ())
        named = f" of {'tasks' if len(tasks) > 1 else 'task'} {', '.join(map(str, tasks))}" if tasks else ""
        yield FederationEffect(
            subject=subject,
            change=change,
            standing=f"{_counted(started)}{named}",
            follows="what these have made is lost, and they are tried again",
            lost=True,
            instead=(
                f"`pilotage queues drain {queue.name} --because ...`, and change it once none of its jobs"
                " runs or is transferring (`pilotage queues`)"
            ),
        )
    waiting = {state: jobs[state] for state in UNSTARTED_JOBS if jobs.get(state)}
    if waiting and change == REMOVED:
        follows = "they are brokered again immediately"
        yield FederationEffect(subject=subject, change=change, standing=_counted(waiting), follows=follows)
    if pilots and change in (REMOVED, ELSEWHERE):
        follows = "Pilotage forgets them, and they get no further jobs"
        if change == ELSEWHERE:
            follows = "they are not found there, count as ended, and end at their next call"
        standing = f"{pilots} live {'pilots' if pilots > 1 else 'pilot'}"
        yield FederationEffect(subject=subject, change=change, standing=standing, follows=follows)


def _of_storage(
    storage: Storage, change: str, before: Federation, there: WorkThere
) -> Iterator[FederationEffect]:
    files, only = there.replicas.get(storage.name, 0), there.only.get(storage.name, 0)
    moving = there.transfers.get(storage.name, 0)
    standing = []
    if files:
        alone = f", {only} of which no other storage has" if only else ""
        standing.append(f"{files} known {'files' if files > 1 else 'file'}{alone}")
    if moving:
        standing.append(f"{moving} live {'transfers' if moving > 1 else 'transfer'}")
    for queue in before.queues:
        jobs = there.jobs.get(queue.name, {}) if queue.storage == storage.name else {}
        if started := {state: jobs[state] for state in STARTED if jobs.get(state)}:
            standing.append(f"{_counted(started)} at queue {queue.name}")
    if standing:
        yield FederationEffect(
            subject=f"storage {storage.name}",
            change=change,
            standing="; ".join(standing),
            follows="none of these is found there any more: outputs and inputs are lost, transfers fail",
            lost=True,
            instead=(
                "declare the new place as another storage, drain this one"
                f" (`pilotage storages drain {storage.name} --because ...`), move its files there (`pilotage"
                f" storages move {storage.name} NEW`), and remove it once it has none"
            ),
        )


def _counted(jobs: Mapping[JobState, int]) -> str:
    return ", ".join(f"{number} {state} {'jobs' if number > 1 else 'job'}" for state, number in jobs.items())
