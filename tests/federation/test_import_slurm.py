"""A cluster's description of itself becomes a site with a queue for each partition."""

import pytest

from pilotage.federation.importers.slurm import SECTION, describe

ANSWER = f"""\
{SECTION}partitions
short*|up|1-00:00:00|10|64|256000|(null)
short*|up|1-00:00:00|2|32|64000+|(null)
gpu|up|infinite|4|32|512000|gpu:a100:4(S:0-1)
old|down|30:00|1|8|16000|(null)
nonsense
{SECTION}configuration
ClusterName             = north
MaxArraySize            = 101
{SECTION}accounts
phys||normal
chem|gpu|normal
{SECTION}places
nfs:/s  2000000000 500000000 1500000000 25% /scratch
path|/scratch/me
{SECTION}python
Python 3.6.8
{SECTION}host
login1
"""


def test_every_partition_is_a_queue() -> None:
    cluster = describe(ANSWER, {"ssh": "me@login"})
    assert cluster.records["sites"] == [{"name": "north"}]
    assert cluster.records["storages"] == [
        {
            "name": "north-disk",
            "site": "north",
            "url": "file:///scratch/me/pilotage-data",
            "free": 1500,
            "storage_min_free": 150.0,
        }
    ]
    short, gpu, old = cluster.records["queues"]
    shared = {"ssh": "me@login", "account": "chem", "array": 100}
    assert short == {
        "name": "north-short",
        "site": "north",
        "storage": "north-disk",
        "cores": 1,
        "max_memory": 2000,
        "max_walltime": 86_400,
        "computing_element": {
            "kind": "slurm",
            "max_pilots": 500,
            "pilot_walltime": 86_400,
            "options": {**shared, "partition": "short"},
        },
    }
    assert gpu["architectures"] == [{"type": "gpu", "model": ["a100"]}]
    assert gpu["computing_element"]["options"] == {**shared, "partition": "gpu", "gres": "gpu:1"}
    assert gpu["computing_element"]["max_pilots"] == 128
    assert "max_walltime" not in gpu
    assert old["status"] == "offline"
    assert old["max_walltime"] == 1800


def test_every_guess_is_told() -> None:
    fields = [(note.action, note.field) for note in describe(ANSWER, {}).notes]
    for field in (
        "account",
        "python",
        "storage",
        "cores",
        "max_memory",
        "max_pilots",
        "pilot_walltime",
        "gres",
    ):
        assert ("guessed", field) in fields
    assert ("clipped", "array") in fields
    assert ("converted", "status") in fields


@pytest.mark.parametrize(
    ("kilobytes", "least"), [(75_000_000, 7.5), (1_500_000_000, 150.0), (2_000_000_000, None)]
)
def test_b18_the_storage_of_a_small_disk_takes_jobs(kilobytes: int, least: float | None) -> None:
    """A tenth of what is free must stay free, where that is less than the usual 200 GB."""
    inspected = describe(ANSWER.replace(" 1500000000 ", f" {kilobytes} "), {})
    (storage,) = inspected.records["storages"]
    assert storage.get("storage_min_free") == least
    assert any(note.field == "storage_min_free" for note in inspected.notes) is (least is not None)


@pytest.mark.parametrize("answer", ["", "sh: sinfo: not found", f"{SECTION}partitions\n"])
def test_what_is_no_cluster_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="names no partition"):
        describe(answer, {})


def answer_of(size: str, *places: str) -> str:
    """A cluster's answer with its MaxArraySize and places."""
    return "\n".join(
        [
            f"{SECTION}partitions",
            "batch*|up|2-00:00:00|10|64|256000|(null)",
            f"{SECTION}configuration",
            f"MaxArraySize            = {size}",
            f"{SECTION}places",
            *places,
            f"{SECTION}python",
            "Python 3.11.2",
        ]
    )


@pytest.mark.parametrize(
    ("size", "array"), [("0", 1), ("1", 1), ("2", 1), ("3", 2), ("200", 199), ("201", None), ("1001", None)]
)
def test_the_highest_index_of_an_array_is_below_its_limit(size: str, array: int | None) -> None:
    cluster = describe(answer_of(size), {})
    options = cluster.records["queues"][0]["computing_element"]["options"]
    assert options.get("array") == array
    assert any(note.field == "array" for note in cluster.notes) == (array is not None)


def test_an_account_without_places_is_told_what_is_guessed() -> None:
    cluster = describe(answer_of("1001"), {})
    assert cluster.records["storages"][0]["url"] == "file:///scratch/pilotage-data"
    assert any("no place was found" in note.text for note in cluster.notes)
