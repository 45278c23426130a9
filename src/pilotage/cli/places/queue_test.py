"""Send one pilot to a queue, and print what its node has."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json

if TYPE_CHECKING:
    from pilotage.client import Client

PERIOD = 1.0
"""s between two looks."""

CLOCK_MATTERS = 30.0
"""s that a node's clock may be wrong before certificates and tokens suffer."""


def send_pilot(
    queue: Annotated[str, typer.Argument(help="The queue's name.")],
    timeout: Annotated[
        float, typer.Option(min=1, max=604_800, help="s to wait for the pilot; it stays when they are over.")
    ] = 600,
    json_output: Json = False,
) -> None:
    """Send one pilot to a queue, and show its node: cores, memory, disk, GPUs, containers, network.

    It goes there also if the queue is closed. It takes jobs as any pilot, if some wait. For operators.
    """
    with connect() as client:
        pilot = client.test_queue(queue)["pilot"]
        echo(f"pilot {pilot} is sent to {queue}", err=True)
        details, node = _await(client, pilot, time.monotonic() + timeout)
    if json_output:
        show_json({"pilot": details, "node": node})
        return
    waited = (
        f", {details['since'] - details['created']:.0f} s after it was sent"
        if details["state"] == "running"
        else ""
    )
    echo(f"pilot {pilot} called from {details['node'] or 'a nameless node'}{waited}")
    for name, text in _rows(node):
        echo(f"  {name:<12}{text}")


def _await(client: "Client", pilot: int, until: float) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Wait until a pilot reports its node, and return both. Raises CommandFailure if it never does."""
    state = ""
    while True:
        details = client.pilot(pilot)
        if details["state"] != state:
            state = details["state"]
            echo(f"pilot {pilot} is {state}", err=True)
        if node := client.logs(f"pilot:{pilot}")["node"]:
            return details, node
        hint = f"; why: pilotage explain pilot:{pilot}, pilotage logs pilot:{pilot}"
        if state in ("finished", "failed", "cancelled"):
            raise CommandFailure(
                f"pilot {pilot} is {state} before its first report: {details['error']}{hint}"
            )
        if time.monotonic() >= until:
            raise CommandFailure(
                f"pilot {pilot} is {state} still{hint}; go on: pilotage queues test {details['queue']}"
            )
        time.sleep(PERIOD)


def _rows(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a node has, line by line."""
    yield "cores", _slot(node["cores"], node["machine_cores"], "")
    yield "memory", _slot(node["memory"], node["machine_memory"], " MB")
    yield "disk", f"{node['disk'] / 1000:.1f} GB free"
    yield "GPUs", ", ".join(node["gpus"]) or "none"
    yield "containers", ", ".join(node["containers"]) or "none"
    yield "limits by", node["limited_by"] or "unknown"
    yield "network", f"reaches this server; {' and '.join(node['routes']) or 'nothing'} beyond"
    if (ahead := node.get("clock_ahead")) is not None:
        right = "right" if abs(ahead) < CLOCK_MATTERS else "wrong: certificates and tokens depend on it"
        yield "clock", f"{abs(ahead):.1f} s {'ahead' if ahead >= 0 else 'behind'}: {right}"
    if node["walltime"]:
        yield "walltime", f"{node['walltime']:.0f} s left"
    yield "Python", node["python"]
    yield "system", node["system"]


def _slot(slot: float, machine: float, unit: str) -> str:
    whole = f"{machine:g}{unit} in the machine"
    return f"{slot:g}{unit} of {whole}" if slot else f"all of {whole}"
