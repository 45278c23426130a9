"""py-tes, the Python client of GA4GH's TES, on a real server: every call, as the client reads its answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import tes
from server import LocalServer

TIME_LIMIT = 120


class TesServer(LocalServer):
    """A server that serves TES, whose tasks run on the nodes and may deliver to one folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        file = self.home / "federation.yaml"
        federation = json.loads(file.read_text())
        federation["storages"][0]["delivery_folders"] = {"delivered": []}
        file.write_text(json.dumps(federation))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its processes."""
        return {**super().environment, "PILOTAGE_TES": "nodes"}

    @property
    def files(self) -> Path:
        """The folder of its storage."""
        return self.folder / "storage"

    def tes_client(self, **more: str) -> tes.HTTPClient:
        """Return a client, whose token is its operator's unless told otherwise."""
        return tes.HTTPClient(self.url, **(more or {"token": self.token}))

    @property
    def token(self) -> str:
        """The operator's token."""
        return (self.home / "token").read_text()


@pytest.fixture(scope="module")
def tes_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TesServer]:
    """A server that runs."""
    server = TesServer(tmp_path_factory.mktemp("tes"))
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.stop_pilots()


def executor(*command: str, **more: object) -> tes.Executor:
    """Return an executor."""
    return tes.Executor(image="debian:12", command=list(command), **more)


def test_service_info(tes_server: TesServer) -> None:
    info = tes_server.tes_client().get_service_info()
    assert info.name == "Pilotage, integrations"
    assert info.storage == [f"file://{tes_server.files}"]


def test_a_task_from_its_inputs_to_its_outputs(tes_server: TesServer) -> None:
    (tes_server.files / "reads").mkdir()
    (tes_server.files / "reads/a.txt").write_text("one two\nthree\n")
    client = tes_server.tes_client()
    task = tes.Task(
        name="count words",
        description="of a file and of a text",
        inputs=[
            tes.Input(url=f"file://{tes_server.files}/reads/a.txt", path="/data/a.txt"),
            tes.Input(content="four five six\n", path="/data/b.txt"),
        ],
        outputs=[tes.Output(path="/out/words", url=f"file://{tes_server.files}/delivered/py-tes/words")],
        executors=[
            executor("sh", "-c", "cat /data/a.txt /data/b.txt > /shared/all; echo read"),
            executor("wc", "-w", stdin="/shared/all", stdout="/out/words"),
        ],
        volumes=["/shared"],
        resources=tes.Resources(cpu_cores=1, ram_gb=0.1),
        tags={"project": "words"},
    )
    number = client.create_task(task)
    assert client.wait(number, timeout=TIME_LIMIT).state == "COMPLETE"
    assert (tes_server.files / "delivered/py-tes/words").read_text().split() == ["6"]
    full = client.get_task(number, view="FULL")
    assert (full.name, full.tags, full.volumes) == (task.name, task.tags, task.volumes)
    assert full.creation_time <= full.logs[0].start_time <= full.logs[0].end_time
    assert [log.exit_code for log in full.logs[0].logs] == [0, 0]
    assert full.logs[0].logs[0].stdout == "read\n"
    assert [output.size_bytes for output in full.logs[0].outputs] == [2]
    basic = client.get_task(number, view="BASIC")
    assert basic.inputs[1].content is None
    assert basic.logs[0].logs[0].stdout is None


def test_a_failure_shows_its_exit_code_and_what_it_wrote(tes_server: TesServer) -> None:
    client = tes_server.tes_client()
    number = client.create_task(tes.Task(executors=[executor("sh", "-c", "echo oops >&2; exit 4")]))
    assert client.wait(number, timeout=TIME_LIMIT).state == "EXECUTOR_ERROR"
    (log,) = client.get_task(number, view="FULL").logs[0].logs
    assert (log.exit_code, log.stderr) == (4, "oops\n")


def test_cancel_and_pages_with_the_token_as_password(tes_server: TesServer) -> None:
    client = tes_server.tes_client(user="anybody", password=tes_server.token)
    numbers = [client.create_task(tes.Task(executors=[executor("sleep", "600")])) for _ in range(3)]
    for number in numbers:
        client.cancel_task(number)
        assert client.get_task(number, view="MINIMAL").state == "CANCELED"
    listed, page = [], client.list_tasks(page_size=2)
    listed += page.tasks
    while page.next_page_token:
        page = client.list_tasks(page_size=2, page_token=page.next_page_token)
        listed += page.tasks
    shown = [task.id for task in listed]
    assert shown == sorted(shown, key=int, reverse=True)
    assert set(numbers) <= set(shown)


def test_a_wrong_token_and_a_wrong_task_are_refused_with_the_reason(tes_server: TesServer) -> None:
    with pytest.raises(requests.HTTPError) as refused:
        tes_server.tes_client(token="nonsense").list_tasks()
    assert refused.value.response.status_code == 401
    wrong = tes.Task(
        executors=[executor("cat", "/data/a")], inputs=[tes.Input(url="s3://elsewhere/a", path="/data/a")]
    )
    with pytest.raises(requests.HTTPError) as refused:
        tes_server.tes_client().create_task(wrong)
    (fault,) = refused.value.response.json()["detail"]
    assert fault["field"] == "inputs.0.url"
    assert "lies below no storage of the federation" in fault["message"]
