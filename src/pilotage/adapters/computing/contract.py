"""The promises of computing element adapters, as one function that adapter authors call in their tests."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pilotage.ports.computing import Capacity, ComputingElementPort, PilotOrder, PilotStatus, Submitted

STATES = ("waiting", "running", "stuck", "ended", "unknown")
STRANGE = ("nobody's", "", "0", "../../etc")
"""References that no adapter ever made."""


def violations(
    make: Callable[[Mapping[str, Any]], ComputingElementPort],
    options: Mapping[str, Any],
    orders: Sequence[PilotOrder],
    patience: float = 240,
    losing: Callable[[Mapping[str, Any]], ComputingElementPort] | None = None,
) -> list[str]:
    """Return the promises that an adapter breaks; empty if it keeps them all.

    ``make`` is the object behind the adapter's entry point. ``orders`` are at least two pilots that would
    live until cancelled. All are ended at the end. An event that takes longer than ``patience`` s is missing.
    ``losing`` makes an adapter for the same batch system on a bad day: it accepts submissions, but the answer
    fails or gets lost. Without it, no pilot is ordered twice.
    """
    faults = list(_options(make, options))
    element = make(options)
    faults += _nothing(element)
    answers = element.submit(orders)
    references = [answer.reference for answer in answers if answer.reference]
    try:
        faults += _submitted(orders, answers)
        faults += _check_statuses(element, references, orders)
        if losing is not None:
            faults += _again(make(options), orders, references)
        faults += _check_strangers(element, references)
        if references:
            faults += _ended(element, references[:1], references[1:], patience)
    finally:
        element.cancel(references)
    faults += _ended(element, references, [], patience)
    if losing is not None:
        faults += _in_doubt(losing(options), element, orders, patience)
    return faults


def _options(
    make: Callable[[Mapping[str, Any]], ComputingElementPort], options: Mapping[str, Any]
) -> Iterator[str]:
    try:
        make({**options, "no_such_option": 1})
    except ValueError as error:
        if "no_such_option" not in str(error):
            yield f"the error for an unknown option does not name it: {error}"
    else:
        yield "an unknown option is no ValueError"


def _nothing(element: ComputingElementPort) -> Iterator[str]:
    if list(element.submit([])) or dict(element.poll([])):
        yield "nothing asked, something answered"
    element.cancel([])


def _submitted(orders: Sequence[PilotOrder], answers: Sequence[Submitted]) -> Iterator[str]:
    if len(answers) != len(orders):
        yield f"{len(orders)} orders have {len(answers)} answers"
    for order, answer in zip(orders, answers, strict=False):
        if bool(answer.reference) == bool(answer.error):
            yield f"the answer for {order.name} is not a reference or else an error: {answer}"
        if answer.error:
            yield f"{order.name} was not submitted: {answer.error}"
        if order.token in f"{answer.reference} {answer.error}":
            yield f"the answer for {order.name} shows its token"
    references = [answer.reference for answer in answers]
    if len(set(references)) != len(references):
        yield f"references are given twice: {references}"


def _check_statuses(
    element: ComputingElementPort, references: Collection[str], orders: Sequence[PilotOrder]
) -> Iterator[str]:
    statuses = element.poll([*references, *STRANGE])
    if statuses.keys() != {*references, *STRANGE}:
        yield "the statuses are not those that were asked for"
    for reference, status in statuses.items():
        if status.state not in STATES:
            yield f"{reference!r} has the state {status.state!r}"
        elif reference in STRANGE and status.state != "unknown":
            yield f"a reference that it never gave, {reference!r}, is {status.state} and not unknown"
        elif reference not in STRANGE and status.state in ("ended", "unknown"):
            yield f"a pilot that was just submitted is {status.state}: {status.reason}"
        if any(order.token in status.reason for order in orders):
            yield f"the status of {reference!r} shows a token"
    for name in ("slots", "running", "waiting"):
        count = getattr(capacity := element.capacity(), name)
        if not isinstance(capacity, Capacity) or (count is not None and count < 0):
            yield f"capacity: {name} is {count}"


def _again(
    element: ComputingElementPort, orders: Sequence[PilotOrder], references: Sequence[str]
) -> Iterator[str]:
    """Order the pilots again, like a server that lost the answer. No pilot may be submitted twice."""
    answers = [answer.reference for answer in element.submit(orders)]
    if len(references) == len(orders) and answers != list(references):
        yield f"pilots that are ordered again are others: {answers} and not {list(references)}"


def _in_doubt(
    losing: ComputingElementPort, element: ComputingElementPort, orders: Sequence[PilotOrder], patience: float
) -> Iterator[str]:
    """Submit pilots and lose the answers. Each must be found by name, now or when its order comes again."""
    orders = [replace(order, name=f"{order.name}0") for order in orders]
    first: Sequence[Submitted] = ()
    with suppress(TimeoutError):
        first = losing.submit(orders)
    yield from (f"a pilot that was taken is refused: {answer.error}" for answer in first if answer.error)
    names = [answer.reference for answer in element.submit(orders)]
    try:
        if "" in names or len(set(names)) != len(orders):
            yield f"pilots whose answers were lost are not found by their names: {names}"
        if first and [answer.reference for answer in first] != names:
            yield f"pilots whose answers were lost are submitted twice: {names}"
    finally:
        element.cancel([reference for reference in names if reference])
    yield from _ended(element, [reference for reference in names if reference], [], patience)


def _check_strangers(element: ComputingElementPort, references: Collection[str]) -> Iterator[str]:
    """Cancel references that the adapter never made. This must end nothing."""
    element.cancel(STRANGE)
    for reference, status in element.poll(references).items():
        if status.state == "ended":
            yield f"cancelling references that it never gave ended {reference}: {status.reason}"


def _ended(
    element: ComputingElementPort, cancelled: Collection[str], survivors: Collection[str], patience: float
) -> Iterator[str]:
    for _ in range(2):
        element.cancel(cancelled)
    end = time.monotonic() + patience
    while any(status.state != "ended" for status in element.poll(cancelled).values()):
        if time.monotonic() > end:
            yield f"cancelled pilots do not end: {_states(element.poll(cancelled))}"
            return
        time.sleep(0.05)
    for reference, status in element.poll(survivors).items():
        if status.state == "ended":
            yield f"cancelling another pilot ended {reference}: {status.reason}"


def _states(statuses: Mapping[str, PilotStatus]) -> str:
    return ", ".join(f"{reference} {status.state}" for reference, status in statuses.items())
