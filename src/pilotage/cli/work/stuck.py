"""List stuck records."""

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import Json, ago, echo, show_json
from pilotage.cli.terminal.subjects import KINDS

app = typer.Typer()


@app.command(epilog="Example: pilotage stuck")
def stuck(json_output: Json = False) -> None:
    """List what made no progress, why, and what to do. For operators.

    A record is stuck if it waits for a person, or takes longer than usual.
    Jobs, transfers, pilots, tasks, publications and notifications count as stuck once they are in their state
    for twice as long as 95 % of the newest ones at the same queue or storage took. Each kind has a floor:
    nothing is stuck sooner.
    """
    from pilotage.client import RemarkRecord
    from pilotage.explain.remarks import sentence

    with connect() as client:
        records = client.stuck()
    if json_output:
        show_json(records)
        return
    if not records:
        echo("Nothing is stuck.")
    for record in records:
        remark = RemarkRecord(record["remark"])
        first = "" if record["kind"] == "loop" else f": {remark.subject}"
        if remark.since:
            first = f"; the oldest {remark.subject} for {ago(remark.since)}"
        echo(f"{record['what']}{first}")
        echo(f"    why: {sentence(remark)}")
        if command := remark.command or _look(remark.subject):
            echo(f"    do:  {command}")


def _look(subject: str) -> str:
    """Return the command that shows more of a record; empty: none does."""
    return f"pilotage explain {subject}" if subject.partition(":")[0] in (*KINDS, "task") else ""
