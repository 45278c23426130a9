"""A release is the same bytes twice, and its lists name what it brings."""

import json
import re
import subprocess
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

from release import NotReproducible, equal_files
from tests.packages.places import DIST, ROOT, release_file

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _names(requirements: list[str]) -> set[str]:
    return {Requirement(text).name for text in requirements}


def test_every_file_has_its_checksum() -> None:
    lines = (DIST / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert len(sums) == 4
    assert {path.name for path in DIST.iterdir()} == {*sums, "SHA256SUMS"}
    assert sums == {name: sha256((DIST / name).read_bytes()).hexdigest() for name in sums}


@pytest.mark.parametrize("names", [("a.whl", "a.whl"), ("a.whl", "b.whl")])
def test_builds_that_differ_fail(tmp_path: Path, names: tuple[str, str]) -> None:
    folders = tmp_path / "first", tmp_path / "second"
    for folder, name in zip(folders, names, strict=True):
        folder.mkdir()
        (folder / name).write_text("content")
    if names[0] == names[1]:
        assert equal_files(*folders) == {"a.whl": b"content"}
        (folders[1] / "a.whl").write_text("other content")
    with pytest.raises(NotReproducible, match=r"differ: a\.whl"):
        equal_files(*folders)


def test_the_bill_of_materials_is_cyclonedx_and_names_what_is_brought() -> None:
    text = release_file(".cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    product = bill["metadata"]["component"]
    assert product["licenses"] == [{"expression": "Apache-2.0 AND 0BSD"}]
    assert product["hashes"][0]["content"] == sha256(release_file(".whl").read_bytes()).hexdigest()
    (page,) = product["components"]
    assert (page["purl"], page["licenses"]) == ("pkg:npm/htmx.org@2.0.10", [{"license": {"id": "0BSD"}}])
    names = {component["name"] for component in bill["components"]}
    assert _names(PROJECT["dependencies"]) | _names(PROJECT["optional-dependencies"]["server"]) <= names
    assert all(component["licenses"] for component in bill["components"])
    edges = {edge["ref"]: edge.get("dependsOn", []) for edge in bill["dependencies"]}
    assert any(ref.startswith("pkg:pypi/numpy@") for ref in edges[product["bom-ref"]])


def test_the_constraints_are_the_versions_of_the_lock() -> None:
    lines = release_file(".constraints.txt").read_text().splitlines()
    names = {Requirement(line).name for line in lines}
    assert _names(PROJECT["dependencies"]) | _names(PROJECT["optional-dependencies"]["server"]) <= names
    assert not {"pytest", "mypy", "ruff"} & names
    lock = (ROOT / "requirements.lock").read_text()
    assert [line for line in lines if not re.search(rf"^{re.escape(line)} *\\?$", lock, re.MULTILINE)] == []


def test_the_wheel_has_every_file_of_the_package() -> None:
    """hatchling leaves out what ``.gitignore`` names, also if git has it."""
    command = ["git", "ls-files", "src/pilotage"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = {name.removeprefix("src/") for name in answer.stdout.splitlines()}
    with zipfile.ZipFile(release_file(".whl")) as wheel:
        assert files <= set(wheel.namelist())
    assert len(files) > 500


def test_the_wheel_carries_the_licences_of_what_is_vendored() -> None:
    with zipfile.ZipFile(release_file(".whl")) as wheel:
        licences = [name for name in wheel.namelist() if ".dist-info/licenses/" in name]
        texts = [wheel.read(name).decode() for name in licences]
    assert len(licences) == 2
    assert any("Apache License" in text for text in texts)
    assert any("Zero-Clause BSD" in text for text in texts)
