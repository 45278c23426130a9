"""Files of federations, tasks and worlds: every fault with its line, in words."""

# ruff: noqa: E501 -- one case a line

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pilotage.federation.documents import PART, checked, read, read_tasks, write
from pilotage.federation.faults import BadDocument, BadFile, field_name
from pilotage.model.documents.serialization import to_document
from pilotage.model.documents.world import World
from pilotage.model.records.catalogues import OutputTerms
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import InputFile, InputPattern, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.request_budget import MOST_FAULTS
from tests.properties import examples

GOOD = """\
name: north
sites:
  - {name: oslo, nucleus: true}
  - {name: lund}
storages:
  - {name: oslo-disk, site: oslo, url: "file:///data/oslo"}
queues:
  - name: oslo-short
    site: oslo
    storage: oslo-disk
    status: online
    max_memory: 4000
  - name: lund-long
    site: lund
    storage: oslo-disk
links:
  - {source: lund, destination: oslo, closeness: 1}
staging:
  share_by: group
  base_priorities: {physics: 80}
"""

TASK = """\
task:
  name: count
  command: [sh, count.sh]
  payload_files: {count.sh: count.sh}
  inputs:
    - {name: a.txt, size: 3, replicas: [oslo-disk]}
    - {storages: [oslo-disk], glob: "*.csv"}
  outputs: [counted.txt]
"""


def faults_of_federation(folder: Path, text: str) -> list[str]:
    path = folder / "federation.yaml"
    path.write_text(text)
    with pytest.raises(BadFile) as caught:
        read(Federation, path)
    return [str(fault).removeprefix(f"{folder}/") for fault in caught.value.faults]


def faults_of_tasks(folder: Path, text: str) -> list[str]:
    (folder / "count.sh").write_text("wc -l *\n")
    path = folder / "task.yaml"
    path.write_text(text)
    with pytest.raises(BadFile) as caught:
        read_tasks(path)
    return [str(fault).removeprefix(f"{folder}/") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("max_memory: 4000", "max_memory: -5", "12: queues[0].max_memory: -5 is below 0; give MB, 0 for no limit"),
        ("max_memory: 4000", "max_memory: true", "12: queues[0].max_memory: true is not a number; give MB, 0 for no limit, without quotes"),
        ("max_memory: 4000", "max_memory: '4000'", "12: queues[0].max_memory: '4000' is not a number; give MB, 0 for no limit, without quotes"),
        ("max_memory: 4000", "max_memory:", "12: queues[0].max_memory: nothing is not a number; give MB, 0 for no limit, without quotes"),
        ("max_memory: 4000", "max_memory: .inf", "12: queues[0].max_memory: .inf is not a finite number; give a finite number"),
        ("max_memory: 4000", "max_memroy: 4000", "12: queues[0].max_memroy: there is no such field; did you mean max_memory?"),
        ("max_memory: 4000", "cores: 1.5", "12: queues[0].cores: 1.5 is not a whole number; give digits, without quotes"),
        ("max_memory: 4000", "core_power: 0", "12: queues[0].core_power: 0 is below 0.001; give HS23 per core"),
        ("max_memory: 4000", "min_memory: 9\n    max_memory: 8", "12: queues[0].min_memory: 9 MB is above the max_memory of 8 MB; give at most 8"),
        ("max_memory: 4000", "parent: oslo", "12: queues[0].parent: there is no queue 'oslo'; known: lund-long, oslo-short"),
        ("max_memory: 4000", "fairshare_policy: 'type=any'", "12: queues[0].fairshare_policy: column 1: 'type=any' has no :n% at its end; give a list like type=evgen:0%,group=phys.*:100%,priority>800:50%"),
        ("status: online", "status: onlin", "11: queues[0].status: 'onlin' is none of online, standby, offline, brokeroff, paused, test, draining; did you mean online?"),
        ("status: online", "status: 1", "11: queues[0].status: 1 is none of online, standby, offline, brokeroff, paused, test, draining; give one of them"),
        ("nucleus: true", "nucleus: yes", "3: sites[0].nucleus: 'yes' is neither true nor false; give true or false"),
        ("name: lund}", "name: l und}", "4: sites[1].name: 'l und' is not allowed here; start with a letter or digit, then letters, digits and _.:@+-"),
        ("{name: lund}", "{nucleus: false}", "4: sites[1].name: is missing; add name:"),
        ("{name: lund}", "lund", "4: sites[1]: 'lund' is not a mapping; give fields as name: value"),
        ("{name: lund}", "{name: lund, name: lund}", "4: sites[1]: 'name' is given twice; it is given already on line 4; keep one"),
        ("{name: lund}", "{name: lund}\n  - {name: lund}", "5: sites[2].name: 'lund' is the name of sites[1] already; give each a name of its own"),
        ("file:///data/oslo", "/data/oslo", "6: storages[0].url: '/data/oslo' is not allowed here; give a URL like file:///data or https://host/path"),
        ("site: lund\n", "site: lnd\n", "14: queues[1].site: there is no site 'lnd'; did you mean lund?"),
        ("closeness: 1}", "closeness: 12}", "17: links[0].closeness: 12 is above 11; give a closeness from 0 (best) to 11, or -1 for blocked"),
        ("closeness: 1}", "closeness: 1}\n  - {source: lund, destination: oslo}", "18: links[1]: the link from lund to oslo is links[0] already; keep one"),
        ("physics: 80", "physics: 101", "20: staging.base_priorities.physics: 101 is above 100; give at most 100"),
        ("share_by: group", "share_by: none", "20: staging.base_priorities.physics: is for a share, and share_by is none; give _default, or a criterion"),
        ("share_by: group", "share_by: groups", "19: staging.share_by: 'groups' is none of none, user, vo, group, role; did you mean group?"),
        ("name: north", "name: north\nqueus: []", "2: queus: there is no such field; did you mean queues?"),
        ("name: north", "plugins: {atlas: productoin}\nname: north", "1: plugins.atlas: there is no brokerage plugin 'productoin'; did you mean production?"),
        ("name: north\n", "", "1: name: is missing; add name:"),
        ("name: north", "name: north\nloops: {period: 1.0e5}", "2: loops.period: 100000.0 is above 86400; give seconds"),
        ("name: north", "name: north\ndirector: {max_cpu: 1.0e10}", "2: director.max_cpu: 10000000000.0 is above 1e+09; give seconds"),
        ("share_by: group", "share_by: group\n  delivery_slots: 100001", "20: staging.delivery_slots: 100001 is above 100000; give at most 100000"),
        ("max_memory: 4000", "max_memory: 1.0e308", "12: queues[0].max_memory: 1e+308 is above 1e+09; give MB, 0 for no limit"),
        ("name: north", "name: 1.5", "1: name: 1.5 is not text; put it in quotes"),
        ("name: north", "name: [north", "2: is not YAML: did not find expected ',' or ']'; quote text that has a meaning in YAML, and indent with spaces"),
        (GOOD, "", "1: is empty"),
        (GOOD, "- a", "1: a list is not a mapping; give name: value"),
    ],
)  # fmt: skip
def test_a_fault_of_a_federation_is_told_with_line_field_and_remedy(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    assert old in GOOD
    assert faults_of_federation(tmp_path, GOOD.replace(old, new, 1)) == [f"federation.yaml:{fault}"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("name: count", "nam: count", "2: task.nam: there is no such field; did you mean name?"),
        ("size: 3", "size: -3", "6: task.inputs[0].size: -3 is below 0; give bytes"),
        ("size: 3, ", "", "6: task.inputs[0].size: is missing; add size:"),
        ("size: 3, ", "size: 3, checksum: abc, ", "6: task.inputs[0].checksum: 'abc' is not allowed here; give adler32: and 8, md5: and 32, or sha256: and 64 lower-case hexadecimal digits"),
        ("name: a.txt", "name: ../a", "6: task.inputs[0].name: '../a' is not allowed here; give a relative path like data/part 1.txt, without control characters, empty parts, . and .."),
        ("[oslo-disk], glob", "[oslo-disk], blob: 1, glob", "7: task.inputs[1].blob: there is no such field; did you mean glob?"),
        ("{count.sh: count.sh}", "{a/b: count.sh}", "4: task.payload_files.a/b: 'a/b' is not allowed here; give a plain file name, without slashes and control characters, and neither . nor .."),
        ("command: [sh, count.sh]", "command: sh count.sh", "3: task.command: 'sh count.sh' is not a list; give a list, [one, two] or one a line after a dash"),
        ("outputs: [counted.txt]", "outputs: [a, a]", "8: task.outputs[1]: 'a' is given twice; keep one"),
        ("outputs: [counted.txt]", "optional_outputs: [b]", "8: task.optional_outputs[0]: 'b' is not in outputs; write it in both alike"),
        ("outputs: [counted.txt]", "merge: {command: [sh], outputs: [a]}", "8: task.merge: there is nothing to merge; give outputs, which the merge job reads"),
        ("outputs: [counted.txt]", "jobs: 100001", "8: task.jobs: 100001 is above 100000; submit several tasks"),
        ("outputs: [counted.txt]", "ram: 1.0e308", "8: task.ram: 1e+308 is above 1e+09; give MB"),
        ("size: 3", "size: 1000000000000001", "6: task.inputs[0].size: 1000000000000001 is above 1000000000000000; give bytes"),
        ("outputs: [counted.txt]", "output_dataset: atlas:results", "8: task.output_dataset: 'atlas:results' is not allowed here; give NAME, for a dataset in your own scope, or CATALOGUE~SCOPE:NAME of a catalogue that others keep, like rucio~user.ada:results"),
        ("outputs: [counted.txt]", "priority: 0", "8: task.priority: 0 is below 1; give 1 or more"),
        ("task:", "share: a\ntask:", "1: share: there is no such field; known: task, workflow"),
        ("task:", "tsk:", "1: tsk: there is no such field; pilotage schema lists the fields"),
        (TASK, "tasks: []", "1: tasks: is empty; give at least one task"),
        (TASK, "tasks:", "1: tasks: nothing is not a mapping; give fields as name: value"),
        (TASK, "a", "1: 'a' is not a mapping; give fields as name: value"),
    ],
)  # fmt: skip
def test_a_fault_of_a_task_is_told_with_line_field_and_remedy(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    assert old in TASK
    told = faults_of_tasks(tmp_path, TASK.replace(old, new, 1))
    assert f"task.yaml:{fault}" in told
    assert len(told) <= 2


def test_all_faults_are_told_at_once_in_order_of_line(tmp_path: Path) -> None:
    text = (
        GOOD.replace("lund}", "lund, nuclues: 1}")
        .replace("4000", "-1")
        .replace("closeness: 1", "closeness: a")
    )
    assert [fault.split(":")[1] for fault in faults_of_federation(tmp_path, text)] == ["4", "12", "17"]


def test_a_payload_file_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    (fault,) = faults_of_tasks(tmp_path, TASK.replace("count.sh}", "cuont.sh}"))
    assert fault == (
        f"task.yaml:4: task.payload_files.count.sh: {tmp_path}/cuont.sh: there is no such file; "
        "give a path relative to this file, or the text itself as a block after a |"
    )


def test_a_payload_file_that_is_a_pipe_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (fault,) = faults_of_tasks(tmp_path, TASK.replace("count.sh}", "pipe}"))
    assert "payload_files.count.sh: " in fault
    assert "is not a regular file" in fault


def test_payload_files_are_read_beside_the_task_or_given_as_text(tmp_path: Path) -> None:
    (tmp_path / "count.sh").write_text("wc -l *\n")
    (tmp_path / "task.yaml").write_text(
        TASK.replace("{count.sh: count.sh}", "\n    count.sh: ./count.sh\n    b.sh: |\n      echo b\n")
    )
    (spec,) = read_tasks(tmp_path / "task.yaml")
    assert spec.payload_files == {"count.sh": "wc -l *\n", "b.sh": "echo b\n"}
    assert spec.inputs == (
        InputFile(name="a.txt", size=3, replicas=("oslo-disk",)),
        InputPattern(storages=("oslo-disk",), glob="*.csv"),
    )


@pytest.mark.parametrize(
    "text", ["name: a", "task: {name: a}", "tasks: [{name: a}]", "- name: a", "task:\n- name: a"]
)
def test_a_task_file_holds_one_or_a_list_bare_or_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.yaml").write_text(text)
    assert read_tasks(tmp_path / "task.yaml") == (TaskSpec(name="a"),)


@pytest.mark.parametrize("reader", [lambda path: read(Federation, path), read_tasks])
def test_what_is_not_a_text_file_is_told_without_a_line(tmp_path: Path, reader: object) -> None:
    (tmp_path / "latin").write_bytes(b"name: a\nsite: \xe5\n")
    assert callable(reader)
    for name, message in {
        "nothing": "nothing: there is no such file; check the path",
        ".": ": is a directory; give a file",
        "latin": "latin:2: byte 0xe5 is not UTF-8; save it as UTF-8",
        "latin/b": "b: cannot be read: Not a directory; check the path and its permissions",
    }.items():
        with pytest.raises(BadFile) as caught:
            reader(tmp_path / name)
        assert str(caught.value).endswith(message)


def test_a_document_without_a_file_is_checked_as_strictly() -> None:
    with pytest.raises(BadDocument) as caught:
        checked(TaskSpec, {"name": "a", "jobs": "3", "ram": float("1")})
    assert [(fault.path, fault.text) for fault in caught.value.faults] == [
        (("jobs",), "'3' is not a whole number; give digits, without quotes")
    ]
    with pytest.raises(BadDocument, match="not finite"):
        checked(TaskSpec, {"name": "a", "ram": float("nan")})


def test_a_value_that_one_of_two_kinds_refuses_has_one_fault() -> None:
    with pytest.raises(BadDocument) as caught:
        checked(TaskSpec, {"name": "a", "after": ["büro", 7]})
    (fault,) = caught.value.faults
    assert (fault.path, fault.message) == (("after", 0), "'büro' is not allowed here")


def test_a_world_is_written_and_read_back_the_same(tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text(GOOD)
    federation = read(Federation, tmp_path / "federation.yaml")
    world = World(time=1e9 + 0.125, seed=7, federation=replace(federation, name="1e9"))
    (tmp_path / "world.yaml").write_text(write(world))
    assert read(World, tmp_path / "world.yaml") == world


def test_a_field_with_control_characters_cannot_write_to_a_terminal(tmp_path: Path) -> None:
    (fault,) = faults_of_federation(tmp_path, GOOD + '"a\\e[2J\\nb": 1\n')
    assert fault.startswith("federation.yaml:21: a\\x1b[2J\\nb: there is no such field; ")


def test_json_that_is_too_deep_is_refused_with_its_line(tmp_path: Path) -> None:
    for depth in (60, 500, 100_000):
        (fault,) = faults_of_federation(tmp_path, '{"name":' + '{"a":' * depth + "1" + "}" * depth + "}")
        assert fault.startswith("federation.yaml:1: ")
        assert fault.endswith("is nested deeper than 50 levels; write it flatter")


def test_many_unknown_fields_are_told_up_to_a_bound() -> None:
    with pytest.raises(BadDocument) as caught:
        checked(TaskSpec, {"name": "a", "inputs": [{"name": "b", "size": 1, "x": 1}] * 3000})
    assert len(caught.value.faults) == MOST_FAULTS


DOCUMENT = yaml.safe_load(GOOD)
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=8), st.integers(), max_size=3),
    st.binary(max_size=3),
    st.dates(),
)
PLACES = st.lists(st.integers(0, 9), min_size=1, max_size=4)


def mutated(document: object, place: list[int], value: object) -> object:
    """The document with the value somewhere: in the place of another, or beside it under a new key."""
    if not place or not isinstance(document, (list, dict)) or not document:
        return value
    if isinstance(document, list):
        at = place[0] % len(document)
        return [
            mutated(item, place[1:], value) if index == at else item for index, item in enumerate(document)
        ]
    keys = list(document)
    key = keys[place[0] % len(keys)]
    if place[0] == 9:
        return {**document, str(value)[:9]: value}
    return {**document, key: mutated(document[key], place[1:], value)}


def accepted_or_refused_with_a_line(path: Path, kind: type[Federation] | type[TaskSpec]) -> None:
    try:
        if kind is Federation:
            read(Federation, path)
        else:
            read_tasks(path)
    except BadFile as bad:
        length = path.read_bytes().count(b"\n") + 1
        for fault in bad.faults:
            assert fault.line is not None
            assert 1 <= fault.line <= length
            assert fault.message


@pytest.mark.slow
@settings(
    max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=PLACES, value=STRANGE)
def test_a_mutated_federation_is_accepted_or_refused_with_a_line(
    tmp_path: Path, place: list[int], value: object
) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(yaml.safe_dump(mutated(DOCUMENT, place, value), sort_keys=False, allow_unicode=True))
    accepted_or_refused_with_a_line(path, Federation)


@pytest.mark.slow
@settings(
    max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=PLACES, value=STRANGE)
def test_a_mutated_task_is_accepted_or_refused_with_a_line(
    tmp_path: Path, place: list[int], value: object
) -> None:
    (tmp_path / "count.sh").write_text("wc -l *\n")
    path = tmp_path / "task.yaml"
    document = yaml.safe_load(TASK)
    path.write_text(yaml.safe_dump(mutated(document, place, value), sort_keys=False, allow_unicode=True))
    accepted_or_refused_with_a_line(path, TaskSpec)


@settings(
    max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, len(GOOD)), st.integers(0, 30), st.binary(max_size=6))
def test_damaged_bytes_are_accepted_or_refused_with_a_line(
    tmp_path: Path, start: int, length: int, put: bytes
) -> None:
    path = tmp_path / "federation.yaml"
    data = GOOD.encode()
    path.write_bytes(data[:start] + put + data[start + length :])
    accepted_or_refused_with_a_line(path, Federation)


def test_a_federation_is_the_same_after_a_round_through_its_document() -> None:
    federation = checked(Federation, DOCUMENT)
    assert checked(Federation, to_document(federation)) == federation


def test_values_and_references_are_checked_in_one_round(tmp_path: Path) -> None:
    file = tmp_path / "federation.yaml"
    text = GOOD.replace("max_memory: 4000", "max_memory: much").replace("site: lund\n", "site: lnud\n")
    file.write_text(text.replace("closeness: 1", "closness: 1"))
    with pytest.raises(BadFile) as refused:
        read(Federation, file)
    told = str(refused.value)
    assert "queues[0].max_memory: 'much'" in told
    assert "links[0].closness: there is no such field" in told
    assert "queues[1].site: there is no site 'lnud'; did you mean lund?" in told
    assert len(told.splitlines()) == 3


@pytest.mark.parametrize("sites", ["", "sites: 5\n", "sites: []\n", "site: []\n", "sites: [{nam: a}]\n"])
def test_the_rest_is_checked_in_the_same_round_where_a_whole_list_is_missing(
    tmp_path: Path, sites: str
) -> None:
    file = tmp_path / "federation.yaml"
    rest = """\
name: x
storages:
  - { name: a, site: nowhere, url: "https://host" }
queues:
  - { name: q, site: nowhere, storage: a, max_memory: 5, min_memory: 9 }
  - { name: q, site: nowhere, storage: mistaken }
"""
    file.write_text(sites + rest)
    with pytest.raises(BadFile) as refused:
        read(Federation, file)
    told = str(refused.value)
    assert "sites" in told
    assert "queues[0].min_memory: 9 MB is above" in told
    assert "queues[1].name: 'q' is the name of queues[0] already" in told
    assert "there is no site" not in told, "it may be among those that are missing"
    assert "without-a-name" not in told


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (
            {"match": "*.fa", "storage": "disk"},
            {
                "glob": "is missing; add glob:",
                "match": "there is no such field; did you mean glob?",
                "storage": "there is no such field; did you mean storages?",
            },
        ),
        (
            {"pattern": "*.fa", "storages": ["disk"]},
            {"glob": "is missing; add glob:", "pattern": "there is no such field; did you mean glob?"},
        ),
        (
            {"name": "a", "size": 1, "storage": "disk"},
            {"storage": "there is no such field; did you mean replicas?"},
        ),
        (
            {"path": "a", "size": 1},
            {"name": "is missing; add name:", "path": "there is no such field; did you mean name?"},
        ),
        (
            {"datset": "runs"},
            {
                "dataset": "is missing; add dataset:",
                "datset": "there is no such field; did you mean dataset?",
            },
        ),
    ],
)
def test_an_input_is_told_by_what_its_fields_resemble(item: dict[str, object], told: dict[str, str]) -> None:
    with pytest.raises(BadDocument) as caught:
        checked(TaskSpec, {"name": "t", "inputs": [item]})
    found = {field_name(fault.path): fault.text for fault in caught.value.faults}
    assert found == {f"inputs[0].{name}": text for name, text in told.items()}


def test_a_long_list_of_bad_inputs_is_read_no_further_than_its_first_bad_part() -> None:
    """200,000 bad inputs have two million faults, and nothing else ran for seconds until they were counted."""
    good = [{"name": f"file {number}", "size": 1} for number in range(3 * PART)]
    long = {"name": "a", "command": ["true"], "inputs": good}
    assert [to_document(file)["name"] for file in checked(TaskSpec, long).inputs] == [
        one["name"] for one in good
    ]
    bad = {**long, "inputs": [*good, *({"nme": number} for number in range(100 * PART))]}
    with pytest.raises(BadDocument) as refused:
        checked(TaskSpec, bad)
    assert refused.value.faults[0].path == ("inputs", 3 * PART, "name")
    assert isinstance(refused.value.__cause__, ValidationError)
    assert refused.value.__cause__.error_count() < 20 * PART


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ("plugins.a:b", {"plugins": {"a:b": "production"}}),
        ("shares[1].vo", {"shares": [{"name": "default"}, {"name": "x", "vo": "a~b"}]}),
        ("queues[0].vos[0]", {"queues": [{"name": "q", "site": "s", "storage": "d", "vos": ["a:b"]}]}),
        ("director.generic_identity.a.name", {"director": {"generic_identity": {"a": {"name": "x:y"}}}}),
        ("director.generic_identity.a.group", {"director": {"generic_identity": {"a": {"group": " x"}}}}),
        (
            "director.private_pilot_fraction_by_vo.a ",
            {"director": {"private_pilot_fraction_by_vo": {"a ": 1}}},
        ),
        ("binding.by_vo.a\\u202eb", {"binding": {"by_vo": {"a\u202eb": "late"}}}),
    ],
)
def test_names_of_people_vos_and_groups_keep_one_rule_wherever_they_enter(
    where: str, part: dict[str, object]
) -> None:
    """Tokens refused what a federation could still name: keys and scopes join names with these signs."""
    federation = {
        "name": "north",
        "sites": [{"name": "s", "nucleus": True}],
        "storages": [{"name": "d", "site": "s", "url": "file:///data"}],
        "queues": [{"name": "q", "site": "s", "storage": "d"}],
    }
    with pytest.raises(BadDocument) as refused:
        checked(Federation, {**federation, **part})
    assert [field_name(fault.path) for fault in refused.value.faults] == [where]


def test_nobodys_name_stands_for_their_vo() -> None:
    own = OutputTerms(scopes=("user.{name}", "group.{vo}"))
    assert own.scopes_of(Identity(name="{vo}", vo="atlas")) == ["user.{vo}", "group.atlas"]
