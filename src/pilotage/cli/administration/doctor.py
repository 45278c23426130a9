"""Examine the installation, and tell what mends it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Json, console, echo, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.server.doctor.checks import DoctorCheck
    from pilotage.server.doctor.examination import Examined

app = typer.Typer()

COLOURS = {"fault": "red", "warning": "yellow"}


@app.command(
    epilog="Example: pilotage doctor\n\nExample: pilotage doctor --only storage --only 'batch system'"
)
def doctor(
    only: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help="Only this check; repeat it for several.")
    ] = None,
    checks: Annotated[bool, typer.Option("--list", help="Only list the checks.")] = False,
    json_output: Json = False,
) -> None:
    """Examine the installation: what is wrong, why it matters, and what mends it.

    On the server's machine it examines everything: settings, disks, database, clocks, storages, batch
    systems, packages, tokens and certificates. It writes one small file into each storage's scratch area, and
    removes it. On other machines it examines what a client can see of the server.

    The exit code is 1 if there is a fault, and 0 if there are only warnings.
    """
    from pilotage.server.doctor.checks import all_checks
    from pilotage.server.doctor.examination import examined
    from pilotage.server.doctor.installation import Installation

    wanted = _wanted(all_checks(), only or [])
    if checks:
        _list(wanted, json_output)
        return
    known = Installation()
    found: list[Examined] = []
    with console(stderr=True).status("examining") as status:
        try:
            for one in examined(known, wanted):
                status.update(f"examined {one.check} {one.about}".strip())
                found.append(one)
        finally:
            known.close()
    if json_output:
        show_json({"sound": not _faults(found), "examined": [asdict(one) for one in found]})
    else:
        _show(found)
    if _faults(found):
        raise typer.Exit(1)


def _wanted(known: "Sequence[DoctorCheck]", names: Sequence[str]) -> "list[DoctorCheck]":
    """Return the checks of some names, with the checks before them."""
    if unknown := sorted({*names} - {one.name for one in known}):
        raise BadInput(f"there is no check {unknown[0]!r}; pilotage doctor --list lists them")
    return [one for one in known if not names or one.first or one.name in names]


def _list(wanted: "Sequence[DoctorCheck]", json_output: bool) -> None:
    described = {one.name: (one.examine.__doc__ or "").partition("\n")[0] for one in wanted}
    if json_output:
        show_json(described)
        return
    for name, text in described.items():
        echo(f"{name}: {text}")


def _faults(found: "Sequence[Examined]") -> int:
    return sum(one.severity == "fault" for result in found for one in result.findings)


def _show(found: "Sequence[Examined]") -> None:
    for severity in ("fault", "warning"):
        for result in found:
            for one in result.findings:
                if one.severity == severity:
                    about = f"{result.check} {result.about}".strip()
                    echo(f"{severity}: {about}: {one.what}", colour=COLOURS[severity])
                    echo(f"    why:  {one.why}")
                    echo(f"    mend: {one.mend}")
    skipped = Counter(one.skipped for one in found if one.skipped)
    for reason, count in skipped.items():
        echo(f"not examined: {plural(count, 'check')}, {reason}")
    faults = _faults(found)
    warnings = sum(len(one.findings) for one in found) - faults
    done = len(found) - skipped.total()
    echo(f"{plural(done, 'check')}: {plural(faults, 'fault')}, {plural(warnings, 'warning')}")
