"""Secrets of people: kept encrypted, given to the pilots of their tasks alone, missed with a reason."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from pilotage.agent.wire import Secret
from pilotage.flow.calls.places import conditions
from pilotage.flow.calls.work import remarks, secrets, steering, sure_waits
from pilotage.flow.errors import NotNow
from pilotage.flow.outside.secret_keys import FILE, KeyMissing, Keys, SecretKeys
from pilotage.model.documents.serialization import from_document, to_document
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.secrets import LONGEST_SECRET, MOST_SECRETS, NamedSecret, value_fault
from pilotage.model.records.states import JobState
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.durations import KNOWN_FOR
from pilotage.model.values.identity import Identity
from pilotage.store.people.secrets import Encrypted

from .house import ALICE, House, attempts
from .test_calls_of_many import match_all

BOB = Identity(name="bob", vo="ligo")
WORD = "S3CRET-w0rd"


def task(house: House, *names: str, **spec: Any) -> int:
    return house.task(command=("true",), secrets=tuple(NamedSecret(name=name) for name in names), **spec)


def why(house: House, number: int) -> str:
    found = house.store.queries.task(number)
    assert found is not None
    return remarks.of_task(house.runtime, found)[0].text


def test_a_pilot_gets_them_with_its_job_and_the_store_holds_ciphertext_alone(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "token", WORD)
    named = (NamedSecret(name="token", variable="API"), NamedSecret(name="token", file="t"))
    house.task(command=("true",), secrets=named)
    house.take("broker")
    (work,) = house.match(house.pilot()).works
    assert work.secrets == (Secret(WORD, "API"), Secret(WORD, "", "t"))
    assert WORD not in repr(work)
    (row,) = house.store.database.read(
        lambda connection: connection.execute(text("SELECT * FROM secrets")).all()
    )
    assert WORD not in str(row)
    key = house.place / FILE
    assert key.stat().st_mode & 0o777 == 0o600
    assert Fernet(key.read_bytes().strip())


def test_only_their_owner_can_name_them(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    for owner in (BOB, replace(ALICE, vo="virgo")):
        spec = {"command": ("true",), "secrets": (NamedSecret(name="TOKEN"),)}
        ((_, [(field, told)]),) = house.submit(spec, owner=owner).refused
        assert field == "secrets[0]"
        assert "pilotage secrets set TOKEN" in told
    assert [one.name for one in secrets.listed(house.store, ALICE)] == ["TOKEN"]
    assert secrets.listed(house.store, BOB) == ()
    assert not secrets.remove(house.store, BOB, "TOKEN")


def test_a_row_that_is_moved_to_somebody_else_is_worthless(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    (found,) = house.store.secrets.everything()
    house.store.secrets.put(replace(found, owner=BOB.name), MOST_SECRETS)
    number = task(house, "TOKEN", owner=BOB)
    house.take("broker")
    assert attempts(house.match(house.pilot())) == []
    assert "damaged secret TOKEN (pilotage secrets set TOKEN)" in why(house, number)
    assert secrets.set_(house.runtime, BOB, "TOKEN", WORD) == [number]


def test_a_removed_secret_holds_the_task_until_it_is_set_again(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    number, other = task(house, "TOKEN", jobs=3), house.task(command=("true",))
    assert secrets.remove(house.store, ALICE, "TOKEN")
    house.take("broker")
    pilot = house.pilot()
    assert len(attempts(house.match(pilot, 2))) + len(attempts(house.match(pilot))) == 1
    house.take("broker")
    assert house.states(number) == {JobState.HELD: 3}
    assert house.states(other) == {JobState.SENT: 1}
    assert "missing secret TOKEN (pilotage secrets set TOKEN)" in why(house, number)
    assert secrets.set_(house.runtime, ALICE, "TOKEN", "another word") == [number]
    house.take("broker")
    answer = house.match(pilot)
    assert len(attempts(answer)) == 3
    assert {one.value for work in answer.works for one in work.secrets} == {"another word"}


def test_a_server_without_the_key_leaves_jobs_with_secrets_to_others(house: House, tmp_path: Path) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    number, plain = task(house, "TOKEN", jobs=2), house.task(command=("true",))
    house.take("broker")
    keys, pilot = house.runtime.secret_keys, house.pilot()
    house.runtime.secret_keys = SecretKeys(tmp_path / "elsewhere" / FILE)
    house.runtime.unreadable_secrets.forget()
    assert [work.task for work in house.match(pilot).works] == [plain]
    assert match_all(house, [pilot], most=9) == {pilot: []}
    assert house.states(number) == {JobState.ACTIVATED: 2}
    found = house.store.queries.task(number)
    assert found
    (told,) = conditions.waits_for_key(house.runtime, found)
    assert told.endswith(f"this one has not: there is no {tmp_path}/elsewhere/{FILE}")
    assert told in sure_waits.of_submitted(house.runtime, [number])
    assert why(house, number) == told
    with pytest.raises(NotNow, match="there is no"):
        secrets.set_(house.runtime, ALICE, "OTHER", WORD)
    house.runtime.secret_keys = keys
    house.now += KNOWN_FOR + 1
    assert conditions.waits_for_key(house.runtime, found) == []
    assert [len(work.jobs) for work in house.match(pilot).works] == [2]


def test_jobs_that_a_server_without_the_key_took_go_back_once(house: House, tmp_path: Path) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    number = task(house, "TOKEN")
    house.take("broker")
    house.runtime.unreadable_secrets.at(house.now)
    house.runtime.secret_keys = SecretKeys(tmp_path / "elsewhere" / FILE)
    pilot = house.pilot()
    for _ in range(2):
        assert attempts(house.match(pilot)) == []
        house.take("broker")
    assert house.states(number) == {JobState.ACTIVATED: 1}
    (job,) = house.store.queries.jobs(number, None, 2)
    assert job.attempt == 2


def test_an_owner_whose_secrets_another_key_encrypted_keeps_nobody_else_from_theirs(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    secrets.set_(house.runtime, BOB, "TOKEN", WORD)
    (found,) = house.store.secrets.find(BOB.name, BOB.vo, {"TOKEN"})
    house.store.secrets.put(replace(found, key="another"), MOST_SECRETS)
    alices, bobs = task(house, "TOKEN"), task(house, "TOKEN", owner=BOB)
    house.take("broker")
    house.runtime.unreadable_secrets.forget()
    assert [work.task for work in house.match(house.pilot()).works] == [alices]
    assert house.states(bobs) == {JobState.ACTIVATED: 1}


def test_who_holds_a_task_already_stays_its_holder(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    number = task(house, "TOKEN")
    secrets.remove(house.store, ALICE, "TOKEN")
    house.take("broker")
    steering.hold(house.runtime, number, "user:alice")
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    assert house.store.queries.held_by("user:alice") == [number]


def test_new_keys_encrypt_and_old_ones_are_forgotten(house: House) -> None:
    for name in ("A", "B"):
        secrets.set_(house.runtime, ALICE, name, WORD + name)
    keys, path = house.runtime.secret_keys, house.place / FILE
    old = path.read_bytes()
    assert keys.rotate(house.store.secrets) == 2
    assert path.read_bytes() != old
    assert house.store.secrets.keys() == frozenset(keys.read().by_digest)
    assert [keys.read().decrypt(one) for one in house.store.secrets.everything()] == [WORD + "A", WORD + "B"]
    path.chmod(0o644)
    with pytest.raises(KeyMissing, match="chmod 600"):
        keys.read()


def test_of_two_threads_that_make_the_first_key_at_once_both_get_the_one_that_stays(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, made, link = house.runtime.secret_keys, list[Keys](), os.link

    def overtaken(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        made.append(keys.read_or_make(frozenset))
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    made.append(keys.read_or_make(frozenset))
    assert made == [keys.read()] * 2
    assert [one.name for one in house.place.glob("*secrets.key*")] == [FILE]


def test_secrets_whose_key_is_lost_are_removed_and_set_again(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "LOST", WORD)
    keys, path = house.runtime.secret_keys, house.place / FILE
    path.chmod(0o644)
    with pytest.raises(KeyMissing, match="chmod 600"):
        keys.drop_lost(house.store.secrets)
    path.unlink()
    with pytest.raises(KeyMissing):
        keys.rotate(house.store.secrets)
    assert [one.name for one in keys.drop_lost(house.store.secrets)] == ["LOST"]
    assert keys.rotate(house.store.secrets) == 0
    secrets.set_(house.runtime, ALICE, "LOST", WORD)
    assert keys.drop_lost(house.store.secrets) == ()


def test_a_person_has_so_many_and_no_more(house: House) -> None:
    for number in range(MOST_SECRETS):
        house.store.secrets.put(Encrypted(ALICE.name, ALICE.vo, f"n{number}", "x", "k"), MOST_SECRETS)
    assert not house.store.secrets.put(Encrypted(ALICE.name, ALICE.vo, "more", "x", "k"), MOST_SECRETS)
    assert house.store.secrets.put(Encrypted(ALICE.name, ALICE.vo, "n0", "y", "k"), MOST_SECRETS)


@pytest.mark.parametrize(
    "value", [b"x", "", "abc", "\0abcd", "x" * (LONGEST_SECRET + 1), "\ud800abcd", 5, ["a" * 9]]
)
def test_what_cannot_be_a_secret_is_refused_without_a_word_of_it(value: object) -> None:
    told = value_fault(value)
    assert told
    assert not (value and str(value) in told)


def test_a_task_names_them_in_short_or_in_full() -> None:
    given = {"name": "t", "secrets": ["A", {"name": "b", "as": "B"}, {"name": "c", "file": "c.txt"}]}
    spec = from_document(TaskSpec, given)
    assert [one.in_variable for one in spec.secrets] == ["A", "B", ""]
    assert from_document(TaskSpec, to_document(spec)) == spec


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ([{"name": "a.b"}], "as: NAME_OF_VARIABLE"),
        ([{"name": "PILOTAGE_JOB"}], "Pilotage's own"),
        ([{"name": "HERE"}], "in environment, too"),
        ([{"name": "A"}, {"name": "b", "as": "A"}], "secrets[0] already"),
        ([{"name": "A", "file": "f"}, {"name": "B", "file": "f"}], "secrets[0] already"),
    ],
)
def test_what_a_payload_cannot_be_given_is_refused(
    house: House, named: list[dict[str, str]], words: str
) -> None:
    given = {"name": "t", "command": ["true"], "environment": {"HERE": "x"}, "secrets": named}
    spec = from_document(TaskSpec, given)
    ((_, found),) = house.submit({name: getattr(spec, name) for name in given}).refused
    assert any(words in told for _, told in found), found


def test_no_secret_goes_to_another_pilotage(house: House) -> None:
    secrets.set_(house.runtime, ALICE, "TOKEN", WORD)
    number = task(house, "TOKEN")
    house.take("broker")
    house.federate(computing_element=ComputingElement(kind="pilotage", max_pilots=1))
    assert attempts(house.match(house.pilot())) == []
    assert "which no queue hands to another Pilotage" in why(house, number)
