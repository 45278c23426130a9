"""Sites, queues and storages on the page, and what operators do about them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pilotage.model.records.federation import Link, Site
from pilotage.model.records.quotas import GlobalShare
from pilotage.server.web.views import places
from tests.api.conftest import House, federation

from .conftest import OLGA, PageHouse, Submit, TestClient
from .test_task import token_of

QUEUE = "/queues/north-queue"


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/\w+/[^"]*"><bdi>(.*?)</bdi>', text)


def pages_of(browser: TestClient, address: str | None) -> Iterator[list[str]]:
    while address:
        text = browser.get(address).text
        yield names(text)
        following = re.search(r'rel="next" href="(.*?)"', text)
        address = following[1].replace("&amp;", "&") if following else None


def test_each_list_and_place_has_json_and_a_command(alice: TestClient) -> None:
    for address in ("/queues", QUEUE, "/sites", "/sites/north", "/storages", "/storages/north-disk"):
        answer = alice.get(address)
        assert answer.status_code == 200, answer.text
        found = re.search(r'href="(/as-json/[^"]*)"', answer.text)
        assert found, address
        assert alice.get(found[1].replace("&amp;", "&")).status_code == 200, address
        assert "as command: <code>pilotage " in answer.text
        part = alice.get(address, headers={"HX-Request": "true"}).text
        assert part.strip().startswith('<div id="live"'), address
    for nothing in ("/queues/nowhere", "/sites/nowhere", "/storages/nowhere"):
        assert alice.get(nothing).status_code == 404


def test_queues_are_filtered_in_pages(
    alice: TestClient, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ROWS", 2)
    base = federation(tmp_path)
    more = tuple(replace(base.queues[1], name=f"south-{number}") for number in range(4))
    house.store.save_federation(replace(base, queues=base.queues + more), "test")
    expected = ["north-queue", "south-0", "south-1", "south-2", "south-3", "south-queue"]
    assert list(pages_of(alice, "/queues")) == [expected[:2], expected[2:4], expected[4:]]
    assert list(pages_of(alice, "/queues?site=north")) == [["north-queue"]]
    assert list(pages_of(alice, "/queues?name=*-queue")) == [["north-queue", "south-queue"]]
    assert list(pages_of(alice, "/queues?name=[")) == [[]]


def test_a_queue_shows_its_load_and_why_nothing_starts(
    house: House, alice: TestClient, submit: Submit
) -> None:
    house.activate(submit(jobs=2, scouts=0))
    house.pilot()
    text = alice.get(QUEUE).text
    assert "0 jobs run there, 2 wait." in text
    assert "2 activated" in text
    assert "1 submitted" in text
    assert "queue north-queue of site north: online" in text
    assert "list them" not in text, "pilots are for operators"


def test_an_operator_drains_and_opens_a_queue_and_all_see_why(
    house: House, alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    house.activate(submit(jobs=2, scouts=0))
    assert f'href="{QUEUE}/drain"' not in alice.get(QUEUE).text
    assert f'href="{QUEUE}/drain"' in operator.get(QUEUE).text
    page = operator.get(f"{QUEUE}/drain").text
    assert "Still there: 2 waiting jobs." in page
    sent = {"form_token": token_of(page), "because": "new <b>disks</b>", "until": "2h"}
    wrong = operator.post(f"{QUEUE}/drain", data={**sent, "until": "soon"})
    assert wrong.status_code == 422
    assert "give 30m, 2h, 3d" in wrong.text
    assert "new &lt;b&gt;disks" in wrong.text, "what was written stays in the form"
    assert operator.post(f"{QUEUE}/drain", data={**sent, "because": " "}).status_code == 422
    assert operator.post(f"{QUEUE}/drain", data={**sent, "until": "2020-01-01T00:00"}).status_code == 409
    assert not house.store.restrictions()
    done = operator.post(f"{QUEUE}/drain", data=sent)
    assert (done.status_code, done.headers["location"]) == (303, f"{QUEUE}?done=drain")
    (one,) = house.store.restrictions()
    assert (one.mode, one.actor, one.until) == ("drain", "operator:olga", house.now + 7200)
    for text in (alice.get(QUEUE).text, alice.get("/queues").text):
        assert "drained by operator:olga until" in text
        assert "new &lt;b&gt;disks" in text
    assert f'href="{QUEUE}/open"' in operator.get(QUEUE).text
    opened = operator.post(f"{QUEUE}/open", data=sent)
    assert opened.status_code == 303
    assert "Opened." in operator.get(opened.headers["location"]).text
    assert not house.store.restrictions()


@pytest.mark.parametrize("verb", ["drain", "close", "open"])
def test_only_operators_restrict_what_there_is(pages: PageHouse, alice: TestClient, verb: str) -> None:
    sent = {"form_token": token_of(alice.get("/tasks").text), "because": "mine"}
    for kind in ("queues/north-queue", "sites/north", "storages/north-disk"):
        assert alice.get(f"/{kind}/{verb}").status_code == 403
        assert alice.post(f"/{kind}/{verb}", data=sent).status_code == 403
    olga = pages.signed_in("operator", OLGA)
    assert olga.get(f"/queues/nowhere/{verb}").status_code == 404
    sent["form_token"] = token_of(olga.get("/tasks").text)
    assert olga.post(f"/queues/nowhere/{verb}", data=sent).status_code == 404
    assert not pages.store.restrictions()


def test_sites_are_drawn_up_to_a_dozen_and_a_matrix_above(
    house: House, alice: TestClient, operator: TestClient, tmp_path: Path
) -> None:
    base = federation(tmp_path)
    link = Link(source="north", destination="south", throughput_1d=12.5)
    house.store.save_federation(replace(base, links=(link,)), "test")
    for browser in (alice, operator):
        text = browser.get("/sites").text
        assert '<svg class="map"' in text
        assert "north to south, 12.5 MB/s" in text
        assert ("files on their way" in text) is (browser is operator)
    more = tuple(Site(name=f"site-{number:02}") for number in range(30))
    links = tuple(Link(source=one.name, destination="north", throughput_1h=1.0) for one in more)
    house.store.save_federation(replace(base, sites=base.sites + more, links=links), "test")
    text = alice.get("/sites").text
    assert '<svg class="map"' not in text
    matrix = text[text.index('class="matrix"') :]
    assert matrix.count("<tr>") == 1 + 20
    assert "and 10 links with less on the way" in text


def test_a_site_and_a_storage_show_who_closed_them(
    house: House, alice: TestClient, operator: TestClient
) -> None:
    sent = {"form_token": token_of(operator.get("/tasks").text), "because": "power cut"}
    assert operator.post("/sites/north/close", data=sent).headers["location"] == "/sites/north?done=close"
    assert operator.post("/storages/south-disk/drain", data=sent).status_code == 303
    for address in ("/sites", "/sites/north", "/queues", QUEUE, "/storages", "/storages/north-disk"):
        assert "closed by operator:olga: power cut" in alice.get(address).text, address
    assert "drained by operator:olga: power cut" in alice.get("/storages/south-disk").text
    assert "write_lan, write_wan" in alice.get("/storages/south-disk").text
    assert "secret" not in alice.get("/storages/south-disk").text


def test_a_queue_shows_its_jobs_by_share_and_what_would_fit(
    house: House, operator: TestClient, submit: Submit
) -> None:
    found = house.store.declared_federation()
    shares = (*found.shares, GlobalShare(name="production"))
    queues = (replace(found.queues[0], max_memory=4000), *found.queues[1:])
    house.store.save_federation(replace(found, shares=shares, queues=queues), "test")
    house.activate(submit(name="a", jobs=2, scouts=0))
    assert "Jobs by share" not in operator.get(QUEUE).text, "all are of one share"
    house.activate(submit(name="b", jobs=3, scouts=0, share="production"))
    text = operator.get(QUEUE).text
    assert text.index("<bdi>production</bdi>") < text.index("<bdi>default</bdi>")
    assert "of share production: 3 activated" in text
    assert "it can take them, place 1 of " in operator.get(f"{QUEUE}?memory=2000&cores=1").text
    large = operator.get(f"{QUEUE}?memory=9000").text
    assert "it cannot take them" in large
    assert "memory" in large
    assert operator.get(f"{QUEUE}?memory=-1").status_code == 422
