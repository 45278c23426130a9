"""Set aside records that make policies fail. The pass continues without them, and tries them again later.

It waits for a pause that doubles each time, up to an hour. It does not wait when the federation changes, or
when a server starts, for example after an upgrade.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from threading import Lock

from pilotage.flow.loops.isolation import (
    POLICY,
    Failing,
    Isolated,
    TimedPolicy,
    Trials,
    error_line,
    faults_of,
    isolate,
    within_budgets,
)
from pilotage.flow.loops.time_limit import OutOfTime
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.subjects import SUBJECTS, TASK, Key, Subject
from pilotage.model.documents.world import World
from pilotage.model.records.constants import longer_each_time
from pilotage.model.values.identity import Identity
from pilotage.store import SetAsideRecord, Store

log = logging.getLogger(__name__)

FIRST_PAUSE = 10.0
"""Seconds before the first retry."""

FIRST_COSTLY_PAUSE = 600.0
"""The same for a subject that used up its time or budget, because everybody waits for its retry."""

PERSON = "person"
"""The subject for one person's tasks at one brokerage, after it took too long for several of them."""

MOST_NAMED = 5
"""Most tasks that are named."""

MOST_SLOW = 2
"""Slow tasks of one person at a brokerage before all of this person's tasks there wait."""

_Name = tuple[str, str]
"""The kind of a subject, and its name."""


def person(policy: str, owner: Identity) -> str:
    """Return the name for everything that a policy decides for a person."""
    return f"{policy} {owner.key}"


class SetAside:
    """What the steps of one process skip. It is also written to the store, for people to see.

    Each step has one thread; several steps may run at a time.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._known: dict[str, dict[_Name, SetAsideRecord]] | None = None
        self._version: dict[str, int] = {}
        self._slow_tasks: dict[tuple[str, str], set[Key]] = defaultdict(set)
        self.failing_loops: dict[str, str] = {}
        """Errors of loops if their last pass failed as a whole."""

    def tasks(self, step: str, time: float) -> frozenset[int]:
        """Return tasks that a pass of a step must not read."""
        return frozenset(int(name) for subject, name in self._out(step, time) if subject == "task")

    def left_of(self, step: str, world: World) -> World:
        """Return the world without what a step skips."""
        by_kind: dict[str, set[Key]] = defaultdict(set)
        for subject, name in self._out(step, world.time):
            if subject in SUBJECTS:
                numbered = subject in ("task", "transfer", "pilot")
                by_kind[subject].add(int(name) if numbered else name)
        for subject, names in by_kind.items():
            world = SUBJECTS[subject].without(world, names)
        return world

    def decided(
        self, step: str, kinds: Sequence[Subject], policy: TimedPolicy, world: World
    ) -> Decision | None:
        """Return the decision about everything that a policy does not fail on; None if nothing is left, or if
        the policy is paused.

        Taking too long, or counting too much work for a task, also means failing.
        """
        out = self._out(step, world.time)
        if (POLICY, policy.name) in out:
            return None
        owners = TASK.owners(world).items()
        waiting = {key for key, owner in owners if (PERSON, person(policy.name, owner)) in out}
        if waiting:
            world = TASK.without(world, waiting)
        try:
            decision, over, _ = within_budgets(policy, world)
            isolated = Isolated(over, decision)
        except Exception as error:
            log.exception(
                "step %s: the policy of %s failed; what it fails at is set aside", step, policy.name
            )
            isolated = self._again(step, policy, error, world) or isolate(
                policy, policy.name, error, world, kinds
            )
        if isolated.faults:
            self.note(step, (*isolated.faults, *self._slow(step, policy, isolated, world)), world.time)
        return isolated.decision

    def _again(self, step: str, policy: TimedPolicy, error: Exception, world: World) -> Isolated | None:
        """Decide without the tasks that were set aside before, if it takes too long with them again."""
        before = {int(record.name) for record in self._of(step).values() if record.subject == TASK.name}
        suspects = [key for key in TASK.keys(world) if key in before]
        if not suspects or not isinstance(error, OutOfTime):
            return None
        try:
            decision, over, _ = within_budgets(policy, TASK.without(world, set(suspects)))
        except Exception:
            return None  # It was not them, or not them alone: search all tasks.
        return Isolated((*faults_of(TASK, suspects, error), *over), decision)

    def _slow(self, step: str, policy: TimedPolicy, isolated: Isolated, world: World) -> Iterator[Failing]:
        """Yield a brokerage to set aside for a person, or for all, so that not every new task waits for it
        again."""
        owners = TASK.owners(world)
        people: set[str] = set()
        for fault in isolated.faults:
            if policy.plugin and fault.subject == TASK.name and fault.slow and fault.key in owners:
                name = person(policy.name, owners[fault.key])
                people.add(name)
                self._slow_tasks[step, name].add(fault.key)
        beginning = f"the brokerage {policy.plugin!r} took too long for"
        for name in sorted(people):
            if len(tasks := self._slow_tasks[step, name]) >= MOST_SLOW:
                ids = ", ".join(map(str, sorted(tasks)[:MOST_NAMED]))
                error = (
                    f"{beginning} {len(tasks)} tasks of this person, such as {ids}: the others wait as well"
                )
                yield Failing(subject=PERSON, key=name, error=error, costly=True)
        if len(people) > 1 and not (isolated.decision and isolated.decision.choices):
            error = f"{beginning} tasks of {len(people)} people, and decided about none: all its tasks wait"
            yield Failing(subject=POLICY, key=policy.name, error=error, costly=True)

    def halves(
        self, step: str, kinds: Sequence[Subject], world: World, error: Exception, trials: Trials
    ) -> Sequence[World]:
        """Return two halves of a world after a refusal of the store; none if a record was set aside."""
        log.error("step %s: the store refused a decision: %s", step, error_line(error))
        kind = next((kind for kind in kinds if kind.keys(world)), None)
        if kind is None:
            raise error
        keys = kind.keys(world)
        if len(keys) == 1 or not trials.any_left():
            self.note(step, list(faults_of(kind, keys, error)), world.time)
            return ()
        middle = len(keys) // 2
        return [kind.without(world, set(half)) for half in (keys[middle:], keys[:middle])]

    def note(self, step: str, faults: Collection[Failing], time: float) -> None:
        """Set aside the records that made a step fail."""
        records = self._of(step)
        new: list[SetAsideRecord] = []
        for fault in faults:
            name = (fault.subject, str(fault.key))
            before = records.get(name)
            times = 1 if before is None else before.times + 1
            new.append(
                SetAsideRecord(
                    step=step,
                    subject=fault.subject,
                    name=str(fault.key),
                    error=fault.error,
                    among=fault.among,
                    since=time if before is None else before.since,
                    times=times,
                    retry_at=time
                    + longer_each_time(FIRST_COSTLY_PAUSE if fault.costly else FIRST_PAUSE, times),
                )
            )
            records[name] = new[-1]
            log.warning("step %s sets aside %s %s: %s", step, *name, fault.error, extra={name[0]: name[1]})
        self._store.set_aside.replace((), new)

    def end_pass(self, step: str, time: float) -> None:
        """Forget the records that were tried again in an ended pass and did not fail."""
        records = self._of(step)
        if not records:
            return
        lifted = [record for record in records.values() if record.retry_at <= time]
        for record in lifted:
            del records[record.subject, record.name]
            self._slow_tasks.pop((step, record.name), None)
            log.warning(
                "step %s takes %s %s again",
                step,
                record.subject,
                record.name,
                extra={record.subject: record.name},
            )
        if lifted:
            self._store.set_aside.replace(lifted, ())

    def _out(self, step: str, time: float) -> Collection[_Name]:
        return [name for name, record in self._of(step).items() if record.retry_at > time]

    def _of(self, step: str) -> dict[_Name, SetAsideRecord]:
        """Return the records that a step has set aside.

        After a restart or a change of the federation, all of them are due.
        """
        with self._lock:
            if self._known is None:
                self._known = defaultdict(dict)
                for record in self._store.set_aside.everything():
                    self._known[record.step][record.subject, record.name] = replace(record, retry_at=0.0)
            records = self._known[step]
        version = self._store.federation_version
        if self._version.setdefault(step, version) != version:
            self._version[step] = version
            records.update({name: replace(record, retry_at=0.0) for name, record in records.items()})
        return records
