"""Parsl's apps on a real server: bulk, files, refusals, retries, and what happens when one side ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import parsl
import pytest
from parsl.data_provider.files import File
from parsl.executors.errors import InvalidResourceSpecification
from parsl_pilotage import PilotageExecutor
from server import ROOT, LocalServer, wait_for

from pilotage.client import Client, Refused

HERE = Path(__file__).parent

PROGRAM = """\
import sys, parsl
from parsl_pilotage import PilotageExecutor

@parsl.bash_app
def held(number):
    return f"echo {number} >> begun.txt; while ! test -e go; do sleep 0.1; done; echo {number} >> ended.txt"

executor = PilotageExecutor(working_dir=sys.argv[1], conda=sys.prefix, detach="detach" in sys.argv)
parsl.load(parsl.Config(executors=[executor], initialize_logging=False))
parsl.set_stream_logger(level=20)
futures = [held(number) for number in range(3)]
assert [future.result() for future in futures] == [0, 0, 0]
print("all have ended")
parsl.dfk().cleanup()
"""

PARSL_FILES = "test_python_apps/test_fail.py test_staging/test_file_apps.py"


@pytest.fixture
def folder(server: LocalServer, request: pytest.FixtureRequest) -> Path:
    """A folder on the shared disk."""
    folder = server.shared / f"Größe {request.node.name}"
    folder.mkdir()
    return folder


@contextmanager
def loaded(folder: Path, retries: int = 0, **options: Any) -> Iterator[str]:
    """Load Parsl. Yield the name of its log."""
    executor = PilotageExecutor(conda=sys.prefix, **options)
    config = parsl.Config(executors=[executor], retries=retries, run_dir=str(folder / "runs"))
    with parsl.load(config):
        yield f"{parsl.dfk().run_dir}/parsl.log"


def test_apps_of_a_moment_are_one_task_with_results_errors_and_retries(folder: Path, client: Client) -> None:
    @parsl.bash_app
    def flaky(inputs: list[File], outputs: list[File], stdout: str) -> str:  # noqa: ARG001
        return f"echo said; test -e tried && cp {inputs[0]} {outputs[0]} || {{ touch tried; exit 7; }}"

    class TooMany(Exception): ...

    @parsl.python_app
    def square(value: int) -> int:
        if value == 3:
            raise TooMany("three is too many")
        return int(value**2)

    (folder / "in.txt").write_text("content")
    with loaded(folder, retries=1, working_dir=str(folder)) as log:
        futures = [square(value) for value in range(12)]
        files = {"inputs": [File("in.txt")], "outputs": [File("out.txt")]}
        copy = flaky(**files, stdout="said.txt")
        assert [future.result() for future in futures[:3] + futures[4:]] == [
            0,
            1,
            4,
            *(n * n for n in range(4, 12)),
        ]
        with pytest.raises(TooMany, match="three is too many"):
            futures[3].result()
        assert copy.outputs[0].result().filepath == "out.txt"
        lines = [line for line in Path(log).read_text().splitlines() if "Pilotage runs" in line]
    squares = [line for line in lines if "of square as task" in line]
    assert 0 < len(squares) < 6
    tasks = [client.task(int(line.rpartition("/")[2])) for line in squares]
    assert squares[0].endswith(f"{client.url}/tasks/{tasks[0].id}")
    assert sum(task.counts["finished"] for task in tasks) == 13  # one is tried again
    assert (folder / "said.txt").read_text() == "said\nsaid\n"
    assert (folder / "out.txt").read_text() == "content"


def test_a_file_of_the_catalogue_comes_to_the_job(folder: Path, server: LocalServer, client: Client) -> None:
    @parsl.python_app
    def length(file: File, more: str = "", outputs: tuple[File, ...] = ()) -> int:  # noqa: ARG001
        with open(file) as content:  # noqa: PTH123
            return len(content.read() + more)

    names = [f"parsl/Größe {number} a.txt" for number in range(3)]
    for number, name in enumerate(names):
        (server.folder / "storage" / name).parent.mkdir(exist_ok=True)
        (server.folder / "storage" / name).write_text("x" * number)
    client.scan("local-disk", "parsl/*")
    (scope,) = {file["file"].partition(":")[0] for file in client.files(match="parsl/*")}
    with loaded(folder):
        futures = [length(File(f"pilotage://{scope}/{name}"), more="yy") for name in names]
        assert [future.result() for future in futures] == [2, 3, 4]
        with pytest.raises(ValueError, match="do not go into Pilotage's catalogue"):
            length("", outputs=[File("pilotage://lab/out")])
    with loaded(folder, working_dir=str(folder)):
        assert length(File(f"pilotage://{scope}/{names[2]}")).result() == 2


def test_what_no_queue_can_run_is_refused_with_the_cheapest_change(folder: Path) -> None:
    @parsl.python_app
    def idle(parsl_resource_specification: dict[str, Any]) -> None: ...

    with loaded(folder):
        with pytest.raises(Refused, match=r"cheapest change: memory, you: ask for ram: 4000"):
            idle(parsl_resource_specification={"memory": 900_000}).result()
        with pytest.raises(Refused, match="there is no queue 'nowhere'"):
            idle(parsl_resource_specification={"queue": "nowhere"}).result()
        for wrong, message in [({"nodes": 2}, "Pilotage knows"), ({"cores": "many"}, "give a number")]:
            with pytest.raises(InvalidResourceSpecification, match=message):
                idle(parsl_resource_specification=wrong).result()


class Program:
    """A program with three apps that wait until the test lets them end."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-c", PROGRAM, str(folder), *options]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        wait_for(lambda: len(self.lines("begun.txt")) == 3, "the apps have begun")

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file of its folder."""
        file = self.folder / name
        return sorted(file.read_text().splitlines()) if file.exists() else []

    def wait_for(self, text: str) -> None:
        """Wait until it has written a text."""
        log = self.folder / "log"
        wait_for(lambda: text in log.read_text(), f"{text!r} in {log.read_text()[-3000:]}")


@pytest.fixture
def program(folder: Path, server: LocalServer) -> Iterator[Callable[..., Program]]:
    """What starts such a program."""
    programs: list[Program] = []

    def start(*options: str, **environment: str) -> Program:
        programs.append(Program(folder, server.environment | environment, *options))
        return programs[-1]

    yield start
    (folder / "go").touch()
    for program in programs:
        program.process.kill()
        program.process.wait()


def test_a_restart_of_the_server_and_a_new_token_lose_nothing(
    program: Callable[..., Program], server: LocalServer, client: Client
) -> None:
    home = server.folder / "home of parsl"
    home.mkdir()
    tokens = [client.make_token("eve"), client.make_token("eve")]
    (*_, first) = [token["id"] for token in client.tokens() if token["name"] == "eve"]
    (home / "token").write_text(tokens[0])
    running = program(PILOTAGE_HOME=str(home))
    client.revoke_token(first)
    running.wait_for("does not know you")
    (home / "token").write_text(tokens[1])
    running.wait_for("Pilotage answers again.")
    server.stop(signal.SIGKILL)
    running.wait_for("no answer from")
    server.start()
    (running.folder / "go").touch()
    running.wait_for("all have ended")
    assert running.lines("begun.txt") == running.lines("ended.txt") == ["0", "1", "2"]
    assert not any(token in (running.folder / "log").read_text() for token in tokens)


@pytest.mark.parametrize("options", [(), ("detach",)], ids=["cancels", "detaches"])
def test_an_interruption_cancels_jobs_unless_they_are_detached(
    program: Callable[..., Program], client: Client, options: tuple[str, ...]
) -> None:
    running = program(*options)
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(60) != 0
    (task,) = client.tasks(limit=1)
    if not options:
        wait_for(lambda: client.task(task.id).has_ended, "the task has ended", 30)
        assert client.task(task.id).counts == {"cancelled": 3}
    else:
        assert not client.task(task.id).has_ended
        (running.folder / "go").touch()
        wait_for(lambda: len(running.lines("ended.txt")) == 3, "the jobs have ended")


@pytest.mark.timeout(900)
def test_tests_of_parsl_itself(server: LocalServer) -> None:
    """With the version of pytest that they need, in a folder without blanks: their apps quote no names."""
    folder = server.shared / "parsl"
    folder.mkdir()
    tests = Path(parsl.__file__).parent / "tests"
    files = [str(tests / name) for name in PARSL_FILES.split()]
    config = ["-c", os.devnull, "--rootdir", ".", "--config", str(HERE / "parsl_config.py")]
    options = ["-p", "no:cacheprovider", "-W", "ignore", "-m", "not cleannet", "-q"]
    environment = {
        "PYTHONPATH": str(ROOT / "build/integrations/parsl-tests"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *files, *config, *options],
        cwd=folder,
        env=server.environment | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_parsl_starts_with_it_in_less_than_300_ms() -> None:
    code = (
        "import parsl, time; begun = time.process_time();"
        "from parsl_pilotage import PilotageExecutor; executor = PilotageExecutor(); executor.start();"
        "seconds = time.process_time() - begun; executor.shutdown(); assert seconds < 0.3, seconds"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
