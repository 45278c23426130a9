"""A directory of a storage is registered as it lies there, and what cannot be is told."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.contract import ODD_NAMES

from .conftest import FakeServer, Pilotage


@pytest.fixture
def root(server: FakeServer, tmp_path: Path) -> Path:
    """The directory of the storage ``disk``, with files in ``runs``."""
    root = tmp_path / "disk"
    for name in ("runs/1/a", "runs/2/b", "runs/2/.hidden", "runs/.cache/c", "tasks/f/1/1/out", "top"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "runs" / "link").symlink_to(root / "top")
    storages = [
        {"name": "web", "url": "https://example.org/"},
        {"name": "disk", "url": f"file://{root}"},
        {"name": "inner", "url": f"file://{root}/runs/2"},
    ]
    server.answers["GET /federation"] = {"storages": storages}
    server.answers["POST /files"] = {"new": 1, "refused": []}
    server.answers["POST /files/scan"] = {"files": 1, "new": 0, "refused": []}
    return root


def sent(server: FakeServer) -> list[Any]:
    return [body for call, body in server.requests if call == "POST /files"]


def described(root: Path, name: str, **values: Any) -> dict[str, Any]:
    text = (root / name).read_bytes()
    checksum = f"adler32:{zlib.adler32(text):08x}"
    return {"name": name, "size": len(text), "checksum": checksum, "replicas": ["disk"], **values}


def test_a_directory_is_registered_below_the_root_of_its_storage(
    pilotage: Pilotage, server: FakeServer, root: Path
) -> None:
    told = pilotage("files", "register", root / "runs")
    assert (told.exit_code, told.stdout) == (0, "5 files registered, 1 of them new\n")
    names = ("runs/.cache/c", "runs/1/a", "runs/2/.hidden", "runs/2/b")
    files = [described(root, name, scope="") for name in names]
    assert sent(server) == [{"files": files, "each": True, "dry_run": False}]


def test_links_of_a_directory_are_followed_by_the_server_and_those_out_of_it_are_named(
    pilotage: Pilotage, server: FakeServer, root: Path
) -> None:
    os.mkfifo(root / "runs/1/pipe")
    (root / "runs/far").symlink_to("/etc")
    (root / "runs/nothing").symlink_to("elsewhere")
    (root / "runs/odd [1]").symlink_to("1")
    told = pilotage("files", "register", root / "runs")
    assert (told.exit_code, told.stdout) == (1, "6 files registered, 1 of them new\n")
    asked = [body["match"] for call, body in server.requests if call == "POST /files/scan"]
    assert sorted(asked) == ["runs/link", "runs/odd [[]1]/**"]
    assert "a symbolic link that leads out of its storage, or to nothing:\n  runs/far\n  runs/nothing\n" in (
        told.stderr + "\n"
    )
    assert "special files:\n  1/pipe\n" in told.stderr


def test_the_whole_storage_is_registered_without_outputs_and_what_is_pilotages_own(
    pilotage: Pilotage, server: FakeServer, root: Path
) -> None:
    for name in (".scratch/f/1.1/out", ".copies/f/atlas/x", "runs/.a.f.12.1.part"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    assert pilotage("files", "register", root, "--no-checksums", "--scope", "atlas").exit_code == 0
    assert [(one["name"], one["checksum"], one["scope"]) for one in sent(server)[0]["files"]] == [
        ("runs/.cache/c", "", "atlas"),
        ("runs/1/a", "", "atlas"),
        ("runs/2/.hidden", "", "atlas"),
        ("runs/2/b", "", "atlas"),
        ("top", "", "atlas"),
    ]


def test_of_storages_one_in_the_other_the_nearest_is_taken_unless_told(
    pilotage: Pilotage, server: FakeServer, root: Path
) -> None:
    pilotage("files", "register", root / "runs" / "2")
    pilotage("files", "register", root / "runs" / "2", "--storage", "disk")
    assert [(one["name"], one["replicas"]) for body in sent(server) for one in body["files"]] == [
        (".hidden", ["inner"]),
        ("b", ["inner"]),
        ("runs/2/.hidden", ["disk"]),
        ("runs/2/b", ["disk"]),
    ]


def test_a_dry_run_reads_nothing_and_says_so_to_the_server(
    pilotage: Pilotage, server: FakeServer, root: Path
) -> None:
    told = pilotage("files", "register", root / "runs", "--dry-run")
    assert (told.exit_code, told.stdout) == (0, "5 files would be registered, 1 of them new\n")
    (body,) = sent(server)
    assert body["dry_run"] is True
    assert [one["checksum"] for one in body["files"]] == [""] * 4


def test_names_that_no_file_may_have_are_left_out_and_told(
    pilotage: Pilotage, server: FakeServer, root: Path
) -> None:
    for name in (*ODD_NAMES, os.fsdecode(b"\xff\xfe"), "line\nbreak", "c1\x9b2m"):
        (root / "runs/1" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "runs/1" / name).write_text("x")
    told = pilotage("files", "register", root / "runs/1")
    assert (told.exit_code, "1 of them new" in told.stdout) == (1, True)
    (body,) = sent(server)
    assert {one["name"] for one in body["files"]} == {f"runs/1/{name}" for name in ("a", *ODD_NAMES)}
    assert "3 left out" in told.stderr
    assert "without control characters" in told.stderr
    document = json.loads(pilotage("files", "register", root / "runs" / "1", "--json").stdout)
    assert len(document["left_out"]) == 3


def test_a_file_that_cannot_be_read_is_left_out(
    pilotage: Pilotage, server: FakeServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Path, *given: Any, **options: Any) -> Any:
        if self.name == "a":
            raise PermissionError(13, "Permission denied")
        return opened(self, *given, **options)

    opened = Path.open
    monkeypatch.setattr(Path, "open", denied)
    told = pilotage("files", "register", root / "runs")
    assert (told.exit_code, told.stdout) == (1, "4 files registered, 1 of them new\n")
    assert "Permission denied" in told.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("DIRECTORY/..",), "is on no storage: the federation has disk at"),
        (("DIRECTORY", "--storage", "web"), "is on no storage: web has none that is a directory"),
        (("DIRECTORY", "--match", "*"), "give a DIRECTORY; or --storage"),
        (("/nowhere",), "/nowhere: there is no such directory or manifest"),
    ],
)
def test_what_is_no_directory_of_a_storage_is_refused(
    pilotage: Pilotage, server: FakeServer, root: Path, given: tuple[str, ...], message: str
) -> None:
    told = pilotage("files", "register", *(word.replace("DIRECTORY", str(root)) for word in given))
    assert told.exit_code == 2
    assert message in told.stderr
    assert sent(server) == []


MANIFEST = (
    b"\xef\xbb\xbfname,size,checksum\n"
    b"runs/1,5,adler32:03f00192\n"
    b"\n"
    b'{"name": "runs/2", "size": 6, "checksum": ""}\r\n'
    b"runs/a b,5\n"
    b"runs/3,-5\n"
    b"runs/4,1_000\n"
    b"runs/5,5,md5:12\n"
    b"../etc/passwd,5\n"
    b"gr\xc3\xb6\xc3\x9fe,5\n"
    b"\xff\xfe,5\n"
    b'{"name": "runs/6", "size": NaN}\n'
    b'{"name": ["runs/7"], "size": 5}\n' + b"[" * 5000 + b"\n" + b'{"a":' * 700 + b"\n"
    b"runs/8,5,,,\n"
    b"runs/9\0,5\n"
    b"runs/10,7"
)


def test_faulty_lines_of_a_manifest_are_told_and_the_others_registered(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "list").write_bytes(MANIFEST)
    server.answers["POST /files"] = {"new": 1, "refused": [{"at": 1, "reason": "it was changed"}]}
    told = pilotage("files", "register", tmp_path / "list", "--storage", "disk")
    assert (told.exit_code, told.stdout) == (1, "4 files registered, 1 of them new\n")
    files = [(one["name"], one["size"]) for one in sent(server)[0]["files"]]
    assert files == [("runs/1", 5), ("runs/2", 6), ("runs/a b", 5), ("größe", 5), ("runs/10", 7)]
    assert "12 left out" in told.stderr
    assert "it was changed:\n  line 4: runs/2\n" in told.stderr
    for number in (6, 7, 8, 9, *range(11, 18)):
        assert f"  line {number}: " in told.stderr, number
    assert "checksum: " in told.stderr
    assert "\0" not in told.stderr


def test_odd_names_stand_in_manifests_as_csv_and_as_json(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    quoted = ['"{}",5'.format(name.replace('"', '""')) for name in ODD_NAMES]
    plain = [f"{name},5," for name in ODD_NAMES if name == name.strip()]
    lines = [*quoted, *plain, *(json.dumps({"name": name, "size": 5}) for name in ODD_NAMES)]
    (tmp_path / "list").write_text("\n".join(lines), encoding="utf-8")
    server.answers["POST /files"] = {"new": 0, "refused": []}
    told = pilotage("files", "register", tmp_path / "list", "--storage", "disk")
    assert (told.exit_code, told.stderr) == (0, "")
    names = [one["name"] for one in sent(server)[0]["files"]]
    assert names == [*ODD_NAMES, *(name for name in ODD_NAMES if name == name.strip()), *ODD_NAMES]


def test_a_file_that_is_no_manifest_is_not_read_to_its_end(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    server.answers["POST /files"] = {"new": 1, "refused": []}
    (tmp_path / "list").write_text("good,5\n" + "bad\n" * 20_000 + "good,6\n")
    told = pilotage("files", "register", tmp_path / "list", "--storage", "disk")
    assert (told.exit_code, told.stdout) == (1, "1 file registered, 1 of them new\n")
    assert "line 10002 and all after it" in told.stderr
    assert "and 9990 more" in told.stderr


def test_what_the_server_refuses_of_a_listing_is_told(pilotage: Pilotage, server: FakeServer) -> None:
    refused = [{"name": "runs/a b", "reason": "names are of letters"}]
    server.answers["POST /files/scan"] = {"files": 3, "new": 2, "refused": refused}
    told = pilotage("files", "register", "--match", "runs/**", "--storage", "disk")
    assert (told.exit_code, told.stdout) == (1, "3 files registered, 2 of them new\n")
    assert "names are of letters:\n  runs/a b\n" in told.stderr
