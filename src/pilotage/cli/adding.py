"""Add a cluster to a federation's file: inspect it where it is, and report every guess."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import BadInput, CommandFailure
from .output import Column, Json, echo, plural, show, show_json

if TYPE_CHECKING:
    from pilotage.federation.importers.slurm import Cluster

EMPTY = "name: federation\n"
"""The first line of a new file."""


class ClusterKind(StrEnum):
    """The batch systems that can be inspected."""

    SLURM = "slurm"


def add(
    kind: Annotated[ClusterKind, typer.Argument(help="The batch system.")],  # noqa: ARG001 -- the only one
    ssh: Annotated[
        str,
        typer.Option(help="The login node, as user@host:port or a name of ~/.ssh/config; else this machine."),
    ] = "",
    file: Annotated[Path, typer.Option(help="The federation's file; made where there is none.")] = Path(
        "federation.yaml"
    ),
    site: Annotated[str, typer.Option(help="The site's name; else the cluster's.")] = "",
    ssh_config: Annotated[str, typer.Option(help="The SSH client's configuration.")] = "",
    commands: Annotated[
        str, typer.Option(help="The directory of Slurm's commands, if not in the PATH.")
    ] = "",
    tunnel: Annotated[
        bool, typer.Option("--tunnel", help="Pilots reach this server through the SSH connection.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Inspect a cluster, and write its site, storage and queues into a federation's file.

    The rest of the file stays as it is, with its comments. The command reports every guess, field by field.
    """
    given = {"ssh": ssh, "ssh_config": ssh_config, "commands": commands, "tunnel": tunnel}
    cluster = _look(site, {name: value for name, value in given.items() if value})
    _write(file, cluster.records)
    if json_output:
        notes = [asdict(note) for note in cluster.notes]
        show_json({"file": str(file), **cluster.records, "notes": notes})
        return
    columns = (Column("done"), Column("field"), Column("times", number=True), Column("for example"))
    show(columns, cluster.report().summary(), "", stderr=True)
    sites, queues = cluster.records["sites"], cluster.records["queues"]
    echo(f"{file} has site {sites[0]['name']} with {plural(len(queues), 'queue')}")


def _look(site: str, options: dict[str, Any]) -> "Cluster":
    """Return the records of the cluster behind these options."""
    from pilotage.federation.importers import slurm

    try:
        return slurm.describe(_answer(options, slurm.QUESTIONS), options, site)
    except ValueError as error:
        raise BadInput(str(error)) from error


def _write(file: Path, records: Mapping[str, Any]) -> None:
    """Add records to the file, unless they would make the federation invalid."""
    from pilotage.federation import additions, documents
    from pilotage.federation.faults import BadDocument
    from pilotage.model.records.federation import Federation

    before = documents.read_text(file) if file.exists() else EMPTY
    _refuse_known(before, records["sites"][0]["name"], file)
    try:
        text = additions.added(before, records)
        documents.read(Federation, documents.SourceFile(str(file), text))
    except BadDocument as bad:
        raise BadInput(f"{file}: {bad.faults[0].message}; {bad.faults[0].remedy}") from bad
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailure(f"{file} cannot be written: {error.strerror}") from error


def _answer(options: dict[str, Any], questions: str) -> str:
    from pilotage.computing.batch.commands import shell
    from pilotage.computing.batch.hosts import Hosts
    from pilotage.computing.slurm import SlurmOptions

    parsed = SlurmOptions(**{name: value for name, value in options.items() if name != "tunnel"})
    path = f"PATH={parsed.commands}:$PATH; " if parsed.commands else ""
    try:
        return Hosts().host(parsed).run(shell(path + questions)).stdout
    except OSError as error:
        raise CommandFailure(str(error)) from error


def _refuse_known(text: str, name: str, file: Path) -> None:
    from pilotage.federation.text import parse

    document = parse(text)
    sites = document.get("sites") if isinstance(document, dict) else None
    if any(isinstance(one, dict) and one.get("name") == name for one in sites or ()):
        raise BadInput(f"{file} has a site {name} already; give another name with --site")
