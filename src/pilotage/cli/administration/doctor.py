"""Examine the installation, and print its faults with their remedies."""

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
    """Examine the installation: find faults, why they matter, and how to mend them.

    On the server's machine it examines everything: settings, disks, database, clocks, storages, batch
    systems, packages, tokens and certificates. It writes one small file into each storage's scratch area, and
    removes it. On other machines it examines what a client can see of the server.

    The exit code is 1 if there is a fault, and 0 if there are only warnings.
    """
    from pilotage.server.doctor.checks import all_checks
    from pilotage.server.doctor.examination import examined
    from pilotage.server.doctor.installation import Installation

    chosen = _chosen_checks(all_checks(), only or [])
    if checks:
        _list(chosen, json_output)
        return
    installation = Installation()
    results: list[Examined] = []
    with console(stderr=True).status("examining") as status:
        try:
            for result in examined(installation, chosen):
                status.update(f"examined {result.check} {result.about}".strip())
                results.append(result)
        finally:
            installation.close()
    if json_output:
        show_json({"sound": not _faults(results), "examined": [asdict(result) for result in results]})
    else:
        _show(results)
    if _faults(results):
        raise typer.Exit(1)


def _chosen_checks(checks: "Sequence[DoctorCheck]", names: Sequence[str]) -> "list[DoctorCheck]":
    """Return the checks of some names, with the checks before them."""
    if unknown := sorted({*names} - {check.name for check in checks}):
        raise BadInput(f"there is no check {unknown[0]!r}; pilotage doctor --list lists them")
    return [check for check in checks if not names or check.first or check.name in names]


def _list(checks: "Sequence[DoctorCheck]", json_output: bool) -> None:
    described = {check.name: (check.examine.__doc__ or "").partition("\n")[0] for check in checks}
    if json_output:
        show_json(described)
        return
    for name, text in described.items():
        echo(f"{name}: {text}")


def _faults(results: "Sequence[Examined]") -> int:
    return sum(finding.severity == "fault" for result in results for finding in result.findings)


def _show(results: "Sequence[Examined]") -> None:
    for severity in ("fault", "warning"):
        for result in results:
            for finding in result.findings:
                if finding.severity == severity:
                    about = f"{result.check} {result.about}".strip()
                    echo(f"{severity}: {about}: {finding.what}", colour=COLOURS[severity])
                    echo(f"    why:  {finding.why}")
                    echo(f"    mend: {finding.mend}")
    skipped = Counter(result.skipped for result in results if result.skipped)
    for reason, count in skipped.items():
        echo(f"not examined: {plural(count, 'check')}, {reason}")
    faults = _faults(results)
    warnings = sum(len(result.findings) for result in results) - faults
    done = len(results) - skipped.total()
    echo(f"{plural(done, 'check')}: {plural(faults, 'fault')}, {plural(warnings, 'warning')}")
