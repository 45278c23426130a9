"""What a federation asks of the machines that run it."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.calls import acceptance
from pilotage.model.federation import ComputingElement, Federation

from .house import federation


def of(place: Path, url: str = "file:///data", **element: Any) -> Federation:
    """A federation with this storage and this computing element first."""
    made = federation(place)
    return replace(
        made,
        storages=(replace(made.storages[0], url=url), *made.storages[1:]),
        queues=(replace(made.queues[0], computing_element=ComputingElement(**element)),),
    )


@pytest.mark.parametrize(
    "url", ["file:///data", "http://host/path", "memory://x", "s3://bucket", "root://host//a"]
)
def test_a_url_that_some_machine_could_open_is_sound(tmp_path: Path, url: str) -> None:
    assert acceptance.faults(of(tmp_path, url)) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file://", "has no path; give an absolute one, as in file:///data"),
        ("file://data", "has no path"),
        ("file:///a\0b", "holds a null character"),
        ("https://", "has no host"),
        ("http://[", "is not a URL"),
        ("fil:///data", "is not known here; did you mean file?"),
    ],
)
def test_a_url_that_no_machine_could_open_is_a_fault(tmp_path: Path, url: str, message: str) -> None:
    (fault,) = acceptance.faults(of(tmp_path, url))
    assert fault.path == ("storages", 0, "url")
    assert message in fault.text


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
    for name in [name for name in sys.modules if name.startswith("pilotage.computing.kubernetes")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    made = of(tmp_path, kind="kubernetes", options={"image": "python:3.12"})
    assert acceptance.faults(made) == []
    (lacking,) = acceptance.lacking(made)
    assert "pip install pilotage[kubernetes]" in lacking.text


def test_a_storage_whose_bytes_go_through_the_server_is_said_where_pilots_would_run(tmp_path: Path) -> None:
    (fault,) = acceptance.lacking(of(tmp_path, "memory://x"))
    assert fault.path == ("storages", 0, "url")
    assert "memory:// read and write its files through the server" in fault.text
    made = of(tmp_path, "memory://x")
    idle = replace(made, queues=(replace(made.queues[0], computing_element=None),))
    assert acceptance.lacking(idle) == []
