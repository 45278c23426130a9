"""Commands at the other end of an SSH connection."""

import asyncio
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .commands import LONGEST_OUTPUT, Command, Outcome, outcome

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

ENDED_BY_TIMEOUT = (124, 137)
"""Exit statuses of ``timeout`` when it ended its command, and when it had to kill it."""

REFUSALS = 50
"""Times that a channel is asked for, a fifth of a second apart."""


async def execute(connection: "SSHClientConnection", command: Command) -> Outcome:
    """Run a command at the other end, where it is ended after its time even if nobody listens any more."""
    import asyncssh

    limit = ["timeout", "-k", "5", f"{command.time_limit:g}"]
    try:
        process = await _started(connection, shlex.join([*limit, *command.argv]))
        async with process:
            with suppress(OSError):  # a quick command may have ended before all was written
                process.stdin.write(command.stdin)
                process.stdin.write_eof()
            out, complaints = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            if max(len(out), len(complaints)) <= LONGEST_OUTPUT:
                await process.wait()
            code = process.returncode
    except (asyncssh.Error, OSError) as error:
        return Outcome(stderr=str(error))
    return outcome(out, complaints, None if code in ENDED_BY_TIMEOUT else code)


async def _started(connection: "SSHClientConnection", text: str) -> "SSHClientProcess[bytes]":
    """Start a command. Servers count channels that were closed a moment ago, and refuse more for now."""
    import asyncssh

    for _ in range(REFUSALS):
        with suppress(asyncssh.ChannelOpenError):
            return await connection.create_process(text, encoding=None)
        if connection.is_closed():
            break
        await asyncio.sleep(0.2)
    return await connection.create_process(text, encoding=None)


async def _read(source: Any) -> bytes:
    """All that comes, up to a little more than is taken."""
    parts, size = [], 0
    with suppress(OSError):
        while size <= LONGEST_OUTPUT and (data := await source.read(1 << 20)):
            parts.append(data)
            size += len(data)
    return b"".join(parts)
