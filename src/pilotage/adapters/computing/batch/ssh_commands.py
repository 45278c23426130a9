"""Commands at the other end of an SSH connection."""

import asyncio
import secrets
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilotage.adapters.computing.batch.commands import Command, Outcome, outcome
from pilotage.ports.bounded_process import MOST_OUTPUT

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

_SLURM = ("SQUEUE_", "SACCT_", "SACCTMGR_", "SBATCH_", "SCANCEL_", "SINFO_", "SCONTROL_", "SALLOC_", "SLURM_")
CLEARED = (*_SLURM, "LSB_", "BSUB_")
"""Prefixes of variables that change the commands' behaviour or output; the account's owner may have set
them."""

KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")
"""Exceptions: variables that lead to the batch system."""

_UNSET = (
    "for n in $(env | sed -n "
    + " ".join(f"-e 's/^\\({start}[A-Za-z0-9_]*\\)=.*/\\1/p'" for start in CLEARED)
    + f'); do case "$n" in {"|".join(KEPT)}) ;; *) unset "$n" ;; esac; done'
)
_MARKED = (
    f'mark=$1; shift; echo "$mark"; echo "$mark" >&2; {_UNSET}; "$@"; code=$?; '
    'printf "\\n%s\\n" "$mark"; printf "\\n%s\\n" "$mark" >&2; exit "$code"'
)
"""A shell script that runs its arguments between marks on both outputs."""

ENDED_BY_TIMEOUT = (124, 137)
"""Exit statuses of ``timeout`` after it ended its command, and after it had to kill it."""

REFUSALS = 50
"""How often a refused channel is requested again, a fifth of a second apart."""


async def execute(connection: "SSHClientConnection", command: Command) -> Outcome:
    """Run a command at the other end. Its time limit holds there even if the connection is lost.

    Marks enclose its outputs, because start-up files may print text too. Raises OSError if the login shell
    ran nothing.
    """
    import asyncssh

    mark = f"--pilotage-{secrets.token_hex(8)}--"
    limit = ["timeout", "-k", "5", f"{command.time_limit:g}"]
    try:
        process = await _started(
            connection, shlex.join([*limit, "sh", "-c", _MARKED, "sh", mark, *command.argv])
        )
        async with process:
            with suppress(OSError):  # a quick command may have ended before all was written
                process.stdin.write(command.stdin)
                process.stdin.write_eof()
            out, complaints = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            if max(len(out), len(complaints)) <= MOST_OUTPUT:
                await process.wait()
            code = process.returncode
    except (asyncssh.Error, OSError) as error:
        return Outcome(stderr=str(error))
    if max(len(out), len(complaints)) > MOST_OUTPUT or code in (None, *ENDED_BY_TIMEOUT):
        return outcome(_between(out, mark)[0], _between(complaints, mark)[0], None)
    (output, begun, ended), (complained, *_) = _between(out, mark), _between(complaints, mark)
    if not begun:
        text = " ".join((out + complaints).decode(errors="replace").split())[-300:]
        raise OSError(f"the login shell does not run commands: {text or f'exit status {code}'}")
    return outcome(output, complained, code if ended else None)


def _between(output: bytes, mark: str) -> tuple[bytes, bool, bool]:
    """Return the part of an output between its marks, and whether the first and the last mark are there."""
    _, begun, rest = output.partition(f"{mark}\n".encode())
    text, ended, _ = rest.partition(f"\n{mark}\n".encode())
    return (text if begun else output), bool(begun), bool(ended)


async def _started(connection: "SSHClientConnection", text: str) -> "SSHClientProcess[bytes]":
    """Start a command. Servers still count channels that closed a moment ago, and refuse more until then."""
    import asyncssh

    for _ in range(REFUSALS):
        with suppress(asyncssh.ChannelOpenError):
            return await connection.create_process(text, encoding=None)
        if connection.is_closed():
            break
        await asyncio.sleep(0.2)
    return await connection.create_process(text, encoding=None)


async def _read(source: Any) -> bytes:
    """Read everything, up to a little more than the limit."""
    parts, size = [], 0
    with suppress(OSError):
        while size <= MOST_OUTPUT and (data := await source.read(1 << 20)):
            parts.append(data)
            size += len(data)
    return b"".join(parts)
