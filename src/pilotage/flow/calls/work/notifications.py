"""Calls of a person about notifications: receivers that this server refuses, their own ones, and a test."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotage.federation.faults import field_name
from pilotage.federation.task_checks import receiver_faults
from pilotage.flow.calls.data.inputs import Fault
from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.records.notifications import Notify
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks import notifying

MOST_TESTS, TESTS_IN = 20, 3600.0
"""Most tests that a person sends in so many s. Each goes to one receiver, who may be a stranger."""


def faults(runtime: Runtime, notify: Sequence[Notify]) -> list[Fault]:
    """Return the faults of receivers that people send by themselves, without a task."""
    receiver_problems = [
        (field_name(fault.path), fault.text) for fault in receiver_faults(notify, ("notify",))
    ]
    return receiver_problems or list(refused(runtime, notify))


def refused(runtime: Runtime, notify: Sequence[Notify]) -> Iterator[Fault]:
    """Yield the receivers that this server never sends to."""
    for at, receiver in enumerate(notify):
        if fault := runtime.notifying.sender.fault(receiver.receiver):
            yield f"notify[{at}].{receiver.kinds[0]}", fault


def with_own(runtime: Runtime, spec: TaskSpec, defaults: Sequence[Notify]) -> TaskSpec:
    """Give a task without receivers its owner's receivers, if this server accepts them."""
    if spec.notify or not defaults:
        return spec
    return replace(
        spec,
        notify=tuple(
            receiver for receiver in defaults if not runtime.notifying.sender.fault(receiver.receiver)
        ),
    )


def send_test(runtime: Runtime, notify: Sequence[Notify], person: Identity) -> list[int]:
    """Send a test to receivers now. Return the numbers of its notifications.

    Raises ``NotNow`` for a person who has sent many lately.
    """
    before = runtime.store.notification_queries.tests(person, runtime.clock() - TESTS_IN)
    if before + len(notify) > MOST_TESTS:
        raise NotNow(
            f"you sent {before} tests within an hour, and {MOST_TESTS} are the most; try again later"
        )
    decision = notifying.for_test(runtime.world(), tuple(notify), person)
    created = runtime.store.commit(decision, f"user:{person.name}").created
    return [id_ for ids in created for id_ in ids if id_]
