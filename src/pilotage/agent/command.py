"""The agent's command line: the pilot's resources, its server's address, and its token."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from . import relay
from .client import PilotClient
from .logs import OwnLog
from .machine import guard
from .node import Resources, look
from .payload.delegated_groups import DelegatedGroups, find
from .pilot import PilotAgent
from .wire import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

log = logging.getLogger(__name__)
LARGEST_TOKEN = 65_536
"""Largest token file, in bytes."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of a pilot's options.

    The token is not an option, because other users can read arguments.
    """
    options = argparse.ArgumentParser(
        prog="python agent.pyz",
        description="A pilot: runs jobs for a Pilotage server.",
        epilog="The token is read from standard input, or from the file that --token-file names.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    options.add_argument(
        "--url",
        default="http://127.0.0.1:8000",
        help="the server, or several of one store with commas; file:///PATH is a file that holds its address",
    )
    options.add_argument(
        "--identity", default="", help="key and certificate of pilots and relay, for a tunnel"
    )
    _add_limits(options)
    options.add_argument("--hide", action="append", default=[], help="a folder that no payload sees")
    options.add_argument(
        "--token-file", type=Path, help="file to read the token from, instead of standard input"
    )
    options.add_argument("--remove-token-file", action="store_true", help="remove that file once it is read")
    return options


def _add_limits(options: argparse.ArgumentParser) -> None:
    """Add the options that limit payloads."""
    options.add_argument(
        "--cores", type=int, default=1, help="cores, for all payloads together; 0: those of the slot"
    )
    options.add_argument(
        "--memory", type=float, default=0.0, help="MB of memory, for all payloads; 0: no limit"
    )
    options.add_argument("--walltime", type=float, default=86_400.0, help="seconds that the pilot may live")
    options.add_argument("--slots", type=int, default=1, help="payloads side by side; 0: one a core")
    options.add_argument(
        "--directory", type=Path, default=Path(), help="where the jobs' directories are made"
    )
    options.add_argument(
        "--least-disk", type=float, default=100.0, help="MB free there without which it takes no jobs"
    )
    options.add_argument(
        "--spool", type=Path, help="a folder for results that the server does not get before the pilot's end"
    )
    options.add_argument(
        "--spool-room", type=float, default=0.0, help="MB that may lie there and beside it, of all pilots"
    )
    options.add_argument(
        "--spool-days", type=float, default=14.0, help="days after which they are removed from there"
    )
    options.add_argument("--keep", action="store_true", help="keep the jobs' directories")
    options.add_argument(
        "--no-control-groups",
        dest="control_groups",
        action="store_false",
        help="hold payloads to their limits by watching alone",
    )


def take_token(file: Path | None, *, remove: bool) -> str:
    """Read the token, and hide it from every process that starts later. Exits without one."""
    if file is None:
        token = sys.stdin.read(LARGEST_TOKEN).strip()
    else:
        try:
            with file.open() as opened:
                token = opened.read(LARGEST_TOKEN).strip()
        except OSError as error:
            sys.exit(f"no token: {error}")
        if remove:
            file.unlink(missing_ok=True)
    # Payloads could read the rest of standard input.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not token:
        sys.exit("no token: give it on standard input, or name the file that holds it with --token-file")
    return token


def claim(options: argparse.Namespace, node: Node, place: Path) -> Resources:
    """Return the pilot's resources: those ordered, bounded by what its slot allows."""

    def bounded(name: str, ordered: float, confined: float) -> float:
        if 0 < confined < ordered:
            log.warning("%s: %g were ordered, the slot has %g", name, ordered, confined)
        return min(ordered, confined) if ordered and confined else ordered or confined

    cores = int(bounded("cores", options.cores, node.cores)) or node.machine_cores
    return Resources(
        cores=cores,
        memory=bounded("MB of memory", options.memory, node.memory),
        walltime=bounded("s of walltime", options.walltime, node.walltime),
        slots=options.slots or cores,
        directory=place,
        keep=options.keep,
        least_disk=options.least_disk,
        hidden=tuple(options.hide),
        gpus=node.gpus,
        node=node,
        spool=options.spool,
        spool_room=options.spool_room,
        spool_days=options.spool_days,
    )


def limited(resources: Resources, control_groups: bool) -> Resources:
    """Return the resources with the control groups that payloads can get here."""
    groups = find() if control_groups else DelegatedGroups(fault="control groups are switched off")
    log.info("payloads are limited by %s: %s", groups.name, ", ".join(groups.parents) or groups.fault)
    node = replace(resources.node, limited_by=groups.name, limits=tuple(groups.parents))
    return replace(resources, delegation=groups, node=node)


def main() -> None:
    """Run one pilot, or a relay. Exit with 0 after a regular end, else with 1."""
    if sys.argv[1:2] == ["relay"]:
        relay.main(sys.argv[2:])
        return
    guard()
    options = parser().parse_args()

    def pilot(resources: Resources, client: PilotClient, own_log: OwnLog) -> PilotAgent:
        return PilotAgent(limited(resources, options.control_groups), client, own_log)

    run(options, lambda place: look(place, os.environ), pilot)


def run(
    options: argparse.Namespace,
    node_at: Callable[[Path], Node],
    pilot_of: Callable[[Resources, PilotClient, OwnLog], PilotAgent],
) -> NoReturn:
    """Run a pilot in its directory until it ends. Exit with 0 after a regular end, else with 1."""
    token = take_token(options.token_file, remove=options.remove_token_file)
    own_log = OwnLog()
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s",
        level=logging.INFO,
        handlers=[logging.StreamHandler(), own_log],
    )
    place: Path = options.directory.resolve()
    place.mkdir(parents=True, exist_ok=True)
    os.chdir(place)
    resources = claim(options, node_at(place), place)
    ended_well = False
    try:
        client = PilotClient(options.url, token, identity=options.identity)
        ended_well = asyncio.run(pilot_of(resources, client, own_log).run())
    except Exception:
        logging.exception("the pilot fails")
    logging.shutdown()
    # A thread may wait for an answer for ever: it must not keep an ended pilot alive.
    os._exit(0 if ended_well else 1)
