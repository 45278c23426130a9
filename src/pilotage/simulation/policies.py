"""Policies to compare: changes to a federation, and steps to leave out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pilotage.federation.checks import KnownNames
from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument, Fault, Path
from pilotage.federation.messages import unknown_field
from pilotage.flow.step import Step
from pilotage.flow.steps import STEPS
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.federation import Federation
from pilotage.model.values.step_names import LIFT, NOTIFY, REBIND, SURVEY
from pilotage.model.values.types import CLOSED

LEAVABLE = frozenset({REBIND, LIFT})
"""Steps without which a simulation still ends."""

BOUND: Mapping[str, Any] = {"default": "early", "by_vo": {}}
"""Constants of a federation that binds each job to a queue once, unless a task requests another binding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One way to run a federation: its own constants, queue attributes, and steps left out."""

    __pydantic_config__ = CLOSED

    summary: str = ""
    """The difference, in words."""
    without: tuple[str, ...] = ()
    """Steps left out: ``rebind`` or ``lift``."""
    constants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Constants by part of the federation document, such as ``guard: {in_a_row: 3}``."""
    queues: Mapping[str, Any] = field(default_factory=dict)
    """Attributes for every queue, such as ``num_slots: 0``."""
    placement: Literal["brokered", "random", "race", "delayed"] = "brokered"
    """``random``: each job goes to a random fitting queue. ``race``: of three such queues, the first pilot
    that asks takes it. ``delayed``: a pilot at a storage with its input takes it, or any pilot after a
    delay."""

    @property
    def is_of_the_brokerage(self) -> bool:
        """Return whether it can broker a saved world: random placement needs a run."""
        return self.placement == "brokered"

    @property
    def shows_afterwards(self) -> bool:
        """Return whether it changes only what happens after the brokerage's decisions."""
        changes = self.without or self.constants
        return bool(changes) and not self.queues and set(self.constants) <= AFTERWARDS


AFTERWARDS = frozenset({"binding", "loops"})
"""Constants that do not affect the choice of a queue."""


KNOWN: Mapping[str, Policy] = {
    "pilotage": Policy(summary="the federation as declared"),
    "early": Policy(
        summary="as published: bound once; no declared slots in R; inputs move only if no queue is left",
        without=(REBIND,),
        queues={"num_slots": 0},
        constants={"brokerage": {"input_moves": "bounded"}, "binding": BOUND},
    ),
    "sooner": Policy(
        summary="input also moves where it arrives before jobs would start at its place",
        constants={"brokerage": {"input_moves": "sooner"}},
    ),
    "bound": Policy(
        summary="jobs stay where they were bound", without=(REBIND,), constants={"binding": BOUND}
    ),
    "undeclared": Policy(summary="declared slots do not count in R", queues={"num_slots": 0}),
    "random": Policy(
        summary="each job goes to any of the queues that fit it, and stays there",
        without=(REBIND,),
        placement="random",
    ),
    "race": Policy(
        summary="each job goes to the first pilot that asks, of three of the queues that fit it",
        without=(REBIND,),
        placement="race",
    ),
    "delayed": Policy(
        summary="each job goes to a pilot near its input, after five minutes to any (delay scheduling)",
        without=(REBIND,),
        placement="delayed",
    ),
    "elastic": Policy(
        summary="jobs may be borrowed by pilots that end them sooner",
        constants={"binding": {"default": "elastic"}},
    ),
    "leaving": Policy(
        summary="elastic, and pilots end after 30 s without work, even if a new one would wait for long",
        constants={
            "binding": {"default": "elastic"},
            "loops": {"pilot_idle": 30, "pilot_idle_most": 0},
        },
    ),
    "late": Policy(summary="jobs are bound to no queue", constants={"binding": {"default": "late"}}),
    "unguarded": Policy(
        summary="no guard against black holes", constants={"guard": {"in_a_row": 1_000_000_000}}
    ),
}
"""Policies that every scenario has, by name."""


REFERENCE_RUN = "reference"
"""The name of the reference run: the unchanged federation without batch waits and with free data."""

REFERENCE = Policy(
    summary="the federation as declared; pilots need not stay, because batch systems have no waits",
    constants={"loops": {"pilot_idle_most": 0}},
)
"""The federation of the reference run."""


class UnknownPolicy(ValueError):
    """No policy has this name."""


def policy_of(name: str, scenario_policies: Mapping[str, Policy]) -> Policy:
    """Return the policy with a name: a common one, a scenario's, or the policy of the reference run.

    Raises ``UnknownPolicy``.
    """
    policies = {**KNOWN, **scenario_policies, REFERENCE_RUN: REFERENCE}
    for fault in KnownNames("policy", policies, length=len(policies)).lacks((), name):
        raise UnknownPolicy(fault.text)
    return policies[name]


def changed(federation: Federation, policy: Policy) -> Federation:
    """Return the federation under a policy.

    Raises ``BadDocument`` with each place in the policy that contradicts the
    federation.
    """
    if unknown := set(policy.without) - LEAVABLE:
        message = f"the step {sorted(unknown)[0]} cannot be left out"
        raise BadDocument([Fault(("without",), message, f"these can: {', '.join(sorted(LEAVABLE))}")])
    document = to_document(federation)
    for part, values in policy.constants.items():
        document[part] = _with(document.get(part), values, ("constants", part))
    document["queues"] = [_with(queue, policy.queues, ("queues",)) for queue in document["queues"]]
    try:
        return checked(Federation, document)
    except BadDocument as bad:
        # The same attribute of all queues is one fault.
        faults = (replace(fault, path=_in_policy(fault.path)) for fault in bad.faults)
        raise BadDocument(dict.fromkeys(faults)) from bad


def _in_policy(path: Path) -> Path:
    """Return the place in a policy that set a value of the federation."""
    return ("queues", *path[2:]) if path[:1] == ("queues",) else ("constants", *path)


def steps_of(policy: Policy) -> tuple[Step, ...]:
    """Return the steps that a policy takes, in order.

    No step asks for free space, because virtual storages do not report any. No step notifies people.
    """
    without = {SURVEY, NOTIFY, *policy.without}
    return tuple(step for step in STEPS if step.has_loop and step.name not in without)


def _with(document: object, values: Mapping[str, Any], place: Path) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise BadDocument([Fault(place, "a federation has no constants of this name")])
    if unknown := sorted(values.keys() - document.keys()):
        raise BadDocument([unknown_field((*place, name), document) for name in unknown])
    return {**document, **values}
