"""``python -m pilotage.agent``: one pilot, from its start to its end."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .life import Agent
from .payload import guard
from .server import Server
from .work import Offer


def arguments(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """What a pilot is told, by options or by PILOTAGE_ variables; the token by a variable or a file only."""
    parser = argparse.ArgumentParser(
        prog="python -m pilotage.agent",
        description="A pilot: runs jobs for a Pilotage server.",
        epilog="The token comes in PILOTAGE_TOKEN, or in the file that PILOTAGE_TOKEN_FILE names.",
    )

    def option(name: str, kind: type, default: object, text: str) -> None:
        value = environment.get(f"PILOTAGE_{name.upper()}", default)
        parser.add_argument(f"--{name}", type=kind, default=value, help=f"{text} (default: {default})")

    option("url", str, "http://127.0.0.1:8000", "the server")
    option("cores", int, 1, "cores, for all payloads together")
    option("memory", float, 0.0, "MB of memory for all payloads together, 0: no limit")
    option("walltime", float, 86_400.0, "seconds that the pilot may live")
    option("slots", int, 1, "payloads side by side")
    option("directory", Path, ".", "where it works")
    parser.add_argument("--keep", action="store_true", help="keep the jobs' directories")
    return parser


def take_token() -> str:
    """The token, out of reach of whatever is started later: no payload inherits it. Exits without one."""
    token = os.environ.pop("PILOTAGE_TOKEN", "")
    file = os.environ.pop("PILOTAGE_TOKEN_FILE", "")
    if not token and file:
        token = Path(file).read_text().strip()
    if not token:
        sys.exit("no token: set PILOTAGE_TOKEN, or PILOTAGE_TOKEN_FILE to the path of a file that holds it")
    return token


def main() -> None:
    """Run one pilot; exit status 0 when it ended in good order, else 1."""
    guard()
    options = arguments(os.environ).parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    place: Path = options.directory.resolve()
    place.mkdir(parents=True, exist_ok=True)
    os.chdir(place)
    offer = Offer(
        cores=options.cores,
        memory=options.memory,
        walltime=options.walltime,
        slots=options.slots,
        directory=place,
        keep=options.keep,
    )
    token, ended_well = take_token(), False
    try:
        ended_well = asyncio.run(_live(offer, options.url, token))
    except Exception:
        logging.exception("the pilot fails")
    logging.shutdown()
    # A thread that waits for a storage which never answers must not keep a pilot alive that has ended.
    os._exit(0 if ended_well else 1)


async def _live(offer: Offer, url: str, token: str) -> bool:
    return await Agent(offer, Server(url, token)).run()


if __name__ == "__main__":
    main()
