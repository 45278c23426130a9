"""Deliveries that an FTS server carries: a job of many files, states and reasons, lost answers, restarts."""

import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pilotage.adapters.movers.contract import Rig, violations
from pilotage.adapters.movers.fts import fts_jobs
from pilotage.adapters.movers.fts.fts_jobs import fault_of
from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.adapters.movers.processes.threads import Cancelled, RunningCopy
from pilotage.adapters.movers.streaming import Streaming
from pilotage.flow.calls.administration.acceptance import faults
from pilotage.model.records.federation import Storage, TransferService
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import File, Transfer
from pilotage.ports.moving import Delivered, Delivery, DeliveryFailed, DeliveryStatus, Place, order
from pilotage.testing.worlds import federation
from tests.movers.fts_server import FtsServer, fts_server, settle
from tests.movers.servers import directory_rig, nginx, program
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.slow

CONTENT = b"carried by others" * 4000
CHECKSUM = f"adler32:{zlib.adler32(CONTENT):08x}"


class House:
    """Two storages of a web server, a FTS server, and a mover of ours."""

    def __init__(self, fts: FtsServer, place: Path, address: str) -> None:
        self.fts, self.place, self.address = fts, place, address
        self.mover = Streaming(lambda: None)
        (place / "fts.token").write_text("an-fts-token")
        self.service = TransferService(
            url=fts.url, options={"token_file": str(place / "fts.token"), "poll": 0.2}
        )
        self.put("file")

    def put(self, name: str, content: bytes = CONTENT, storage: str = "north") -> None:
        file = self.place / "served" / storage / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def there(self) -> dict[str, bytes]:
        root = self.place / "served/south"
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    def delivery(self, name: str = "file", **changes: Any) -> Delivery:
        made = Delivery(
            transfer=1,
            attempt=1,
            file=name,
            size=len(CONTENT),
            checksum=CHECKSUM,
            source=Place(url=f"http://{self.address}/north", path=name),
            destination=Place(url=f"http://{self.address}/south", path=name),
            instance="house",
            service=self.service,
        )
        return replace(made, **changes)

    def deliver(self, delivery: Delivery) -> Delivered:
        return self.mover.deliver(delivery, RunningCopy(delivery))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are gathered, and looked at, for a fifth of the time that a server takes for it."""
    monkeypatch.setattr(fts_jobs, "GATHER", fts_jobs.GATHER / 5)
    monkeypatch.setattr(fts_jobs, "LOOK", fts_jobs.LOOK / 5)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    for name in ("north", "south"):
        (tmp_path / "served" / name).mkdir(parents=True)
    with nginx(tmp_path / "served", tmp_path) as address, fts_server() as fts:
        yield House(fts, tmp_path, address)


def test_the_contract_is_kept(house: House) -> None:
    """All promises of a mover, where FTS carries each file."""
    roots = {name: house.place / "served" / name for name in ("north", "south")}
    (roots["north"] / "file").unlink()
    rig: Rig = directory_rig(roots, {name: f"http://{house.address}/{name}" for name in roots})

    class ByFts(Streaming):
        def deliver(self, delivery: Delivery, *more: Any) -> Delivered:
            return super().deliver(replace(delivery, service=house.service), *more)

    # The index pages of nginx leave out hidden files.
    assert violations(ByFts, replace(rig, lists_hidden=False)) == []
    assert any(file["file_state"] == "FINISHED" for file in house.fts.files)


def test_many_files_make_one_job_and_one_question(house: House) -> None:
    names = [f"many/{number}" for number in range(40)]
    for name in names:
        house.put(name)
    orders = [house.delivery(name, transfer=number) for number, name in enumerate(names)]
    with ThreadPoolExecutor(len(orders)) as pool:
        found = list(pool.map(house.deliver, orders))
    assert {one.checksum for one in found} == {CHECKSUM}
    assert house.there() == dict.fromkeys(names, CONTENT)
    assert house.fts.requests.count("POST /jobs") <= 3  # those of a second go together
    assert house.fts.authorizations == {"Bearer an-fts-token"}
    assert len([one for one in house.fts.requests if one.startswith("GET /jobs/")]) < len(names)


def test_a_failure_is_kept_in_the_servers_words_and_nothing_is_streamed(house: House) -> None:
    with pytest.raises(DeliveryFailed, match=r"FTS job \S+: FAILED: SOURCE \[2\] FileNotFound") as error:
        house.deliver(house.delivery("missing"))
    assert error.value.fault == "file"
    assert house.there() == {}


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("SOURCE [70] Communication error on send", "source"),
        ("SOURCE [2] No such file or directory", "file"),
        ("SOURCE CHECKSUM [5] Input/output error", "source"),
        ("DESTINATION [28] No space left on device", "destination"),
        ("DESTINATION [17] Destination file exists and overwrite is not enabled", "file"),
        ("DESTINATION [13] Permission denied", "destination"),
        ("TRANSFER [110] TRANSFER Operation timed out", "either"),
        ("TRANSFER [2] TRANSFER ERROR: Copy failed with mode 3rd pull, 404", "file"),
        ("TRANSFER [125] Transfer canceled by the user", ""),
        ("GENERAL_FAILURE [5] the process was killed", ""),
        ("no reason is told", ""),
    ],
)
def test_f4_what_the_server_blames_counts_for_its_rest(reason: str, fault: str) -> None:
    assert fault_of(reason) == fault


def test_f4_a_storage_that_the_server_cannot_reach_is_blamed(house: House, free_port: int) -> None:
    dead = house.delivery(source=Place(url=f"http://127.0.0.1:{free_port}/north", path="file"))
    with pytest.raises(DeliveryFailed, match=r"SOURCE \[70\]") as error:
        house.deliver(dead)
    assert error.value.fault == "source"


def test_f4_a_service_that_fails_itself_counts_for_no_storage(house: House) -> None:
    house.fts.silent = True
    with pytest.raises(DeliveryFailed, match="draining") as error:
        house.deliver(house.delivery("file"))
    assert error.value.fault == ""


def test_what_the_server_brought_is_checked_before_it_has_its_name(house: House) -> None:
    house.fts.truncate = True
    with pytest.raises(DeliveryFailed, match=f"bytes, must have {len(CONTENT)}"):
        house.deliver(house.delivery())
    assert house.there() == {}


def _asked(fts: FtsServer) -> Callable[[], bool]:
    """Whether anybody has asked about a job since."""
    before = len(fts.requests)
    return lambda: any(one.startswith("GET /jobs/") for one in fts.requests[before:])


def _release(fts: FtsServer, condition: Callable[[], bool], what: str) -> None:
    """Let the server go on with what it holds once something has happened."""

    def release() -> None:
        try:
            wait_for(condition, what)
        finally:
            fts.hold.set()

    threading.Thread(target=release, daemon=True).start()


def test_a_job_that_was_taken_without_an_answer_is_recognised(house: House) -> None:
    house.fts.lose_answers = 1
    house.fts.hold.clear()
    _release(house.fts, _asked(house.fts), "the delivery asks about the job")
    assert house.deliver(house.delivery()).checksum == CHECKSUM
    assert len(house.fts.jobs) == 1
    assert house.there() == {"file": CONTENT}


def test_what_a_killed_server_left_is_waited_for_and_not_done_twice(house: House) -> None:
    house.fts.hold.clear()
    never = {**house.service.options, "poll": 3600}  # whoever is killed asks about its job once, at first
    first = house.delivery(service=replace(house.service, options=never))
    first_asked = _asked(house.fts)
    threading.Thread(target=lambda: _quietly(house, first), daemon=True).start()
    settle(house.fts, {"SUBMITTED"})
    wait_for(first_asked, "the first server asks about its job")
    anew = House(house.fts, house.place, house.address)  # another process, which knows nothing of it
    _release(house.fts, _asked(house.fts), "the second server asks about the job of the first")
    assert anew.deliver(house.delivery(attempt=2)).checksum == CHECKSUM
    assert len(house.fts.jobs) == 1
    assert house.there() == {"file": CONTENT}


def test_what_comes_from_another_source_now_is_cancelled(house: House) -> None:
    house.fts.hold.clear()
    threading.Thread(target=lambda: _quietly(house, house.delivery()), daemon=True).start()
    settle(house.fts, {"SUBMITTED"})
    house.put("elsewhere")
    _release(
        house.fts, lambda: house.fts.files[0]["file_state"] == "CANCELED", "what is on its way is cancelled"
    )
    other = replace(
        house.delivery(attempt=2), source=Place(url=f"http://{house.address}/north", path="elsewhere")
    )
    assert House(house.fts, house.place, house.address).deliver(other).checksum == CHECKSUM
    assert [file["file_state"] for file in house.fts.files] == ["CANCELED", "FINISHED"]


def _quietly(house: House, delivery: Delivery) -> None:
    try:
        house.deliver(delivery)
    except Exception:
        return


def test_a_delivery_that_is_given_up_is_cancelled_at_the_server(house: House) -> None:
    house.fts.hold.clear()
    delivery = house.delivery()
    copy = RunningCopy(delivery)
    failed: list[Exception] = []

    def run() -> None:
        try:
            house.mover.deliver(delivery, copy, copy.sign)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    settle(house.fts, {"SUBMITTED"})
    wait_for(lambda: copy.signs, "a file in the server's queue gives signs of life")
    copy.cancelled = True
    thread.join(PATIENCE)
    assert isinstance(failed[0].__cause__, Cancelled)
    settle(house.fts, {"CANCELED"})


def test_one_file_that_is_refused_stops_no_others(house: House) -> None:
    house.fts.refuse_sizes = frozenset({7})
    house.put("bad", b"refused")
    orders = [house.delivery(transfer=1), house.delivery("bad", transfer=2, size=7, checksum="")]
    house.put("too")
    orders.append(house.delivery("too", transfer=3))
    with ThreadPoolExecutor(3) as pool:
        good, bad, too = [pool.submit(house.deliver, one) for one in orders]
        assert good.result().checksum == too.result().checksum == CHECKSUM
        with pytest.raises(DeliveryFailed, match=r"400 .*a file of this size is refused"):
            bad.result()


def test_a_server_that_drains_fails_new_deliveries_with_its_words(house: House) -> None:
    house.fts.silent = True
    with pytest.raises(DeliveryFailed, match=r"503 .*draining"):
        house.deliver(house.delivery())


def test_a_job_that_the_server_forgot_fails(house: House) -> None:
    house.fts.hold.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(house.deliver, house.delivery())
        settle(house.fts, {"SUBMITTED"})
        house.fts.jobs.clear()
        with pytest.raises(DeliveryFailed, match="the server has lost it"):
            waiting.result(PATIENCE)


def test_a_directory_is_none_of_its_business(house: House, tmp_path: Path) -> None:
    """What the service does not reach goes the usual way."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/file").write_bytes(CONTENT)
    local = Place(url=f"file://{tmp_path}/disk", path="file")
    assert house.deliver(replace(house.delivery(), source=local)).checksum == CHECKSUM
    assert house.fts.jobs == {}


def test_tokens_of_the_storages_go_along_for_the_server_to_use(house: House) -> None:
    (house.place / "north.token").write_text("north-token")
    delivery = house.delivery()
    source = replace(delivery.source, options={"token_file": str(house.place / "north.token")})
    house.deliver(replace(delivery, source=source))
    assert house.fts.files[0]["tokens"] == (["north-token"], ["an-fts-token"])


def test_the_service_is_the_destinations_or_else_the_sources() -> None:
    own = TransferService(url="https://a", options={"vos": {"atlas": {"activity": "prod"}}, "poll": 5})
    other = TransferService(url="https://b")
    north = Storage(name="north", site="n", url="https://n/x", transfer_service=own)
    south = Storage(name="south", site="s", url="https://s/x", transfer_service=other)
    bare = Storage(name="bare", site="s", url="https://t/x")
    file = File(name="atlas:f", size=1, checksum="")
    for source, destination, url in (
        (north, south, "https://b"),
        (north, bare, "https://a"),
        (bare, bare, None),
    ):
        transfer = Transfer(
            id=1,
            file=file.name,
            source=source.name,
            destination=destination.name,
            direction="download",
            share="atlas",
            priority=50,
            state=TransferState.DELIVERING,
            attempt=1,
            created=0.0,
            since=0.0,
        )
        made = order(transfer, file, {one.name: one for one in (source, destination)}, "house")
        assert (made.service and made.service.url) == url
        if made.service and url == "https://a":
            assert made.service.options == {"activity": "prod", "poll": 5}


@pytest.mark.parametrize(
    ("kind", "url", "options", "said"),
    [
        ("fts", "https://f", {}, "give either token_file or cert_file"),
        ("fts", "https://f", {"token_file": "t", "tokenfile": "t"}, "unknown options ['tokenfile']"),
        ("fts", "https://f", {"token_file": "t", "poll": 0}, "poll must be a number of seconds above 0"),
        ("fts", "https://f", {"token_file": "t", "vos": {"a": {"cert_file": "c"}}}, "give either"),
        ("fts", "https:///", {"token_file": "t"}, "has no host"),
    ],
)
def test_wrong_services_are_faults_of_the_federation(
    kind: str, url: str, options: dict[str, Any], said: str
) -> None:
    made = federation()
    service = TransferService(kind=kind, url=url, options=options)
    storages = (replace(made.storages[0], transfer_service=service), *made.storages[1:])
    found = faults(replace(made, storages=storages))
    assert any(said in fault.message and "transfer_service" in fault.path for fault in found), found


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A folder with an authority (``ca.pem``) and a certificate with its key for localhost (``me.pem``).

    It is a copy of one of the process: to find the primes of two keys takes half a second.
    """
    place = tmp_path / "certificates"
    place.mkdir()
    for name, content in _certificates(program("openssl", "apt-get install openssl")).items():
        (place / name).write_bytes(content)
    return place


@cache
def _certificates(openssl: str) -> dict[str, bytes]:
    with TemporaryDirectory() as directory:
        _make_certificates(openssl, Path(directory))
        return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def _make_certificates(openssl: str, place: Path) -> None:

    def run(words: str) -> None:
        subprocess.run([openssl, *words.split()], cwd=place, check=True, capture_output=True)

    run("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=CA")
    run("req -newkey rsa:2048 -nodes -keyout me.key -out me.csr -subj /DC=org/CN=me")
    (place / "names").write_text("subjectAltName=DNS:localhost\nkeyUsage=digitalSignature,keyEncipherment\n")
    run("x509 -req -in me.csr -CA ca.pem -CAkey ca.key -extfile names -out me.crt")
    (place / "me.pem").write_text((place / "me.crt").read_text() + (place / "me.key").read_text())


def test_a_certificate_is_delegated_once_as_a_proxy_that_openssl_accepts(
    house: House, authority: Path
) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed: pip install 'pilotage[fts]'")
    with fts_server((authority / "me.pem", authority / "ca.pem")) as fts:
        options = {"cert_file": str(authority / "me.pem"), "ca_file": str(authority / "ca.pem"), "poll": 0.2}
        service = TransferService(url=fts.url, options=options)
        for number in (1, 2):
            house.put(f"x{number}")
            house.deliver(house.delivery(f"x{number}", transfer=number, service=service))
        assert len(fts.proxies) == 1
        # What it has lost it is given again, at once.
        fts.proxy_end = ""
        house.put("x3")
        house.deliver(house.delivery("x3", transfer=3, service=service))
        assert len(fts.proxies) == 2
        # It claims to have one, and refuses a job for lack of it.
        fts.lacks_proxy = 3
        house.put("x4")
        house.deliver(house.delivery("x4", transfer=4, service=service))
        assert len(fts.proxies) == 3
    leaf = authority / "proxy.pem"
    leaf.write_text(fts.proxies[0])
    command = [
        "openssl",
        "verify",
        "-allow_proxy_certs",
        "-CAfile",
        "ca.pem",
        "-untrusted",
        "me.crt",
        str(leaf),
    ]
    done = subprocess.run(command, cwd=authority, capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("OK"), done.stderr


def test_worker_processes_hand_files_over_too(house: House) -> None:
    """As a server runs it: the order, with its service, goes to another process."""
    ended = threading.Event()
    mover = WorkerProcesses("streaming", house.mover, ended.set)
    try:
        (started,) = mover.start([house.delivery()])

        def end() -> DeliveryStatus | None:
            status = mover.poll([started.reference])[started.reference]
            return None if status.state == "moving" else status

        status = wait_for(end, "the end of the delivery")
        assert (status.state, status.error) == ("delivered", "")
        assert [file["file_state"] for file in house.fts.files] == ["FINISHED"]
    finally:
        mover.close()
