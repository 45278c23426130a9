"""Documents of the CRIC kind: queues with their sites, storages and links, in whatever files they come."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation.checks import federation_faults
from pilotage.federation.documents import read, write
from pilotage.federation.importers import IMPORTERS, Imported, ImportSource, Note
from pilotage.model.records.federation import Federation, Hardware, Queue, Tag

QUEUE: Mapping[str, Any] = {
    "atlas_site": "AGLT2",
    "rc_site": "AGLT2",
    "nickname": "AGLT2",
    "panda_resource": "AGLT2",
    "status": "online",
    "state": "ACTIVE",
    "type": "unified",
    "corecount": 8,
    "corepower": 14.54,
    "maxrss": 48000,
    "minrss": 0,
    "meanrss": 2200,
    "maxtime": 258000,
    "mintime": 0,
    "timefloor": 200,
    "maxwdir": 106498,
    "maxdiskio": 5000,
    "transferringlimit": 3000,
    "pledgedcpu": None,
    "wnconnectivity": "full#IPv4",
    "fairsharepolicy": "type=evgen:0%,type=any:100%",
    "jobseed": "eshigh",
    "catchall": "disableReassign,hello",
    "direct_access_lan": True,
    "region": "US-MIDW-MISO",
    "releases": ["AUTO"],
    "container_type": "singularity:pilot",
    "container_options": "",
    "vo_name": "atlas",
    "astorages": {"read_lan": ["AGLT2_DATADISK"], "write_lan": ["AGLT2_SCRATCHDISK", "AGLT2_DATADISK"]},
    "queues": [
        {"ce_endpoint": "gate01.aglt2.org:9619", "ce_flavour": "HTCONDOR-CE"},
        {"ce_endpoint": "gate02.aglt2.org:9619", "ce_flavour": "HTCONDOR-CE"},
        {"ce_endpoint": "arc.aglt2.org", "ce_flavour": "ARC-CE"},
    ],
}
ENDPOINT: Mapping[str, Any] = {
    "site": "AGLT2",
    "rc_site": "AGLT2",
    "state": "ACTIVE",
    "is_tape": False,
    "token": "ATLASDATADISK",
    "type": "DATADISK",
    "space": {"free": 1_500_000_000_000_000, "total": 9_000_000_000_000_000},
    "arprotocols": {
        "read_lan": [{"endpoint": "root://xrootd.aglt2.org:1094", "path": "/pnfs/atlas"}],
        "write_lan": [{"endpoint": "davs://webdav.aglt2.org:2880", "path": "/pnfs/atlas"}],
    },
}
SITES = {
    "AGLT2": {"state": "ACTIVE", "tier_level": 2, "datapolicies": ["Nucleus"], "ddmendpoints": {}},
    "CERN-PROD": {"state": "ACTIVE", "tier_level": 0, "datapolicies": [], "ddmendpoints": {}},
}


def queues(**changes: Any) -> dict[str, Any]:
    return {"AGLT2": {**QUEUE, **changes}}


def imported(*documents: Any) -> Imported:
    sources = [
        ImportSource(f"{at}.json", json.dumps(document, indent=1)) for at, document in enumerate(documents)
    ]
    return IMPORTERS["cric"](sources, "atlas")


def first(*documents: Any) -> Queue:
    house = imported(*documents).federation
    assert house is not None
    return house.queues[0]


def house_of(*documents: Any) -> Federation:
    house = imported(*documents).federation
    assert house is not None
    assert federation_faults(house) == []
    return house


def notes(of: Imported, action: str, field: str) -> list[Note]:
    return [note for note in of.notes if (note.action, note.field) == (action, field)]


def test_a_queue_has_the_fields_of_its_document() -> None:
    made = first(queues(), {"AGLT2_DATADISK": ENDPOINT})
    assert (made.name, made.site, made.storage, made.status) == ("AGLT2", "AGLT2", "AGLT2_DATADISK", "online")
    assert (made.cores, made.core_power) == (8, 14.54)
    assert (made.min_memory, made.max_memory, made.max_workdir) == (0, 48000, 106498)
    assert (made.min_walltime, made.max_walltime) == (0, 258000)
    assert (made.max_disk_io, made.transferring_limit, made.pledged_cpu) == (5000, 3000, None)
    assert (made.connectivity, made.event_service) == ("full#IPv4", "eshigh")
    assert made.fairshare_policy == "type=evgen:0%,type=any:100%"
    assert made.direct_access
    assert made.disable_reassign
    assert (made.releases, made.vos) == (("AUTO",), ("atlas",))


def test_the_entrances_of_the_first_kind_are_the_computing_element() -> None:
    result = imported(queues())
    assert result.federation is not None
    element = result.federation.queues[0].computing_element
    assert element is not None
    assert element.kind == "htcondor"
    assert element.options == {"schedd": "gate01.aglt2.org", "collector": "gate01.aglt2.org:9619"}
    assert [(server.name, server.options["collector"]) for server in element.servers] == [
        ("gate01.aglt2.org:9619", "gate01.aglt2.org:9619"),
        ("gate02.aglt2.org:9619", "gate02.aglt2.org:9619"),
    ]
    alone = [{"ce_endpoint": "arc.aglt2.org", "ce_flavour": "ARC-CE"}]
    single = first(queues(queues=alone)).computing_element
    assert single is not None
    assert (single.kind, single.options, single.servers) == ("arc", {"endpoint": "arc.aglt2.org"}, ())
    assert notes(result, "dropped", "queues")
    assert first(queues(queues=[])).computing_element is None


@pytest.mark.parametrize("endpoint", [None, "", " "])
def test_an_entrance_without_an_address_is_none(endpoint: str | None) -> None:
    result = imported(queues(queues=[{"ce_endpoint": endpoint, "ce_flavour": "HTCONDOR-CE"}]))
    assert result.federation is not None
    assert result.federation.queues[0].computing_element is None
    assert notes(result, "dropped", "queues")


def test_what_is_not_said_is_guessed_and_told() -> None:
    result = imported({"BARE": {"corecount": None, "maxrss": None, "status": None}})
    assert result.federation is not None
    made = result.federation.queues[0]
    assert (made.site, made.status, made.cores, made.max_memory, made.connectivity, made.event_service) == (
        "BARE",
        "offline",
        1,
        0,
        "none",
        "std",
    )
    told = {note.field for note in result.notes if note.action == "guessed"}
    assert {
        "atlas_site",
        "status",
        "corecount",
        "maxrss",
        "maxtime",
        "wnconnectivity",
        "jobseed",
        "storage",
    } <= told


def test_every_field_that_says_something_is_taken_or_told() -> None:
    result = imported(
        queues(harvester="CERN_central_A", localqueue="", hc_suite=[]), {"AGLT2_DATADISK": ENDPOINT}
    )
    dropped = {
        note.field: note for note in result.notes if note.action == "dropped" and note.file == "0.json"
    }
    assert dropped["harvester"].value == "CERN_central_A"
    assert {"meanrss", "timefloor", "region", "container_type", "catchall"} <= dropped.keys()
    assert not {"localqueue", "hc_suite", "nickname", "corecount", "astorages", "site"} & dropped.keys()
    lines = json.dumps(queues(harvester="CERN_central_A"), indent=1).splitlines()
    line = dropped["region"].line
    assert line is not None
    assert "region" in lines[line - 1]


@pytest.mark.parametrize(
    ("said", "connectivity"),
    [
        ("full", "full"),
        ("http#IPv6", "http#IPv6"),
        ("none#", "none#"),
        ("full#IPv4+IPv6", "full"),
        ("", "none"),
    ],
)
def test_connectivity_names_one_ip_stack_or_none(said: str, connectivity: str) -> None:
    assert first(queues(wnconnectivity=said)).connectivity == connectivity


def test_an_inactive_queue_is_offline_and_a_template_is_none() -> None:
    assert first(queues(state="DISABLED")).status == "offline"
    result = imported({**queues(), "TEMPLATE": {**QUEUE, "is_virtual": True}})
    assert result.federation is not None
    assert [made.name for made in result.federation.queues] == ["AGLT2"]
    assert notes(result, "dropped", "is_virtual")
    assert not result.refusals


def test_a_unified_queue_gets_pseudo_queues_with_their_own_cores_and_memory() -> None:
    house = house_of(queues(capability="ucore"))
    found = {made.name: made for made in house.queues}
    shape = {
        name: (made.parent, made.cores, made.min_memory, made.max_memory) for name, made in found.items()
    }
    assert shape == {
        "AGLT2": ("", 8, 0, 48000),
        "AGLT2:SCORE": ("AGLT2", 1, 0, 2000),
        "AGLT2:MCORE": ("AGLT2", 8, 0, 16000),
        "AGLT2:SCORE_HIMEM": ("AGLT2", 1, 2000, 6000),
        "AGLT2:MCORE_HIMEM": ("AGLT2", 8, 16000, 48000),
    }
    limited = house_of(queues(capability="ucore", transferringlimit=70, maxdiskio=50))
    alone = {
        one.name: (one.transferring_limit, one.max_disk_io, one.computing_element) for one in limited.queues
    }
    assert alone.pop("AGLT2")[:2] == (70, 50 * 1000 / 1000)
    assert {*alone.values()} == {(None, None, None)}, "limits are the unified queue's alone (B2)"
    small = house_of(queues(catchall="unifiedPandaQueue", corecount=1, maxrss=2000))
    assert [made.name for made in small.queues] == ["AGLT2", "AGLT2:SCORE"]


def test_children_that_are_given_stand_in_place_of_pseudo_queues() -> None:
    house = house_of({**queues(capability="ucore"), "CHILD": {**QUEUE, "parent": "AGLT2", "corecount": 1}})
    assert {made.name: made.parent for made in house.queues} == {"AGLT2": "", "CHILD": "AGLT2"}
    assert first(queues(parent="AGLT2_VIRTUAL")).parent == ""


def test_a_storage_has_its_space_in_gigabytes_and_its_best_protocol() -> None:
    (storage,) = house_of(queues(), {"AGLT2_DATADISK": ENDPOINT}).storages
    assert (storage.site, storage.free, storage.tape) == ("AGLT2", 1_500_000, False)
    assert storage.url == "https://webdav.aglt2.org:2880/pnfs/atlas"
    assert storage.blacklisted == ()


@pytest.mark.parametrize(
    ("space", "free"),
    [({"free": 750}, 750), (750.5, 750.5), (9e14, 900_000), (None, None), ({}, None)],
)
def test_space_in_bytes_is_known_by_its_size(space: Any, free: float | None) -> None:
    assert house_of(queues(), {"AGLT2_DATADISK": {**ENDPOINT, "space": space}}).storages[0].free == free


def test_space_that_rucio_counts_comes_first() -> None:
    usage = {"AGLT2_DATADISK": {"storage": {"free": 5e12, "used": 1e12}, "expired": {"used": 1}}}
    assert house_of(queues(), {"AGLT2_DATADISK": ENDPOINT}, usage).storages[0].free == 5000


@pytest.mark.parametrize(
    ("own", "status", "closed"),
    [
        (
            {},
            {"write_wan": {"status": {"value": "OFF"}}, "read_wan": {"status": {"value": "ON"}}},
            ("write_wan",),
        ),
        ({}, {"w": {"mode": {"OFF": {"manual": {}}}}}, ("write_lan", "write_wan")),
        ({"blacklisted_read": "Y"}, {}, ("read_lan", "read_wan")),
        ({"blacklisted": ["read_lan", "delete_wan"]}, {}, ("read_lan",)),
        ({"blacklisted": True}, {"r": "OFF"}, ("read_lan", "read_wan", "write_lan", "write_wan")),
        ({"blacklisted": False}, {"d": {"status": {"value": "OFF"}}}, ()),
    ],
)
def test_blacklisting_is_by_activity(own: Any, status: Any, closed: tuple[str, ...]) -> None:
    documents = [queues(), {"AGLT2_DATADISK": {**ENDPOINT, **own}}]
    house = house_of(*documents, *([{"AGLT2_DATADISK": status}] if status else []))
    assert house.storages[0].blacklisted == closed


def test_scratch_space_is_known_by_its_name_and_that_is_told() -> None:
    disks = {"AGLT2_DATADISK": ENDPOINT, "AGLT2_SCRATCHDISK": ENDPOINT}
    (note,) = notes(imported(queues(), disks), "guessed", "name")
    assert note.entry == "AGLT2_SCRATCHDISK"
    storages = house_of(queues(), disks).storages
    assert {storage.name: storage.scratch for storage in storages} == {
        "AGLT2_DATADISK": False,
        "AGLT2_SCRATCHDISK": True,
    }


def test_an_inactive_endpoint_is_left_out() -> None:
    house = house_of(queues(), {"AGLT2_DATADISK": {**ENDPOINT, "state": "DISABLED"}})
    assert [storage.name for storage in house.storages] == ["AGLT2-storage"]


def test_nuclei_are_sites_whose_data_policy_says_so() -> None:
    house = house_of(queues(), SITES)
    assert {site.name: site.nucleus for site in house.sites} == {"AGLT2": True, "CERN-PROD": False}


LINKS: list[Any] = [
    [
        {"src": "AGLT2", "dst": "CERN-PROD", "closeness": 5},
        {"src": "CERN-PROD", "dst": "AGLT2", "closeness": -1},
    ],
    {"AGLT2": {"CERN-PROD": 5, "AGLT2": 0}, "CERN-PROD": {"AGLT2": -1}},
    {"AGLT2:CERN-PROD": {"closeness": 5}, "CERN-PROD:AGLT2": {"closeness": {"latest": -1}}},
]


@pytest.mark.parametrize("matrix", LINKS)
def test_closeness_comes_as_a_list_a_matrix_or_pairs(matrix: Any) -> None:
    links = house_of(queues(), SITES, matrix).links
    assert {(link.source, link.destination): link.closeness for link in links} == {
        ("AGLT2", "CERN-PROD"): 5,
        ("CERN-PROD", "AGLT2"): -1,
    }


def test_closeness_is_clipped_dropped_or_refused_where_it_does_not_fit() -> None:
    matrix = [
        {"src": "AGLT2", "dst": "CERN-PROD", "closeness": 14},
        {"src": "AGLT2", "dst": "NOWHERE", "closeness": 1},
        {"src": "CERN-PROD", "dst": "AGLT2", "closeness": -7},
        {"src": "AGLT2", "dst": "CERN-PROD", "closeness": 3},
        {"src": "AGLT2", "closeness": 3},
    ]
    result = imported(queues(), SITES, matrix)
    assert result.federation is not None
    assert [link.closeness for link in result.federation.links] == [11]
    assert len(notes(result, "clipped", "closeness")) == 1
    assert len(notes(result, "dropped", "closeness")) == 1
    assert [refusal.text.partition(";")[0] for refusal in result.refusals] == [
        "is no closeness",
        "is given already",
        "names no site",
    ]


def test_software_comes_with_the_queue_or_in_a_document_of_its_own() -> None:
    software = {
        "AGLT2": {
            "cmtconfigs": ["x86_64-centos7-gcc8-opt"],
            "containers": ["any"],
            "cvmfs": ["atlas"],
            "architectures": [{"type": "gpu", "vendor": ["nvidia", "excl"], "colour": "blue"}],
            "tags": [{"container_name": "athena", "sources": ["/cvmfs/a"], "release": "21.0"}],
        },
        "ALL": {"tags": [{"container_name": "athena", "sources": ["/cvmfs/atlas/athena"]}]},
    }
    house = house_of(queues(), software)
    made = house.queues[0]
    assert (made.cmtconfigs, made.containers, made.cvmfs) == (
        ("x86_64-centos7-gcc8-opt",),
        ("any",),
        ("atlas",),
    )
    assert made.architectures == (Hardware(type="gpu", vendor=("nvidia", "excl")),)
    assert made.tags == (Tag(container_name="athena", sources=("/cvmfs/a",), release="21.0"),)
    assert house.container_sources == {"athena": ("/cvmfs/atlas/athena",)}


def test_one_file_with_all_documents_is_the_same_as_files_in_any_order() -> None:
    parts = [queues(), SITES, {"AGLT2_DATADISK": ENDPOINT}, LINKS[0]]
    together = dict(zip(("queues", "sites", "ddmendpoints", "closeness"), parts, strict=True))
    assert house_of(*parts) == house_of(*reversed(parts)) == house_of(together)


def test_records_may_come_as_a_list() -> None:
    named = [{**QUEUE, "name": "AGLT2"}]
    assert house_of(named) == house_of(queues())


def test_the_result_comes_back_from_its_yaml(tmp_path: Path) -> None:
    house = house_of(queues(capability="ucore"), SITES, {"AGLT2_DATADISK": ENDPOINT}, LINKS[1])
    file = tmp_path / "federation.yaml"
    file.write_text(write(house))
    assert read(Federation, file) == house


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("corecount", "eight", "is not a whole number"),
        ("corecount", 1e30, "beyond reason"),
        ("maxrss", -1, "is negative"),
        ("maxrss", 48, "in another unit"),
        ("maxtime", True, "is not a number"),
        ("maxtime", float("nan"), "is not a number"),
        ("mintime", 300_000, "above the max_walltime"),
        ("minrss", 50_000, "above the max_memory"),
        ("status", "onlin", "is no status"),
        ("wnconnectivity", "ful", "is no connectivity"),
        ("jobseed", "sometimes", "std"),
        ("fairsharepolicy", "type=evgen", "has no :n% at its end"),
        ("atlas_site", 7, "is not text"),
        ("direct_access_lan", "perhaps", "is neither true nor false"),
        ("releases", [1], "is not a list of texts"),
        ("architectures", [{"type": "tpu"}], "cpu"),
    ],
)
def test_a_bad_queue_is_refused_with_its_place_and_the_others_are_kept(
    field: str, value: Any, words: str
) -> None:
    document = {"GOOD": QUEUE, "BAD": {**QUEUE, field: value}, "ALSO": QUEUE}
    result = imported(document)
    assert result.federation is not None
    assert federation_faults(result.federation) == []
    assert [made.name for made in result.federation.queues] == ["GOOD", "ALSO"]
    (refusal,) = result.refusals
    assert refusal.entry == "BAD"
    assert words in refusal.text
    lines = json.dumps(document, indent=1).splitlines()
    assert refusal.line is not None
    assert sum('"corecount"' in line for line in lines[: refusal.line - 1]) in (1, 2)
    assert field in lines[refusal.line - 1] or "BAD" in lines[refusal.line - 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"A": ', "is not JSON"),
        ("", "is not JSON"),
        ("[1, 2]", "is no document that is known"),
        ('{"A": {"colour": "blue"}}', "is no document that is known"),
        ('{"A":' * 60 + "1" + "}" * 60, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("null", "is empty"),
    ],
)
def test_a_file_that_is_no_such_document_is_refused_whole(text: str, words: str) -> None:
    result = IMPORTERS["cric"]([ImportSource("bad.json", text)], "x")
    assert result.federation is None
    (refusal,) = result.refusals
    assert words in refusal.text


def test_what_is_given_twice_is_refused_and_the_first_is_kept() -> None:
    text = f'{{"A": {json.dumps(QUEUE)}, "A": {json.dumps({**QUEUE, "corecount": 1})}}}'
    result = IMPORTERS["cric"]([ImportSource("twice.json", text), ImportSource("again.json", text)], "x")
    assert result.federation is not None
    assert [made.cores for made in result.federation.queues] == [8]
    assert len(result.refusals) == 3


def test_an_empty_list_of_releases_is_not_any() -> None:
    (made,) = house_of(queues(releases=[])).queues
    assert made.releases == ()
    software = {"AGLT2": {"cvmfs": ["atlas"], "cmtconfigs": ["x86_64-el9-gcc13-opt"]}}
    (made,) = house_of(queues(releases=[]), software).queues
    assert made.releases == ("AUTO",)
    (made,) = house_of(queues(releases=None)).queues
    assert made.releases == ("ANY",)


@pytest.mark.parametrize("value", ["=false", "=False", "=no", "=0", "=maybe", "_related"])
def test_attributes_per_core_may_be_switched_off(value: str) -> None:
    (plain,) = house_of(queues(catchall="")).queues
    (made,) = house_of(queues(catchall=f"per_core_attr{value}")).queues
    assert made == plain


@pytest.mark.parametrize("value", ["", "=true", "=True", "=yes", "=1"])
def test_attributes_per_core_count_for_the_whole_slot(value: str) -> None:
    (plain,) = house_of(queues()).queues
    (made,) = house_of(queues(catchall=f"gpu, per_core_attr{value}")).queues
    assert made.cores == 8
    for name in ("min_memory", "max_memory", "max_workdir"):
        assert getattr(made, name) == 8 * getattr(plain, name)
    assert made.max_walltime == plain.max_walltime


def test_the_summary_begins_with_what_may_change_where_jobs_go() -> None:
    told = imported(queues(comment="for people", maxtime="")).summary()
    actions = [(row.action, row.field) for row in told]
    lost, guess = actions.index(("dropped", "catchall")), actions.index(("guessed", "maxtime"))
    cosmetic = actions.index(("dropped", "comment"))
    converted = [place for place, (action, _) in enumerate(actions) if action == "converted"]
    assert lost < guess < cosmetic
    assert all(guess < place < cosmetic for place in converted)


def one(**changes: Any) -> Imported:
    """The import of a single queue, written without a dictionary around it."""
    record = {**QUEUE, "name": "AGLT2", **changes}
    return IMPORTERS["cric"]([ImportSource("queue.json", json.dumps(record))], "one")


def test_one_queue_that_names_itself_is_taken() -> None:
    house = one().federation
    assert house is not None
    assert house.queues[0].name == "AGLT2"
    assert not one().refusals
    (bad,) = one(corecount="many").refusals
    assert (bad.field, bad.line) == ("corecount", 1)


@pytest.mark.parametrize("record", [QUEUE, {"is_tape": False, "token": "X", "se": "davs://lab:443/"}])
def test_one_record_without_a_name_is_refused_once(record: dict[str, Any]) -> None:
    bare = {key: value for key, value in record.items() if key not in ("name", "nickname", "panda_queue")}
    (refusal,) = IMPORTERS["cric"]([ImportSource("bare.json", json.dumps(bare))], "x").refusals
    assert 'under its name, as {"NAME": {...}}' in refusal.text


SHUT = [
    {"ce_state": "DISABLED"},
    {"ce_status": "closed"},
    {"ce_queue_status": "Closed"},
    {"ce_status": "Draining"},
    {"ce_status": " CLOSED "},
    {"ce_state": "inactive"},
]


@pytest.mark.parametrize("shut", SHUT)
def test_entrances_that_take_no_jobs_are_no_servers(shut: dict[str, str]) -> None:
    open_, other = (
        {"ce_endpoint": f"gate0{n}.aglt2.org:9619", "ce_flavour": "HTCONDOR-CE", "ce_state": "ACTIVE"}
        for n in (1, 2)
    )
    found = one(queues=[other | shut, open_])
    assert found.federation is not None
    element = found.federation.queues[0].computing_element
    assert element is not None
    assert element.options["collector"] == "gate01.aglt2.org:9619"
    assert not element.servers
    (note,) = (note for note in found.notes if note.field == "queues[].ce_status")
    assert note.value == "gate02.aglt2.org:9619"
    none = one(queues=[other | shut])
    assert none.federation is not None
    assert none.federation.queues[0].computing_element is None


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [([0], 258_000), ([2880], 172_800), ([2880, 4000], 240_000), ([2880, 0], 258_000)],
)
def test_a_walltime_beyond_that_of_every_entrance_is_clipped(minutes: list[int], expected: float) -> None:
    entrances = [
        {"ce_endpoint": f"gate{n}:9619", "ce_flavour": "HTCONDOR-CE", "ce_queue_maxwctime": most}
        for n, most in enumerate(minutes)
    ]
    found = one(queues=entrances)
    assert found.federation is not None
    assert found.federation.queues[0].max_walltime == expected
    clipped = [note for note in found.notes if (note.action, note.field) == ("clipped", "maxtime")]
    assert bool(clipped) == (expected != 258_000)


def test_nothing_of_an_entrance_is_left_out_silently() -> None:
    entrance = {"ce_endpoint": "gate:9619", "ce_flavour": "HTCONDOR-CE", "ce_jobmanager": "slurm"}
    found = one(queues=[entrance, {"ce_endpoint": "x"}])
    told = {(note.field, note.value or note.text) for note in found.notes if note.action == "dropped"}
    assert ("queues[]", "ce_jobmanager") in told
    assert any("1 entrances without" in note.text for note in found.notes)


def test_the_batch_queues_behind_arc_services_are_options() -> None:
    entrances = [
        {"ce_endpoint": f"arc{n}.lab:443", "ce_flavour": "ARC-CE", "ce_queue_name": name}
        for n, name in ((1, "grid"), (2, "long"), (2, "short"), (3, ""), (4, None))
    ]
    found = one(queues=entrances)
    assert found.federation is not None
    element = found.federation.queues[0].computing_element
    assert element is not None
    assert element.options == {"endpoint": "arc1.lab:443", "queue": "grid"}
    assert [server.options.get("queue") for server in element.servers] == ["grid", "long", None, None]
    assert not [note for note in found.notes if note.field == "queues[]"]
