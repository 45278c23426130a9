"""Private pilots go with their owner's or group's credential where the element has one (P7, P9)."""

import base64
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation.checks import federation_faults
from pilotage.flow.calls.administration import acceptance
from pilotage.flow.calls.pilots import queue_tests
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import remarks
from pilotage.flow.outside.inquiries import submitted_beside
from pilotage.model.documents.serialization import to_json
from pilotage.model.records.federation import ComputingElement, OwnerCredential
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.rules.federation_changes import differences
from pilotage.model.rules.options import without_options
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots import owner_credentials
from pilotage.ports import adapters
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted
from pilotage.server.api.work.explanations import explained_pilot
from tests.reading import BROKERED, world_of

from .house import ALICE, NOW, House

BOB = Identity(name="bob", vo="ligo")
ALICES = "person alice of ligo"
DAY = 86_400.0


def token(account: str, end: float) -> str:
    """A JSON web token of an account."""
    claims = json.dumps({"sub": account, "exp": end}).encode()
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", claims, b"seal"))


class Farm:
    """A batch system where an account sees and ends only its own pilots. It reads the token at each call."""

    credential_options = ("token_file", "key_file")
    jobs: dict[str, str]
    calls: list[tuple[str, str, int]]
    refused: set[str]
    options: list[Mapping[str, Any]]

    def __init__(self, options: Mapping[str, Any]) -> None:
        if unknown := set(options) - {"queue", *self.credential_options}:
            raise ValueError(f"farm: unknown options {sorted(unknown)}")
        self._file = Path(options["token_file"])
        self.options.append(options)

    def _call(self, verb: str, count: int) -> str:
        payload = self._file.read_text().split(".")[1]
        account = str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["sub"])
        self.calls.append((account, verb, count))
        return account

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        account = self._call("submit", len(orders))
        if account in self.refused:
            return [Submitted(error=f"no mapping for {account}") for _ in orders]
        self.jobs.update({order.name: account for order in orders})
        return [Submitted(reference=order.name) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        account = self._call("poll", len(references))
        return {
            reference: PilotStatus(state="waiting")
            if self.jobs.get(reference) == account
            else PilotStatus(state="unknown", missing=True)
            for reference in references
        }

    def cancel(self, references: Collection[str]) -> None:
        account = self._call("cancel", len(references))
        for reference in references:
            if self.jobs.get(reference) == account:
                del self.jobs[reference]

    def capacity(self) -> Capacity:
        self._call("capacity", 0)
        return Capacity(running=0, waiting=len(self.jobs), everybody=True)


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> type[Farm]:
    """The batch system's class, in place of an installed adapter."""
    made = type("Farm", (Farm,), {"jobs": {}, "calls": [], "refused": set(), "options": []})
    monkeypatch.setattr(adapters, "factory", lambda *_: made)
    return made


Element = Callable[..., ComputingElement]


@pytest.fixture
def element(tmp_path: Path) -> Element:
    """Makes an element where alice has a credential, and writes the tokens."""
    for account in ("common", "alice", "production"):
        (tmp_path / account).write_text(token(account, NOW + DAY))

    def make(**changes: Any) -> ComputingElement:
        base: dict[str, Any] = {
            "kind": "farm",
            "max_pilots": 100,
            "options": {"queue": "long", "token_file": str(tmp_path / "common"), "key_file": "common.key"},
            "credentials": (
                OwnerCredential(vo="ligo", person="alice", options={"token_file": str(tmp_path / "alice")}),
            ),
        }
        return ComputingElement(**base | changes)

    return make


def work(house: House, element: ComputingElement, **spec: Any) -> None:
    """Let jobs of alice and bob wait for private pilots."""
    house.federate(computing_element=element)
    for owner in (ALICE, BOB):
        house.task(owner, **{"jobs": 5, "private_pilots": True, **spec})
    house.take("broker")


def pilots(house: House) -> list[Pilot]:
    return list(house.store.queries.pilots(None, None, 1000))


def accounts(farm: type[Farm], verb: str) -> set[str]:
    return {account for account, called, _ in farm.calls if called == verb}


def test_p7_p9_a_private_pilot_is_submitted_polled_and_cancelled_as_its_owner(
    house: House, farm: type[Farm], element: Element
) -> None:
    work(house, element())
    house.take("provision")
    found = pilots(house)
    owners = {(pilot.owner.name, pilot.credential) for pilot in found}
    assert owners == {("alice", ALICES), ("bob", "")}
    for pilot in found:
        assert farm.jobs[pilot.reference] == ("alice" if pilot.owner.name == "alice" else "common")
    house.take("provision")
    assert accounts(farm, "poll") == {"alice", "common"}
    # The account sees no pilot of another, so these would be missing if it had asked about them.
    assert {pilot.missing_since for pilot in pilots(house)} == {None}
    house.runtime.elements.cancel(house.store.federation().queues[0], pilots(house))
    assert farm.jobs == {}
    # Nothing of the common credential is among the options of another.
    alices = [options for options in farm.options if options["token_file"].endswith("alice")]
    assert alices
    assert not [options for options in alices if "key_file" in options]


def test_p9_the_record_of_a_pilot_states_its_credential(
    house: House, farm: type[Farm], element: Element
) -> None:
    work(house, element())
    house.take("provision")
    explained = (explained_pilot(house.runtime, pilot.id) for pilot in pilots(house))
    texts = {each.pilot.owner.name: "\n".join(each.lines) for each in explained if each}
    assert f"with the credential of {ALICES}" in texts["alice"]
    assert "with the common credential" in texts["bob"]
    house.federate(computing_element=element(credentials=()))
    bobs = next(pilot.id for pilot in pilots(house) if pilot.owner.name == "bob")
    explanation = explained_pilot(house.runtime, bobs)
    assert explanation
    assert "credential" not in str(explanation.lines)


def test_p7_a_generic_pilot_has_the_common_credential(
    house: House, farm: type[Farm], element: Element
) -> None:
    work(house, element(pilot_kinds=("generic",)), private_pilots=False)
    house.take("provision")
    assert {pilot.credential for pilot in pilots(house)} == {""}
    assert accounts(farm, "submit") == {"common"}


def test_p9_a_renewed_file_counts_from_the_next_call_on(
    house: House, farm: type[Farm], element: Element, tmp_path: Path
) -> None:
    work(house, element())
    house.take("provision")
    (tmp_path / "alice").write_text(token("alice-renewed", NOW + DAY))
    house.take("provision")
    assert "alice-renewed" in accounts(farm, "poll")
    house.runtime.elements.cancel(house.store.federation().queues[0], pilots(house))
    assert "alice-renewed" in accounts(farm, "cancel")


@pytest.mark.parametrize("is_there", [True, False])
def test_p9_an_ended_credential_stops_its_owner_alone_until_it_is_renewed(
    house: House, farm: type[Farm], element: Element, tmp_path: Path, *, is_there: bool
) -> None:
    file = tmp_path / "alice"
    file.write_text(token("alice", NOW - 1))
    if not is_there:
        file.unlink()
    work(house, element(max_pilots=4))
    house.take("provision")
    # Bob gets all the room: nothing is kept for pilots that cannot be submitted.
    assert Counter(pilot.owner.name for pilot in pilots(house)) == {"bob": 4}
    words = f"its token_file {file} " if is_there else f"its token_file {file}: "
    words += "ended 2027-01-15 07:59:59 UTC: renew this file" if is_there else "No such file"
    unusable = house.runtime.elements.unusable_credentials(house.store.federation(), house.now)
    world = replace(world_of(house.store, ("task_queues",), house.now, 1), unusable_credentials=unusable)
    (problem,) = owner_credentials.problems(world)
    assert problem.startswith(f"north-queue: the credential of {ALICES} cannot be used: {words}")
    for task, is_alices in ((1, True), (2, False)):
        job = house.store.queries.job(house.store.queries.jobs(task, None, 1)[0].id)
        assert job
        texts = [remark.text for remark in remarks.of_job(house.runtime, job)]
        assert any(words in text for text in texts) == is_alices
    file.write_text(token("alice", NOW + DAY))
    house.federate(computing_element=element())
    house.now += 60
    house.take("provision")
    assert {pilot.owner.name for pilot in pilots(house)} == {"alice", "bob"}


def test_p9_work_that_any_pilot_may_run_goes_on_with_generic_ones(
    house: House, farm: type[Farm], element: Element, tmp_path: Path
) -> None:
    (tmp_path / "alice").write_text(token("alice", NOW - 1))
    house.federate(computing_element=element())
    house.task(ALICE, jobs=20)
    house.take("broker")
    house.take("provision")
    assert {(pilot.kind, pilot.credential) for pilot in pilots(house)} == {("generic", "")}


def test_p6_a_refused_credential_opens_the_breaker_of_its_owner_alone(
    house: House, farm: type[Farm], element: Element
) -> None:
    farm.refused.add("alice")
    work(house, element())
    house.take("provision")
    house.take("provision")
    failed = {pilot.owner.name for pilot in pilots(house) if pilot.state is PilotState.FAILED}
    assert failed == {"alice"}
    (breaker,) = circuit_breakers.tripped(house.runtime)
    assert breaker.what == f"pilots at north-queue/{ALICES}"
    assert "no mapping for alice" in breaker.reason
    world = world_of(house.store, BROKERED, house.now, 1)
    assert {report.pilots_possible for report in world.queue_reports} == {None}
    circuit_breakers.lift(house.runtime, "north-queue", "root")
    farm.refused.clear()
    house.now += 60
    house.take("provision")
    assert {pilot.owner.name for pilot in pilots(house) if pilot.state is PilotState.SUBMITTED} == {
        "alice",
        "bob",
    }


def test_p6_a_refused_common_credential_does_not_stop_an_owner_with_another(
    house: House, farm: type[Farm], element: Element
) -> None:
    farm.refused.add("common")
    work(house, element())
    house.take("provision")
    house.take("provision")
    before = {pilot.id for pilot in pilots(house)}
    house.task(ALICE, jobs=5, private_pilots=True, cpu_time=1e5)
    house.take("broker")
    house.now += 60
    house.take("provision")
    made = Counter(pilot.owner.name for pilot in pilots(house) if pilot.id not in before)
    # One pilot probes the common credential.
    assert made["alice"] > made["bob"] == 1


def test_p9_a_credential_that_is_not_declared_now_is_replaced_by_no_other(
    house: House, farm: type[Farm], element: Element, caplog: pytest.LogCaptureFixture
) -> None:
    work(house, element())
    house.take("provision")
    house.federate(computing_element=element(credentials=()))
    farm.calls.clear()
    house.take("provision")
    assert accounts(farm, "poll") == {"common"}
    assert f"the credential of {ALICES} is not declared: keep it" in caplog.text
    with pytest.raises(LookupError, match="keep it until its last pilot has ended"):
        house.runtime.elements.adapter(house.store.federation().queues[0], "", ALICES)


def test_m5_the_pilots_of_each_credential_are_counted_with_it(
    house: House, farm: type[Farm], element: Element
) -> None:
    work(house, element())
    house.take("provision")
    (queue,) = house.store.federation().queues
    references = submitted_beside(pilots(house), [queue], queue, "")
    assert {credential for _, credential in references} == {"", ALICES}
    inquiries = house.runtime.elements.inquiries
    inquiries.survey(queue, "queue north-queue", "", house.now, references)
    (report,) = inquiries.server_reports()
    assert report.pilots == {"north-queue": len(pilots(house))}


def test_p7_a_test_pilot_of_a_site_with_private_pilots_alone_goes_as_its_sender(
    house: House, farm: type[Farm], element: Element
) -> None:
    house.federate(computing_element=element(pilot_kinds=("private",)))
    queue_tests.send(house.runtime, "north-queue", ALICE, "alice")
    house.take("provision")
    (pilot,) = pilots(house)
    assert (pilot.credential, farm.jobs[pilot.reference]) == (ALICES, "alice")


def test_p9_no_content_of_a_credential_is_shown_or_logged(
    house: House, farm: type[Farm], element: Element, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    before = house.store.federation()
    work(house, element())
    secrets = [(tmp_path / account).read_text() for account in ("common", "alice")]
    house.take("provision")
    farm.refused |= {"alice", "common"}
    (tmp_path / "alice").write_text(token("alice", NOW - 1))
    secrets.append((tmp_path / "alice").read_text())
    house.now += 60
    house.take("provision")
    federation = house.store.federation()
    shown = [
        caplog.text,
        *(change.text for change in differences(before, federation)),
        *(to_json(pilot).decode() for pilot in pilots(house)),
        to_json(federation).decode(),
        str(house.runtime.elements.unusable_credentials(federation, house.now)),
    ]
    assert not [text for text in shown for secret in secrets if secret in text]
    # Not even the names of the files reach people who are no operators.
    assert str(tmp_path / "alice") not in to_json(without_options(federation)).decode()
    inserted = replace(element(), credentials=())
    changed = replace(federation, queues=(replace(federation.queues[0], computing_element=inserted),))
    assert not [change for change in differences(federation, changed) if "token_file" in change.text]


@pytest.mark.parametrize(
    ("kind", "credential", "words"),
    [
        ("slurm", {"person": "alice", "options": {"ssh": "alice@here"}}, "takes no credentials of persons"),
        ("process", {"person": "alice", "options": {"token_file": "/t"}}, "takes no credentials of persons"),
        ("slurmrest", {"person": "alice", "options": {}}, "give some of .'token_file', 'user'"),
        (
            "slurmrest",
            {"person": "alice", "options": {"user": "a", "endpoint": "https://h"}},
            "no others",
        ),
        ("slurmrest", {"person": "alice", "options": {"user": "a", "token_file": 7}}, "token_file"),
        ("slurmrest", {"options": {"user": "a"}}, "names no person and no group"),
    ],
)
def test_a_credential_that_its_kind_does_not_take_is_refused_with_the_federation(
    house: House, kind: str, credential: dict[str, Any], words: str
) -> None:
    options = {"endpoint": "https://h:1", "user": "u", "token_file": "/t"} if kind == "slurmrest" else {}
    element = ComputingElement(kind=kind, options=options, credentials=(OwnerCredential(**credential),))
    made = house.store.federation()
    federation = replace(made, queues=(replace(made.queues[0], computing_element=element),))
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(
            "\n".join(
                fault.text for fault in (*federation_faults(federation), *acceptance.faults(federation))
            )
        )


def test_the_most_particular_credential_of_an_owner_counts() -> None:
    options = {"token_file": "/t"}
    declared = (
        OwnerCredential(vo="ligo", group="production", options=options),
        OwnerCredential(vo="ligo", person="alice", options=options),
        OwnerCredential(vo="ligo", person="alice", group="production", options=options),
        OwnerCredential(vo="virgo", person="bob", options=options),
    )
    element = ComputingElement(kind="farm", credentials=declared)

    def name(person: str, vo: str, group: str = "") -> str:
        return element.credential_of(Identity(name=person, vo=vo, group=group))

    assert name("alice", "ligo", "production") == "person alice in group production of ligo"
    assert name("alice", "ligo") == ALICES
    assert name("carl", "ligo", "production") == "group production of ligo"
    nameless = ComputingElement(credentials=(OwnerCredential(options=options),))
    assert nameless.at("").credentials == ()
    assert (name("bob", "ligo"), name("alice", "virgo"), name("carl", "virgo", "production")) == ("", "", "")
