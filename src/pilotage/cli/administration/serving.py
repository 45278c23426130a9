"""The server's address, and the check that each home has one server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilotage.cli.errors import BadInput, CommandFailure

if TYPE_CHECKING:
    from pilotage.server.web import OneTimeCode
    from pilotage.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def port_of(url: str) -> int:
    """Return the port of a URL."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def reachable(known: "Settings") -> "Settings":
    """Check that clients on this machine can reach the server at its address. Raises ``BadInput``."""
    parts = urlsplit(known.url)
    direct = parts.scheme == "http" and parts.hostname in LOOPBACK
    if direct and port_of(known.url) != known.port:
        raise BadInput(
            f"PILOTAGE_URL is {known.url}: there commands and pilots look for the server, which would listen "
            f"on port {known.port}; set PILOTAGE_URL to that port, or leave one of the two out"
        )
    return known


def place(known: "Settings") -> str:
    """Return where the server can be reached, and where it listens if a proxy stands between."""
    if port_of(known.url) == known.port:
        return f"at {known.url}"
    return f"at {known.url}, listening on port {known.port} of {known.host}"


def one_time_code(known: "Settings") -> "OneTimeCode | None":
    """Return a code that opens the page signed in; None if other machines can reach the server."""
    import time

    from pilotage.server.web import OneTimeCode

    is_local = known.host in LOOPBACK and urlsplit(known.url).hostname in LOOPBACK
    return OneTimeCode(time.time) if is_local else None


def sibling_path(known: "Settings") -> str:
    """For loops without an API: return which server of the home they join."""
    from pilotage.cli.administration.home_lock import server_of

    served = server_of(known.home)
    return f"without the API, beside {served}" if served else "without the API"


@contextmanager
def home_of(known: "Settings") -> Iterator[None]:
    """Become the server of the home. Raises ``CommandFailure`` if there is one already."""
    from pilotage.cli.administration.home_lock import HomeTaken, serving

    try:
        with serving(known.home, known.url):
            yield
    except HomeTaken as taken:
        raise home_taken(known, str(taken)) from taken


def home_taken(known: "Settings", by: str) -> CommandFailure:
    """Return the refusal of a second server in a home, which a process serves already."""
    return CommandFailure(
        f"the home {known.home} is served already by {by}: end that one, give this one another "
        "PILOTAGE_HOME, or run loops beside it with --no-api"
    )
