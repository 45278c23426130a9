"""Outputs come home whole: checked, gone on with, and put where they do not meet."""

import csv
import io
import json
import shlex
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from pilotage.client import Client, Unreachable, crates
from pilotage.client.destination import Destination
from pilotage.client.output_files import FetchedFile

from .conftest import FakeServer, Pilotage

CONTENT = b"0123456789" * 1000
CRATE = crates.OURS + b'], "@graph": []}'


def output(job: int, kind: str = "normal", **values: Any) -> dict[str, Any]:
    name = "merged.txt" if kind == "merge" else "out.txt"
    return {
        "name": f"tasks/f/12/{job}/{name}",
        "file": f"user.a:tasks/f/12/{job}/{name}",
        "size": len(CONTENT),
        "checksum": f"adler32:{zlib.adler32(CONTENT):08x}",
        "job": job,
        "kind": kind,
        "replicas": [{"storage": "north", "url": "file:///north"}],
        **values,
    }


@pytest.fixture
def served(server: FakeServer) -> FakeServer:
    server.answers["GET /tasks/12/outputs"] = {"files": [output(1), output(2), output(3, "merge")]}
    server.answers["GET /files/content"] = (200, CONTENT)
    server.answers["GET /tasks/12/jobs"] = {"jobs": [made(1), made(2), made(3)]}
    server.answers["GET /tasks/12/manifest"] = (200, CRATE)
    return server


def made(number: int, **values: Any) -> dict[str, Any]:
    """A job as the list of jobs has it."""
    return {"id": number, "state": "finished", "inputs": [], **values}


def test_outputs_of_jobs_lie_by_job_and_merged_ones_by_name(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    told = pilotage("fetch", 12, "--to", tmp_path / "home")
    assert (told.exit_code, told.stdout) == (0, f"3 files of task 12 in {tmp_path / 'home'}\n")
    for name in ("1/out.txt", "2/out.txt", "merged.txt"):
        assert (tmp_path / "home" / name).read_bytes() == CONTENT
    asked = len(served.requests)
    assert pilotage("fetch", 12, "--to", tmp_path / "home").exit_code == 0
    assert [call for call, _ in served.requests[asked:]] == [
        "GET /tasks/12/outputs?limit=10000",
        "GET /tasks/12/jobs?after=&limit=1000&inputs=true&parameters=true",
        "GET /tasks/12/manifest",
    ]
    assert (tmp_path / "home" / crates.NAME).read_bytes() == CRATE


def test_tasks_of_a_workflow_lie_by_name_and_never_outside_of_the_folder(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    view = {"id": 12, "state": "finished", "jobs": {}, "after": [], "on_end": False, "remarks": []}
    for name, folder in (("reco", "reco"), ("../outside", "task-12"), (str(outside), "task-12")):
        served.answers["GET /workflows/3"] = {"id": 3, "name": "w", "tasks": [{**view, "name": name}]}
        shown = pilotage("fetch", "workflow:3", "--to", tmp_path / "home")
        assert shown.exit_code == 0, shown.stderr
        assert (tmp_path / "home" / folder / "1" / "out.txt").read_bytes() == CONTENT
        assert not outside.exists()


def archived(*members: tuple[str, bytes]) -> bytes:
    """A tar archive; a member without bytes is a link that leads out."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if not content:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc"
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def test_many_small_outputs_come_in_archives_and_others_alone(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    numbers = range(100, 150)
    served.answers["GET /tasks/12/outputs"] = {"files": [output(number) for number in numbers]}
    whole = [(f"{number}/out.txt", CONTENT) for number in numbers]
    # The first breaks off in a file; the second has a wrong file, one that nobody wants, and links.
    first = archived(*whole[:20])[: 18 * 10_752 + 5_000]
    odd = [("101/out.txt", b"wrong" * 2000), ("../up.txt", b"x"), ("119/out.txt", b""), ("link", b"")]
    served.answers["GET /tasks/12/outputs/archive"] = [
        (200, first),
        (200, archived(*odd, *whole[20:])),
    ]
    told = pilotage("fetch", 12, "--to", tmp_path / "home")
    assert (told.exit_code, told.stdout) == (0, f"50 files of task 12 in {tmp_path / 'home'}\n")
    found = {str(one.relative_to(tmp_path)): one for one in tmp_path.rglob("*.txt")}
    assert set(found) == {f"home/{name}" for name, _ in whole}
    assert {one.read_bytes() for one in found.values()} == {CONTENT}
    calls = [call for call, _ in served.requests]
    assert [call for call in calls if "archive" in call] == [
        "GET /tasks/12/outputs/archive?after=&match=%2A",
        "GET /tasks/12/outputs/archive?after=user.a%3Atasks%2Ff%2F12%2F117%2Fout.txt&match=%2A",
    ]
    assert len([call for call in calls if call.startswith("GET /files/content")]) == 2


def test_an_archive_of_nonsense_is_no_fault_here(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    served.answers["GET /tasks/12/outputs"] = {"files": [output(number) for number in range(1, 31)]}
    sparse = tarfile.TarInfo("1/out.txt")
    sparse.pax_headers = {"GNU.sparse.map": "0,x", "GNU.sparse.size": "4"}
    served.answers["GET /tasks/12/outputs/archive"] = (200, sparse.tobuf(tarfile.PAX_FORMAT))
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    assert len(list(tmp_path.rglob("out.txt"))) == 30


def test_a_server_without_archives_sends_each_file(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    served.answers["GET /tasks/12/outputs"] = {"files": [output(number) for number in range(1, 31)]}
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    assert len(list(tmp_path.rglob("out.txt"))) == 30


def test_the_manifest_has_a_line_for_each_file(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    jobs = [
        made(1, index=0, parameters={"sample": "a,b", "job": "7"}, inputs=["raw/a b.fa", "raw/c.fa"]),
        made(2, index=1, parameters={"sample": "c", "job": "8"}),
    ]
    served.answers["GET /tasks/12/jobs"] = {"jobs": jobs}
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    with (tmp_path / "manifest.csv").open(newline="") as file:
        first, second, merged = csv.DictReader(file)
    checksum = f"adler32:{zlib.adler32(CONTENT):08x}"
    assert first == {
        "job": "1",
        "index": "0",
        "sample": "a,b",
        "parameter_job": "7",
        "inputs": "'raw/a b.fa' raw/c.fa",
        "output": "user.a:tasks/f/12/1/out.txt",
        "path": "1/out.txt",
        "bytes": str(len(CONTENT)),
        "checksum": checksum,
    }
    assert shlex.split(first["inputs"]) == ["raw/a b.fa", "raw/c.fa"]
    assert (second["parameter_job"], merged["job"], merged["index"], merged["path"]) == (
        "8",
        "3",
        "",
        "merged.txt",
    )
    served.answers["GET /tasks/12/jobs"] = {"jobs": [made(1, index=5), made(2)]}
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    assert (tmp_path / "manifest.csv").read_text().splitlines()[1].startswith("1,5,")


def test_no_cell_of_the_manifest_is_a_formula(pilotage: Pilotage, served: FakeServer, tmp_path: Path) -> None:
    merged = output(3, "merge", name="tasks/f/12/3/=1+1")
    served.answers["GET /tasks/12/outputs"] = {"files": [merged]}
    served.answers["GET /tasks/12/jobs"] = {"jobs": [made(3, inputs=["=A1", "+b", "c"])]}
    for _ in range(2):
        assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
        with (tmp_path / "manifest.csv").open(newline="") as file:
            (row,) = csv.DictReader(file)
        assert not any(value.startswith(("=", "+", "-", "@")) for value in row.values())
        assert shlex.split(row["inputs"]) == ["=A1", "+b", "c"]
        assert (tmp_path / row["path"]).read_bytes() == CONTENT


def test_the_manifest_goes_by_the_number_of_jobs(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    served.answers["GET /tasks/12/outputs"] = {"files": [output(10), output(9)]}
    served.answers["GET /tasks/12/jobs"] = {"jobs": [made(9), made(10)]}
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    lines = (tmp_path / "manifest.csv").read_text().splitlines()[1:]
    assert [line.partition(",")[0] for line in lines] == ["9", "10"]


def test_a_manifest_keeps_lines_of_files_that_an_earlier_fetch_brought(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    (tmp_path / "2" / "out.txt").unlink()
    assert pilotage("fetch", 12, "--to", tmp_path, "--merged").exit_code == 0
    with (tmp_path / "manifest.csv").open(newline="") as file:
        assert [row["path"] for row in csv.DictReader(file)] == ["1/out.txt", "merged.txt"]


def test_a_file_of_the_users_is_not_overwritten_by_the_manifest(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "manifest.csv").write_text("mine\n")
    result = pilotage("fetch", 12, "--to", tmp_path)
    assert (result.exit_code, "no manifest is written" in result.stderr) == (0, True)
    assert (tmp_path / "manifest.csv").read_text() == "mine\n"
    (tmp_path / "manifest.csv").unlink()
    (tmp_path / "manifest.csv").symlink_to(tmp_path / "elsewhere")
    assert "no manifest is written" in pilotage("fetch", 12, "--to", tmp_path).stderr
    assert not (tmp_path / "elsewhere").exists()
    own = output(3, "merge", name="tasks/f/12/3/manifest.csv", file="user.a:tasks/f/12/3/manifest.csv")
    served.answers["GET /tasks/12/outputs"] = {"files": [own]}
    result = pilotage("fetch", 12, "--to", tmp_path / "other")
    assert (result.exit_code, "is an output of the task" in result.stderr) == (0, True)
    assert (tmp_path / "other" / "manifest.csv").read_bytes() == CONTENT


def test_only_files_of_the_same_task_are_replaced(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    place, listed = tmp_path / "merged.txt", tmp_path / "manifest.csv"
    place.write_text("mine\n")
    result = pilotage("fetch", 12, "--to", tmp_path)
    assert (result.exit_code, place.read_text()) == (1, "mine\n")
    assert f"{place} is another file, which no fetch brought; remove it" in result.stderr
    assert (tmp_path / "1" / "out.txt").read_bytes() == CONTENT
    place.unlink()
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    place.write_text("what a former attempt of the merge job made\n")
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    assert place.read_bytes() == CONTENT
    listed.write_text(listed.read_text().replace("tasks/f/12/3/merged", "tasks/f/11/3/merged"))
    place.write_text("of task 11\n")
    result = pilotage("fetch", 12, "--to", tmp_path)
    assert (result.exit_code, place.read_text()) == (1, "of task 11\n")
    assert (
        "tasks/f/11/3/merged.txt, which an earlier fetch brought; remove it, or name another folder with --to"
        in result.stderr
    )


def test_what_never_arrived_is_left_out_with_one_line(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    lost = [output(4, replicas=[]), output(5, replicas=[])]
    served.answers["GET /tasks/12/outputs"] = {"files": [output(1), *lost]}
    result = pilotage("fetch", 12, "--to", tmp_path)
    assert (result.exit_code, len(result.stderr.splitlines())) == (0, 1)
    assert "2 outputs never arrived and are left out: tasks/f/12/4/out.txt and others" in result.stderr
    assert not (tmp_path / "4").exists()
    assert len((tmp_path / "manifest.csv").read_text().splitlines()) == 2
    served.answers["GET /tasks/12/outputs"] = {"files": lost}
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 1


@pytest.mark.parametrize("name", ["a file of the user's", "an output"])
def test_no_crate_replaces_another_file(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, name: str
) -> None:
    place = tmp_path / crates.NAME
    if name == "an output":
        served.answers["GET /tasks/12/outputs"] = {
            "files": [output(3, "merge", name=f"tasks/f/12/3/{place.name}")]
        }
    else:
        place.write_text("mine")
    told = pilotage("fetch", 12, "--to", tmp_path)
    assert (told.exit_code, place.read_bytes()) == (0, CONTENT if name == "an output" else b"mine")
    assert f"no {place.name} is written" in told.stderr


def test_a_license_in_a_crate_stays_until_the_task_has_run_again(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    def crate(ended: str, version: str) -> bytes:
        root = {"@id": "./", "identifier": "f/tasks/12", "datePublished": ended, "hasPart": []}
        entities = [root, {"@id": "#pilotage", "softwareVersion": version}, {"@id": "#license"}]
        return crates.OURS + b'], "@graph": ' + json.dumps(entities).encode() + b"}"

    place = tmp_path / crates.NAME
    served.answers["GET /tasks/12/manifest"] = (200, crate("2026-11-29T20:00:00+00:00", "1"))
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    place.write_bytes(place.read_bytes().replace(b'"#license"', b'"#license", "name": "CC-BY-4.0"'))
    served.answers["GET /tasks/12/manifest"] = (200, crate("2026-11-29T20:00:00+00:00", "2"))
    told = pilotage("fetch", 12, "--to", tmp_path)
    assert (told.exit_code, told.stderr) == (0, "")
    assert b"CC-BY-4.0" in place.read_bytes()
    again = crate("2026-11-29T21:00:00+00:00", "2")
    served.answers["GET /tasks/12/manifest"] = (200, again)
    assert pilotage("fetch", 12, "--to", tmp_path).exit_code == 0
    assert place.read_bytes() == again
    place.write_bytes(again.replace(b"f/tasks/12", b"doi:10.5281/1"))
    told = pilotage("fetch", 12, "--to", tmp_path)
    assert (told.exit_code, b"doi:10.5281/1" in place.read_bytes()) == (0, True)
    assert "has another identifier; it stays as it is" in told.stderr
    assert not (tmp_path / f".{crates.NAME}.part").exists()


def test_a_task_under_way_has_no_crate_yet(pilotage: Pilotage, served: FakeServer, tmp_path: Path) -> None:
    served.answers["GET /tasks/12/manifest"] = (409, {"detail": "task 12 is running"})
    told = pilotage("fetch", 12, "--to", tmp_path)
    assert (told.exit_code, told.stderr) == (0, "")
    assert not (tmp_path / crates.NAME).exists()


def test_only_merged_outputs_or_those_that_match(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    document = json.loads(pilotage("fetch", 12, "--merged", "--to", tmp_path / "a", "--json").stdout)
    assert [one["path"] for one in document["files"]] == [str(tmp_path / "a" / "merged.txt")]
    pilotage("fetch", 12, "--match", "out*", "--to", tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "b").rglob("*.txt")) == ["out.txt", "out.txt"]
    none = pilotage("fetch", 12, "--match", "*.root", "--to", tmp_path)
    assert (none.exit_code, none.stderr) == (1, "task 12 has no outputs that match '*.root'\n")


def test_folders_of_outputs_come_along_and_lead_nowhere_else(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    deep = [
        output(1, name="tasks/f/12/1/plots/2026/x.png"),
        output(3, "merge", name="tasks/f/12/3/all/y.png"),
    ]
    served.answers["GET /tasks/12/outputs"] = {"files": deep}
    assert pilotage("fetch", 12, "--match", "*.png", "--to", tmp_path / "home").exit_code == 0
    for name in ("1/plots/2026/x.png", "all/y.png"):
        assert (tmp_path / "home" / name).read_bytes() == CONTENT
    served.answers["GET /tasks/12/outputs"] = {"files": [output(1, name="tasks/f/12/1/../../x.png")]}
    told = pilotage("fetch", 12, "--to", tmp_path / "home")
    assert "has no name that a file can have here" in told.stderr


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (".bashrc", "merge"),
        (".ssh/authorized_keys", "merge"),
        ("x/.git/config", "merge"),
        (".git/config", ""),
    ],
)
def test_hidden_outputs_are_fetched_only_where_they_are_asked_for(
    pilotage: Pilotage,
    served: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
) -> None:
    """A lying server must not leave a ``.bashrc`` or a hook of git, in whatever folder. The rest comes."""
    monkeypatch.chdir(tmp_path)
    lie = output(1, kind or "job", name=f"tasks/f/12/1/{name}")
    served.answers["GET /tasks/12/outputs"] = {"files": [output(2), lie]}
    for folder in ((), ("--to", "named")):
        told = pilotage("fetch", 12, *folder)
        assert (told.exit_code, "is hidden" in told.stderr, "--hidden" in told.stderr) == (1, True, True)
    assert (tmp_path / "named/2/out.txt").read_bytes() == CONTENT
    assert not [path for path in tmp_path.rglob("*") if path.name in (Path(name).name, ".git", ".ssh")]
    assert pilotage("fetch", 12, "--to", "named", "--hidden").exit_code == 0
    assert (tmp_path / "named" / ("" if kind else "1") / name).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "lie",
    [
        {"job": "../../victim"},
        {"job": "/etc"},
        {"job": ".."},
        {"job": True},
        {"job": None},
        {"job": "../../victim", "name": "x"},
        {"name": "tasks/f/12/1/../../victim/out.txt"},
        {"name": "tasks/f/12/1//etc/passwd"},
        {"name": "tasks/f/12/1/a\0b"},
        {"name": "..", "kind": "merge"},
        {"name": "/etc/passwd", "kind": "merge"},
        {"name": ["a"], "kind": "merge"},
        {"size": "10000"},
        {"size": -1},
        {"checksum": None},
        {"job": -1},
        {"job": 0},
        {"job": 10**400},
        {"job": 1.0},
        {"kind": ["merge"], "job": [".."]},
    ],
)
def test_a_server_that_lies_writes_nothing_outside(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, lie: dict[str, Any]
) -> None:
    """Whatever a server says, nothing appears but in the folder, and the command ends with a sentence."""
    before = sorted(tmp_path.rglob("*"))
    served.answers["GET /tasks/12/outputs"] = {"files": [{**output(1), **lie}]}
    told = pilotage("fetch", 12, "--to", tmp_path / "a" / "b")
    assert told.exit_code in (1, 3)
    assert len(told.stderr.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "answer", [None, 5, {}, {"files": None}, {"files": 5}, {"files": [1]}, {"files": [{}]}, {"files": [[]]}]
)
def test_an_answer_of_another_form_is_told_in_one_sentence(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, answer: Any
) -> None:
    served.answers["GET /tasks/12/outputs"] = answer
    for options in ((), ("--merged",), ("--match", "*.txt")):
        told = pilotage("fetch", 12, "--to", tmp_path / "to", *options)
        assert told.exit_code == 1
        assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"jobs": 5},
        {"jobs": [1]},
        {"jobs": [{"id": "1"}]},
        {"jobs": [made(1, inputs=[5])]},
        {"jobs": [made(1, parameters=[5])]},
        {"jobs": [made(1)], "next": "1"},
    ],
)
def test_jobs_of_another_form_make_no_manifest_and_no_endless_search(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, answer: Any
) -> None:
    served.answers["GET /tasks/12/jobs"] = answer
    told = pilotage("fetch", 12, "--to", tmp_path)
    assert told.exit_code == 1
    assert "the server's answer " in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert (tmp_path / "1" / "out.txt").read_bytes() == CONTENT
    assert not (tmp_path / "manifest.csv").exists()


LINKED = {
    "the file": "1/out.txt",
    "its folder": "1",
    "its part": "1/.out.txt.part",
    "a folder above": "1/plots",
}


@pytest.mark.parametrize("place", LINKED.values(), ids=LINKED)
@pytest.mark.parametrize("hard", [False, True], ids=["symbolic", "hard"])
def test_a_link_in_the_destination_is_refused(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, place: str, hard: bool
) -> None:
    outside, home = tmp_path / "outside", tmp_path / "to"
    (home / "1").mkdir(parents=True)
    outside.mkdir()
    victim = outside / "out.txt"
    victim.write_text("precious")
    link = home / place
    if place in ("1", "1/plots") and hard:
        pytest.skip("folders have no hard links")
    if place == "1":
        link.rmdir()
    if hard:
        link.hardlink_to(victim)
    else:
        link.symlink_to(victim if "out.txt" in place else outside)
    name = "plots/out.txt" if place == "1/plots" else "out.txt"
    one = {**output(1), "name": f"tasks/f/12/1/{name}"}
    served.answers["GET /tasks/12/outputs"] = {"files": [one, output(2)]}
    told = pilotage("fetch", 12, "--to", home)
    assert told.exit_code == 1
    assert f"{link} is " in told.stderr.replace("\n", " ")
    assert "--to" in told.stderr
    assert (victim.read_text(), [path.name for path in outside.iterdir()]) == ("precious", ["out.txt"])
    assert (home / "2" / "out.txt").read_bytes() == CONTENT


def test_the_folder_that_the_user_names_may_be_a_link(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "to").symlink_to(tmp_path / "real")
    assert pilotage("fetch", 12, "--merged", "--to", tmp_path / "to").exit_code == 0
    assert (tmp_path / "real" / "merged.txt").read_bytes() == CONTENT


def test_two_outputs_of_one_place_are_told_and_neither_is_written(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    merged = output(3, "merge", name="tasks/f/12/3/1/out.txt")
    served.answers["GET /tasks/12/outputs"] = {"files": [output(1), merged]}
    told = pilotage("fetch", 12, "--to", tmp_path / "to")
    assert told.exit_code == 1
    assert "would both be 1/out.txt" in told.stderr
    assert pilotage("fetch", 12, "--merged", "--to", tmp_path / "to").exit_code == 0


def test_what_is_not_as_it_should_be_is_told_and_left_nowhere(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    served.answers["GET /files/content"] = (200, CONTENT[:-1] + b"x")
    told = pilotage("fetch", 12, "--merged", "--to", tmp_path / "home")
    assert told.exit_code == 1
    assert "should have 10000 bytes, adler32:" in told.stderr
    assert not list((tmp_path / "home").rglob("*.txt*"))


class Breaking(Client):
    """A client whose answers break off after some bytes."""

    def __init__(self, after: int) -> None:
        super().__init__(token="none")
        self.close()
        self.after, self.offsets = after, list[int]()

    @contextmanager
    def content(self, file: str, *, offset: int = 0, **_: Any) -> Iterator[Iterator[bytes]]:
        self.offsets.append(offset)

        def chunks() -> Iterator[bytes]:
            yield CONTENT[offset : offset + self.after]
            if offset + self.after < len(CONTENT):
                raise Unreachable("broke off")

        yield chunks()


def test_a_folder_that_takes_no_files_is_told_in_a_sentence(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "1").write_text("no folder")
    told = pilotage("fetch", 12, "--to", tmp_path)
    assert told.exit_code == 1
    assert f"user.a:tasks/f/12/1/out.txt: {tmp_path / '1'}: Not a directory" in told.stderr.replace("\n", " ")
    assert (tmp_path / "2" / "out.txt").read_bytes() == CONTENT


def test_an_answer_that_breaks_off_is_gone_on_with(tmp_path: Path) -> None:
    client, seen = Breaking(4000), list[int]()
    wanted = FetchedFile.of(output(1), Destination(tmp_path, "out"))
    client.download(wanted, seen.append)
    assert (client.offsets, sum(seen)) == ([0, 4000, 8000], len(CONTENT))
    assert wanted.place.path.read_bytes() == CONTENT


def test_a_part_that_a_former_try_left_is_gone_on_with_or_read_anew(tmp_path: Path) -> None:
    wanted = FetchedFile.of(output(1), Destination(tmp_path, "out"))
    for part, offsets in ((CONTENT[:7000], [7000]), (b"of another file", [15, 0]), (b"x" * 20_000, [0])):
        wanted.place.path.unlink(missing_ok=True)
        (tmp_path / wanted.part).write_bytes(part)
        client = Breaking(len(CONTENT))
        client.download(wanted, lambda _: None)
        assert client.offsets == offsets
        assert wanted.place.path.read_bytes() == CONTENT
        assert not (tmp_path / wanted.part).exists()


def test_a_manifest_is_registered_in_batches_and_a_faulty_line_is_told(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    manifest = tmp_path / "manifest"
    manifest.write_text('runs/1,10,adler32:0a1b2c3d\n\n{"name": "runs/2", "size": 20}\n')
    server.answers["POST /files"] = {"new": 1, "refused": []}
    told = pilotage("files", "register", manifest, "--storage", "north-disk")
    assert told.stdout == "2 files registered, 1 of them new\n"
    ((_, body),) = server.requests
    assert body["files"] == [
        {
            "name": "runs/1",
            "size": 10,
            "checksum": "adler32:0a1b2c3d",
            "scope": "",
            "replicas": ["north-disk"],
        },
        {"name": "runs/2", "size": 20, "checksum": "", "scope": "", "replicas": ["north-disk"]},
    ]
    manifest.write_text("runs/1,ten\n")
    wrong = pilotage("files", "register", manifest, "--storage", "north-disk")
    assert wrong.exit_code == 1
    assert wrong.stdout == "0 files registered, 0 of them new\n"
    assert "no NAME,SIZE,CHECKSUM such as" in wrong.stderr
    assert "line 1: runs/1,ten" in wrong.stderr
    assert len(server.requests) == 1


def test_replicas_are_verified_byte_for_byte(pilotage: Pilotage, served: FakeServer) -> None:
    described = output(1, replicas=[{"storage": "north-disk", "url": "file:///north"}])
    served.answers["GET /files/describe"] = described
    right = pilotage("files", "verify", "user.a:x")
    assert (right.exit_code, right.stdout.split()) == (0, ["storage", "outcome", "north-disk", "right"])
    served.answers["GET /files/content"] = (200, b"short")
    wrong = pilotage("files", "verify", "user.a:x")
    assert wrong.exit_code == 1
    assert f"pilotage files forget {described['file']} --storage north-disk" in wrong.stderr
    assert "wrong: 5 bytes, adler32:" in wrong.stdout
    served.answers["GET /files/content"] = (200, CONTENT + b"x")
    assert "wrong: more than 10000 bytes; should be" in pilotage("files", "verify", "user.a:x").stdout


VERSION = {"dataset": "a:runs", "version": 3, "files": 1, "size": 7, "created": 0.0, "author": "user:a"}


def test_datasets_are_defined_and_listed(pilotage: Pilotage, server: FakeServer, tmp_path: Path) -> None:
    server.answers["POST /datasets"] = VERSION
    names = tmp_path / "names"
    names.write_text("b\n\nc\n")
    made = pilotage("files", "define", "a:runs", "x", "--from", names, "--match", "y/*", "--add")
    assert made.stdout == "a:runs@3: 1 file, 7 bytes\n"
    assert server.requests[-1][1] == {
        "dataset": "runs",
        "scope": "a",
        "edit": "add",
        "files": ["x", "b", "c"],
        "match": "y/*",
    }
    members = {"version": VERSION, "files": [{"file": "a:x", "size": 7, "checksum": ""}]}
    server.answers["GET /datasets/files"] = members
    assert "a:x" in pilotage("files", "list", "--dataset", "a:runs@3").stdout
    assert json.loads(pilotage("files", "list", "--dataset", "a:runs", "--json").stdout) == members
    server.answers["GET /datasets/versions"] = server.answers["GET /datasets"] = {"versions": [VERSION]}
    for words in (("versions", "a:runs"), ("datasets",)):
        assert "user:a" in pilotage("files", *words).stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("define", "runs"), "name files, or give"),
        (("define", "runs", "x", "--add", "--remove"), "not both"),
        (("list", "--dataset", "runs@new"), "'new' is no version"),
    ],
)
def test_what_is_no_command_for_datasets_is_refused(
    pilotage: Pilotage, server: FakeServer, words: tuple[str, ...], part: str
) -> None:
    refused = pilotage("files", *words)
    assert (refused.exit_code, part in refused.stderr) == (2, True)


def test_a_list_goes_on_behind_a_name(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /files"] = {"files": []}
    server.answers["GET /datasets/files"] = {"version": {}, "files": []}
    assert pilotage("files", "list", "runs/*", "--after", "a:runs/1").exit_code == 0
    assert pilotage("files", "list", "--dataset", "a:runs", "--after", "a:runs/1").exit_code == 0
    assert all("after=a%3Aruns%2F1" in call for call, _ in server.requests)


def test_outputs_are_read_page_by_page(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.client._sync.tasks.OUTPUTS_OF_PAGE", 2)
    found = [output(number) for number in (1, 2, 3)]
    server.answers["GET /tasks/12/outputs?limit=2"] = {"files": found[:2], "next": found[1]["file"]}
    after = urlencode({"after": found[1]["file"]})
    server.answers[f"GET /tasks/12/outputs?limit=2&{after}"] = {"files": found[2:]}
    assert json.loads(pilotage("outputs", 12, "--json").stdout) == {"files": found}
