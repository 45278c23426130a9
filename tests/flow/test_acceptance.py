"""What a federation asks of the machines that run it."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.federation.documents import read
from pilotage.federation.faults import BadFile
from pilotage.flow.calls.administration import acceptance
from pilotage.model.records.catalogues import ExternalCatalogue, MappedStorage
from pilotage.model.records.federation import ComputingElement, Federation, Server, TransferService

from .house import federation


def of(place: Path, url: str = "file:///data", **element: Any) -> Federation:
    """A federation with this storage and this computing element first."""
    made = federation(place)
    return replace(
        made,
        storages=(replace(made.storages[0], url=url), *made.storages[1:]),
        queues=(replace(made.queues[0], computing_element=ComputingElement(**element)),),
    )


SOUND = [
    "file:///data",
    "file:///data/with blank/and@sign",
    "http://host/path",
    "https://dav.example.org:8443/path",
    "https://[2001:db8::1]:8443/path",
    "https://[::1]/",
    "https://10.1.2.3:443/",
    "memory://x",
    "s3://bucket",
    "s3://bucket.with_signs-2/prefix",
    "root://host//a",
    "sftp://me@login.example.org/home/me",
]

IMPOSSIBLE = {
    "https://2001:db8::1/path": "has an IPv6 address without brackets; write [2001:db8::1]",
    "http://::1:8470/": "without brackets",
    "https://host:99999/path": "has the port '99999'; ports are numbers from 1 to 65535",
    "https://host:0/": "has the port '0'",
    "https://host:/": "has the port ''",
    "https://host:http/": "has the port 'http'",
    "https://[::1]:99999/": "has the port '99999'",
    "https://[::1]x/": "has 'x' behind its address",
    "https://[::zz]/": "is no IPv6 address",
    "http://[": "without its closing bracket",
    "https://[::1": "has the address [::1 without its closing bracket",
    "https://[::1/path": "without its closing bracket",
    "https://host/a b": "holds a blank, which is written %20",
    "https://ho st/": "holds a blank",
    "https://host/path\n": "holds a line end or another control character",
    "https://host/path\t": "control character",
    " https://host/path": "begins or ends with a blank",
    "https://host/path ": "begins or ends with a blank",
    "https://host\\path": "holds a backslash",
    "https://": "names no host",
    "https:///path": "names no host",
    "https://:8443/": "names no host",
    "https://-x.example/": "has the host '-x.example'",
    "https://a..b/": "has the host 'a..b'",
    "https://10.1.2.300/": "is no address of four numbers",
    "https://ada:S3CRET@host/path": "holds a user or password",
    "https://S3CRET@host/path": "holds a user or password",
    "sftp://ada:S3CRET@host/path": "holds a user or password",
    "s3://ada:S3CRET@bucket": "holds a user or password",
    "https://ada:S3CRET@host:99999/a b": "holds a blank",
    "host.example.org:8443": "is not a",
}


NO_BASE = {
    "https://host/path?sig=S3CRET": "has a ? or #, behind which no path can follow",
    "root://host//path?authz=S3CRET": "has a ? or #",
    "s3://bucket/prefix#S3CRET": "has a ? or #",
}
"""Impossible where names are appended: everywhere but in a page that people look at."""


@pytest.mark.parametrize("url", SOUND)
def test_a_url_that_some_machine_could_open_is_sound(tmp_path: Path, url: str) -> None:
    assert acceptance.faults(of(tmp_path, url)) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file://", "has no path; give an absolute one, as in file:///data"),
        ("file://data", "has no path"),
        ("file:///a\0b", "holds a line end or another control character"),
        ("fil:///data", "is not known here; did you mean file?"),
        *[(url, message) for url, message in (IMPOSSIBLE | NO_BASE).items() if "://" in url],
    ],
)
def test_a_url_that_no_machine_could_open_is_a_fault(tmp_path: Path, url: str, message: str) -> None:
    (fault,) = acceptance.faults(of(tmp_path, url))
    assert fault.path == ("storages", 0, "url")
    assert message in fault.text
    assert "S3CRET" not in fault.text


@pytest.mark.parametrize("url", [*IMPOSSIBLE, *NO_BASE])
@pytest.mark.parametrize("place", ["monitoring_url", "transfer_service.url", "option", "server", "catalogue"])
def test_whatever_names_a_server_is_checked_alike(tmp_path: Path, url: str, place: str) -> None:
    """Sites, services, computing elements, their servers and catalogues: none has an impossible URL."""
    made = of(tmp_path)
    site, (storage, *storages), queue = made.sites[0], made.storages, made.queues[0]
    element = queue.computing_element
    assert element
    options = {"endpoint": url}
    if place == "monitoring_url":
        made = replace(made, sites=(replace(site, monitoring_url=url), *made.sites[1:]))
    elif place == "transfer_service.url":
        service = TransferService(url=url, options={"token_file": "/t"})
        made = replace(made, storages=(replace(storage, transfer_service=service), *storages))
    elif place == "catalogue":
        mapped = (MappedStorage(rse="R", storage=storage.name),)
        catalogue = ExternalCatalogue(
            name="c", kind="other", vos=("v",), storages=mapped, options={"auth_url": url}
        )
        made = replace(made, catalogues=(catalogue,))
    else:
        more = (
            {"options": options} if place == "option" else {"servers": (Server(name="s", options=options),)}
        )
        made = replace(made, queues=(replace(queue, computing_element=replace(element, **more)),))
    told = [fault for fault in acceptance.faults(made) if "unknown options" not in fault.text]
    # Options without a scheme are checked by their adapter, which may take a bare host.
    if place == "monitoring_url" and url in NO_BASE:
        assert not told
    elif "://" in url.strip() or place == "monitoring_url":
        assert told
    assert not any("S3CRET" in fault.text for fault in acceptance.faults(made))


@pytest.mark.parametrize(
    ("element", "path"),
    [
        ({"kind": "proces"}, "kind"),
        ({"options": {"directroy": "/x"}}, "options"),
        ({"options": {"directory": 5}}, "options"),
        ({"options": {"directory": "a\0"}}, "options"),
        ({"options": {"environment": ["A"]}}, "options"),
        ({"options": {"environment": {"A=": "1"}}}, "options"),
        ({"options": {"environment": {"A": None}}}, "options"),
    ],
)
def test_an_element_whose_adapter_refuses_it_is_a_fault(
    tmp_path: Path, element: dict[str, Any], path: str
) -> None:
    (fault,) = acceptance.faults(of(tmp_path, **element))
    assert fault.path == ("queues", 0, "computing_element", path)


@pytest.mark.parametrize(
    ("kind", "options"), [("process", {}), ("gridengine", {}), ("ssh", {"ssh": "me@host"})]
)
def test_p8_a_kind_that_cannot_be_asked_first_is_refused_by_name(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    (fault,) = acceptance.faults(of(tmp_path, kind=kind, options=options, list_match=True))
    assert fault.path == ("queues", 0, "computing_element", "list_match")
    assert f"kind '{kind}' cannot tell whether it has a resource" in fault.text
    assert acceptance.faults(of(tmp_path, kind=kind, options=options)) == []


@pytest.mark.parametrize(
    ("kind", "options"), [("slurm", {}), ("arc", {"endpoint": "ce.example"}), ("htcondor", {})]
)
def test_p8_kinds_that_can_be_asked_first_are_taken(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    assert acceptance.faults(of(tmp_path, kind=kind, options=options, list_match=True)) == []


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("file:///data", {"auto_mkdir": True}, r"file: unknown options \['auto_mkdir'\]; there are none"),
        ("https://host", {"headres": {}}, r"http: unknown options \['headres'\]; known are .*'headers'"),
        (
            "https://host",
            {"headers": {"authorization": "Bearer x"}},
            "no place for authorization: write .* with token_file",
        ),
    ],
)
def test_an_option_that_a_storage_does_not_take_is_a_fault(
    tmp_path: Path, url: str, options: dict[str, Any], message: str
) -> None:
    made = of(tmp_path, url)
    storages = (replace(made.storages[0], options=options), *made.storages[1:])
    (fault,) = acceptance.faults(replace(made, storages=storages))
    assert fault.path == ("storages", 0, "options")
    assert re.search(message, fault.text)


def test_what_is_not_installed_here_is_said_and_no_fault(tmp_path: Path) -> None:
    made = of(tmp_path, "srm://host/path", kind="cream")
    assert acceptance.faults(made) == []
    assert [fault.path for fault in acceptance.lacking(made)] == [
        ("storages", 0, "url"),
        ("queues", 0, "computing_element", "kind"),
    ]
    assert acceptance.lacking(of(tmp_path, options={"environment": {"A": 1}})) == []


def test_an_adapter_whose_package_is_missing_here_is_said_and_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("pilotage.adapters.computing.kubernetes")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    made = of(tmp_path, kind="kubernetes", options={"image": "python:3.12"})
    assert acceptance.faults(made) == []
    (lacking,) = acceptance.lacking(made)
    assert "pip install 'pilotage[kubernetes]'" in lacking.text


def test_a_storage_whose_bytes_go_through_the_server_is_said_where_pilots_would_run(tmp_path: Path) -> None:
    (fault,) = acceptance.notes(of(tmp_path, "memory://x"))
    assert fault.path == ("storages", 0, "url")
    assert "memory:// read and write its files through the server" in fault.text
    made = of(tmp_path, "memory://x")
    assert acceptance.lacking(made) == []
    idle = replace(made, queues=(replace(made.queues[0], computing_element=None),))
    assert acceptance.notes(idle) == []


def test_what_will_surely_wait_is_foreseen(tmp_path: Path) -> None:
    """B18 and B20 by what is declared: too little free space, and queues that run less than a day."""
    made = of(tmp_path)
    assert acceptance.waiting(made) == []
    queue = made.queues[0]
    home = next(at for at, one in enumerate(made.storages) if one.name == queue.storage)
    storages = tuple(replace(one, free=5, storage_min_free=None) for one in made.storages)
    poor = replace(made, storages=storages, queues=(replace(queue, max_walltime=3600),))
    told = {fault.path: fault.text for fault in acceptance.waiting(poor)}
    assert told.keys() == {("storages", home, "free"), ("queues", 0, "max_walltime")}
    assert "jobs only above 200 GB: unless" in told["storages", home, "free"]
    assert "no queue runs 24 h" in told["queues", 0, "max_walltime"]
    own = replace(poor, storages=tuple(replace(one, storage_min_free=1) for one in storages))
    assert [fault.path[0] for fault in acceptance.waiting(own)] == ["queues"]


def test_a_storage_that_can_be_read_but_not_written_here_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = of(tmp_path)
    home = next(at for at, one in enumerate(made.storages) if one.name == made.queues[0].storage)
    assert acceptance.lacking(made) == []
    monkeypatch.setattr(InstalledMovers, "writable", frozenset({"s3"}))
    (fault,) = acceptance.lacking(made)
    assert fault.path == ("storages", home, "url")
    assert "no mover that is installed here writes file://" in fault.text


SEVERAL = """\
name: f
sites:
  - {name: north}
  - {nam: south}
storages:
  - {name: disk, site: north, url: data}
  - {name: other, site: nroth, url: "https://host:99999/"}
queues:
  - {name: first, site: north, storage: disk, max_memory: much}
  - {name: second, site: north, storage: ohter, cores: -1, computing_element: {kind: proces}}
  - {name: third, site: south, storage: disk, fairshare_policy: "what:ever"}
  - {name: fourth, storage: other}
"""


def test_all_faults_of_a_file_are_told_in_one_round(tmp_path: Path) -> None:
    """Wrong values, missing fields, references, adapters and URLs: nothing waits until another is mended."""
    file = tmp_path / "federation.yaml"
    file.write_text(SEVERAL)
    with pytest.raises(BadFile) as refused:
        read(Federation, file, acceptance.faults)
    told = [(fault.line, fault.field) for fault in refused.value.faults]
    assert told == [
        (4, "sites[1].nam"),
        (4, "sites[1].name"),
        (6, "storages[0].url"),
        (7, "storages[1].site"),
        (7, "storages[1].url"),
        (9, "queues[0].max_memory"),
        (10, "queues[1].computing_element.kind"),
        (10, "queues[1].cores"),
        (10, "queues[1].storage"),
        (11, "queues[2].fairshare_policy"),
        (12, "queues[3].site"),
    ]
