"""Brokerages that policies are compared with; nobody should use them."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from pilotage.brokerage.engine.decision_draft import Downloads
from pilotage.brokerage.engine.job_groups import Group, groups_of
from pilotage.brokerage.engine.queue_columns import DeclaredColumns
from pilotage.brokerage.production.cycle import Production
from pilotage.flow.brokerages import Brokerages
from pilotage.flow.matching.borrowing import BorrowableJobs
from pilotage.flow.matching.matching import Matching
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Candidates, Choice, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState
from pilotage.pilots.borrowing import BorrowableJob
from pilotage.store import Store

from .policies import Policy

RACING = 3
"""Queues among which a job is raced for, under the policy ``race``."""

LOCAL_FOR = 300.0
"""Seconds for which a job that was skipped waits on for a pilot where its input lies, under ``delayed``."""


class RandomPlacement:
    """Sends each job to one of the queues that pass every check, all of them alike.

    With ``racing`` above 1 it is bound to none: of so many queues, drawn for each choice, whichever pilot
    asks first takes it. A ``local`` one is bound to none either, and pilots are asked for where its input is.
    """

    def __init__(self, racing: int = 1, local: bool = False) -> None:
        self._racing = racing
        self._local = local
        self._binding: Binding = "late" if local or racing > 1 else "early"
        self._production = Production()
        self._columns = DeclaredColumns()

    def decide(self, world: World) -> Decision:
        """Move the world's DEFINED jobs; what fits no queue waits as the production brokerage says."""
        published = self._production.decide(world)
        queues = self._columns.of(world.federation).during(world)
        groups = groups_of(world, queues)
        downloads = Downloads(world, queues.reach.sources)
        declared = {queue.name: queue for queue in world.federation.queues}
        dice = random.Random(f"placement {world.seed}")
        suspended: defaultdict[int | None, list[Move]] = defaultdict(list)
        for move in published.moves:
            if move.target is JobState.PENDING:
                suspended[move.choice].append(move)
        moves: list[Move] = []
        choices: list[Choice] = []
        for number, (group, choice) in enumerate(zip(groups, published.choices, strict=True)):
            names = choice.candidates.queues
            if self._racing > 1:
                names = tuple(dice.sample(names, min(self._racing, len(names))))
            near = _near(group, names, downloads, declared) if self._local else {}
            drawn = _drawn(group, names, near, dice)
            if not drawn:
                moves += suspended[number]
            for queue, ids in drawn.items():
                moves += _placed(ids, declared[queue], downloads, number, self._binding)
            choices.append(_told(choice, group, names, drawn) if drawn else choice)
        return replace(published, changes=tuple(moves), choices=tuple(choices))


def _told(choice: Choice, group: Group, queues: Sequence[str], drawn: Mapping[str, Sequence[int]]) -> Choice:
    """The choice with the queues that were drawn from, and the jobs of each."""
    candidates = Candidates(queues=tuple(queues), weights=(1.0,) * len(queues))
    placed = Counter({queue: len(ids) for queue, ids in drawn.items()})
    return replace(choice, jobs=group.jobs, placed=placed, left=0, candidates=candidates)


def _near(
    group: Group, queues: Sequence[str], downloads: Downloads, declared: Mapping[str, Queue]
) -> dict[int, list[str]]:
    """The queues whose storages hold all input of a job, by job."""
    lacking = {queue: downloads.of_jobs(group.jobs, declared[queue].storage) for queue in queues}
    return {job: [queue for queue in queues if job not in lacking[queue]] for job in group.jobs}


def _drawn(
    group: Group, queues: Sequence[str], near: Mapping[int, Sequence[str]], dice: random.Random
) -> dict[str, list[int]]:
    """The jobs by the queue that is drawn for each: one of those that are near, if there are any."""
    found: dict[str, list[int]] = defaultdict(list)
    for job in group.jobs if queues else ():
        found[dice.choice(near.get(job) or queues)].append(job)
    return dict(sorted(found.items()))


def _placed(
    ids: Sequence[int], queue: Queue, downloads: Downloads, choice: int, binding: Binding
) -> Iterator[Move]:
    missing = downloads.of_jobs(ids, queue.storage, queue if binding == "late" else None)
    for target in (JobState.ACTIVATED, JobState.ASSIGNED):
        part = tuple(id_ for id_ in ids if (id_ in missing) == (target is JobState.ASSIGNED))
        if part:
            yield Move(
                kind="job",
                ids=part,
                source=JobState.DEFINED,
                target=target,
                cause="drawn from the queues that fit",
                changes={"queue": queue.name},
                creates=missing if target is JobState.ASSIGNED else {},
                choice=choice,
                binding=binding,
            )


class DelayedLocality(BorrowableJobs):
    """Delay scheduling (Zaharia et al., EuroSys 2010): late binding, in which jobs wait for their input.

    A pilot takes jobs whose input its own storage holds; others only once they have been skipped for
    ``LOCAL_FOR`` s by pilots that had a slot for them.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._skipped: dict[int, float] = {}

    def _open(self, world: World, queue: Queue) -> Iterator[BorrowableJob]:
        for offer in super()._open(world, queue):
            since = self._skipped.setdefault(offer.job.id, world.time) if offer.reads else -inf
            if world.time - since >= LOCAL_FOR:
                yield offer


class Always(Brokerages):
    """One brokerage for all tasks, whatever they ask for."""

    def __init__(self, only: RandomPlacement) -> None:
        super().__init__()
        self._only = only

    def get(self, name: str, options: object) -> RandomPlacement:  # noqa: ARG002
        """The one brokerage."""
        return self._only


def adopt(runtime: Runtime, policy: Policy) -> None:
    """Let a runtime place and match jobs as a policy says, if not as a server does."""
    if policy.placement != "brokered":
        racing = RACING if policy.placement == "race" else 1
        runtime.brokerages = Always(RandomPlacement(racing, local=policy.placement == "delayed"))
    if policy.placement == "delayed":
        runtime.matching = Matching(runtime.store, DelayedLocality(runtime.store))
