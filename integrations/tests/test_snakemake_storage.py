"""The storage plugin for Snakemake: its own test base, and workflows on the executor."""

from pathlib import Path

import pytest
from snakemake_interface_storage_plugins.tests import TestStorageBase
from snakemake_storage_plugin_pilotage import StorageProvider, StorageProviderSettings
from workflow import Workflow, newest

from pilotage.client import Client

COUNTS = """\
storage: provider="pilotage"
NAMES = ["a b", "ä[1]"]
rule all:
    input: storage.pilotage("pilotage://{scope}/counts/all.txt")
rule count:
    input: storage.pilotage("pilotage://{scope}/words/{{name}}.txt")
    output: storage.pilotage("pilotage://{scope}/counts/{{name}}.txt")
    shell: "readlink {{input[0]:q}} >> '{links}'; cat {{input:q}} | wc -w > {{output:q}}"
rule sum:
    input: storage.pilotage(expand("pilotage://{scope}/counts/{{name}}.txt", name=NAMES))
    output: storage.pilotage("pilotage://{scope}/counts/all.txt")
    shell: "cat {{input:q}} > {{output:q}}"
"""

USAGE = "persistence software-deployment sources source-cache"
"""All that a disk is shared for, but files of jobs."""


@pytest.mark.usefixtures("server")
class TestStorage(TestStorageBase):
    """Snakemake's own tests of storages."""

    __test__ = True

    def get_query(self, tmp_path: Path) -> str:  # noqa: ARG002
        """Return a file to write and read."""
        return "pilotage://user.operator/snakemake/ä b.txt"

    def get_query_not_existing(self, tmp_path: Path) -> str:  # noqa: ARG002
        """Return a file that is not there."""
        return "pilotage://user.operator/snakemake/nothing.txt"

    def get_storage_provider_cls(self) -> type[StorageProvider]:
        """Return the plugin."""
        return StorageProvider

    def get_storage_provider_settings(self) -> StorageProviderSettings:
        """Return its options."""
        return StorageProviderSettings()


def upload(client: Client, workflow: Workflow, name: str, text: str, *, replace: bool = False) -> None:
    """Put a text into the catalogue."""
    file = workflow.folder / "upload.txt"
    file.write_text(text)
    client.upload(file, name, replace=replace)


def test_inputs_in_the_catalogue_are_inputs_of_tasks_and_outputs_go_there(
    workflow: Workflow, client: Client
) -> None:
    scope = "user.operator"
    for name in ("a b", "ä[1]"):
        upload(client, workflow, f"{scope}:words/{name}.txt", "one two\n")
    links_file = workflow.folder / "links.txt"
    (workflow.folder / "Snakefile").write_text(COUNTS.format(scope=scope, links=links_file))
    prefix = ("--default-storage-provider", "pilotage", "--default-storage-prefix", f"pilotage://{scope}/run")
    options = ("--shared-fs-usage", *USAGE.split(), *prefix)
    workflow.run(*options)
    sums, counts = newest(client, 2)
    assert [(one["spec"]["labels"]["rule"], one.counts) for one in (counts, sums)] == [
        ("count", {"finished": 2}),
        ("sum", {"finished": 1}),
    ]
    inputs = {(file["scope"], file["name"], *file["rows"]) for file in counts["spec"]["inputs"]}
    assert {row[:2] for row in inputs} == {(scope, "words/a b.txt"), (scope, "words/ä[1].txt")}
    assert sorted(row[2] for row in inputs) == [0, 1]
    links = links_file.read_text().splitlines()
    assert len(links) == 2
    assert all("/inputs/words/" in link or "/storage/.uploads/" in link for link in links)
    with client.content(f"{scope}:counts/all.txt") as chunks:
        assert b"".join(chunks) == b"2\n2\n"
    token = client._connection.settings.token
    assert token not in workflow.log + str(counts.to_dict())
    assert "Nothing to be done" in workflow.run("--dry-run", *options)
    upload(client, workflow, f"{scope}:words/a b.txt", "one two three\n", replace=True)
    log = workflow.run("--dry-run", *options)
    assert f"Updated input files: pilotage://{scope}/words/a b.txt" in log
