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


def reachable(settings: "Settings") -> "Settings":
    """Check that clients on this machine can reach the server at its address. Raises ``BadInput``."""
    parts = urlsplit(settings.url)
    direct = parts.scheme == "http" and parts.hostname in LOOPBACK
    if direct and port_of(settings.url) != settings.port:
        raise BadInput(
            f"PILOTAGE_URL is {settings.url}: there commands and pilots look for the server, which would "
            f"listen on port {settings.port}; set PILOTAGE_URL to that port, or leave one of the two out"
        )
    return settings


def place(settings: "Settings") -> str:
    """Return the server's address, and the port it listens on if a proxy serves that address."""
    if port_of(settings.url) == settings.port:
        return f"at {settings.url}"
    return f"at {settings.url}, listening on port {settings.port} of {settings.host}"


def one_time_code(settings: "Settings") -> "OneTimeCode | None":
    """Return a code that opens the page signed in; None if other machines can reach the server."""
    import time

    from pilotage.server.web import OneTimeCode

    is_local = settings.host in LOOPBACK and urlsplit(settings.url).hostname in LOOPBACK
    return OneTimeCode(time.time) if is_local else None


def sibling_path(settings: "Settings") -> str:
    """For loops without an API: return which server of the home they join."""
    from pilotage.cli.administration.home_lock import server_of

    served = server_of(settings.home)
    return f"without the API, beside {served}" if served else "without the API"


@contextmanager
def home_of(settings: "Settings") -> Iterator[None]:
    """Become the server of the home. Raises ``CommandFailure`` if there is one already."""
    from pilotage.cli.administration.home_lock import HomeTaken, serving

    try:
        with serving(settings.home, settings.url):
            yield
    except HomeTaken as error:
        raise home_taken(settings, str(error)) from error


def home_taken(settings: "Settings", by: str) -> CommandFailure:
    """Return the refusal of a second server in a home, which a process serves already."""
    return CommandFailure(
        f"the home {settings.home} is served already by {by}: end that one, give this one another "
        "PILOTAGE_HOME, or run loops beside it with --no-api"
    )
