"""glideinWMS factory entries as queues: what is taken, what is guessed and told, what is refused and why."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from pilotage.adapters.computing.arc import Arc
from pilotage.federation.checks import federation_faults
from pilotage.federation.documents import read, write
from pilotage.federation.importers import IMPORTERS, Imported, ImportSource, Note
from pilotage.model.documents.serialization import to_json
from pilotage.model.records.federation import Federation, Queue

REAL = Path(os.environ.get("PILOTAGE_FEDERATIONS", Path(__file__).parents[3] / "shared/data/federations"))
HEAD = {
    "auth_method": "scitoken",
    "enabled": "True",
    "gatekeeper": "ce.a.org ce.a.org:9619",
    "gridtype": "condor",
}
ATTRS = {
    "GLIDEIN_CPUS": "8",
    "GLIDEIN_MaxMemMBs": "16384",
    "GLIDEIN_Max_Walltime": "171000",
    "GLIDEIN_Site": "A",
    "GLIDEIN_Supported_VOs": "OSGVO,LIGO",
}


def entry(
    name: str = "E",
    *,
    head: dict[str, str | None] | None = None,
    attrs: dict[str, str | None] | None = None,
    submit: dict[str, str] | None = None,
    limits: str = 'glideins="350" held="20" idle="30"',
) -> str:
    """A factory entry as they are written; None leaves an attribute out."""

    def elements(tag: str, values: dict[str, str]) -> str:
        return "".join(f"<{tag} name='{key}' value='{value}'/>\n" for key, value in values.items())

    own = {key: value for key, value in (HEAD | (head or {})).items() if value is not None}
    said = {key: value for key, value in (ATTRS | (attrs or {})).items() if value is not None}
    flags = " ".join(f'{key}="{value}"' for key, value in own.items())
    return (
        f'<entry name="{name}" {flags}>\n<config><max_jobs><per_entry {limits}/></max_jobs>\n'
        f"<submit><submit_attrs>{elements('submit_attr', submit or {})}</submit_attrs></submit></config>\n"
        f"<attrs>{elements('attr', said)}</attrs></entry>\n"
    )


def factory(*entries: str) -> str:
    return f"<glidein>\n<entries>\n{''.join(entries)}</entries>\n</glidein>\n"


def imported(*entries: str) -> Imported:
    return IMPORTERS["gfactory"]([ImportSource("entries.xml", factory(*entries))], "osg")


def queue(*entries: str) -> Queue:
    house = imported(*entries).federation
    assert house is not None
    return house.queues[0]


def notes(of: Imported, action: str, field: str) -> list[Note]:
    return [note for note in of.notes if (note.action, note.field) == (action, field)]


def test_an_entry_is_a_queue_with_its_limits_and_its_site() -> None:
    made = queue(entry(submit={"+xcount": "8"}, head={"rsl": "(queue=x)"}))
    assert (made.name, made.site, made.status) == ("E", "A", "online")
    assert (made.cores, made.max_memory, made.max_walltime) == (8, 16384, 171000)
    assert made.vos == ("OSGVO", "LIGO")
    element = made.computing_element
    assert element is not None
    assert (element.kind, element.max_pilots, element.pilot_walltime) == ("htcondor", 350, 171000)
    assert element.options == {"schedd": "ce.a.org", "collector": "ce.a.org:9619"}


def test_an_entry_of_another_kind_keeps_what_it_says() -> None:
    head: dict[str, str | None] = {"gridtype": "cream", "rsl": "(queue=x)"}
    element = queue(entry(submit={"+xcount": "8"}, head=head)).computing_element
    assert element is not None
    assert element.kind == "cream"
    assert element.options == {
        "gatekeeper": "ce.a.org ce.a.org:9619",
        "rsl": "(queue=x)",
        "max_idle": 30,
        "max_held": 20,
        "submit_attributes": {"+xcount": "8"},
    }


def test_an_arc_entry_becomes_options_of_the_adapter() -> None:
    rsl = "(queue=grid)(count=8)(memory=2000)(runtimeenvironment=ENV/GLITE)(priority=5)"
    head: dict[str, str | None] = {"gridtype": "nordugrid", "gatekeeper": "ce.a.org:443", "rsl": rsl}
    submit = {"arc_rte": "ENV/GLITE,ENV/PROXY", "batch_queue": '"long"', "Request_GPUs": "1"}
    result = imported(entry(head=head, submit=submit))
    assert result.federation is not None
    element = result.federation.queues[0].computing_element
    assert element is not None
    assert element.kind == "arc"
    assert element.options == {
        "endpoint": "ce.a.org:443",
        "queue": "long",
        "runtime_environments": ["ENV/GLITE", "ENV/PROXY"],
    }
    assert Arc(element.options)
    assert [note.text for note in notes(result, "dropped", "rsl")] == [
        "count = 8: each pilot asks for what its work needs",
        "memory = 2000: each pilot asks for what its work needs",
        "priority = 5: has no option",
    ]
    assert notes(result, "dropped", "submit_attr Request_GPUs")
    (missing,) = notes(result, "guessed", "credentials")
    assert "add certificate_file or token_file" in missing.text


def test_an_htcondor_entry_keeps_what_no_pilot_says() -> None:
    submit = {"+queue": '"osg"', "request_disk": "50GB", "+maxWallTime": "1440", "request_cpus": "8"}
    element = queue(entry(submit=submit)).computing_element
    assert element is not None
    assert element.options == {
        "schedd": "ce.a.org",
        "collector": "ce.a.org:9619",
        "submit": {"+queue": '"osg"', "request_disk": "50GB"},
    }


def test_the_result_is_sound_and_comes_back_from_its_yaml(tmp_path: Path) -> None:
    house = imported(entry("E"), entry("F", attrs={"GLIDEIN_Site": "B"})).federation
    assert house is not None
    assert federation_faults(house) == []
    file = tmp_path / "federation.yaml"
    file.write_text(write(house))
    assert read(Federation, file) == house
    assert [site.name for site in house.sites] == ["A", "B"]


def test_a_storage_is_guessed_for_each_site_and_told() -> None:
    result = imported(entry("E"), entry("F"))
    assert result.federation is not None
    assert [storage.name for storage in result.federation.storages] == ["A-storage"]
    assert len(notes(result, "guessed", "storage")) == 1


@pytest.mark.parametrize(
    ("enabled", "status"), [("True", "online"), ("False", "offline"), ("true", "online"), (None, "offline")]
)
def test_only_what_is_enabled_is_online(enabled: str | None, status: str) -> None:
    assert queue(entry(head={"enabled": enabled})).status == status


@pytest.mark.parametrize(
    ("said", "estimate", "cores"),
    [
        ("8", None, 8),
        (None, None, 1),
        ("auto", "32", 32),
        ("auto", None, 0),
        ("node", None, 0),
        ("slot", "4", 4),
    ],
)
def test_cores_left_to_the_glidein_are_the_estimate_or_any(
    said: str | None, estimate: str | None, cores: int
) -> None:
    result = imported(entry(attrs={"GLIDEIN_CPUS": said, "GLIDEIN_ESTIMATED_CPUS": estimate}))
    assert result.federation is not None
    assert result.federation.queues[0].cores == cores
    assert bool(notes(result, "guessed", "GLIDEIN_CPUS")) == (said != "8")


@pytest.mark.parametrize(
    ("memory", "submit", "rsl", "expected"),
    [
        ("16384", {"+maxMemory": "2048"}, None, 16384),
        (None, {"+maxMemory": "16000"}, None, 16000),
        ("", {"request_memory": "2500"}, None, 20000),
        (None, {}, "(count=8)(memory=4000)(queue=q)", 32000),
        (None, {}, "(maxWallTime=1440)(maxMemory=4096)", 4096),
        (None, {}, None, 0),
        ("0", {}, None, 0),
    ],
)
def test_memory_that_is_not_given_is_what_the_batch_system_is_asked_for(
    memory: str | None, submit: dict[str, str], rsl: str | None, expected: float
) -> None:
    result = imported(entry(attrs={"GLIDEIN_MaxMemMBs": memory}, submit=submit, head={"rsl": rsl}))
    assert result.federation is not None
    assert result.federation.queues[0].max_memory == expected
    assert bool(notes(result, "guessed", "GLIDEIN_MaxMemMBs")) == (memory != "16384")


def test_memory_that_the_glidein_measures_is_said_to_be() -> None:
    result = imported(entry(attrs={"GLIDEIN_MaxMemMBs": "", "GLIDEIN_MaxMemMBs_Estimate": "True"}))
    (note,) = notes(result, "guessed", "GLIDEIN_MaxMemMBs")
    assert "measures the node" in note.text


def test_walltime_is_in_seconds_and_of_htcondor_in_minutes() -> None:
    assert queue(entry(submit={"+maxWallTime": "2880"})).max_walltime == 171000
    missing = entry(attrs={"GLIDEIN_Max_Walltime": None}, submit={"+maxWallTime": "2880"})
    assert queue(missing).max_walltime == 2880 * 60


def test_no_vos_named_is_open_to_all_and_told() -> None:
    result = imported(entry(attrs={"GLIDEIN_Supported_VOs": None}))
    assert result.federation is not None
    assert result.federation.queues[0].vos == ()
    assert notes(result, "guessed", "GLIDEIN_Supported_VOs")


def test_the_site_is_the_resource_where_no_site_is_named() -> None:
    assert queue(entry(attrs={"GLIDEIN_Site": None, "GLIDEIN_ResourceName": "R"})).site == "R"
    assert queue(entry(attrs={"GLIDEIN_Site": ""})).site == "E"


def test_names_are_made_legal_and_stay_different() -> None:
    result = imported(
        entry("a b"),
        entry("a/b"),
        entry("a-b"),
        entry("é"),
        entry("x", attrs={"GLIDEIN_Site": "Lehigh - Hawk"}),
    )
    assert result.federation is not None
    assert [made.name for made in result.federation.queues] == ["a-b", "a-b-2", "a-b-3", "queue", "x"]
    assert result.federation.queues[-1].site == "Lehigh-Hawk"
    assert len(notes(result, "converted", "name")) == 4


def test_no_glideins_allowed_is_offline() -> None:
    made = queue(entry(limits='glideins="0" idle="0" held="0"'))
    assert made.status == "offline"
    assert made.computing_element is not None
    assert made.computing_element.max_pilots == 1


@pytest.mark.parametrize(
    ("bad", "field", "words"),
    [
        (entry(attrs={"GLIDEIN_CPUS": "many"}), "GLIDEIN_CPUS", "is not a whole number"),
        (entry(attrs={"GLIDEIN_CPUS": "-4"}), "GLIDEIN_CPUS", "is negative"),
        (entry(attrs={"GLIDEIN_CPUS": "2.5"}), "GLIDEIN_CPUS", "is not a whole number"),
        (entry(attrs={"GLIDEIN_MaxMemMBs": "16 GB"}), "GLIDEIN_MaxMemMBs", "is not a number"),
        (entry(attrs={"GLIDEIN_MaxMemMBs": "16"}), "GLIDEIN_MaxMemMBs", "in another unit"),
        (entry(attrs={"GLIDEIN_MaxMemMBs": "NaN"}), "GLIDEIN_MaxMemMBs", "is not a number"),
        (entry(attrs={"GLIDEIN_Max_Walltime": "48"}), "GLIDEIN_Max_Walltime", "beyond reason as s"),
        (entry(attrs={"GLIDEIN_Max_Walltime": "9999999999"}), "GLIDEIN_Max_Walltime", "beyond reason as s"),
        (entry(attrs={"GLIDEIN_Supported_VOs": "LIGO,a b"}), "vos[1]", "start with a letter"),
        (entry(head={"enabled": "maybe"}), "enabled", "is neither true nor false"),
        (entry(head={"gatekeeper": None}), "gatekeeper", "is missing"),
        (entry(head={"gridtype": ""}), "gridtype", "is missing"),
        (entry(""), "name", "has no name"),
        (entry("GOOD"), "name", "is the name of the entry at entries.xml:3 already"),
        (entry(limits='glideins="lots" idle="1" held="1"'), "config/max_jobs/per_entry/glideins", "is not"),
    ],
)
def test_a_bad_entry_is_refused_with_its_place_and_the_others_are_kept(
    bad: str, field: str, words: str
) -> None:
    result = imported(entry("GOOD"), bad, entry("ALSO"))
    assert result.federation is not None
    assert [made.name for made in result.federation.queues] == ["GOOD", "ALSO"]
    (refusal,) = result.refusals
    assert refusal.field == field
    assert words in refusal.text
    assert refusal.line is not None
    before, line = factory(entry("GOOD"), bad).splitlines()[: refusal.line], refusal.line
    assert sum("<entry" in text for text in before) == 2
    assert "<entry" in before[line - 1] or field.rpartition("/")[2] in before[line - 1]
    assert result.entries == 3


def test_a_refused_entry_leaves_its_name_free_and_nothing_else_behind() -> None:
    result = imported(entry("E", attrs={"GLIDEIN_CPUS": "x", "GLIDEIN_Site": "GONE"}), entry("E"))
    assert result.federation is not None
    assert [site.name for site in result.federation.sites] == ["A"]
    assert len(result.refusals) == 1


def test_every_value_is_taken_or_told() -> None:
    result = imported(entry(attrs={"GLIDEIN_Country": "UK", "X509_CERT_DIR": ""}, head={"work_dir": "OSG"}))
    told = {note.field: note.value for note in result.notes if note.action == "dropped"}
    assert told["GLIDEIN_Country"] == "UK"
    assert told["work_dir"] == "OSG"
    assert "X509_CERT_DIR" not in told
    assert "GLIDEIN_CPUS" not in told
    assert all(note.line for note in result.notes if note.action == "dropped")


def test_an_attribute_given_twice_counts_as_it_stands_last() -> None:
    twice = entry().replace("<attrs>", "<attrs><attr name='GLIDEIN_CPUS' value='4'/>")
    result = imported(twice)
    assert result.federation is not None
    assert result.federation.queues[0].cores == 8
    (note,) = notes(result, "dropped", "GLIDEIN_CPUS")
    assert note.value == "4"


LAUGHS = '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n<g>&b;</g>'
REACHES = '<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<g>&a;</g>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "declares a document type"),
        (REACHES, "declares a document type"),
        ('<!DOCTYPE g SYSTEM "http://127.0.0.1/g.dtd"><g/>', "declares a document type"),
        ("<glidein><entries></glidein>", "is not XML: mismatched tag"),
        ("", "is not XML: no element found"),
        ("<glidein/>", "has no <entry>"),
        ("<a>" * 60 + "</a>" * 60, "nested deeper"),
        ("<g>&a;</g>", "is not XML: undefined entity"),
    ],
)
def test_a_file_that_is_no_plain_xml_is_refused_whole(text: str, words: str) -> None:
    result = IMPORTERS["gfactory"]([ImportSource("bad.xml", text)], "x")
    assert result.federation is None
    (refusal,) = result.refusals
    assert words in refusal.text
    assert refusal.line is not None


def test_files_make_one_federation_and_a_bad_file_spares_the_others() -> None:
    good = f"<glidein><entries>{entry('E')}</entries></glidein>"
    sources = [
        ImportSource("bad.xml", "<"),
        ImportSource("one.xml", good),
        ImportSource("two.xml", good.replace('"E"', '"F"')),
    ]
    result = IMPORTERS["gfactory"](sources, "x")
    assert result.federation is not None
    assert [made.name for made in result.federation.queues] == ["E", "F"]
    assert [refusal.file for refusal in result.refusals] == ["bad.xml"]


@pytest.mark.parametrize("name", ["osg-gfactory-arc.xml", "osg-gfactory-noncms.xml"])
def test_real_factories_become_one_queue_for_each_entry(name: str) -> None:
    file = REAL / name
    if not file.exists():
        pytest.skip(f"{file} is not here; PILOTAGE_FEDERATIONS names the folder of real factory files")
    text = file.read_text()
    result = IMPORTERS["gfactory"]([ImportSource(name, text)], file.stem)
    house = result.federation
    assert house is not None
    assert result.entries == text.count("<entry ")
    assert len(house.queues) == result.entries - len(result.refusals)
    assert len(result.refusals) == 0
    assert federation_faults(house) == []
    assert all(made.vos and made.computing_element and made.max_walltime for made in house.queues)
    enabled = Counter(made.status for made in house.queues)
    assert enabled["online"] == text.count('enabled="True"')


def test_the_same_documents_give_the_same_bytes() -> None:
    first, second = (
        imported(entry("a b"), entry("F"), entry("G", attrs={"GLIDEIN_CPUS": "x"})) for _ in "12"
    )
    assert first == second
    assert first.federation is not None
    assert second.federation is not None
    assert to_json(first.federation) == to_json(second.federation)
    assert json.dumps([str(note) for note in first.notes])


def test_processors_and_accelerators_are_kept() -> None:
    attrs: dict[str, str | None] = {"CONDOR_ARCH": "AARCH64", "GLIDEIN_Resource_Slots": "GPUs,4,type=main"}
    processor, accelerator = queue(entry(attrs=attrs)).architectures
    assert (processor.type, processor.arch, processor.vendor) == ("cpu", ("aarch64",), ("any",))
    assert (accelerator.type, accelerator.vendor, accelerator.model) == ("gpu", ("any",), ("any",))
    (processor,) = queue(
        entry(attrs={"CONDOR_ARCH": "default", "GLIDEIN_PROVIDED_ARCH": "amd"})
    ).architectures
    assert (processor.arch, processor.vendor) == (("any",), ("amd",))
    assert queue(entry(attrs={"CONDOR_ARCH": "auto"})).architectures == ()


def test_the_system_that_a_glidein_requires_is_an_option_of_its_element() -> None:
    for said, required in (("rhel7", "rhel7"), ("any", None), (None, None)):
        made = entry(attrs={"GLIDEIN_REQUIRED_OS": said}, head={"gridtype": "cream"})
        element = queue(made).computing_element
        assert element is not None
        assert element.options.get("required_os") == required


def test_each_gatekeeper_of_an_entry_is_a_server() -> None:
    head = {"gatekeeper": "ce1.a.org ce1.a.org:9619 ce2.a.org ce2.a.org:9620"}
    element = queue(entry(head=head)).computing_element  # type: ignore[arg-type]
    assert element is not None
    assert [(server.name, server.options) for server in element.servers] == [
        ("ce1.a.org", {"schedd": "ce1.a.org", "collector": "ce1.a.org:9619"}),
        ("ce2.a.org", {"schedd": "ce2.a.org", "collector": "ce2.a.org:9620"}),
    ]
    odd = imported(entry(head={"gatekeeper": "ce1.a.org ce1.a.org:9619 ce2.a.org"}))
    (note,) = notes(odd, "dropped", "gatekeeper")
    assert note.text.startswith("ce2.a.org: is no pair")
    arc = imported(
        entry(head={"gridtype": "nordugrid", "gatekeeper": "https://a.org/arex https://b.org/arex"})
    )
    (note,) = notes(arc, "dropped", "gatekeeper")
    assert "https://b.org/arex" in note.text


@pytest.mark.parametrize(
    ("said", "minutes", "expected", "action"),
    [
        ("199800", "540", 32_400, "clipped"),
        ("32400", "540", 32_400, ""),
        ("3600", "540", 3600, ""),
        (None, "540", 32_400, "guessed"),
        ("199800", None, 199_800, ""),
    ],
)
def test_the_shorter_of_two_walltimes_counts_and_is_told(
    said: str | None, minutes: str | None, expected: float, action: str
) -> None:
    text = entry(attrs={"GLIDEIN_Max_Walltime": said}, submit={"+maxWallTime": minutes} if minutes else None)
    assert queue(text).max_walltime == expected
    assert {note.action for note in imported(text).notes if note.field == "GLIDEIN_Max_Walltime"} == (
        {action} if action else set()
    )


@pytest.mark.parametrize(
    ("submit", "memory"),
    [
        ({"+maxMemory": "16000"}, 16_000),
        ({"+maxMemory": "16000", "+xcount": "40"}, 16_000),
        ({"+maxMemory": "16000", "+xcount": "8"}, 0),
        ({"+maxMemory": "16000", "+WantWholeNode": "True"}, 0),
    ],
)
def test_memory_of_a_part_is_not_that_of_a_whole_node(submit: dict[str, str], memory: float) -> None:
    attrs = {"GLIDEIN_CPUS": "auto", "GLIDEIN_ESTIMATED_CPUS": "40", "GLIDEIN_MaxMemMBs": None}
    text = entry(attrs=attrs, submit=submit)
    assert queue(text).max_memory == memory
    assert notes(imported(text), "guessed", "GLIDEIN_MaxMemMBs")


@pytest.mark.parametrize(
    ("attrs", "arch"),
    [
        ({"GLIDEIN_ARCH": "aarch64"}, ["aarch64"]),
        ({"CONDOR_ARCH": "aarch64"}, ["aarch64"]),
        ({"GLIDEIN_ARCH": "aarch64", "CONDOR_ARCH": "x86_64"}, ["aarch64"]),
        ({"GLIDEIN_ARCH": "ppc64le, X86_64"}, ["ppc64le", "x86_64"]),
    ],
)
def test_architectures_are_taken_by_either_name(attrs: dict[str, str], arch: list[str]) -> None:
    text = entry(attrs=attrs)  # type: ignore[arg-type]
    assert [list(one.arch) for one in queue(text).architectures] == [arch]
    assert len(notes(imported(text), "dropped", "CONDOR_ARCH")) == (len(attrs) > 1)
