"""Parts of TES without a server: URLs, paths, the script in a real shell, and logs that lost their middle."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pilotage.model.records.federation import Storage
from pilotage.server.api.tes.container_paths import mounts
from pilotage.server.api.tes.logs import executor_ends
from pilotage.server.api.tes.records import TesExecutor
from pilotage.server.api.tes.script import PlacedInput, script
from pilotage.server.api.tes.storage_urls import UrlPlace, WrongUrlError, pattern_of, place_of
from pilotage.store import StoredLog

STORAGES = tuple(
    Storage(name=name, site="north", url=url)
    for name, url in {
        "disk": "file:///shared",
        "deep": "file:///shared/deep/",
        "twin": "file:///shared/deep",
        "web": "https://user:secret@web.example.org/data",
        "bucket": "s3://lab/reads",
        "dav": "davs://dav.example.org",
        "ssh": "sftp://login.example.org/home/lab",
        "xrootd": "root://eos.example.org:1094//eos/lab",
    }.items()
)


@pytest.mark.parametrize(
    ("url", "storages", "name"),
    [
        ("/shared/a b.txt", ("disk",), "a b.txt"),
        ("file:///shared//a/./b", ("disk",), "a/b"),
        ("file:/shared/a%20b", ("disk",), "a%20b"),
        ("file://localhost/shared/a", ("disk",), "a"),
        ("file:///shared/deep/a", ("deep", "twin"), "a"),
        ("file:///shared/deeper/a", ("disk",), "deeper/a"),
        ("https://web.example.org/data/a%20b", ("web",), "a b"),
        ("s3://lab/reads/a[1].txt", ("bucket",), "a[1].txt"),
        ("sftp://me@login.example.org/home/lab/a", ("ssh",), "a"),
        ("davs://dav.example.org/a%20b", ("dav",), "a b"),
        ("root://eos.example.org:1094//eos/lab/a", ("xrootd",), "a"),
    ],
)
def test_a_url_leads_to_the_storages_with_the_longest_url_around_it(
    url: str, storages: tuple[str, ...], name: str
) -> None:
    assert place_of(url, STORAGES) == UrlPlace(storages, name)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://other/a", "lies below no storage of the federation; storages are at davs://dav"),
        ("file:///shared", "lies below no storage"),
        ("file:///shared/.copies/a", "is no name of a file below"),
        ("file://elsewhere/shared/a", "names the host 'elsewhere'; give file:///PATH"),
        ("https://web.example.org/data/a?b", "has a query or a fragment"),
        ("https://web.example.org/data/%2e%2e/a", "has .. in its path"),
        (
            "https://me:secret@web.example.org/data/a",
            "has a password, which tasks keep and show; leave it out",
        ),
        ("https://secret@web.example.org/data/a", "has a password"),
        ("https://[/", "is no URL; give one like s3://bucket"),
        ("just words", "is no URL; give one like"),
        ("", "is no URL"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_without_secrets(url: str, message: str) -> None:
    with pytest.raises(WrongUrlError) as refused:
        place_of(url, STORAGES)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


def test_an_input_is_a_pattern_that_matches_its_name_alone() -> None:
    pattern, name = pattern_of("s3://lab/reads/a[1]*.txt", STORAGES, is_folder=False)
    assert (pattern.glob, pattern.storages, name) == ("a[[]1][*].txt", ("bucket",), "a[1]*.txt")
    folder, _ = pattern_of("/shared/a/", STORAGES, is_folder=True)
    assert folder.glob == "a/**"
    known, name = pattern_of("pilotage://vo.atlas/runs/a", STORAGES, is_folder=False)
    assert (known.scope, known.glob, known.storages, name) == ("vo.atlas", "runs/a", (), "runs/a")


def test_only_the_outermost_folders_are_mounted() -> None:
    assert mounts(["/a/b", "/a//b/c/", "/d", "/a/bc"]) == {
        "/a/b": "root/a/b",
        "/a/bc": "root/a/bc",
        "/d": "root/d",
    }


def executor(*command: str, **fields: Any) -> TesExecutor:
    return TesExecutor.model_validate({"image": "x", "command": command, **fields})


def run(directory: Path, *executors: TesExecutor, inputs: tuple[PlacedInput, ...] = ()) -> int:
    """Run a script as an agent does: its streams are files of its directory."""
    (directory / "tes.sh").write_text(script(executors, inputs, [], {}))
    with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
        command = ["sh", "tes.sh"]
        return subprocess.run(command, cwd=directory, stdout=out, stderr=err, check=False).returncode


def streams(directory: Path) -> list[StoredLog]:
    data = {name: (directory / name).read_bytes() for name in ("stdout", "stderr")}
    return [
        StoredLog(stream=name, time=0, size=len(text), head=len(text), data=text)
        for name, text in data.items()
    ]


NASTY = ["it's", '"', "$HOME", "`id`", "a\nb", "\\", "*", "-n", "{index}", ""]


def test_no_word_of_an_executor_is_read_by_the_shell(tmp_path: Path) -> None:
    program = "import os, sys; print(ascii(sys.argv[1:]), ascii(os.environ['V']))"
    shown = executor("python3", "-c", program, *NASTY, env={"V": "\n".join(NASTY)})
    assert run(tmp_path, shown) == 0
    (end,) = executor_ends(streams(tmp_path))
    assert end.stdout == f"{NASTY!a} {chr(10).join(NASTY)!a}\n"


def test_inputs_are_placed_and_a_file_that_is_missing_is_no_executors_fault(tmp_path: Path) -> None:
    (tmp_path / "inputs/folder/deep").mkdir(parents=True)
    (tmp_path / "inputs/folder/deep/a").write_text("a")
    (tmp_path / "inputs/b c").write_text("b")
    placed = (PlacedInput("inputs/b c", "/d/x y/b"), PlacedInput("inputs/folder", "/d", is_folder=True))
    assert run(tmp_path, executor("true"), inputs=placed) == 0
    assert (tmp_path / "root/d/x y/b").read_text() + (tmp_path / "root/d/deep/a").read_text() == "ba"
    missing = (PlacedInput("inputs/none", "/d/none"),)
    assert run(tmp_path, executor("true"), inputs=missing) == 125
    assert "pilotage: root/d/none cannot be made" in (tmp_path / "stderr").read_text()


@pytest.mark.parametrize("code", [1, 7, 125, 255])
def test_a_script_ends_as_its_executor_but_never_like_a_failed_image(tmp_path: Path, code: int) -> None:
    assert run(tmp_path, executor("sh", "-c", f"exit {code}")) == (1 if code == 125 else code)
    assert [end.exit_code for end in executor_ends(streams(tmp_path))] == [code]


def test_the_end_of_each_executor_is_known_though_the_middle_of_the_log_is_lost(tmp_path: Path) -> None:
    commands = ("printf first", "yes | head -c 300000", "printf last; printf oops >&2")
    executors = [executor("sh", "-c", command) for command in commands]
    assert run(tmp_path, *executors) == 0
    out, err = streams(tmp_path)
    kept = StoredLog(
        stream="stdout", time=0, size=out.size, head=3, data=out.data[:3] + out.data[out.size - 1000 :]
    )
    ends = executor_ends([kept, err])
    assert [end.exit_code for end in ends] == [0, 0, 0]
    assert (ends[0].stdout, ends[2].stdout, ends[2].stderr) == ("fir", "last", "oops")
    assert set(ends[1].stdout) == {"y", "\n"}
    assert executor_ends([err]) == []


def test_lines_that_an_executor_forges_make_neither_a_fault_nor_a_larger_answer() -> None:
    times = "2027-01-15T08:00:00Z to 2027-01-15T08:00:01Z"
    forged = [
        f"pilotage-tes: executor {number} ended with 0, {times}, stdout 0-60000, stderr 0-60000"
        for number in (*range(200), "9" * 5000, "1" * 400)
    ]
    data = "\n".join(forged).encode()
    streams = [
        StoredLog(stream=name, time=0, size=len(data), head=len(data), data=data)
        for name in ("stdout", "stderr")
    ]
    ends = executor_ends(streams)
    assert [end.number for end in ends] == list(range(200))
    assert sum(len(end.stdout + end.stderr) for end in ends) <= 2 * len(data)
