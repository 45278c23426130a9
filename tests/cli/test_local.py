"""Commands that need no server: checking files, schemas, plans, tokens, and how the server is started."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sqlalchemy.exc import OperationalError

from pilotage.cli.configuration import using_store
from pilotage.cli.errors import CommandFailure
from pilotage.federation import text
from pilotage.federation.documents import write
from pilotage.flow import planning, steps
from pilotage.flow.step import Phase
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import to_document
from pilotage.model.documents.world import TaskQueue, World
from pilotage.model.records.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import JobState, PilotState, TaskState
from pilotage.model.records.work import Job, Pilot, Requirements, Task, TaskSpec
from pilotage.model.values.identity import Credential, Identity
from pilotage.server.process import listen
from pilotage.store import Store

from .conftest import FakeServer, Pilotage

FEDERATION = Federation(
    name="north",
    sites=(Site(name="oslo", nucleus=True),),
    storages=(Storage(name="disk", site="oslo", url="file:///data"),),
    queues=(Queue(name="short", site="oslo", storage="disk", computing_element=ComputingElement()),),
)
ADA = Identity(name="ada", vo="atlas")
WORLD = World(
    time=1e9,
    seed=7,
    federation=FEDERATION,
    task_queues=(
        TaskQueue(
            queue="short", requirements=Requirements.of(TaskSpec(name="a"), ADA).text, jobs=5, priority=500
        ),
    ),
)

PILOT = Pilot(
    id=7,
    queue="short",
    requirements=WORLD.task_queues[0].requirements,
    kind="generic",
    owner=ADA,
    cores=1,
    memory=0,
    walltime=86_400,
    state=PilotState.RUNNING,
    created=1.0,
    since=1.0,
)


@pytest.fixture
def federation_file(tmp_path: Path) -> Path:
    """A sound federation."""
    path = tmp_path / "federation.yaml"
    path.write_text(write(FEDERATION))
    return path


@pytest.fixture
def world_file(tmp_path: Path) -> Path:
    """A world in which five jobs wait for pilots."""
    path = tmp_path / "world.yaml"
    path.write_text(write(WORLD))
    return path


def test_a_sound_federation_is_said_to_be_one(pilotage: Pilotage, federation_file: Path) -> None:
    result = pilotage("federation", "check", federation_file)
    assert result.exit_code == 0
    held = "1 site, 1 storage, 1 queue, 0 links, 1 share"
    assert result.stdout == f"{federation_file} is sound: north with {held}\n"
    document = json.loads(pilotage("federation", "check", federation_file, "--json").stdout)
    assert document == {"valid": True, "faults": []}


def test_the_faults_of_a_federation_are_told_with_exit_code_2(
    pilotage: Pilotage, federation_file: Path
) -> None:
    federation_file.write_text(federation_file.read_text().replace("site: oslo", "site: olso"))
    result = pilotage("federation", "check", federation_file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split(": ", 1)[1] for line in result.stderr.splitlines()] == [
        "storages[0].site: there is no site 'olso'; did you mean oslo?",
        "queues[0].site: there is no site 'olso'; did you mean oslo?",
    ]
    result = pilotage("federation", "check", federation_file, "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["valid"] is False
    lines = federation_file.read_text().splitlines()
    assert document["faults"][0] == {
        "file": str(federation_file),
        "line": lines.index("  site: olso") + 1,
        "field": "storages[0].site",
        "message": "there is no site 'olso'",
        "remedy": "did you mean oslo?",
    }


def test_of_very_many_faults_the_first_are_told_and_the_others_counted(
    pilotage: Pilotage, federation_file: Path
) -> None:
    queues = "".join(f"- {{name: q{n}, site: oslo, storage: disk, cores: -1}}\n" for n in range(80))
    federation_file.write_text(f"name: north\nsites: [{{name: oslo}}]\nstorages: []\nqueues:\n{queues}")
    lines = pilotage("federation", "check", federation_file).stderr.splitlines()
    assert (len(lines), lines[-1]) == (51, "and 31 more faults")


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("federation", to_document(FEDERATION)),
        pytest.param("world", to_document(WORLD), marks=pytest.mark.slow),
        ("task", to_document(TaskSpec(name="count"))),
        pytest.param("decision", {"step": "broker", "time": 1.0, "seed": 1}, marks=pytest.mark.slow),
        ("scenario", {"name": "s", "federation": "federation.yaml", "generated": {}}),
    ],
)
def test_schemas_are_valid_and_take_what_they_describe(
    pilotage: Pilotage, kind: str, document: dict[str, Any]
) -> None:
    text = pilotage("schema", kind).stdout
    jsonschema.validate(document, json.loads(text), jsonschema.Draft202012Validator)
    assert pilotage("schema", kind, "--json").stdout == text


@pytest.mark.parametrize("step", ["broker", "stage", "provision", "match", "watch"])
def test_every_step_can_be_planned_from_a_saved_world(
    pilotage: Pilotage, server: FakeServer, world_file: Path, step: str
) -> None:
    result = pilotage("plan", step, "--world", world_file, "--json")
    assert (result.exit_code, result.stderr, server.requests) == (0, "", [])
    decision = json.loads(result.stdout)
    assert (decision["step"], decision["time"], decision["seed"]) == (step, 1e9, 7)
    assert pilotage("plan", step, "--world", world_file).exit_code == 0


@pytest.mark.slow
def test_a_plan_is_the_same_byte_for_byte_in_every_process(world_file: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pilotage.cli",
        "plan",
        "provision",
        "--world",
        str(world_file),
        "--json",
    ]
    plans = {
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(plans) == 1
    assert json.loads(plans.pop())["changes"][1]["records"][0]["queue"] == "short"


def test_a_step_that_fails_is_told_in_a_sentence_and_shown_with_debug(
    pilotage: Pilotage, world_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: World) -> Decision:
        raise KeyError("nowhere")

    def phases(*_: object) -> list[Phase]:
        return [Phase(actor="provision", decide=fails)]

    failing = replace(steps.step("provision"), phases=phases)
    monkeypatch.setattr(planning, "step", lambda _: failing)
    words = ("plan", "provision", "--world", world_file)
    result = pilotage(*words)
    assert result.exit_code == 2
    reason = "KeyError: 'nowhere'; --debug shows where"
    assert result.stderr == f"provision cannot decide from {world_file}: {reason}\n"
    assert isinstance(pilotage(*words, "--debug").exception, KeyError)
    assert isinstance(pilotage(*words, PILOTAGE_DEBUG="1").exception, KeyError)


def test_a_world_with_contradictions_is_refused_with_their_lines(
    pilotage: Pilotage, world_file: Path
) -> None:
    world_file.write_text(world_file.read_text().replace("seed: 7", "seed: -7"))
    result = pilotage("plan", "broker", "--world", world_file)
    assert (result.exit_code, result.stderr) == (2, f"{world_file}:2: seed: -7 is below 0; give 0 or more\n")


def test_a_token_lasts_a_hundred_years_at_most(pilotage: Pilotage) -> None:
    assert pilotage("token", "create", "--name", "ada", "--expires", "1e300").exit_code == 2


@pytest.mark.parametrize("name", ["", " "])
def test_a_token_for_nobody_is_refused(pilotage: Pilotage, server: FakeServer, name: str) -> None:
    result = pilotage("token", "create", "--name", name)
    assert (result.exit_code, server.requests) == (2, [])
    assert result.stderr == "--name is empty; say who bears the token\n"


def test_a_federation_that_no_machine_could_use_is_told_with_lines(
    pilotage: Pilotage, federation_file: Path
) -> None:
    federation_file.write_text(federation_file.read_text().replace("file:///data", "fil:///data"))
    for command in (("federation", "check"), ("up",)):
        result = pilotage(*command, federation_file)
        assert result.exit_code == 2
        assert "storages[0].url: 'fil' is not known here; did you mean file?" in result.stderr


def test_a_plan_tells_people_what_would_change(pilotage: Pilotage, world_file: Path) -> None:
    words = pilotage("plan", "provision", "--world", world_file).stdout.split()
    assert words[:7] == ["records", "kind", "ids", "change", "queue", "pilot", "cause"]
    assert {"pilot", "created", "short", "target", "bound", "waiting"} <= set(words)


def test_a_plan_of_matching_names_pilot_queue_and_jobs(pilotage: Pilotage, world_file: Path) -> None:
    text_of = Requirements.of(TaskSpec(name="a"), ADA).text
    spec = TaskSpec(name="a")
    task = Task(id=1, spec=spec, owner=ADA, state=TaskState.RUNNING, created=1.0, since=1.0)
    of: dict[str, Any] = {
        "task": 1,
        "kind": "normal",
        "share": "default",
        "priority": 500,
        "requirements": text_of,
    }
    jobs = tuple(
        Job(id=id_, **of, state=JobState.ACTIVATED, attempt=1, since=1.0, created=1.0, queue="short")
        for id_ in (4, 5, 6)
    )
    asks = MatchRequest(
        pilot=7,
        queue="short",
        kind="generic",
        owner=ADA,
        cores=2,
        memory=4000,
        walltime=86_400,
        max_jobs=2,
    )
    asking = replace(WORLD, tasks=(task,), jobs=jobs, pilots=(PILOT,), requests=(asks,))
    world_file.write_text(write(asking))
    lines = pilotage("plan", "match", "--world", world_file).stdout.splitlines()
    assert ["2", "job", "4-5", "activated", "to", "sent", "short", "7"] in [
        line.split()[:8] for line in lines
    ]


def test_e5_the_plan_of_matches_says_how_long_pilots_stay_that_get_nothing(
    pilotage: Pilotage, world_file: Path
) -> None:
    came = replace(PILOT, created=WORLD.time - 1000, since=WORLD.time - 400)
    asks = MatchRequest(
        pilot=7, queue="short", kind="generic", owner=ADA, cores=2, memory=0, walltime=9000, max_jobs=1
    )
    world_file.write_text(write(replace(WORLD, jobs=(), pilots=(came,), requests=(asks,))))
    told = " ".join(pilotage("plan", "match", "--world", world_file).stdout.split())
    assert "A pilot at short without work stays for 600 s: a new one would wait 600 s" in told


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("broker", "no job is defined, which is what is brokered"),
        ("stage", "no transfer is queued"),
        ("match", "no pilot asks; no job is activated"),
        ("watch", "none is late of 0 jobs and 0 live pilots"),
    ],
)
def test_a_plan_that_changes_nothing_says_why(
    pilotage: Pilotage, world_file: Path, step: str, why: str
) -> None:
    told = pilotage("plan", step, "--world", world_file).stdout
    assert told == f"The step {step} changes nothing in this world: {why}.\n"


def test_a_plan_of_pilots_shows_its_numbers_also_where_none_are_submitted(
    pilotage: Pilotage, world_file: Path
) -> None:
    (queue,) = FEDERATION.queues
    full = replace(queue, computing_element=ComputingElement(max_pilots=1))
    house = replace(FEDERATION, queues=(full,))
    world_file.write_text(write(replace(WORLD, federation=house, pilots=(PILOT,))))
    lines = pilotage("plan", "provision", "--world", world_file).stdout.splitlines()
    assert "changes nothing in this world: 5 jobs waiting for pilots; the draw" in lines[0]
    assert lines[2].split()[:7] == ["queue", "jobs", "waiting", "target", "bound", "elsewhere", "submitted"]
    assert lines[4].split()[:3] == ["short", "5", "0"]


def test_a_world_with_a_fault_is_bad_input(pilotage: Pilotage, world_file: Path) -> None:
    world_file.write_text(world_file.read_text().replace("priority: 500", "priority: high"))
    result = pilotage("plan", "provision", "--world", world_file, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "task_queues[0].priority: 'high' is not a whole number" in result.stderr


@pytest.mark.parametrize(
    "words", [("plan", "lottery", "--world", "x"), ("plan", "broker"), ("schema", "job")]
)
def test_bad_usage_is_exit_code_2(pilotage: Pilotage, words: tuple[str, ...]) -> None:
    assert pilotage(*words).exit_code == 2


def test_a_token_is_made_in_the_store_where_it_is_at_hand(pilotage: Pilotage, server: FakeServer) -> None:
    url = f"sqlite:///{pilotage.home}/pilotage.sqlite"
    Store.open(url).close()
    words = ("token", "create", "--name", "ada", "--vo", "atlas", "--group", "top", "--vo-role", "lead")
    result = pilotage(*words)
    assert (result.exit_code, server.requests) == (0, [])
    operator = json.loads(pilotage(*words, "--role", "operator", "--expires", 30, "--json").stdout)["token"]
    store = Store.open(url)
    try:
        ada = Identity(name="ada", vo="atlas", group="top", vo_role="lead")
        made = store.tokens.find(result.stdout.strip())
        assert made is not None
        assert replace(made, expires=None) == Credential(role="user", identity=ada)
        assert made.expires is not None, "a year, unless it is said otherwise"
        found = store.tokens.find(operator)
        assert found is not None
        assert replace(found, expires=None) == Credential(role="operator", identity=ada)
        assert found.expires is not None
    finally:
        store.close()


def test_a_token_in_a_file_is_for_its_reader_alone(pilotage: Pilotage, server: FakeServer) -> None:
    """Also in place of a file that everybody reads; and without the file no token is made."""
    server.answers["POST /tokens"] = (201, {"token": "secret"})
    file = pilotage.home / "ada.token"
    file.write_text("old")
    file.chmod(0o644)
    assert pilotage("token", "create", "--name", "ada", "--to", file).exit_code == 0
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("secret\n", 0o600)
    assert [path.name for path in pilotage.home.iterdir()] == ["ada.token"]
    server.requests.clear()
    lost = pilotage("token", "create", "--name", "ada", "--to", pilotage.home / "missing" / "file")
    assert (lost.exit_code, "cannot be written" in lost.stderr, server.requests) == (1, True, [])


def test_a_token_is_made_by_the_server_where_there_is_no_store(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.answers["POST /tokens"] = (201, {"token": "secret"})
    result = pilotage("token", "create", "--name", "ada", "--expires", 1)
    assert (result.exit_code, result.stdout) == (0, "secret\n")
    identity = {"name": "ada", "vo": "", "group": "", "vo_role": ""}
    more: dict[str, Any] = {"purpose": "", "sites": []}
    assert server.requests == [("POST /tokens", {"role": "user", **identity, "expires_in": 86400, **more})]
    assert not (pilotage.home / "pilotage.sqlite").exists()


@pytest.mark.parametrize("as_option", [True, False])
def test_up_runs_the_server_with_what_was_asked(
    pilotage: Pilotage, federation_file: Path, monkeypatch: pytest.MonkeyPatch, as_option: bool
) -> None:
    runs: list[Any] = []
    monkeypatch.setattr(
        "pilotage.server.process.run",
        lambda settings, federation, **asked: runs.append((settings, federation, asked)),
    )
    words = ("--federation", federation_file) if as_option else (federation_file,)
    result = pilotage("up", *words, "--only", "split,broker", "--no-api", "--port", 9000)
    assert (result.exit_code, result.stdout) == (0, "")
    ((settings, federation, asked),) = runs
    path = str(federation_file.resolve())
    expected = {"only": ("split", "broker"), "listener": None, "path": path, "force": False, "code": None}
    assert (federation, asked) == (FEDERATION, expected)
    assert (settings.home, settings.port) == (pilotage.home, 9000)


def test_up_at_a_port_in_use_changes_nothing_and_says_what_to_do(pilotage: Pilotage) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        result = pilotage("up", "--port", port, PILOTAGE_URL=f"http://127.0.0.1:{port}")
    assert (result.exit_code, result.stdout, list(pilotage.home.iterdir())) == (1, "", [])
    assert result.stderr.endswith(
        f"\nport {port} of 127.0.0.1 cannot be listened on: Address already in use; "
        "give another with --port and in PILOTAGE_URL, or end what listens there\n"
    )


def test_up_is_refused_where_its_port_is_not_that_of_the_url(pilotage: Pilotage) -> None:
    url = "http://localhost:9001"
    result = pilotage("up", "--port", 9000, PILOTAGE_URL=url)
    assert (result.exit_code, result.stdout, list(pilotage.home.iterdir())) == (2, "", [])
    assert result.stderr == (
        f"PILOTAGE_URL is {url}: there commands and pilots look for the server, which would listen on port "
        "9000; set PILOTAGE_URL to that port, or leave one of the two out\n"
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://broker.example.org", "at https://broker.example.org, listening on port {} of 127.0.0.1,"),
        ("http://127.0.0.1:{}", "at http://127.0.0.1:{},"),
    ],
)
def test_up_says_where_it_is_reached_and_where_it_listens(
    pilotage: Pilotage, monkeypatch: pytest.MonkeyPatch, url: str, told: str
) -> None:
    monkeypatch.setattr("pilotage.server.process.run", lambda *_, **__: None)
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    words = ("up", "--port", port, "--host", "127.0.0.1")
    result = pilotage(*words, PILOTAGE_URL=url.format(port))
    assert result.exit_code == 0, result.stderr
    assert f"Pilotage {told.format(port)} store" in result.stderr


def test_a_home_has_one_server_and_loops_join_it_by_name(
    pilotage: Pilotage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second server on a home is refused, also where it finds its port in use. Loops say whom they join."""
    hold = "import sys, time; from pathlib import Path\n"
    hold += "from pilotage.cli.administration.home_lock import serving\n"
    hold += f"with serving(Path({str(pilotage.home)!r}), 'http://127.0.0.1:8470'):\n"
    hold += " print(flush=True)\n time.sleep(60)"
    monkeypatch.setattr("pilotage.server.process.run", lambda *_, **__: None)
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        other.stdout.readline()
        with listen("127.0.0.1", port):
            refused = pilotage("up", "--port", port, PILOTAGE_URL=url)
        joined = pilotage("up", "--no-api", "--only", "stage")
        other.kill()
    by = f"process {other.pid} at http://127.0.0.1:8470"
    assert refused.exit_code == 1
    assert f"\nthe home {pilotage.home} is served already by {by}: end that one, " in refused.stderr
    assert joined.exit_code == 0
    assert f"\nPilotage without the API, beside {by}, store " in joined.stderr
    assert pilotage("up", "--port", port, PILOTAGE_URL=url).exit_code == 0


def test_up_refuses_a_loop_that_is_not_there(pilotage: Pilotage) -> None:
    result = pilotage("up", "--only", "split,brokr")
    assert result.exit_code == 2
    assert "\nthere is no loop brokr; there are chain, split, broker, " in result.stderr


def test_up_refuses_a_federation_with_faults(pilotage: Pilotage, tmp_path: Path) -> None:
    result = pilotage("up", tmp_path / "nowhere.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"\n{tmp_path}/nowhere.yaml: there is no such file; check the path\n")


def test_a_store_that_cannot_be_used_is_named_without_its_password() -> None:
    gone = OperationalError("SELECT 1", {}, Exception("connection refused\nby somebody"))
    sentence = r"^the store postgresql\+psycopg://ada:\*\*\*@db/pilotage cannot be used: connection refused$"
    with (
        pytest.raises(CommandFailure, match=sentence),
        using_store("postgresql+psycopg://ada:secret@db/pilotage"),
    ):
        raise gone


@pytest.mark.parametrize("words", [("up",), ("token", "create", "--name", "ada")])
@pytest.mark.parametrize("url", ["ada:secret@somewhere", "mysql://ada:secret@somewhere/pilotage"])
def test_a_store_of_another_kind_is_bad_input(pilotage: Pilotage, words: tuple[str, ...], url: str) -> None:
    result = pilotage(*words, PILOTAGE_STORE=url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "PILOTAGE_STORE is not the address of a store; give sqlite:///PATH or " in result.stderr
    assert "ada:secret" not in result.stderr


def test_a_broken_store_is_told_in_a_sentence(pilotage: Pilotage) -> None:
    (pilotage.home / "pilotage.sqlite").write_text("no database, but long enough to be taken for one " * 100)
    result = pilotage("token", "create", "--name", "ada")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith("cannot be used: file is not a database\n")


def test_written_yaml_is_read_back(federation_file: Path) -> None:
    assert text.parse(federation_file.read_text()) == to_document(FEDERATION)


def test_b2_a_plan_by_a_federation_knows_the_conditions_of_unified_queues(
    pilotage: Pilotage, tmp_path: Path
) -> None:
    (first, *_) = FEDERATION.queues
    queues = (replace(first, status="offline"), replace(first, name="part", parent=first.name))
    house, asked = tmp_path / "federation.yaml", tmp_path / "task.yaml"
    house.write_text(write(replace(FEDERATION, queues=queues)))
    asked.write_text('name: work\ncommand: ["true"]\n')
    planned = pilotage("plan", "broker", "--world", house, "--task", asked, "--json")
    (task,) = json.loads(planned.stdout)["tasks"]
    refused = {(one["rule"], name) for one in task["choices"][0]["refusals"] for name in one["queues"]}
    assert ("B4", "part") in refused


def test_a_federation_stands_for_an_empty_world_of_it(pilotage: Pilotage, tmp_path: Path) -> None:
    house = tmp_path / "federation.yaml"
    house.write_text(write(FEDERATION))
    asked = tmp_path / "task.yaml"
    asked.write_text('name: work\ncommand: ["true"]\njobs: 3\n')
    result = pilotage("plan", "broker", "--world", house)
    assert (result.exit_code, "is a federation" in result.stderr) == (0, True)
    planned = pilotage("plan", "broker", "--world", house, "--task", asked, "--json")
    (task,) = json.loads(planned.stdout)["tasks"]
    assert task["jobs"] == 3
    bad = tmp_path / "bad.yaml"
    bad.write_text(write(FEDERATION).replace("sites:", "sites: 3\nother:"))
    assert pilotage("plan", "broker", "--world", bad).exit_code == 2
