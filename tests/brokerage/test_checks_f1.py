"""F1, the house's own rule: a queue may be for some VOs only."""

from dataclasses import replace

import pytest

from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.secrets import NamedSecret
from pilotage.model.records.work import Task
from pilotage.model.values.identity import Identity
from pilotage.testing import federation, queue, task, world
from pilotage.testing.choices import only_choice, refused_in

HOUSE = federation([queue("LIGO", vos=("ligo", "virgo")), queue("CMS", vos=("cms",)), queue("ALL")])


def owned_by(vo: str) -> Task:
    return replace(task(), owner=Identity(name="alice", vo=vo))


@pytest.mark.parametrize(
    ("vo", "closed"),
    [("virgo", {"CMS"}), ("cms", {"LIGO"}), ("", {"LIGO", "CMS"}), ("Ligo", {"LIGO", "CMS"})],
)
def test_f1_a_queue_that_names_vos_takes_tasks_of_these_only(vo: str, closed: set[str]) -> None:
    assert refused_in(world(HOUSE, owned_by(vo)), "F1") == closed


def test_f1_tells_whose_task_it_is_and_whom_the_queue_is_for() -> None:
    choice = only_choice(world(HOUSE, owned_by("cms")))
    (refusal,) = (refusal for refusal in choice.refusals if refusal.rule == "F1")
    assert (refusal.need, refusal.mend) == ("cms", "operator")
    assert "ligo, virgo" in str(refusal.have)


def test_f1_refuses_nobody_where_no_queue_names_a_vo() -> None:
    assert refused_in(world(federation([queue()]), owned_by("")), "F1") == set()


def test_f1_a_task_with_secrets_goes_to_no_other_pilotage() -> None:
    forwarding = queue("AFAR", computing_element=ComputingElement(kind="pilotage"))
    house = federation([forwarding, queue("HERE")])
    assert refused_in(world(house, task(secrets=(NamedSecret(name="TOKEN"),))), "F1") == {"AFAR"}
    assert refused_in(world(house, task()), "F1") == set()
