"""Real agent processes against a small real server at their port."""

import base64
import os
import signal
import subprocess
import sys
import textwrap
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pilotage.agent.files.file_access import StorageRoutes
from pilotage.agent.files.transfer import fetch
from pilotage.agent.payload.attempt import RESERVED, Attempt, AttemptFailedError, legal, legal_scratch
from pilotage.agent.wire import JobInput, JobOrder, Work
from pilotage.model.records.work import FileName
from pilotage.model.values import paths
from tests.waiting import PATIENCE, has_ended, wait_for

from .fake_pilot_server import TOKEN, FakeServer
from .processes import outside

pytestmark = pytest.mark.slow

HANG = "import os, time; open(os.environ['MARK'], 'w').write(str(os.getpid())); time.sleep(600)"
HELLO: dict[str, Any] = {
    "name": "data/hello.txt",
    "size": 5,
    "checksum": f"adler32:{zlib.adler32(b'hello'):08x}",
}


def order(job: int, attempt: int = 1, **more: Any) -> dict[str, Any]:
    """One attempt as a match hands it out."""
    return {"job": job, "attempt": attempt, "scratch": paths.scratch_path("house", job, attempt), **more}


@dataclass
class Site:
    """A queue's storage, a place for agents, and the server that they know."""

    root: Path
    server: FakeServer

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    @property
    def place(self) -> Path:
        return self.root / "pilot"

    @property
    def shared(self) -> Path:
        """A folder of the site that payloads may write to."""
        return self.root / "shared"

    @property
    def mark(self) -> Path:
        """Where a payload leaves its pid, outside its directory."""
        return self.shared / "mark"

    def scratch(self, attempt: str = "1.1") -> Path:
        return self.storage / ".scratch/house" / attempt

    def work(self, *command: str, jobs: int = 1, first: int = 1, **more: Any) -> Any:
        """One work as a match hands it out."""
        inputs = more.pop("inputs", [])
        return {
            "task": 7,
            "kind": "normal",
            "command": command,
            "environment": {"MARK": str(self.mark)},
            "payload_files": False,
            "cores": 1,
            "memory": 0,
            "memory_limit": 0,
            "walltime": 0,
            "workdir": 0,
            "outputs": [],
            "storage_url": f"file://{self.storage}",
            "storage_options": {},
            "writable": [str(self.shared)],
            "jobs": [order(first + n, inputs=inputs) for n in range(jobs)],
        } | more

    @contextmanager
    def agent(self, *options: str, token: str = TOKEN, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        """A running agent. Whatever happens, nothing of it is left in the end."""
        command = [sys.executable, "-m", "pilotage.agent", "--url", self.server.url]
        with subprocess.Popen(
            [*command, "--directory", str(self.place), *options],
            env={"PATH": os.environ["PATH"], **variables},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin
            try:
                process.stdin.write(token.encode())
                process.stdin.close()
                yield process
            finally:
                process.kill()

    def run(self, *options: str, **variables: str) -> int:
        """Run an agent to its end, which comes when it has been idle."""
        with self.agent(*options, **variables) as process:
            return int(process.wait(PATIENCE))

    def payload(self) -> psutil.Process:
        """The payload that left its pid."""
        wait_for(lambda: self.mark.exists() and self.mark.read_text(), "a payload runs")
        return outside(int(self.mark.read_text()), MARK=str(self.mark))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "storage/data").mkdir(parents=True)
    (tmp_path / "storage/data/hello.txt").write_text("hello")
    (tmp_path / "shared").mkdir()
    with FakeServer().serving() as server:
        yield Site(tmp_path, server)


def gone(process: psutil.Process) -> None:
    wait_for(lambda: has_ended(process), f"process {process.pid} is gone")


def sh(text: str) -> tuple[str, ...]:
    return "sh", "-c", text


def test_a_job_gets_its_inputs_and_its_outputs_are_stored_with_size_and_checksum(site: Site) -> None:
    script = (
        "#!/bin/sh\ncat inputs.txt inputs/data/hello.txt > result; echo changed > inputs/data/hello.txt\n"
    )
    site.server.payloads[7] = {"run.sh": script}
    site.server.idle = 0.6
    site.server.works = [[site.work("./run.sh", inputs=[HELLO], payload_files=True, outputs=["result"])]]
    assert site.run() == 0
    assert site.server.states() == ["starting", "running", "done"]
    text = b"inputs/data/hello.txt\nhello"
    (output,) = site.server.last().outputs
    assert (output.name, output.size) == ("result", len(text))
    assert output.checksum == f"adler32:{zlib.adler32(text):08x}"
    assert (site.scratch() / "result").read_bytes() == text
    assert (site.storage / "data/hello.txt").read_text() == "hello"
    assert site.server.holding == []
    assert site.server.ended == ["idle"]
    assert list(site.place.iterdir()) == []


@pytest.mark.parametrize(
    ("stdin", "of_order", "text"),
    [
        ("", "", ""),
        ("some\ntext\n", "", "some\ntext\n"),
        ("", "inputs/data/hello.txt", "hello"),
        ("", "query.sql", "select 1"),
    ],
)
def test_standard_input_is_a_text_or_a_file(site: Site, stdin: str, of_order: str, text: str) -> None:
    site.server.payloads[7] = {"query.sql": "select 1"}
    jobs = [order(1, inputs=[HELLO], environment={"PILOTAGE_INDEX": "3"}, stdin=of_order)]
    command = sh("cat > result; echo $PILOTAGE_INDEX > index")
    outputs = ["result", "index"]
    work = site.work(*command, payload_files=True, outputs=outputs, stdin=stdin) | {"jobs": jobs}
    site.server.idle, site.server.works = 0.6, [[work]]
    assert site.run() == 0
    assert site.server.states() == ["starting", "running", "done"]
    assert (site.scratch() / "result").read_text() == text
    assert (site.scratch() / "index").read_text() == "3\n"


def test_texts_of_a_task_are_in_utf_8_whatever_the_worker_node_s_locale(site: Site) -> None:
    site.server.payloads[7] = {"query.sql": "höhe"}
    command = sh("cat > result; cat query.sql > query")
    work = site.work(*command, payload_files=True, outputs=["result", "query"], stdin="größe\n")
    site.server.idle, site.server.works = 0.6, [[work]]
    assert site.run(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") == 0
    assert (site.scratch() / "result").read_bytes() == "größe\n".encode()
    assert (site.scratch() / "query").read_bytes() == "höhe".encode()


def test_standard_input_does_not_lead_out_of_the_directory(site: Site) -> None:
    jobs = [order(1, stdin="../../storage/data/hello.txt")]
    site.server.idle, site.server.works = 0.6, [[site.work("cat") | {"jobs": jobs}]]
    site.run()
    assert "not a legal file name" in site.server.last().error


def test_a_payload_never_sees_the_token(site: Site) -> None:
    site.server.works = [
        [site.work(*sh("env > env.txt; tr '\\0' '\\n' < /proc/self/environ >> env.txt"), outputs=["env.txt"])]
    ]
    site.run()
    environment = (site.scratch() / "env.txt").read_text()
    assert TOKEN not in environment
    assert "PILOTAGE_ATTEMPT=1.1" in environment
    assert f"HOME={site.place}/1.1" in environment


def test_a_failure_carries_the_end_of_standard_error(site: Site) -> None:
    site.server.works = [
        [site.work(*sh("yes noise | head -c 9000 >&2; printf 'nul \\0 last words' >&2; exit 4"))]
    ]
    site.run()
    report = site.server.last()
    assert (report.state, report.exit_code) == ("failed", 4)
    assert report.error.startswith("payload exited with code 4\n")
    assert report.error.endswith("nul  last words")
    assert len(report.error) < 2200
    assert list(site.place.iterdir()) == []


def test_an_output_must_be_a_regular_file(site: Site) -> None:
    commands = ("true", "ln -s /etc/passwd result", "mkfifo result", "mkdir result")
    site.server.works = [
        [
            site.work(*sh(f"echo first > first; {command}"), outputs=["first", "result"], first=job)
            for job, command in enumerate(commands)
        ]
    ]
    site.run()
    irregular = "output result: not a regular file"
    errors = [site.server.last(job).error for job in range(4)]
    assert errors == ["output result missing", irregular, irregular, irregular]
    assert list((site.storage / ".scratch/house").iterdir()) == []


BAD_INPUTS: list[tuple[dict[str, Any], str]] = [
    ({"size": 4}, "input data/hello.txt: has 5 or more bytes, should have 4"),
    ({"size": 6}, "input data/hello.txt: has 5 bytes, should have 6"),
    (
        {"checksum": "adler32:00000001"},
        "input data/hello.txt: checksum adler32:062c0215, should be adler32:0",
    ),
    ({"checksum": "sha256:" + "0" * 64}, "input data/hello.txt: checksum sha256:2cf24dba"),
    ({"checksum": "crc32:0"}, "input data/hello.txt: checksum algorithm 'crc32' is unknown"),
    ({"name": "data/none"}, "input data/none: not at the queue's storage"),
    ({"name": "../secret"}, "input '../secret': not a legal file name"),
    ({"name": "/etc/passwd"}, "input '/etc/passwd': not a legal file name"),
    ({"name": "data/x\ny"}, "input 'data/x\\ny': not a legal file name"),
]


def test_an_input_that_is_not_right_starts_nothing(site: Site) -> None:
    (site.root / "secret").write_text("hello")
    jobs = [order(job, inputs=[HELLO | change]) for job, (change, _) in enumerate(BAD_INPUTS)]
    site.server.works = [[site.work("touch", str(site.mark)) | {"jobs": jobs}]]
    site.run()
    for job, (_, error) in enumerate(BAD_INPUTS):
        assert site.server.states(job) == ["starting", "failed"]
        assert site.server.last(job).error.startswith(error)
    assert not site.mark.exists()


def test_payload_files_stay_in_their_directory(site: Site) -> None:
    names = ("../evil", "/tmp/evil", "a/../../evil", ".", "inputs", "stdout")
    site.server.payloads = {task: {name: "evil"} for task, name in enumerate(names)}
    site.server.works = [
        [site.work("true", payload_files=True, task=task, first=task) for task in range(len(names))]
    ]
    site.run()
    for job in range(len(names)):
        assert site.server.last(job).error.startswith("payload file ")
    assert not (site.root / "evil").exists()


def test_outputs_stay_in_their_directory(site: Site) -> None:
    site.server.works = [[site.work("true", outputs=["../evil"])]]
    site.run()
    assert site.server.last().error.startswith("output '../evil': not a legal file name")


@given(st.text(alphabet="aZ0_./:@+=~-\n é", min_size=1, max_size=12))
def test_legal_names_are_those_of_the_model(name: str) -> None:
    model: TypeAdapter[str] = TypeAdapter(FileName)
    try:
        model.validate_python(name)
    except ValidationError:
        with pytest.raises(AttemptFailedError):
            legal("input", name, deep=True)
    else:
        assert legal("input", name, deep=True) == name


def test_empty_payloads_succeed_in_bulk_without_process_or_directory(site: Site) -> None:
    site.server.works = [
        [site.work(jobs=2000)],
        [site.work(jobs=2000) | {"jobs": [order(9999, attempt=2)]}],
    ]
    assert site.run("--slots", "2000", "--cores", "2000") == 0
    assert site.server.states(2000) == ["done"]
    assert site.server.last(9999).attempt == 2
    assert len(site.server.reports) == 2001
    assert site.server.calls[:6] == [
        f"/api/v1/pilot/{name}" for name in ("enrol",) + ("report", "match") * 2 + ("report",)
    ]
    assert site.server.matches[1]["max_jobs"] == 2000


def test_payloads_run_side_by_side_and_only_what_is_free_is_asked_for(site: Site) -> None:
    """Each payload waits for the other: neither ends unless both run."""
    both = sh(
        f"cd {site.shared}; touch $PILOTAGE_JOB; until [ -e 1 -a -e 2 ]; do sleep 0.02; done; sleep 0.3"
    )
    site.server.works = [[site.work(*both, jobs=2, memory=100)]]
    site.run("--slots", "3", "--cores", "3", "--memory", "1000")
    assert [site.server.last(job).state for job in (1, 2)] == ["done", "done"]
    offered = [(match["max_jobs"], match["cores"], match["memory"]) for match in site.server.matches]
    assert offered[0] == (3, 3, 1000)
    assert (1, 1, 800) in offered


def test_a_payload_may_take_more_than_it_was_expected_to_up_to_its_limit(site: Site) -> None:
    fill = "import time; x = b'x' * 80_000_000; time.sleep({})"
    site.server.works = [
        [
            site.work("python3", "-c", fill.format(0.8), memory=10),
            site.work("python3", "-c", fill.format(600), first=2, memory=10, memory_limit=50),
        ],
    ]
    site.run("--slots", "2", "--cores", "2", "--memory", "100")
    assert site.server.last(1).state == "done"
    assert site.server.last(1).max_rss >= 80
    assert site.server.last(2).error.startswith("memory exceeded: ")


def test_a_pair_to_stop_is_killed_and_not_reported_again(site: Site) -> None:
    site.server.idle = 0.6
    site.server.works = [[site.work("python3", "-c", HANG)]]
    with site.agent() as agent:
        payload = site.payload()
        site.server.stop = [(1, 1)]
        gone(payload)
        assert agent.wait(PATIENCE) == 0
    assert "failed" not in site.server.states()
    assert site.server.holding == []
    assert list(site.place.iterdir()) == []


def test_kill_9_of_the_agent_leaves_nothing(site: Site) -> None:
    site.server.works = [[site.work(*sh(f"trap '' TERM; python3 -c \"{HANG}\" & wait"))]]
    with site.agent() as agent:
        payload = site.payload()
        agent.send_signal(signal.SIGKILL)
        gone(payload)
    wait_for(lambda: list(site.place.iterdir()) == [], "the job directory is deleted")


def test_a_hanging_agent_is_fenced_by_its_supervisors(site: Site) -> None:
    site.server.lease = 5
    site.server.works = [[site.work("python3", "-c", HANG)]]
    with site.agent() as agent:
        payload = site.payload()
        agent.send_signal(signal.SIGSTOP)
        gone(payload)


def test_without_the_server_payloads_live_no_longer_than_the_lease(tmp_path: Path) -> None:
    server = FakeServer(lease=6, idle=2)
    site = Site(tmp_path, server)
    site.shared.mkdir()
    with ExitStack() as later:
        with server.serving():
            server.works = [[site.work("python3", "-c", HANG)]]
            agent = later.enter_context(site.agent())
            payload = site.payload()
        gone(payload)
        assert agent.poll() is None
        with server.serving():
            assert agent.wait(PATIENCE) == 0
    assert server.last().error.startswith("stopped by its pilot: no contact with the server")


def test_what_no_report_was_answered_of_lives_no_longer_than_the_first_lease(tmp_path: Path) -> None:
    """The server may not know that it began, and gives its job to others sooner."""
    server = FakeServer(lease=600, first_lease=6, idle=2, deaf_once_it_gave_work=True)
    site = Site(tmp_path, server)
    site.shared.mkdir()
    with server.serving():
        server.works = [[site.work("python3", "-c", HANG)]]
        with site.agent():
            gone(site.payload())
            server.status_of.clear()
            wait_for(lambda: bool(server.reports), "its end is reported")
    assert server.last().error.startswith("stopped by its pilot: no contact with the server")


def test_jobs_of_a_pilot_live_as_long_as_their_own_leases_say(tmp_path: Path) -> None:
    """A short lease cuts its own job alone, and a pilot lives on for its longest (rules T)."""
    server = FakeServer(lease=2, pilot_lease=2, idle=2)
    site = Site(tmp_path, server)
    site.shared.mkdir()
    go, out = site.shared / "go", site.shared / "out"
    waits = f"while [ ! -e {go} ]; do sleep 0.1; done; echo done > {out}"
    with ExitStack() as later:
        with server.serving():
            long = site.work(*sh(waits), first=2, environment={}, lease=600, first_lease=600)
            server.works = [[site.work("python3", "-c", HANG, lease=3, first_lease=3), long]]
            agent = later.enter_context(site.agent("--slots=2", "--cores=2"))
            payload = site.payload()
            wait_for(lambda: "running" in server.states(2), "both run")
        gone(payload)
        time.sleep(3)
        go.touch()
        wait_for(out.exists, "the job with the long lease ends well")
        assert agent.poll() is None, "twice the lease of a pilot without work is over"
        with server.serving():
            assert agent.wait(PATIENCE) == 0
    assert server.last(1).error.startswith("stopped by its pilot: no contact with the server")
    assert server.last(2).state == "done"


def test_a_pilot_reports_in_time_for_the_shortest_lease_that_it_holds(tmp_path: Path) -> None:
    server = FakeServer(lease=600, heartbeat=300, idle=2)
    site = Site(tmp_path, server)
    site.shared.mkdir()
    with server.serving():
        server.works = [[site.work(*sh("sleep 6"), lease=2, first_lease=2)]]
        with site.agent() as agent:
            assert agent.wait(PATIENCE) == 0
    assert server.last().state == "done"


def test_a_pilot_whose_server_does_not_come_back_ends(tmp_path: Path) -> None:
    server = FakeServer(lease=3)
    site = Site(tmp_path, server)
    site.shared.mkdir()
    with ExitStack() as later:
        with server.serving():
            server.works = [[site.work("python3", "-c", HANG)]]
            agent = later.enter_context(site.agent())
            payload = site.payload()
        agent.wait(PATIENCE)
        gone(payload)
    assert list(site.place.iterdir()) == []


def test_what_is_done_while_the_server_is_away_is_reported_when_it_is_back(site: Site) -> None:
    site.server.works = [[site.work(*sh("echo out > out"), outputs=["out"])]]
    site.server.idle, site.server.deaf_once_it_gave_work = 0.6, True
    with site.agent() as agent:
        wait_for((site.scratch() / "out").exists, "the output")
        site.server.status_of = {}
        assert agent.wait(PATIENCE) == 0
    assert site.server.states() == ["starting", "running", "done"]


def test_outputs_that_the_server_may_have_heard_of_are_not_deleted(site: Site) -> None:
    """The answer to "done" got lost, the server has the outputs moved, and wants the attempt stopped."""
    site.server.works = [[site.work(*sh("echo out > out"), outputs=["out"])]]
    site.server.idle, site.server.deaf_once_it_gave_work = 0.6, True
    with site.agent() as agent:
        wait_for((site.scratch() / "out").exists, "the output")
        wait_for(lambda: _told_of_an_end(site.server), "a report with an end in it")
        site.server.stop = [(1, 1)]
        site.server.status_of = {}
        assert agent.wait(PATIENCE) == 0
    assert (site.scratch() / "out").exists()


def _told_of_an_end(server: FakeServer) -> bool:
    reports = [report for body in server.unanswered for report in body.get("reports", ())]
    return any(report["state"] == "done" for report in reports)


def test_outputs_of_an_attempt_that_is_stopped_are_deleted(site: Site) -> None:
    site.server.works = [[site.work(*sh("echo out > out"), outputs=["out"])]]
    site.server.stop = [(1, 1)]
    assert site.run() == 0
    assert not site.scratch().exists()


@pytest.mark.parametrize("status", [410, 401])
def test_a_pilot_that_was_given_up_kills_everything_and_exits(site: Site, status: int) -> None:
    site.server.works = [[site.work("python3", "-c", HANG)]]
    with site.agent() as agent:
        payload = site.payload()
        site.server.status = status
        assert agent.wait(PATIENCE) == 1
        gone(payload)
    assert site.server.ended == []
    assert list(site.place.iterdir()) == []


def test_a_wrong_token_ends_the_pilot_at_once(site: Site) -> None:
    with site.agent(token="wrong") as agent:
        assert agent.wait(PATIENCE) == 1
        assert agent.stderr is not None
        assert b"wrong" not in agent.stderr.read()


def test_p9_the_first_call_is_repeated_as_it_was_until_it_is_answered(site: Site) -> None:
    site.server.status_of["enrol"] = 503
    with site.agent() as agent:
        wait_for(lambda: len(site.server.nonces) > 1, "a second first call")
        del site.server.status_of["enrol"]
        assert agent.wait(PATIENCE) == 0
    assert len(set(site.server.nonces)) == 1
    assert len(site.server.nonces[0]) == 64
    assert site.server.ended == ["idle"]


def test_p9_an_agent_that_another_was_before_ends_at_once_and_says_why(site: Site) -> None:
    site.server.status_of["enrol"] = 403
    with site.agent() as agent:
        assert agent.wait(PATIENCE) == 1
        assert agent.stderr is not None
        assert b"given up: POST enrol: 403" in agent.stderr.read()
    assert len(site.server.nonces) == 1


def test_sigterm_kills_the_payloads_reports_them_and_says_goodbye(site: Site) -> None:
    site.server.works = [[site.work("python3", "-c", HANG)]]
    with site.agent() as agent:
        payload = site.payload()
        agent.terminate()
        assert agent.wait(PATIENCE) == 0
        gone(payload)
    last = site.server.last()
    assert (last.error, last.kind) == ("pilot stopped by signal 15 (SIGTERM)", "pilot")
    assert site.server.ended == ["pilot stopped by signal 15 (SIGTERM)"]


def test_a_pilot_ends_in_good_order_when_its_walltime_is_over(site: Site) -> None:
    site.server.works = [[site.work("python3", "-c", HANG)]]
    assert site.run("--walltime", "6") == 0
    last = site.server.last()
    assert (last.error, last.kind) == ("the pilot's walltime is over", "slot-walltime"), (
        "a payload may be too slow"
    )
    assert all(0 < match["walltime"] <= 6 for match in site.server.matches)


def test_a_payload_that_kills_its_supervisor_gains_nothing(site: Site) -> None:
    """The agent adopts what the supervisor would have killed, and kills it."""
    text = f"""
        import os, signal, time
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            open({str(site.mark)!r}, "w").write(str(os.getpid()))
            time.sleep(600)
        while not os.path.exists({str(site.mark)!r}):
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    """
    site.server.works = [[site.work("python3", "-c", textwrap.dedent(text), contained=False)]]
    assert site.run() == 0
    assert site.server.last().error == "supervisor killed; its payload was killed with it"
    assert not psutil.pid_exists(int(site.mark.read_text()))


def test_directories_are_kept_on_request(site: Site) -> None:
    site.server.works = [[site.work("true")]]
    site.run("--keep")
    assert [path.name for path in site.place.iterdir()] == ["1.1"]


def test_directories_are_removed_whatever_their_permissions(site: Site) -> None:
    site.server.works = [[site.work(*sh("mkdir -p a/b; touch a/b/c; chmod 0 a/b a ."))]]
    site.run()
    assert list(site.place.iterdir()) == []


def test_directories_are_removed_whatever_their_depth(site: Site) -> None:
    nest = "import os\nfor _ in range(60):\n os.mkdir('x' * 250)\n os.chdir('x' * 250)\n"
    site.server.works = [[site.work("python3", "-c", nest), site.work("python3", "-c", nest + HANG, first=2)]]
    with site.agent() as agent:
        payload = site.payload()
        wait_for(lambda: "done" in site.server.states(1), "the first one is done")
        # The agent deletes it by itself: what it is killed in the middle of stays.
        wait_for(lambda: not (site.place / "1.1").exists(), "the directory of the first one is deleted")
        agent.send_signal(signal.SIGKILL)
        gone(payload)
    wait_for(lambda: list(site.place.iterdir()) == [], "the job directories are deleted")


def test_an_output_with_holes_counts_with_all_that_would_be_sent(site: Site) -> None:
    """A file of 4 TB that takes no block on disk would fill the storage; inputs may be handed on."""
    sparse = "open('{0}', 'wb').truncate({1})"
    site.server.works = [
        [
            site.work("python3", "-c", sparse.format("out", 4 * 10**12), outputs=["out"]),
            site.work("python3", "-c", sparse.format("out", 6_000_000), outputs=["out"], first=2, workdir=5),
            site.work(
                *sh("for n in 1 2; do truncate -s 3M part$n; done"), outputs=["part*"], first=3, workdir=5
            ),
            site.work("python3", "-c", sparse.format("out", 4_000_000), outputs=["out"], first=4, workdir=5),
        ]
    ]
    site.run()
    errors = [site.server.last(job).error for job in (1, 2, 3, 4)]
    for error in errors[:3]:
        assert error.startswith("outputs: they have more bytes than the work directory may have")
    assert errors[3] == ""
    kept = [path.stat().st_size for path in site.storage.rglob("out") if path.is_file()]
    assert kept == [4_000_000]


def test_a_harmless_process_in_the_background_costs_no_outputs(site: Site) -> None:
    """What a payload leaves running is killed; its outputs are kept, and standard error says so."""
    leave = "echo x > out; (sleep 600 &)"
    site.server.works = [
        [
            site.work(*sh(leave), outputs=["out"]),
            site.work(*sh(leave), outputs=["out"], first=2, strict_processes=True),
        ]
    ]
    site.run()
    done, strict = site.server.last(1), site.server.last(2)
    assert (done.state, done.error, [one.name for one in done.outputs]) == ("done", "", ["out"])
    assert strict.state == "failed"
    assert strict.error.startswith("left processes behind: 1; they were killed")
    logs = {one.stream: one for one in site.server.logs[1, 1].logs}
    text = zlib.decompress(base64.b64decode(logs["stderr"].data)).decode()
    assert text == "pilotage: left processes behind: 1; they were killed\n"


def test_an_input_is_a_copy_that_shares_nothing_with_the_replica(site: Site, tmp_path: Path) -> None:
    work = Work(task=1, command=("true",), storage_url=f"file://{site.storage}")
    target = tmp_path / "copy"
    ways = StorageRoutes(None)  # type: ignore[arg-type]  # its storage does not ask
    fetch(ways, Attempt(work, JobOrder(1, 1, "scratch")), JobInput(**HELLO), target, lambda: False)
    assert target.stat().st_ino != (site.storage / "data/hello.txt").stat().st_ino
    assert target.stat().st_nlink == 1


def test_names_that_are_taken_are_those_that_submissions_refuse() -> None:
    assert RESERVED == paths.RESERVED


@pytest.mark.parametrize("wrong", ["../1.1", "/etc", ".scratch/../1.1", ""])
def test_outputs_go_to_a_folder_of_the_storage_alone(wrong: str) -> None:
    with pytest.raises(AttemptFailedError, match="scratch"):
        legal_scratch(Attempt(Work(task=1, command=("true",)), JobOrder(1, 1, wrong)))
