"""People hear 14 days and a day before their tokens end, and operators of certificates: once each."""

import base64
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pilotage.flow.loops.announcing_ends import MOST_ENDS, announce, announcing_ends
from pilotage.model.records.federation import ComputingElement, OwnerCredential
from pilotage.model.records.notifications import Notify
from pilotage.model.rules.credential_ends import NOTICE_DAYS, SOON, CredentialEnd
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Credential, Identity
from pilotage.ports.presence import Unnamed
from pilotage.server import credential_ends
from pilotage.store import Store
from tests.notifiers.test_senders import certified

from .house import ALICE, NOW, House
from .test_notify import HOOK, Receiver, receiver

__all__ = ["receiver"]

OPERATOR = Identity(name="ops")
OF_OPERATOR = Notify(email="ops@example.org")


def token(days: float, *, life: float = 365, name: str = "3f1c", holder: str = ALICE.name) -> CredentialEnd:
    return CredentialEnd(
        kind="token",
        name=name,
        text=f"the token {name} of {holder}",
        begin=NOW + (days - life) * DAY,
        end=NOW + days * DAY,
        mend=f"pilotage token rotate {name}",
        effect="its bearer is refused then",
        holder=holder,
        vo=ALICE.vo,
    )


def certificate(days: float) -> CredentialEnd:
    return replace(token(days), kind="certificate", text="the certificate of se", holder="", vo="")


@pytest.fixture(autouse=True)
def people(house: House) -> None:
    house.store.tokens.create(Credential(role="operator", identity=OPERATOR))
    house.store.notification_settings.save(OPERATOR, [OF_OPERATOR])
    house.store.notification_settings.save(ALICE, [HOOK])


def subjects(house: House, receiver: Receiver, *ends: CredentialEnd) -> list[str]:
    """Look at these ends, and return what was sent then."""
    before = len(receiver.messages)
    announce(house.runtime, list(ends))
    house.take("notify")
    return [message.subject for message in receiver.messages[before:]]


def test_a_bearer_hears_of_the_end_of_a_token_once_before_14_days_and_once_before_a_day(
    house: House, receiver: Receiver
) -> None:
    heard = []
    for hour in range(0, 21 * 24, 6):
        house.now = NOW + hour * 3600
        heard += [(hour / 24, subject) for subject in subjects(house, receiver, token(20))]
    text = "Pilotage: the token 3f1c of alice ends 2027-02-04 08:00:00 UTC: pilotage token rotate 3f1c"
    assert heard == [(6, text), (19, text)]
    assert {message.receiver for message in receiver.messages} == {HOOK.receiver}
    (news,) = json.loads(receiver.messages[0].body)["news"]
    assert (news["topic"], news["ends"], news["task"]) == ("expiry", NOW + 20 * DAY, 0)


def test_a_server_that_starts_again_sends_nothing_again(
    house: House, receiver: Receiver, tmp_path: Path
) -> None:
    assert len(subjects(house, receiver, token(10))) == 1
    again = House(house.store, tmp_path)
    again.now = house.now + 60
    again.runtime.notifying = house.runtime.notifying
    assert subjects(again, receiver, token(10)) == []


def test_an_end_that_two_servers_see_is_sent_once(house: House, receiver: Receiver) -> None:
    last = house.store.last_done

    def stale(work: str) -> float:
        """Another server has announced since this one read when that was done last."""
        read = last(work)
        house.store.last_done = last  # type: ignore[method-assign]
        announce(house.runtime, [token(10)])
        return read

    house.store.last_done = stale  # type: ignore[method-assign]
    assert len(subjects(house, receiver, token(10))) == 1


def test_a_renewed_token_is_announced_before_its_new_end(house: House, receiver: Receiver) -> None:
    assert len(subjects(house, receiver, token(10))) == 1
    house.now += DAY
    assert subjects(house, receiver, token(300)) == []
    house.now = NOW + 287 * DAY
    assert len(subjects(house, receiver, token(300))) == 1


def test_operators_hear_of_certificates_and_of_tokens_with_bearers_without_receivers(
    house: House, receiver: Receiver
) -> None:
    assert len(subjects(house, receiver, certificate(3), token(3, holder="carol"))) == 1
    (message,) = receiver.messages
    assert message.receiver == OF_OPERATOR.receiver
    assert "the certificate of se ends" in message.text
    assert "the token 3f1c of carol ends" in message.text


def test_what_programs_renew_is_announced_to_nobody(house: House, receiver: Receiver) -> None:
    assert subjects(house, receiver, token(0.5, life=14)) == []
    assert len(subjects(house, receiver, token(0.5, life=15, name="other"))) == 1


def test_a_rotated_token_is_announced_to_nobody(house: House) -> None:
    tokens = house.store.tokens
    secret = tokens.create(Credential(role="user", identity=ALICE, expires=house.store.clock() + 100 * DAY))
    (old,) = tokens.of_person(ALICE.name)
    (end,) = credential_ends.of_tokens(tokens.people())
    assert (end.name, end.holder, end.vo) == (old.id, ALICE.name, ALICE.vo)
    assert tokens.rotate(old.id, house.store.clock() + DAY)
    (successor,) = credential_ends.of_tokens(tokens.people())
    assert successor.name != old.id
    assert tokens.find(secret), "the old one still works"
    tokens.note_use(secret, house.store.clock() + 60)
    assert len([*credential_ends.of_tokens(tokens.people())]) == 2, "somebody still uses the old one"


def test_the_next_ends_are_kept_if_there_are_many(house: House, receiver: Receiver) -> None:
    announce(house.runtime, [token(20 + at, name=f"t{at}") for at in range(MOST_ENDS + 5)])
    kept = house.store.credential_ends.all()
    assert [one.name for one in kept] == [f"t{at}" for at in range(MOST_ENDS)]


def jwt(claims: dict[str, float]) -> str:
    parts: tuple[dict[str, Any], ...] = ({"alg": "RS256"}, claims, {})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


def test_a_survey_sees_tokens_files_and_certificates(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, trusted = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    (tmp_path / "jwt").write_text(jwt({"iat": 100, "exp": 900}))
    options = {"cert_file": str(server), "key_file": str(tmp_path / "no")}
    mine = OwnerCredential(vo=ALICE.vo, person=ALICE.name, options={"token_file": str(tmp_path / "jwt")})
    house.federate(computing_element=ComputingElement(kind="fake", options=options, credentials=(mine,)))
    house.store.tokens.create(Credential(role="site", identity=Identity(name="north"), expires=NOW))
    with tls(server) as url:
        seen = [end for end in credential_ends.survey(house.store, url) if end is not None]
    found = {(end.kind, end.name): end for end in seen}
    of_file, of_host = found["file", str(server)], found["certificate", url.removeprefix("https://")]
    assert of_file.end == of_host.end
    assert of_file.begin == of_host.begin == of_file.end - 2 * DAY
    of_jwt = found["file", str(tmp_path / "jwt")]
    assert (of_jwt.begin, of_jwt.end, of_jwt.holder, of_jwt.vo) == (100, 900, ALICE.name, ALICE.vo)
    assert of_file.holder == ""
    (of_site,) = [end for end in seen if end.kind == "token"]
    assert (of_site.holder, of_site.end) == ("", NOW)
    assert len(found) == 4
    house.store.credential_ends.replace(seen, NOW)
    kept = [end for end in credential_ends.survey(house.store, url) if end and end.kind == "certificate"]
    assert [end.end for end in kept] == [of_host.end], "a host that does not answer keeps its end"


class tls:  # noqa: N801
    """A TLS server with a certificate."""

    def __init__(self, certificate: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._socket = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> str:
        threading.Thread(target=self._answer).start()
        return f"https://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _answer(self) -> None:
        connection, _ = self._socket.accept()
        with self._context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)


def test_the_loop_keeps_what_its_survey_sees(house: House, receiver: Receiver) -> None:
    def survey() -> Iterator[CredentialEnd | None]:
        yield token(10)
        yield None
        yield certificate(11)

    loop = announcing_ends(house.runtime, Unnamed(), survey)
    loop._work(lambda _: True)
    assert house.store.credential_ends.all() == [], "it ends where the server does"
    loop._work(lambda _: False)
    assert [end.kind for end in house.store.credential_ends.all()] == ["token", "certificate"]


def test_the_alert_has_the_days_of_the_rule() -> None:
    file = Path(__file__).parents[2] / "examples" / "monitoring" / "alerts.yml"
    rules = [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]
    (expression,) = [rule["expr"] for rule in rules if rule["alert"] == "PilotageCredentialEnds"]
    (days,) = re.findall(r"< (\d+) \* 86400", expression)
    assert int(days) * DAY == SOON == max(NOTICE_DAYS) * DAY


@pytest.mark.parametrize(
    "content", [b"", b"a.b.c", b"-----BEGIN CERTIFICATE-----\nno", b"a." + b"e30" + b".c"]
)
def test_files_without_an_end_have_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert [*credential_ends.of_file(str(tmp_path / "file"))] == []


def test_a_store_keeps_ends_over_a_restart(store_url: str) -> None:
    with_end = Store.open(store_url)
    with_end.credential_ends.replace([token(3)], NOW)
    with_end.close()
    again = Store.open(store_url)
    assert again.credential_ends.all() == [replace(token(3), first_seen=NOW)]
    assert again.credential_ends.replace([token(3)], NOW + 5)[0].first_seen == NOW
    assert again.credential_ends.replace([token(4)], NOW + 5)[0].first_seen == NOW + 5
    again.close()
