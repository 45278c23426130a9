"""The computing element of kind ``htcondor`` at its client's port, and its real client without a daemon."""

import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from classad2 import ClassAd

from pilotage.adapters.computing.agent_file import agent_file
from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.htcondor import HTCondor
from pilotage.adapters.computing.htcondor import client as clients
from pilotage.adapters.computing.htcondor.client import NotAnswered, ProcessClient
from pilotage.ports.computing import PilotOrder, PilotSize

from .fake_htcondor import Queue


def order(name: str = "bed-pilot-1", **fields: Any) -> PilotOrder:
    return PilotOrder(pilot=1, name=name, token="the-secret", server_url="http://x", **fields)


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"directory": str(tmp_path / "files"), "schedd": "ce.example", "collector": "ce.example:9619"}


@pytest.fixture
def element(queue: Queue, options: dict[str, Any]) -> HTCondor:
    return HTCondor(options, queue)


@pytest.fixture
def local(queue: Queue, tmp_path: Path) -> HTCondor:
    return HTCondor({"directory": str(tmp_path / "files"), "max_idle": 2}, queue)


def references(element: HTCondor, *names: str) -> list[str]:
    answers = element.submit([order(name) for name in names])
    assert [answer.error for answer in answers] == [""] * len(names)
    return [answer.reference for answer in answers]


def test_it_keeps_the_contract(queue: Queue, options: dict[str, Any]) -> None:
    asked = [order("bed-pilot-1"), order("bed-pilot-2"), order("Bed:3@x+y", cores=4, memory=2000)]
    assert violations(lambda given: HTCondor(given, queue), options, asked) == []
    assert len(queue.submissions) == 2, "those that are ordered alike are one cluster"


def test_a_description_holds_no_secret_and_the_token_is_a_file(
    element: HTCondor, queue: Queue, tmp_path: Path
) -> None:
    element.submit([order(cores=4, memory=2000.5, walltime=3600)])
    (said,) = queue.submissions
    assert (said["request_cpus"], said["request_memory"], said["My.maxWallTime"]) == ("4", "2001", "60")
    assert said["allowed_execute_duration"] == "3660", "a held job names the limit, a removed one is gone"
    assert "the-secret" not in str(said)
    token = tmp_path / "files/pilots/bed-pilot-1/token"
    assert token.read_text() == "the-secret"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    program = Path(said["executable"])
    assert b"the-secret" not in program.read_bytes()
    assert queue.spooled == [1]


def test_a_program_that_a_full_disk_cut_is_written_again(
    element: HTCondor, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def cut(path: Path, content: bytes) -> int:
        write(path, content[:100])
        raise OSError("no space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", cut)
        assert "no space left" in element.submit([order()])[0].error
    references(element, "bed-pilot-1")
    program = Path(queue.submissions[-1]["executable"])
    assert program.read_bytes().endswith(agent_file())
    assert stat.S_IMODE(program.stat().st_mode) == 0o755


def test_an_answer_that_was_lost_is_found_by_name(
    element: HTCondor, queue: Queue, options: dict[str, Any]
) -> None:
    queue.lost = True
    first = element.submit([order("bed-pilot-1"), order("bed-pilot-2")])
    assert [answer.reference for answer in first] == ["1.0#bed-pilot-1", "1.1#bed-pilot-2"]
    again = HTCondor(options, queue).submit([order("bed-pilot-2"), order("bed-pilot-1")])
    assert [answer.reference for answer in again] == ["1.1#bed-pilot-2", "1.0#bed-pilot-1"]
    assert len(queue.submissions) == 1


def test_files_that_cannot_be_sent_leave_no_job(element: HTCondor, queue: Queue) -> None:
    queue.spool_fails = True
    (answer,) = element.submit([order()])
    assert "SPOOL is full" in answer.error
    assert queue.ads == []


def test_a_job_whose_files_were_never_sent_is_submitted_anew(element: HTCondor, queue: Queue) -> None:
    references(element, "bed-pilot-1")
    queue.ad("bed-pilot-1")["JobStatus"] = 5
    assert references(element, "bed-pilot-1") == ["2.0#bed-pilot-1"]
    assert len(queue.ads) == 1


@pytest.mark.parametrize(
    ("attributes", "state", "reason", "code"),
    [
        ({"JobStatus": 1}, "waiting", "", None),
        ({"JobStatus": 2}, "running", "", None),
        ({"JobStatus": 5, "HoldReason": "Disk full\nhere"}, "waiting", "held: Disk full here", None),
        ({"JobStatus": 4, "ExitCode": 78, "ExitBySignal": False}, "ended", "", 78),
        ({"JobStatus": 4, "ExitBySignal": True, "ExitSignal": 9}, "ended", "", -9),
        ({"JobStatus": 3, "RemoveReason": "by the site"}, "ended", "by the site", None),
        ({"JobStatus": 7}, "running", "", None),
        ({"JobStatus": 99}, "unknown", "", None),
        ({"JobStatus": "4"}, "unknown", "", None),
    ],
)
def test_a_job_says_how_it_is(
    element: HTCondor, queue: Queue, attributes: dict[str, Any], state: str, reason: str, code: int | None
) -> None:
    (reference,) = references(element, "bed-pilot-1")
    queue.ad("bed-pilot-1").update(attributes)
    status = element.poll([reference])[reference]
    assert (status.state, status.reason, status.exit_code) == (state, reason, code)
    assert sum(request["call"] == "query" for request in queue.requests) == 2, "one to submit, one to poll"


def test_what_left_the_queue_is_unknown_unless_it_was_removed_here(
    element: HTCondor, queue: Queue, options: dict[str, Any]
) -> None:
    one, other = references(element, "bed-pilot-1", "bed-pilot-2")
    element.cancel([one])
    queue.ads.clear()
    assert [status.state for status in element.poll([one, other]).values()] == ["ended", "unknown"]
    assert HTCondor(options, queue).poll([one])[one].state == "unknown"


def test_another_job_of_the_same_number_is_left_alone(element: HTCondor, queue: Queue) -> None:
    references(element, "bed-pilot-1")
    element.cancel(["1.0#bed-pilot-7", '1.0#x" || true || "'])
    assert len(queue.ads) == 1
    assert element.poll(["1.0#bed-pilot-7"])["1.0#bed-pilot-7"].state == "unknown"


def test_what_is_materialised_late_waits(local: HTCondor, queue: Queue) -> None:
    made = references(local, *(f"bed-pilot-{number}" for number in range(4)))
    assert len(queue.ads) == 2
    assert [status.state for status in local.poll(made).values()] == ["waiting"] * 4
    assert local.poll([made[3]])[made[3]].reason == "not materialised yet"
    assert references(local, "bed-pilot-3") == [made[3]], "it is known before it is made"
    assert queue.spooled == []


def test_a_schedd_that_is_down_raises(element: HTCondor, queue: Queue) -> None:
    (reference,) = references(element, "bed-pilot-1")
    queue.down = True
    for call in (lambda: element.poll([reference]), lambda: element.submit([order()]), element.capacity):
        with pytest.raises(OSError, match="Failed to connect"):
            call()


@pytest.mark.slow
def test_the_real_client_is_left_behind_when_nobody_answers(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector that accepts and says nothing holds one process of the client's, and no other thread."""
    monkeypatch.setattr(clients, "LONGEST_CALL", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        element = HTCondor({**options, "collector": where, "schedd": "x"})
        with pytest.raises(OSError, match="does not answer within 3 s"):
            element.poll(["1.0#bed-pilot-1"])


def test_the_real_client_tells_that_nobody_is_there(options: dict[str, Any], free_port: int) -> None:
    element = HTCondor({**options, "collector": f"127.0.0.1:{free_port}", "schedd": "x"})
    with pytest.raises(OSError, match=r"HTCondor\w*Exception|Error"):
        element.submit([order()])


def test_credentials_are_of_one_element_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_STORE", "secret")
    made = ProcessClient("", "/tokens/one", str(tmp_path))._environment()
    assert made["_CONDOR_SCITOKENS_FILE"] == "/tokens/one"
    assert made["_CONDOR_AUTH_SSL_CLIENT_CADIR"] == str(tmp_path)
    assert "PILOTAGE_STORE" not in made


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shedd": "x"}, r"unknown options \['shedd'\]"),
        ({"submit": {"executable": "/bin/sh"}}, "writes itself"),
        ({"submit": {"+PilotagePilot": '"x"'}}, "writes itself"),
        ({"submit": {"+queue": "x\nqueue 100"}}, "is not one line"),
        ({"submit": {"queue 5": ""}}, "is no command"),
        ({"max_idle": 5, "collector": "x:9619"}, "max_idle needs a schedd of this machine"),
        ({"directory": "/x/$(y)"}, "directory"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        HTCondor(options)


def test_p8_resources_are_the_slots_of_the_pool(queue: Queue, element: HTCondor) -> None:
    size = PilotSize(cores=4, memory=8000, walltime=3600)
    assert element.resources(size) is None, "the collector of a CE has no slots"
    for cores, memory, kind in ((64, 256_000, "Partitionable"), (4, 8000, "Static"), (64, 4000, "Static")):
        queue.slots.append(ClassAd({"SlotType": kind, "TotalSlotCpus": cores, "TotalSlotMemory": memory}))
    queue.slots.append(ClassAd({"SlotType": "Dynamic", "TotalSlotCpus": 64, "TotalSlotMemory": 256_000}))
    queue.slots.append(ClassAd({"SlotType": "Static"}))
    assert element.resources(size) == 17
    assert element.resources(PilotSize(cores=65, memory=0, walltime=60)) == 0


@pytest.mark.parametrize("sees", [True, False])
def test_what_nobody_knows_of_comes_again(
    element: HTCondor, queue: Queue, monkeypatch: pytest.MonkeyPatch, sees: bool
) -> None:
    """The schedd does not answer: it may take the pilots yet, or cannot be asked for them."""
    call, submitted = queue.call, []

    def mute(request: Any) -> dict[str, Any]:
        if request["call"] == "submit":
            submitted.append(request)
            raise NotAnswered("HTCondor does not answer", reached=True, in_doubt=sees)
        if submitted and not sees:
            raise NotAnswered("Failed to connect", reached=False)
        return call(request)

    monkeypatch.setattr(queue, "call", mute)
    with pytest.raises(TimeoutError, match="does not answer"):
        element.submit([order()])


@pytest.mark.parametrize(("code", "state"), [(16, "waiting"), (1, "stuck"), (12, "stuck"), (None, "stuck")])
def test_a_held_job_is_stuck_unless_its_files_are_on_their_way(
    element: HTCondor, queue: Queue, code: int | None, state: str
) -> None:
    (reference,) = references(element, "bed-pilot-1")
    queue.ad("bed-pilot-1").update({"JobStatus": 5, "HoldReason": "Disk full", "HoldReasonCode": code})
    status = element.poll([reference])[reference]
    assert (status.state, status.reason, status.excess) == (state, "held: Disk full", "")


@pytest.mark.parametrize(("code", "excess"), [(34, "memory"), (46, "walltime"), (47, "walltime"), ([34], "")])
def test_a_job_that_is_held_for_a_limit_says_which(
    element: HTCondor, queue: Queue, code: object, excess: str
) -> None:
    (reference,) = references(element, "bed-pilot-1")
    queue.ad("bed-pilot-1").update({"JobStatus": 5, "HoldReason": "too much", "HoldReasonCode": code})
    status = element.poll([reference])[reference]
    assert (status.state, status.excess) == ("stuck", excess)
