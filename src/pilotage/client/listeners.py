"""Who listens at a port of this machine: another user may, once the home's server has ended.

Only Linux has this information; elsewhere nothing is known.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from pilotage.settings import Settings

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_ANY = ("0.0.0.0", "::")

Address = tuple[str, int]
"""An IP address and a port."""


class _Socket(NamedTuple):
    here: str
    there: str
    state: str
    owner: int


def stranger_at(settings: Settings, server: Address, client: Address) -> str:
    """Return why what listens on this machine cannot be the home's server; empty if it can be."""
    is_here = server[0] == client[0] or ip_address(server[0].partition("%")[0]).is_loopback
    if not (is_here and os.access(TABLES[0], os.R_OK)):
        return ""
    users = {0, os.geteuid()}
    with suppress(OSError):
        users.add(settings.home.stat().st_uid)
    users_there = strangers(server, client, frozenset(users))
    if users_there == []:
        return ""
    who = f"of the user {_user_name(users_there[0])}" if users_there else "of an unknown user"
    remedy = "start the server with `pilotage up`, or set PILOTAGE_URL to its address"
    return f"what listens at {settings.url} is {who}, and got no token; {remedy}"


def strangers(server: Address, client: Address, trusted: frozenset[int]) -> list[int] | None:
    """Return the other users that listen at a server's address, or hold the client's connection to it.

    ``trusted`` are the numbers of users that may. None: nothing listens there now. A connection has no
    user until it is accepted, which Linux shows as 0: the listener will have it.
    """
    ends = set(_kernel_forms(server)), set(_kernel_forms(client))
    anywhere = {form for host in _ANY for form in _kernel_forms((host, server[1]))}
    listening, owners = False, set[int]()
    for row in _sockets():
        listens = row.state == _LISTENS and row.here in ends[0] | anywhere
        listening = listening or listens
        if listens or (row.here in ends[0] and row.there in ends[1]):
            owners.add(row.owner)
    return sorted(owners - trusted) if listening else None


def _user_name(number: int) -> str:
    import pwd

    with suppress(KeyError):
        return pwd.getpwuid(number).pw_name
    return str(number)


def _sockets() -> Iterator[_Socket]:
    for table in TABLES:
        with suppress(OSError), table.open() as rows:
            next(rows, None)
            for row in rows:
                fields = row.split()
                yield _Socket(fields[1], fields[2], fields[3], int(fields[7]))


def _kernel_forms(address: Address) -> Iterator[str]:
    """Yield an address as the kernel writes it, of IPv4 also as one of IPv6."""
    host, port = address
    forms = [host] if ":" in host else [host, f"::ffff:{host}"]
    for form in forms:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in form else socket.AF_INET, form.partition("%")[0])
        words = (packed[at : at + 4] for at in range(0, len(packed), 4))
        numbers = (int.from_bytes(word, sys.byteorder) for word in words)
        yield f"{''.join(f'{number:08X}' for number in numbers)}:{port:04X}"
