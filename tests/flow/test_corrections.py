"""Nobody's wrong word about a file keeps others of the VO from it: its bytes decide, or an operator."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.calls.data import catalogue, corrections
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.model.values.identity import Identity
from pilotage.store import FileConflict
from pilotage.testing.stores import create

from .house import ALICE, House, attempts

BOB = Identity(name="bob", vo=ALICE.vo)
CONTENT = b"the right bytes"
CHECKSUM = f"adler32:{zlib.adler32(CONTENT):08x}"


@pytest.fixture
def lying(house: House, tmp_path: Path) -> Path:
    """A file in the north, that alice describes wrongly and reads in a task."""
    (tmp_path / "north" / "f").write_bytes(CONTENT)
    house.task(command=("run",), inputs=(named(size=4),), walltime=60)
    return tmp_path / "north" / "f"


def named(**values: Any) -> InputFile:
    given: dict[str, Any] = {"name": "f", "scope": "ligo", "size": len(CONTENT), "checksum": ""}
    return InputFile(**given | {"replicas": ("north-disk",)} | values)


def known(house: House) -> tuple[int, str]:
    entry = house.store.catalogue.entry("ligo:f")
    assert entry is not None
    return entry.file.size, entry.file.checksum


def submitted(house: House, *files: InputFile) -> Any:
    return house.submit({"command": ("run",), "inputs": files, "walltime": 60}, owner=BOB)


def test_who_describes_a_file_as_its_bytes_are_may_use_it(house: House, lying: Path) -> None:
    found = submitted(house, named())
    assert (len(found.tasks), found.refused) == (1, [])
    assert known(house) == (len(CONTENT), "")
    ((_, task),) = found.tasks
    for step in ("split", "broker", "stage"):
        house.take(step)
    assert house.states(task) == {JobState.ACTIVATED: 1}


def test_who_describes_it_otherwise_than_its_bytes_are_is_refused(house: House, lying: Path) -> None:
    assert submitted(house, named()).tasks
    found = submitted(house, named(size=99))
    assert found.tasks == []
    assert "ligo:f" in str(found.refused)
    assert known(house) == (len(CONTENT), "")


@pytest.mark.parametrize(
    ("first", "second", "corrected"),
    [
        ({"checksum": CHECKSUM}, {"checksum": "adler32:00000001"}, False),
        ({"checksum": "adler32:00000001"}, {"checksum": CHECKSUM}, True),
        ({"size": 1}, {"checksum": CHECKSUM}, True),
        ({"size": 1}, {"size": 2}, False),
    ],
)
def test_the_bytes_decide_between_two_descriptions(
    house: House, tmp_path: Path, first: dict[str, Any], second: dict[str, Any], corrected: bool
) -> None:
    (tmp_path / "north" / "f").write_bytes(CONTENT)
    catalogue.register(house.runtime, [named(**first)], "alice")
    assert corrections.correct(house.runtime, [named(**second)], "bob") == corrected
    wanted = named(**(second if corrected else first))
    assert known(house) == (wanted.size, wanted.checksum)
    entry = house.store.catalogue.entry("ligo:f")
    assert entry is not None
    assert [replica.storage for replica in entry.replicas] == ["north-disk"]


def test_bytes_elsewhere_do_not_speak_against_those_that_are_known(house: House, tmp_path: Path) -> None:
    """Who may write to another storage decides nothing there."""
    (tmp_path / "north" / "f").write_bytes(CONTENT)
    catalogue.register(house.runtime, [named()], "alice")
    (tmp_path / "south" / "f").write_bytes(b"other")
    assert corrections.correct(house.runtime, [named(size=5, replicas=("south-disk",))], "bob") == 0
    with pytest.raises(FileConflict):
        catalogue.register(house.runtime, [named(size=5, replicas=("south-disk",))], "bob")


def test_where_nothing_can_be_seen_the_first_description_stands(house: House, tmp_path: Path) -> None:
    catalogue.register(house.runtime, [named(size=4)], "alice")
    assert corrections.correct(house.runtime, [named()], "bob") == 0
    (tmp_path / "south" / "f").write_bytes(CONTENT)
    assert corrections.correct(house.runtime, [named(replicas=("south-disk",))], "bob") == 1, (
        "it lies there alone"
    )


def test_what_was_moved_as_it_is_known_stays_so(house: House, lying: Path) -> None:
    """Its bytes were checked then; that somebody changed them since is no reason."""
    catalogue.register(house.runtime, [named(name="g", size=4)], "alice")
    create(house.store, Replica(file="ligo:g", storage="south-disk", path=".copies/flow/ligo/g"))
    (lying.parent / "g").write_bytes(CONTENT)
    assert corrections.correct(house.runtime, [named(name="g")], "bob") == 0
    assert corrections.correct(house.runtime, [named(name="g")], "olga", trusted=True) == 1


def test_authors_may_take_back_their_own_word_where_no_bytes_can_be_seen(house: House) -> None:
    """Also where a live task reads the name: nothing has read its bytes."""
    ((_, task),) = house.submit({"command": ("run",), "inputs": (named(size=4),), "walltime": 60}).tasks
    house.take("split")
    other = submitted(house, named())
    assert (other.tasks, known(house)) == ([], (4, "")), "it is no word of bob's"
    again = house.submit({"command": ("run",), "inputs": (named(),), "walltime": 60})
    assert (len(again.tasks), known(house)) == (1, (len(CONTENT), ""))
    assert submitted(house, named()).tasks, "others are not held by the wrong one"
    assert house.store.catalogue.author("ligo:f") == "user:alice"
    entry = house.store.catalogue.entry("ligo:f")
    assert entry is not None
    assert [replica.storage for replica in entry.replicas] == ["north-disk"]
    assert house.states(task) == {JobState.DEFINED: 1}


def test_an_author_s_word_ends_where_an_operator_or_the_bytes_confirm_it(
    house: House, tmp_path: Path
) -> None:
    catalogue.register(house.runtime, [named(size=4), named(name="g", size=4)], "user:alice")
    assert corrections.correct(house.runtime, [named(size=5)], "user:bob") == 0
    assert corrections.correct(house.runtime, [named(size=5)], "user:alice") == 1
    # An operator who registers the same confirms it; one who corrects it, too.
    catalogue.register(house.runtime, [named(size=5)], "operator:olga")
    assert house.store.catalogue.author("ligo:f") == ""
    assert corrections.correct(house.runtime, [named(size=6)], "user:alice") == 0
    assert corrections.correct(house.runtime, [named(name="g", size=5)], "operator:olga", trusted=True) == 1
    assert corrections.correct(house.runtime, [named(name="g", size=6)], "user:alice") == 0
    # Bytes that can be seen are right, whoever says what.
    catalogue.register(house.runtime, [named(name="h")], "user:alice")
    (tmp_path / "north" / "h").write_bytes(CONTENT)
    assert corrections.correct(house.runtime, [named(name="h", size=6)], "user:alice") == 0
    (tmp_path / "north" / "h").write_bytes(b"neither")
    assert corrections.correct(house.runtime, [named(name="h", size=6)], "user:alice") == 0


def test_an_author_s_word_stands_once_a_job_has_read_the_file(house: House) -> None:
    catalogue.register(house.runtime, [named(size=4)], "user:alice")
    task = house.task(command=("run",), inputs=(named(size=4),), walltime=60)
    for step in ("broker", "stage"):
        house.take(step)
    pilot = house.pilot()
    (attempt,) = attempts(house.match(pilot))
    assert house.store.catalogue.author("ligo:f") == "user:alice"
    house.report(pilot, "running", [attempt])
    assert corrections.correct(house.runtime, [named(size=6)], "user:alice") == 0
    assert house.states(task) == {JobState.RUNNING: 1}


def test_an_operator_is_right(house: House) -> None:
    catalogue.register(house.runtime, [named(size=4)], "alice")
    assert corrections.correct(house.runtime, [named(size=7)], "olga", trusted=True) == 1
    assert known(house) == (7, "")


def test_so_many_files_of_a_request_are_looked_at(house: House, tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(corrections.MOST_FILES + 5)]
    for name in names:
        (tmp_path / "north" / name).write_bytes(CONTENT)
    catalogue.register(house.runtime, [named(name=name, size=1) for name in names], "alice")
    assert corrections.correct(house.runtime, [named(name=name) for name in names], "bob") == 20


def test_names_with_wildcards_are_looked_at_as_they_are(house: House, tmp_path: Path) -> None:
    (tmp_path / "north" / "f[1]").write_bytes(CONTENT)
    (tmp_path / "north" / "f1").write_bytes(b"x")
    try:
        file = named(name="f[1]", size=1)
        catalogue.register(house.runtime, [file], "alice")
    except ValueError:
        pytest.skip("no file may be called so")
    assert corrections.correct(house.runtime, [named(name="f[1]")], "bob") == 1


@pytest.mark.parametrize("path", ["runs/1", ""])
def test_a_file_behind_a_link_is_described_where_the_link_leads(
    house: House, tmp_path: Path, path: str
) -> None:
    """The catalogue knows where, or the link says so."""
    (tmp_path / "north/runs").mkdir()
    (tmp_path / "north/runs/1").write_bytes(CONTENT)
    (tmp_path / "north/f").symlink_to("runs/1")
    replicas = [Replica(file="ligo:f", storage="north-disk", path=path)] if path else []
    create(house.store, File(name="ligo:f", size=4, checksum=""), *replicas)
    assert corrections.correct(house.runtime, [named()], "bob") == 1
    entry = house.store.catalogue.entry("ligo:f")
    assert entry is not None
    assert [(one.storage, one.path) for one in entry.replicas] == [("north-disk", "runs/1")]
