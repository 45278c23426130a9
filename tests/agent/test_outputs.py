"""Outputs by name, by pattern and in folders: what is found, what is left alone, and what is refused."""

import os
from glob import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pilotage.adapters.movers.contract import ODD_NAMES
from pilotage.agent.files import outputs
from pilotage.agent.files.outputs import find, matches, skipped_note
from pilotage.agent.payload.attempt import AttemptFailedError, legal
from pilotage.model.values.outputs import example, is_taken
from pilotage.model.values.types import OutputPath, OutputPattern

from .test_agent import Site, sh, site

__all__ = ["site"]


def made(directory: Path, *names: str) -> Path:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return directory


def test_names_patterns_and_folders_find_their_files_once(tmp_path: Path) -> None:
    made(tmp_path, "log", "results/a.root", "results/b.root", "results/c.txt", "results/deep/d.root")
    made(tmp_path, "plots/x.png", "plots/2026/y.png", "other")
    found = find(("log", "results/*.root", "results/a.root", "plots/", "lo?"), tmp_path)
    assert list(found) == [
        *("log", "results/a.root", "results/b.root", "plots/x.png", "plots/2026/y.png"),
    ]
    assert set(find(("**/*.root",), tmp_path)) == {"results/a.root", "results/b.root", "results/deep/d.root"}
    assert list(find(("results/[a-b].root",), tmp_path)) == ["results/a.root", "results/b.root"]


def test_what_was_there_before_hidden_files_and_links_are_left_alone(tmp_path: Path) -> None:
    place = made(tmp_path / "job", "inputs/in", "inputs.txt", "stdout", "stderr", "tmp/t", ".hidden", "out")
    made(tmp_path, "secret/passwd")
    (place / "link").symlink_to(tmp_path / "secret/passwd")
    (place / "folder").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "pipe")
    assert list(find(("**",), place)) == ["out"]
    assert list(find(("*", "stdout"), place)) == ["stdout", "out"]
    with pytest.raises(AttemptFailedError, match=r"output folder/: the payload left no such file"):
        find(("folder/",), place)


def test_links_and_special_files_that_match_are_named(tmp_path: Path) -> None:
    made(tmp_path, "results/a.root")
    for number in range(7):
        (tmp_path / f"results/b{number}.root").symlink_to("a.root")
    (tmp_path / "results/other").symlink_to("a.root")
    (tmp_path / "plots").symlink_to("results")
    skipped: list[str] = []
    assert list(find(("results/*.root",), tmp_path, (), skipped)) == ["results/a.root"]
    assert sorted(skipped) == [f"results/b{number}.root" for number in range(7)]
    assert skipped_note(skipped).endswith("results/b4.root and 2 more")
    assert skipped_note([]) == ""
    with pytest.raises(AttemptFailedError, match=r"left no such file; links and .*: plots"):
        find(("plots/",), tmp_path)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_outputs_keep_their_names_by_name_by_pattern_and_in_a_folder(tmp_path: Path, name: str) -> None:
    made(tmp_path, name, f"out/{name}", "out/other")
    assert find((name,), tmp_path) == [name]
    assert sorted(find(("out/",), tmp_path)) == sorted((f"out/{name}", "out/other"))
    assert find((f"out/{escape(name)}",), tmp_path) == [f"out/{name}"]
    for asked in (name, f"out/{name}", escape(name), f"{name}/"):
        assert TypeAdapter(OutputPattern).validate_python(asked) == asked
    assert is_taken(name, name)
    assert is_taken("out/", f"out/{name}")
    assert legal("output", TypeAdapter(OutputPath).validate_python(name), deep=True) == name


@pytest.mark.parametrize("name", ["line\nbreak", os.fsdecode(b"\xff"), "c1\x9b2m"])
def test_a_file_whose_name_cannot_be_stored_fails_the_attempt_in_words(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).touch()
    with pytest.raises(
        AttemptFailedError, match=r"output .*: not a legal file name: it (has a control|is no)"
    ):
        find(("out/",), tmp_path)


def test_folders_keep_hidden_files_and_what_programs_leave_in_the_home_stays_out(tmp_path: Path) -> None:
    made(tmp_path, "a.zarr/.zgroup", "a.zarr/x/.zarray", "a.zarr/x/0.0", ".cache/junk", ".config")
    made(tmp_path, ".container-environment", "top")
    zarr = ["a.zarr/.zgroup", "a.zarr/x/.zarray", "a.zarr/x/0.0"]
    assert sorted(find(("a.zarr/",), tmp_path)) == zarr
    assert sorted(find(("**",), tmp_path)) == [*zarr, "top"]
    assert sorted(find(("**", ".c*"), tmp_path)) == [".config", *zarr, "top"]
    assert sorted(find((".cache/", ".config"), tmp_path)) == [".cache/junk", ".config"]


def test_a_pattern_without_a_file_is_named(tmp_path: Path) -> None:
    made(tmp_path, "results/a.txt")
    for asked in ("results/*.root", "plots/", "../*", "results/a.txt/"):
        with pytest.raises(AttemptFailedError) as failure:
            find(("results/a.txt", asked), tmp_path)
        assert str(failure.value) == f"output {asked}: the payload left no such file"


def test_optional_outputs_may_be_left_out(tmp_path: Path) -> None:
    made(tmp_path, "results/a.txt")
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    optional = ("log", "broken", "plots/", "*.root")
    assert find(("results/", *optional), tmp_path, optional) == ["broken", "results/a.txt"]
    assert find(optional[2:], tmp_path, optional) == []
    made(tmp_path, "log", "plots/p.png")
    assert sorted(find(optional[:1] + optional[2:], tmp_path, optional)) == ["log", "plots/p.png"]


@pytest.mark.parametrize(
    ("bound", "value", "error"),
    [
        ("MOST_FILES", 2, "more than 2 files"),
        ("MOST_BYTES", 10, "or 10 bytes"),
        ("MOST_LOOKED_AT", 2, "more than 2 files and folders to look at"),
        ("DEEPEST", 2, "outputs: a/b lies more than 2 folders deep"),
        ("LONGEST_NAME", 5, "longer than 5 characters"),
    ],
)
def test_what_patterns_find_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, error: str
) -> None:
    made(tmp_path, "one", "two", "three", "a/b/four")
    assert len(find(("**",), tmp_path)) == 4
    monkeypatch.setattr(outputs, bound, value)
    with pytest.raises(AttemptFailedError, match=error):
        find(("**",), tmp_path)
    assert list(find(("one",), tmp_path)) == ["one"]


PARTS = st.sampled_from(["a", "ab", "a*", "*", "**", "?b", "[ab]", "[!a]", "b.c"])


@given(st.lists(PARTS, min_size=1, max_size=5), st.booleans(), st.lists(st.sampled_from("ab"), min_size=1))
def test_agent_and_server_agree_on_what_a_pattern_takes(
    parts: list[str], folder: bool, names: list[str]
) -> None:
    pattern, path = "/".join(parts) + "/" * folder, "/".join(names)
    assert matches(pattern, path) == is_taken(pattern, path)
    TypeAdapter(OutputPattern).validate_python(pattern)
    TypeAdapter(OutputPath).validate_python(example(pattern))
    assert is_taken(pattern, example(pattern)), example(pattern)


@given(st.text(alphabet="aZ0_./+=~-*?", min_size=1, max_size=12))
def test_names_of_outputs_are_legal_at_the_agent(name: str) -> None:
    try:
        TypeAdapter(OutputPath).validate_python(name)
    except ValidationError:
        return
    assert legal("output", name, deep=True) == name


@pytest.mark.slow
def test_an_agent_stores_every_file_with_its_folders(site: Site) -> None:
    script = (
        "mkdir -p results plots/2026; for n in a.root b.root c.txt; do echo $n > results/$n; done; "
        "echo p > plots/2026/p.png; ln -s /etc/passwd results/evil.root; ln -s /etc plots/etc; ln -s /etc out"
    )
    site.server.works = [
        [
            site.work(*sh(script), outputs=["results/*.root", "plots/"]),
            site.work(*sh(script), outputs=["out/passwd"], first=2),
            site.work(*sh(script), outputs=["results/", "none/*"], first=3),
            site.work(*sh("true"), outputs=["none/*", "no"], optional_outputs=["no", "none/*"], first=4),
        ]
    ]
    site.run()
    stored = {path.relative_to(site.scratch()): path.read_text() for path in site.scratch().rglob("*.*")}
    assert {str(path): text for path, text in stored.items()} == {
        "results/a.root": "a.root\n",
        "results/b.root": "b.root\n",
        "plots/2026/p.png": "p\n",
    }
    sizes = {output.name: output.size for output in site.server.last(1).outputs}
    assert sizes == {str(path): len(text) for path, text in stored.items()}
    assert site.server.last(2).error == "output out/passwd: not a regular file"
    assert site.server.last(3).error == "output none/*: the payload left no such file"
    assert (site.server.last(4).state, site.server.last(4).outputs) == ("done", ())
    assert not site.scratch("3.1").exists()


@pytest.mark.slow
def test_an_agent_reads_and_stores_files_of_odd_names(site: Site) -> None:
    inputs = []
    for name in ODD_NAMES:
        made(site.storage, name)
        inputs.append({"name": name, "size": len(name.encode()), "checksum": ""})
    # A payload that reads the list line by line finds each file.
    script = 'while IFS= read -r path; do cat "./$path" >> all || exit 1; done < inputs.txt; mv inputs out'
    site.server.works = [[site.work(*sh(script), inputs=inputs, outputs=["out/", "all"])]]
    site.run()
    assert (site.server.last(1).state, site.server.last(1).error) == ("done", "")
    names = {f"out/{name}" for name in ODD_NAMES}
    assert {output.name for output in site.server.last(1).outputs} == {"all", *names}
    for name in ODD_NAMES:
        assert (site.scratch() / "out" / name).read_text() == name
    assert (site.scratch() / "all").read_text() == "".join(ODD_NAMES)
