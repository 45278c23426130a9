"""Addresses of a catalogue, in every spelling that means the same file."""

import pytest

from pilotage.adapters.catalogues.rucio_outputs import path_below

WEB = "davs://se.example.org:443/data/"


@pytest.mark.parametrize(
    ("address", "prefix", "path"),
    [
        ("davs://se.example.org:443/data/mc/f1", WEB, "mc/f1"),
        ("davs://se.example.org/data/mc/f1", WEB, "mc/f1"),
        ("davs://SE.example.org:443//data//mc/f1", WEB, "mc/f1"),
        ("davs://se.example.org/data/mc/a%20b%2541", WEB, "mc/a b%41"),
        ("davs://se.example.org/data/mc/f1?authz=x#y", WEB, "mc/f1"),
        ("root://se.example.org//data/mc/a%20b", "root://se.example.org:1094/data/", "mc/a%20b"),
        ("root://se.example.org//data/mc/a#b", "root://se.example.org:1094/data/", "mc/a#b"),
        ("srm://se:8443/srm?SFN=/data/f1", "srm://se:8443/srm?SFN=/data/", "f1"),
        ("davs://other.example.org:443/data/mc/f1", WEB, ""),
        ("davs://se.example.org:8443/data/mc/f1", WEB, ""),
        ("https://se.example.org/data/mc/f1", WEB, ""),
        ("davs://se.example.org/database/f1", WEB, ""),
        ("davs://se.example.org/data/%2e%2e/secret", WEB, ""),
        ("davs://se.example.org:port/data/f1", WEB, ""),
    ],
)
def test_a_path_is_read_from_any_spelling_of_its_address(address: str, prefix: str, path: str) -> None:
    assert path_below(address, prefix) == path
