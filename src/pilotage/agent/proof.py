"""Prove containment: attack each way with a small payload, and keep the strongest that holds."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .logs import stderr_tail
from .machine import now
from .payload import workdir
from .payload.payload import Order, Payload
from .payload.view import SitePaths, view

log = logging.getLogger(__name__)
MECHANISMS = ("bubblewrap", "namespaces", "landlock")
"""Mechanisms of containment, strongest first."""
ONLY_FILES = "landlock-files"
"""Files are separate, but the kernel is too old to keep signals away from agent and supervisor."""
LONGEST = 30.0
"""Seconds that a proof may take."""
_ATTACK = """\
import os, signal, sys
secret, agent = sys.argv[1], int(sys.argv[2])
open("out", "w").write("1")
def attempt(name, act):
    try:
        act()
    except OSError:
        return
    print(name)
attempt("reads", lambda: open(secret).read())
attempt("writes", lambda: open(secret + ".too", "w"))
# In a PID namespace the parent is the payload's own init, which has number 1.
if os.getppid() > 1:
    attempt("signals", lambda: os.kill(os.getppid(), 0))
attempt("sent", lambda: os.kill(agent, signal.SIGURG))
print("tried")
"""


@dataclass(frozen=True)
class Containment:
    """The way to contain payloads here, its name for people, and the path of bubblewrap."""

    mechanism: str = "none"
    name: str = "none"
    bubblewrap: str = ""


async def prove(directory: Path, hidden: tuple[str, ...]) -> Containment:
    """Find the strongest way that holds on this machine."""
    bubblewrap = shutil.which("bwrap") or ""
    for mechanism in MECHANISMS:
        if mechanism == "bubblewrap" and not bubblewrap:
            continue
        try:
            successes = await attack(mechanism, bubblewrap, directory, hidden)
        except OSError as error:
            log.warning("payloads cannot be contained by %s: %s", mechanism, error)
            continue
        if not successes:
            return Containment(mechanism, mechanism, bubblewrap)
        # Before Linux 6.12 Landlock does not block signals. Separate files are still better than nothing.
        if mechanism == "landlock" and successes == {"signals"}:
            return Containment(mechanism, ONLY_FILES, bubblewrap)
        log.warning(
            "payloads are not contained by %s: an attack %s", mechanism, " and ".join(sorted(successes))
        )
    return Containment()


async def attack(mechanism: str, bubblewrap: str, directory: Path, hidden: tuple[str, ...]) -> set[str]:
    """Return the names of the attacks that succeed. Raises OSError if no payload can run in this way."""
    place, secret = directory / ".proof", directory / ".proof-secret"
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()
    # A process that does not wait for this signal ignores it: in a namespace the number may be another
    # process's.
    loop.add_signal_handler(signal.SIGURG, reached.set)
    try:
        (place / "tmp").mkdir(parents=True, exist_ok=True)
        secret.write_text("secret")
        command = (sys.executable, "-I", "-S", "-c", _ATTACK, str(secret), str(os.getpid()))
        payload_view = view(mechanism, bubblewrap, place, SitePaths(hidden=(*hidden, str(directory))))
        order = Order(command, {"PATH": os.defpath}, place, walltime=LONGEST, view=payload_view)
        ended = await Payload(order, now() + 2 * LONGEST).ended()
        words = (place / "stdout").read_text().split() if (place / "stdout").exists() else []
        if ended.error or "tried" not in words:
            raise OSError(f"{ended.error} {stderr_tail(place)}".strip())
        # The loop runs signal handlers in its next turn.
        await asyncio.sleep(0)
        return set(words) - {"tried", "sent"} | ({"signals"} if reached.is_set() else set())
    finally:
        loop.remove_signal_handler(signal.SIGURG)
        with suppress(OSError):
            workdir.remove(place)
            secret.unlink()
            Path(f"{secret}.too").unlink(missing_ok=True)
