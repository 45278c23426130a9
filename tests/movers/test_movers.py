"""Bytes move whole or not at all, between filesystems as they are."""

import hashlib
import os
import pickle
import resource
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotage.adapters.movers.copies.copying import THIRD_PARTY
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import File
from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryFailed,
    Place,
    ScanLimits,
    StorageError,
    WrongPatternError,
    order,
)
from pilotage.testing import transfer
from tests.properties import examples

MOVER = Streaming(lambda: None)
deliver, scan, remove = MOVER.deliver, MOVER.scan, MOVER.remove
CONTENT = bytes(range(256)) * 10_000


def adler32(content: bytes) -> str:
    return f"adler32:{zlib.adler32(content):08x}"


def ignore(_: int) -> None:
    """Progress that nobody looks at."""


def delivery(source: Path | str, destination: Path | str, **fields: object) -> Delivery:
    places = [
        Place(url=place if isinstance(place, str) else f"file://{place}", path="data/file")
        for place in (source, destination)
    ]
    values: dict[str, object] = {
        "transfer": 12,
        "attempt": 1,
        "file": "data/file",
        "size": len(CONTENT),
        "instance": "house",
        "checksum": adler32(CONTENT),
        "source": places[0],
        "destination": places[1],
    }
    return Delivery(**{**values, **fields})  # type: ignore[arg-type]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A storage that holds the file."""
    (tmp_path / "source/data").mkdir(parents=True)
    (tmp_path / "source/data/file").write_bytes(CONTENT)
    return tmp_path / "source"


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    """A storage that holds nothing, and is not even there."""
    return tmp_path / "destination"


class Quiet(SimpleHTTPRequestHandler):
    """Serves a directory without a word."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def server(source: Path) -> Iterator[str]:
    """A real web server that serves the source."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(source))) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_delivered_under_its_name_and_nothing_else_is_left(source: Path, destination: Path) -> None:
    seen: list[int] = []
    delivered = deliver(delivery(source, destination), seen.append)
    assert delivered == Delivered(size=len(CONTENT), checksum=adler32(CONTENT))
    assert delivered.way.startswith(("streamed: their file systems share no blocks", THIRD_PARTY))
    assert (destination / "data/file").read_bytes() == CONTENT
    assert files_below(destination) == ["data/file"]
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)
    assert (source / "data/file").exists()


def test_sha256_is_checked_where_that_is_what_is_known(source: Path, destination: Path) -> None:
    right = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    assert deliver(delivery(source, destination, checksum=right), ignore).checksum == right
    wrong = f"sha256:{'0' * 64}"
    with pytest.raises(DeliveryFailed, match=f"checksum {right}, must have {wrong}"):
        deliver(delivery(source, destination, checksum=wrong), ignore)


def test_without_a_known_checksum_the_adler32_is_computed(source: Path, destination: Path) -> None:
    assert deliver(delivery(source, destination, checksum=""), ignore).checksum == adler32(CONTENT)


@pytest.mark.parametrize("size", [0, 5, len(CONTENT) - 1, len(CONTENT) + 1])
def test_a_file_of_another_size_is_not_delivered(source: Path, destination: Path, size: int) -> None:
    with pytest.raises(DeliveryFailed, match=f": the source has .*bytes, must have {size}"):
        deliver(delivery(source, destination, size=size), ignore)
    assert files_below(destination) == []


def test_a_file_of_another_checksum_is_not_delivered(source: Path, destination: Path) -> None:
    with pytest.raises(DeliveryFailed, match="checksum"):
        deliver(delivery(source, destination, checksum="adler32:00000001"), ignore)
    assert files_below(destination) == []


def test_a_missing_source_says_where(source: Path, destination: Path) -> None:
    (source / "data/file").unlink()
    with pytest.raises(DeliveryFailed, match=r"source/data/file to .*FileNotFoundError"):
        deliver(delivery(source, destination), ignore)


def test_what_is_there_and_right_counts_as_delivered_even_without_its_source(
    source: Path, destination: Path
) -> None:
    deliver(delivery(source, destination), ignore)
    before = (destination / "data/file").stat()
    (source / "data/file").unlink()
    assert deliver(delivery(source, destination), ignore).size == len(CONTENT)
    assert (destination / "data/file").stat().st_ino == before.st_ino


@pytest.mark.parametrize("wrong", [b"", b"x", CONTENT[::-1]])
def test_what_is_there_and_wrong_is_replaced(source: Path, destination: Path, wrong: bytes) -> None:
    (destination / "data").mkdir(parents=True)
    (destination / "data/file").write_bytes(wrong)
    deliver(delivery(source, destination), ignore)
    assert (destination / "data/file").read_bytes() == CONTENT


def test_a_folder_in_the_way_is_an_error(source: Path, destination: Path) -> None:
    (destination / "data/file").mkdir(parents=True)
    with pytest.raises(DeliveryFailed, match="in the way"):
        deliver(delivery(source, destination), ignore)


def test_progress_that_raises_gives_the_delivery_up_before_anything_is_in_place(
    source: Path, destination: Path
) -> None:
    def fenced(size: int) -> None:
        if size == len(CONTENT):
            raise RuntimeError("no longer ours")

    with pytest.raises(DeliveryFailed, match="no longer ours"):
        deliver(delivery(source, destination), fenced)
    assert files_below(destination) == []


def test_what_a_killed_mover_left_half_written_is_taken_away_by_the_next_attempt(
    source: Path, destination: Path
) -> None:
    (destination / "data").mkdir(parents=True)
    (destination / "data/.file.house.12.1.part").write_bytes(b"half")
    (destination / "data/.file.house.13.1.part").write_bytes(b"another transfer's")
    (destination / "data/.file.barn.12.1.part").write_bytes(b"another Pilotage's")
    deliver(delivery(source, destination, attempt=2), ignore)
    assert files_below(destination) == [
        "data/.file.barn.12.1.part",
        "data/.file.house.13.1.part",
        "data/file",
    ]


def test_a_file_comes_from_a_real_web_server(server: str, destination: Path) -> None:
    delivered = deliver(delivery(server, destination), ignore)
    assert delivered.checksum == adler32(CONTENT)
    assert (destination / "data/file").read_bytes() == CONTENT


def test_what_a_web_server_does_not_have_is_an_error(server: str, source: Path, destination: Path) -> None:
    (source / "data/file").unlink()
    with pytest.raises(DeliveryFailed, match="FileNotFoundError"):
        deliver(delivery(server, destination), ignore)
    assert files_below(destination) == []


def test_a_web_server_cannot_be_written_and_the_reason_says_so(source: Path, server: str) -> None:
    with pytest.raises(DeliveryFailed, match=r"PUT .*501"):
        deliver(delivery(source, server, checksum=""), ignore)


def test_a_file_goes_to_memory_and_back(source: Path, destination: Path) -> None:
    memory = "memory://there"
    deliver(delivery(source, memory), ignore)
    deliver(delivery(memory, destination), ignore)
    assert (destination / "data/file").read_bytes() == CONTENT
    assert fsspec.filesystem("memory").ls("/there/data", detail=False) == ["/there/data/file"]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(0.3), deadline=None
)
@given(st.binary(max_size=200))
def test_any_content_arrives_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a/data").mkdir(parents=True, exist_ok=True)
    (tmp_path / "a/data/file").write_bytes(content)
    one = delivery(tmp_path / "a", tmp_path / "b", size=len(content), checksum=adler32(content))
    deliver(one, ignore)
    assert (tmp_path / "b/data/file").read_bytes() == content


def scratch(storage: Path, destination: Path) -> Delivery:
    (storage / ".scratch/house/5.1").mkdir(parents=True)
    (storage / ".scratch/house/5.1/file").write_bytes(CONTENT)
    one = delivery(storage, destination, scratch=True)
    return replace(one, source=replace(one.source, path=".scratch/house/5.1/file"))


def test_at_the_same_storage_the_scratch_file_is_renamed(destination: Path) -> None:
    one = scratch(destination, destination)
    before = (destination / ".scratch/house/5.1/file").stat().st_ino
    for _ in range(2):
        assert deliver(one, ignore).size == len(CONTENT)
    assert (destination / "data/file").stat().st_ino == before
    assert files_below(destination) == ["data/file"]
    assert not (destination / ".scratch/house/5.1").exists()


def test_of_an_output_in_folders_none_stays_behind(destination: Path) -> None:
    one = scratch(destination, destination)
    for folder in ("a/b", "c"):
        (destination / ".scratch/house/5.1" / folder).mkdir(parents=True)
    source = ".scratch/house/5.1/a/b/file"
    (destination / ".scratch/house/5.1/file").rename(destination / source)
    deliver(replace(one, source=replace(one.source, path=source)), ignore)
    assert [path.name for path in (destination / ".scratch/house/5.1").iterdir()] == ["c"]
    (destination / ".scratch/house/5.1/c/file").write_bytes(CONTENT)
    again = replace(one.source, path=".scratch/house/5.1/c/file")
    deliver(replace(one, source=again), ignore)
    assert list((destination / ".scratch").iterdir()) == [destination / ".scratch/house"]
    assert list((destination / ".scratch/house").iterdir()) == []


def test_a_wrong_scratch_file_is_not_renamed(destination: Path) -> None:
    one = scratch(destination, destination)
    (destination / ".scratch/house/5.1/file").write_bytes(b"other")
    with pytest.raises(DeliveryFailed, match="5 bytes"):
        deliver(one, ignore)
    assert files_below(destination) == [".scratch/house/5.1/file"]


def test_cleanup_takes_the_scratch_file_away_and_its_folder_with_the_last(
    tmp_path: Path, destination: Path
) -> None:
    one = scratch(tmp_path / "east", destination)
    other = tmp_path / "east/.scratch/house/5.1/log"
    other.write_bytes(b"more")
    deliver(one, ignore)
    assert files_below(tmp_path / "east") == [".scratch/house/5.1/log"]
    other.unlink()
    deliver(one, ignore)
    deliver(one, ignore)
    assert not (tmp_path / "east/.scratch/house/5.1").exists()
    assert deliver(one, ignore).size == len(CONTENT)


def test_a_symbolic_link_in_the_scratch_area_is_not_followed(tmp_path: Path, destination: Path) -> None:
    one = scratch(tmp_path / "east", destination)
    (tmp_path / "secret").write_bytes(CONTENT)
    (tmp_path / "east/.scratch/house/5.1/file").unlink()
    (tmp_path / "east/.scratch/house/5.1/file").symlink_to(tmp_path / "secret")
    with pytest.raises(DeliveryFailed, match="symbolic link"):
        deliver(one, ignore)


def test_an_order_names_both_places_and_whether_the_source_is_scratch() -> None:
    storages = {name: Storage(name=name, site=name, url=f"file:///{name}/") for name in ("north-a", "east")}
    file = File(name="user.alice:tasks/1/5/out", size=3, checksum="")
    download = order(transfer(7, X.DELIVERING, attempt=2), file, storages, "here")
    assert (str(download.source), str(download.destination), download.scratch) == (
        "file:///north-a/tasks/1/5/out",
        "file:///east/.copies/here/user.alice/tasks/1/5/out",
        False,
    )
    assert (download.transfer, download.attempt) == (7, 2)
    copied = order(transfer(7, X.DELIVERING), file, storages, "here", ".copies/here/user.alice/tasks/1/5/out")
    assert str(copied.source) == "file:///north-a/.copies/here/user.alice/tasks/1/5/out"
    outgoing = transfer(7, X.DELIVERING, direction="upload", source_path=".scratch/house/5.1/out")
    upload = order(outgoing, file, storages, "here")
    assert (upload.source.path, upload.scratch) == (".scratch/house/5.1/out", True)
    assert upload.destination.path == "tasks/1/5/out"


@pytest.mark.parametrize("name", ["tasks/1/5/../../../etc/passwd", "/etc/passwd", "a//b", "a/./b", ""])
def test_a_path_that_leaves_its_storage_is_refused(name: str) -> None:
    storages = {name: Storage(name=name, site=name, url=f"file:///{name}") for name in ("north-a", "east")}
    with pytest.raises(DeliveryFailed, match="not a path below storage"):
        order(transfer(7, X.DELIVERING), File(name=name, size=3, checksum=""), storages, "here")


def test_a_storage_that_has_left_the_federation_is_an_error() -> None:
    with pytest.raises(DeliveryFailed, match="storage north-a has left the federation"):
        order(transfer(7, X.DELIVERING), File(name="a", size=3, checksum=""), {}, "here")


def storage(root: Path) -> Storage:
    return Storage(name="here", site="here", url=f"file://{root}")


def test_scan_finds_plain_files_by_name_with_size_and_checksum(tmp_path: Path) -> None:
    root = tmp_path / "st[1]*"
    for name, content in {"runs/b": b"bb", "runs/a": b"", "runs/sub/c": b"c", "other": b"x"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    found = scan(storage(root), "runs/*")
    assert [(file.name, file.size, file.checksum, file.replicas) for file in found] == [
        ("runs/a", 0, adler32(b""), ("here",)),
        ("runs/b", 2, adler32(b"bb"), ("here",)),
    ]
    assert [file.name for file in scan(storage(root), "runs/**")] == ["runs/a", "runs/b", "runs/sub/c"]
    assert [file.name for file in scan(storage(root), "other")] == ["other"]
    assert scan(storage(root), "none*") == []


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A storage with links inside it, and, in ``bad``, links that are not followed."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    make(root, "runs/a", "runs/b", "deep/er/c", "tasks/house/1/1/out", ".copies/house/x")
    make(outside, "secret")
    (tmp_path / "door").symlink_to(root)
    for name, target in {
        "runs/near": "a",
        "runs/absolute": str(root / "deep/er/c"),
        "runs/folder": "../deep",
        "runs/chain": "folder/er/c",
        "bad/out": str(outside / "secret"),
        "bad/above": "../../outside",
        "bad/nothing": "none",
        "bad/self": "self",
        "bad/around": "..",
        "bad/outputs": "../tasks/house/1",
        "bad/copies": "../.copies",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    return tmp_path / "door"


def test_links_within_a_storage_are_followed_to_where_they_lead(linked: Path) -> None:
    limits = ScanLimits(refuse_links=True)
    found = scan(storage(linked), "runs/**", limits)
    lying = {
        "runs/absolute": "deep/er/c",
        "runs/chain": "deep/er/c",
        "runs/folder/er/c": "deep/er/c",
        "runs/near": "runs/a",
    }
    assert [file.name for file in found] == sorted([*lying, "runs/a", "runs/b"])
    assert found.paths == lying
    assert pickle.loads(pickle.dumps(found)).paths == lying
    assert [file.size for file in found] == [2] * 6
    for glob in ("runs/folder/*/c", "runs/folder/er/c", "runs/*/er/c", "**/er/c"):
        assert "runs/folder/er/c" in [file.name for file in scan(storage(linked), glob)], glob


@pytest.mark.parametrize(
    ("glob", "link", "why"),
    [
        ("bad/ou?", "bad/out", "leads out of its storage"),
        ("bad/out", "bad/out", "leads out of its storage"),
        ("bad/above/*", "bad/above", "leads out of its storage"),
        ("bad/above/secret", "bad/above", "leads out of its storage"),
        ("*/above/secret", "bad/above", "leads out of its storage"),
        ("bad/nothing", "bad/nothing", "leads to nothing"),
        ("bad/self", "bad/self", "leads to nothing"),
        ("bad/around/**", "bad/around", "leads out of its storage"),
        ("**/secret", "bad/", "leads"),
        ("bad/outputs/**", "bad/outputs", "to outputs or copies that Pilotage keeps"),
        ("bad/copies/**", "bad/copies", "to outputs or copies that Pilotage keeps"),
    ],
)
def test_a_link_that_is_not_followed_is_refused_by_its_name(
    linked: Path, glob: str, link: str, why: str
) -> None:
    """Inputs that would be missing without a word are none: what a task reads is what its pattern says."""
    with pytest.raises(
        WrongPatternError, match=f"'{link}.* cannot be an input: it is a symbolic link.*{why}"
    ):
        scan(storage(linked), glob, ScanLimits(refuse_links=True))
    told = scan(storage(linked), glob)
    assert told == []
    assert any(why in reason for name, reason in told.left_out.items() if name.startswith(link))


def test_links_that_lead_in_a_circle_end_by_name(tmp_path: Path) -> None:
    make(tmp_path, "a/one", "b/two")
    (tmp_path / "a/x").symlink_to("../b")
    (tmp_path / "b/y").symlink_to("../a")
    found = scan(storage(tmp_path), "a/**")
    assert [file.name for file in found] == ["a/one", "a/x/two"]
    assert list(found.left_out) == ["a/x/y"]
    assert "back to a folder around it" in found.left_out["a/x/y"]
    assert [file.name for file in scan(storage(tmp_path), "a/x/y/one")] == ["a/x/y/one"]
    assert list(scan(storage(tmp_path), "a/*/*/one").left_out) == ["a/x/y"], "no wildcard goes round either"


@pytest.mark.parametrize("way", ["door", "folder/door"])
def test_a_link_to_the_root_is_refused_where_the_storage_is_the_whole_machine(
    tmp_path: Path, way: str
) -> None:
    """It leads back to a folder around it, and to outputs of others that lie at the root."""
    make(tmp_path, "folder/one")
    (tmp_path / way).symlink_to("/")
    here = str(tmp_path.resolve())[1:]
    whole = Storage(name="here", site="here", url="file:///")
    for glob in (f"{here}/{way}/{here}/folder/one", f"{here}/{way}/**", f"{here}/**"):
        with pytest.raises(WrongPatternError, match=f"{way}' cannot be an input: .* back to a folder around"):
            scan(whole, glob, ScanLimits(refuse_links=True, seconds=5))
    assert [file.name for file in scan(whole, f"{here}/**", ScanLimits(seconds=5))] == [f"{here}/folder/one"]


@pytest.mark.parametrize("glob", ["../outside/*", "/etc/*", "a/../../b"])
def test_scan_does_not_leave_the_storage(tmp_path: Path, glob: str) -> None:
    with pytest.raises(StorageError, match="not a pattern below storage here"):
        scan(storage(tmp_path), glob)


@pytest.mark.parametrize("name", ["line\nbreak", os.fsdecode(b"\xff")])
def test_scan_refuses_a_name_that_no_file_may_have_and_says_which(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / "good").write_bytes(b"x")
    with pytest.raises(WrongPatternError, match="at here cannot be an input: names are") as refused:
        scan(storage(tmp_path), "*")
    assert repr(name) in str(refused.value)
    found = scan(storage(tmp_path), "*", ScanLimits(any_name=True))
    assert ([file.name for file in found], list(found.left_out)) == (["good"], [name])


def test_remove_deletes_a_dead_attempts_scratch_and_nothing_else(tmp_path: Path) -> None:
    for name in (".scratch/house/5.1/out", ".scratch/5.2/out", "tasks/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for _ in range(2):
        remove(storage(tmp_path), ".scratch/house/5.1")
    assert files_below(tmp_path) == [".scratch/5.2/out", "tasks/1"]
    make(tmp_path, "tasks/house/1/2/a/b", "tasks/house/1/2/c")
    remove(storage(tmp_path), "tasks/house/1/2/a/b")
    remove(storage(tmp_path), "tasks/house/1/2/c")
    for prefix in (
        "tasks/house/1/2",
        "tasks/house/1/2/../3",
        "tasks/1",
        "tasks",
        "",
        ".scratch",
        ".scratch/",
        ".scratch/../tasks",
        "/.scratch/5.2",
    ):
        with pytest.raises(StorageError, match="is neither below"):
            remove(storage(tmp_path), prefix)
    assert files_below(tmp_path) == [".scratch/5.2/out", "tasks/1"]


def make(root: Path, *names: str, content: bytes = b"xy") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*", ["top"]),
        ("**", [".hidden/x", "a/.hid", "a/b/deep", "a/one", "b/two", "top"]),
        ("**/*", [".hidden/x", "a/.hid", "a/b/deep", "a/one", "b/two", "top"]),
        ("**/**/*", [".hidden/x", "a/.hid", "a/b/deep", "a/one", "b/two", "top"]),
        ("**/b/*", ["a/b/deep", "b/two"]),
        ("*/*", [".hidden/x", "a/.hid", "a/one", "b/two"]),
        ("[ab]/*o*", ["a/one", "b/two"]),
        ("a/on?", ["a/one"]),
        ("top/*", []),
        ("a/**/deep", ["a/b/deep"]),
        (".hidden/*", [".hidden/x"]),
        ("*/.hid", ["a/.hid"]),
        (".copies/**", []),
        (".scratch/**", []),
    ],
)
def test_patterns_match_part_by_part(tmp_path: Path, glob: str, names: list[str]) -> None:
    make(tmp_path, "top", "a/one", "a/b/deep", "b/two", ".hidden/x", "a/.hid")
    make(tmp_path, ".copies/house/s/x", ".scratch/house/1.1/x", "a/.one.house.12.3.part")
    assert [file.name for file in scan(storage(tmp_path), glob)] == names


def test_a_scan_is_bounded_in_files_and_in_time(tmp_path: Path) -> None:
    make(tmp_path, "a", "b", "c")
    assert len(scan(storage(tmp_path), "*", ScanLimits(files=3))) == 3
    with pytest.raises(StorageError, match="more than 2 files match: narrow the pattern"):
        scan(storage(tmp_path), "*", ScanLimits(files=2))
    with pytest.raises(StorageError, match="not listed within 0 s: narrow the pattern"):
        scan(storage(tmp_path), "*", ScanLimits(seconds=0))


def test_a_large_file_is_not_read_when_it_is_found(tmp_path: Path) -> None:
    make(tmp_path, "small")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(4 << 30)
    (large, small) = scan(storage(tmp_path), "*")
    assert (large.size, large.checksum) == (4 << 30, "")
    assert (small.size, small.checksum) == (2, adler32(b"xy"))


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Room for 30 more open files than there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_descriptors")
def test_a_deep_tree_uses_up_neither_stack_nor_file_descriptors(tmp_path: Path) -> None:
    for depth in range(1, 200):
        Path(str(tmp_path) + "/d" * depth).mkdir()
    assert scan(storage(tmp_path), "**/none") == []
    (tmp_path / ".scratch").mkdir()
    (tmp_path / "d").rename(tmp_path / ".scratch/d")
    remove(storage(tmp_path), ".scratch/d")
    assert [path.name for path in tmp_path.rglob("*")] == [".scratch"]


def test_a_tree_too_deep_for_any_file_name_is_refused(tmp_path: Path) -> None:
    for depth in range(1, 400):
        Path(str(tmp_path) + "/d" * depth).mkdir()
    with pytest.raises(StorageError, match="more than 300 folders deep"):
        scan(storage(tmp_path), "**")


def test_a_web_server_s_folder_is_scanned(server: str) -> None:
    (found,) = scan(Storage(name="web", site="here", url=server), "data/*")
    assert (found.name, found.size, found.checksum) == ("data/file", len(CONTENT), adler32(CONTENT))


def test_a_scratch_file_that_is_exchanged_while_it_is_delivered_is_not_accepted(destination: Path) -> None:
    one = scratch(destination, destination)

    def exchange(size: int) -> None:
        if size == len(CONTENT):
            (destination / ".scratch/house/5.1/file").unlink()
            (destination / ".scratch/house/5.1/file").symlink_to("/etc/passwd")

    with pytest.raises(DeliveryFailed, match="exchanged while it was delivered"):
        deliver(one, exchange)
    assert files_below(destination) == []
