"""Where a server is to be found, and that there is one for each home."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .errors import BadInput, CommandFailure

if TYPE_CHECKING:
    from pilotage.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def port_of(url: str) -> int:
    """The port that a URL leads to."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def reachable(known: "Settings") -> "Settings":
    """Check that clients on this machine find the server where it listens. Raises :class:`BadInput`."""
    parts = urlsplit(known.url)
    direct = parts.scheme == "http" and parts.hostname in LOOPBACK
    if direct and port_of(known.url) != known.port:
        raise BadInput(
            f"PILOTAGE_URL is {known.url}: there commands and pilots look for the server, which would listen "
            f"on port {known.port}; set PILOTAGE_URL to that port, or leave one of the two out"
        )
    return known


def place(known: "Settings") -> str:
    """Say where the server is reached, and where it listens if a proxy stands between."""
    if port_of(known.url) == known.port:
        return f"at {known.url}"
    return f"at {known.url}, listening on port {known.port} of {known.host}"


def beside(known: "Settings") -> str:
    """Say of loops without an API which server of the home they join."""
    from pilotage.home_lock import server_of

    served = server_of(known.home)
    return f"without the API, beside {served}" if served else "without the API"


@contextmanager
def home_of(known: "Settings") -> Iterator[None]:
    """Be the server of the home. Raises :class:`CommandFailure` where there is one."""
    from pilotage.home_lock import HomeTaken, serving

    try:
        with serving(known.home, known.url):
            yield
    except HomeTaken as taken:
        raise CommandFailure(
            f"the home {known.home} is served already by {taken}: end that one, give this one another "
            "PILOTAGE_HOME, or run loops beside it with --no-api"
        ) from taken
