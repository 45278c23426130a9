"""Brokerages for comparison with policies. Do not use them for real work."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.matching.borrowing import BorrowableJobs
from pilotage.flow.matching.matching import Matching
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Candidates, Choice, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.engine.decision_draft import Downloads
from pilotage.policies.brokerage.engine.job_groups import Group, groups_of
from pilotage.policies.brokerage.engine.queue_columns import DeclaredColumns
from pilotage.policies.brokerage.production.cycle import Production
from pilotage.policies.pilots.borrowing import BorrowableJob
from pilotage.simulation.policies import Policy
from pilotage.store import Store

RACING = 3
"""Queues that race for a job under the policy ``race``."""

LOCAL_FOR = 300.0
"""Seconds that a skipped job keeps waiting for a pilot near its input, under ``delayed``."""


class RandomPlacement:
    """Sends each job to a random queue that passes every check.

    With ``racing`` above 1 it binds no job: it draws that many queues for each choice, and the first pilot
    that asks takes the job. With ``local`` it binds no job either, and requests pilots near the input.
    """

    def __init__(self, racing: int = 1, local: bool = False) -> None:
        self._racing = racing
        self._local = local
        self._binding: Binding = "late" if local or racing > 1 else "early"
        self._production = Production()
        self._columns = DeclaredColumns()

    def decide(self, world: World) -> Decision:
        """Decide the world's DEFINED jobs.

        If a job fits no queue, it waits as under the production brokerage.
        """
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
            choices.append(_with_queues(choice, group, names, drawn) if drawn else choice)
        return replace(published, changes=tuple(moves), choices=tuple(choices))


def _with_queues(
    choice: Choice, group: Group, queues: Sequence[str], drawn: Mapping[str, Sequence[int]]
) -> Choice:
    """Return the choice with the drawn queues, and the jobs of each."""
    candidates = Candidates(queues=tuple(queues), weights=(1.0,) * len(queues))
    placed = Counter({queue: len(ids) for queue, ids in drawn.items()})
    return replace(choice, jobs=group.jobs, placed=placed, left=0, candidates=candidates)


def _near(
    group: Group, queues: Sequence[str], downloads: Downloads, declared: Mapping[str, Queue]
) -> dict[int, list[str]]:
    """Return, by job, the queues with a storage that has all of its input."""
    lacking = {queue: downloads.of_jobs(group.jobs, declared[queue].storage) for queue in queues}
    return {job: [queue for queue in queues if job not in lacking[queue]] for job in group.jobs}


def _drawn(
    group: Group, queues: Sequence[str], near: Mapping[int, Sequence[str]], dice: random.Random
) -> dict[str, list[int]]:
    """Return the jobs by the queue drawn for each. Prefer queues near the input, if there are any."""
    by_queue: dict[str, list[int]] = defaultdict(list)
    for job in group.jobs if queues else ():
        by_queue[dice.choice(near.get(job) or queues)].append(job)
    return dict(sorted(by_queue.items()))


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
    """Delay scheduling (Zaharia et al., EuroSys 2010): late binding, where jobs wait for a place near their
    input.

    A pilot takes jobs if its storage has their input. It takes other jobs only after pilots with a free slot
    have skipped them for ``LOCAL_FOR`` s.
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
    """One brokerage for all tasks. It ignores the brokerage that they request."""

    def __init__(self, only: RandomPlacement) -> None:
        super().__init__()
        self._only = only

    def get(self, name: str, options: object) -> RandomPlacement:  # noqa: ARG002
        """Return the one brokerage."""
        return self._only


def adopt(runtime: Runtime, policy: Policy) -> None:
    """Give a runtime the brokerage and matching of a policy, if these differ from a server's."""
    if policy.placement != "brokered":
        racing = RACING if policy.placement == "race" else 1
        runtime.brokerages = Always(RandomPlacement(racing, local=policy.placement == "delayed"))
    if policy.placement == "delayed":
        runtime.matching = Matching(runtime.store, DelayedLocality(runtime.store))
