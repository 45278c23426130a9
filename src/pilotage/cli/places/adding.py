"""Add a cluster to a federation's file: inspect it where it is, and report every guess."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import settings
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Column, Json, echo, show, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.federation.importers.inspection import Inspected

FILE = "federation.yaml"
"""The name of the federation's file in the home."""

EMPTY = "name: federation\ndirector: { policy: balanced }\n"
"""The first lines of a new file."""


class Kind(StrEnum):
    """What can be inspected."""

    LOCAL = "local"
    SSH = "ssh"
    SLURM = "slurm"


def add(
    kind: Annotated[
        Kind, typer.Argument(help="This machine, another one behind SSH, or a cluster with Slurm.")
    ],
    host: Annotated[
        str,
        typer.Argument(help="The machine or login node, as user@host:port or a name of ~/.ssh/config."),
    ] = "",
    file: Annotated[
        Path | None, typer.Option(help="The federation's file, made if needed; by default the home's.")
    ] = None,
    site: Annotated[str, typer.Option(help="The site's name; else the machine's or the cluster's.")] = "",
    ssh_config: Annotated[str, typer.Option(help="The SSH client's configuration.")] = "",
    commands: Annotated[
        str, typer.Option(help="The directory of Slurm's commands, if not in the PATH.")
    ] = "",
    tunnel: Annotated[
        bool, typer.Option("--tunnel", help="Pilots reach this server through the SSH connection.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Inspect a machine or a cluster, and write its site, storage and queues into the federation's file.

    The rest of the file stays as it is, with its comments. The command reports every guess, field by field.
    """
    options = {"ssh": host, "ssh_config": ssh_config, "commands": commands, "tunnel": tunnel}
    inspection = _inspected(kind, site, {name: value for name, value in options.items() if value})
    file = file or settings().home / FILE
    write(file, inspection.records)
    if json_output:
        notes = [asdict(note) for note in inspection.notes]
        show_json({"file": str(file), **inspection.records, "notes": notes})
        return
    columns = (Column("done"), Column("field"), Column("times", number=True), Column("for example"))
    show(columns, inspection.report().summary(), "", stderr=True)
    sites, queues = inspection.records["sites"], inspection.records["queues"]
    echo(f"{file} has site {sites[0]['name']} with {plural(len(queues), 'queue')}")


def _inspected(kind: Kind, site: str, options: dict[str, Any]) -> "Inspected":
    """Return the records of the machine or cluster behind these options."""
    from pilotage.federation.importers import machine, slurm

    if kind is Kind.LOCAL:
        if options:
            raise BadInput("local is this machine, and takes no host and no options but --site and --file")
        return local(site)
    if kind is Kind.SSH and "ssh" not in options:
        raise BadInput("name the machine: pilotage federation add ssh user@host")
    try:
        if kind is Kind.SSH:
            if unknown := options.keys() & {"commands"}:
                raise BadInput(f"--{unknown.pop()} is for slurm")
            return machine.describe(_answer(options, machine.QUESTIONS), kind.value, options, "", site)
        return slurm.describe(_answer(options, slurm.QUESTIONS), options, site)
    except ValueError as error:
        raise BadInput(str(error)) from error


def local(site: str = "") -> "Inspected":
    """Return the records of this machine. Its storage is a folder below the working directory."""
    from pilotage.federation.importers import machine

    storage = f"file://{Path.cwd()}/pilotage-data"
    answer = _answer({}, machine.QUESTIONS)
    return machine.describe(answer, "process", {}, storage, site or Kind.LOCAL.value)


def write(file: Path, records: Mapping[str, Any]) -> None:
    """Add records to the file, unless they would make the federation invalid."""
    from pilotage.federation import additions, documents, source_files
    from pilotage.federation.faults import BadDocument
    from pilotage.model.records.federation import Federation

    before = source_files.read_text(file) if file.exists() else EMPTY
    _refuse_known(before, records["sites"][0]["name"], file)
    try:
        text = additions.added(before, records)
        documents.read(Federation, source_files.SourceFile(str(file), text))
    except BadDocument as bad:
        raise BadInput(f"{file}: {bad.faults[0].message}; {bad.faults[0].remedy}") from bad
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailure(f"{file} cannot be written: {error.strerror}") from error


def _answer(options: dict[str, Any], questions: str) -> str:
    from pilotage.adapters.computing.batch.commands import shell
    from pilotage.adapters.computing.batch.hosts import Hosts
    from pilotage.adapters.computing.slurm import SlurmOptions

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
    if any(isinstance(entry, dict) and entry.get("name") == name for entry in sites or ()):
        raise BadInput(f"{file} has a site {name} already; give another name with --site")
