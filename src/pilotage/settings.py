"""Settings: the home of this machine's files and the server's address, from variables PILOTAGE_*.

Each command reads them, so they use the standard library alone.
"""

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from pilotage.model.values.durations import LEAST_ARCHIVE_DAYS
from pilotage.model.values.urls import url_fault
from pilotage.token_discovery import UnsafeToken, token_text

DEFAULT_URL = "http://127.0.0.1:8470"

URL_FILE = "url"
"""The file in the home that holds the address of the home's running server."""

MOST_ARCHIVE_DAYS = 36_500

MOST_FINISH_SECONDS = 3600
"""Most seconds that a server which is told to end waits for what it has in hand."""

LEAST_EVENT_DAYS, MOST_EVENT_DAYS = 0.01, 3650
"""Days for which events may be kept."""

MOST_WHY = 500
"""Most characters of a reason."""

_Value = TypeVar("_Value")


class WrongSettings(ValueError):
    """Settings that are wrong: the fault of each, by its name."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {fault}" for name, fault in faults.items()))
        self.faults = faults


MOST_URLS = 20
"""Most further servers that pilots may go on to."""

MOST_MESSAGES = 100_000
"""Most messages within an hour that an operator may allow."""


@dataclass(frozen=True)
class Settings:
    """Settings of this machine's server and commands.

    The variable of the same name sets each, if it is not blank: ``PILOTAGE_HOME``, ``PILOTAGE_STORE`` and
    so on.
    """

    home: Path
    """The folder of this machine's files: the default store, token and federation; else ``~/.pilotage``."""
    url: str
    """The server's address for clients and pilots; else that of the home's running server."""
    url_given: bool
    host: str
    """The address to listen on; else that of ``PILOTAGE_URL``."""
    port: int
    """The port to listen on; else that of ``PILOTAGE_URL``."""
    store: str = field(repr=False)
    """The database: ``postgresql+psycopg://user@host/database``; else ``pilotage.sqlite`` in the home."""
    token: str = field(repr=False)
    """The token of commands and clients; else that of ``pilotage login``, else the content of ``token``
    in the home, else a [bearer token](../how-to/sign-in.md#tokens-that-commands-find) as the WLCG says."""
    token_file: Path | None = None
    token_place: str = ""
    archive: Path | None = None
    """A folder to which the server moves old records; without it the server keeps all."""
    archive_after: float = 90.0
    """Days after their end when records count as old."""
    events_kept: float = 7.0
    """Days for which the server keeps events."""
    audit_kept: float = 400.0
    """Days for which the server keeps records of the [audit](../how-to/audit.md)."""
    worlds_kept: float = 2.0
    """Days for which the server keeps worlds of some decisions; 0 keeps none."""
    why: str = ""
    """The reason of what commands and clients change, for the [audit](../how-to/audit.md)."""
    more_urls: tuple[str, ...] = ()
    """Addresses of further servers of the same store. Pilots go on to the next where one does not answer."""
    proxies: tuple[str, ...] = ()
    """Networks of proxies that say for whom they ask, in ``X-Forwarded-For``: ``127.0.0.1,10.1.0.0/16``."""
    notify_networks: tuple[str, ...] = ()
    """Networks that are not public and may get notifications all the same: ``10.1.0.0/16``."""
    notify_http: bool = False
    """Whether notifications may go to ``http`` URLs: ``yes`` or ``no``."""
    notify_commands: Mapping[str, str] = field(default_factory=dict)
    """Commands that notifications may run, by name: ``page=/usr/local/bin/page``."""
    notify_per_address: int = 20
    """Most messages to one address within an hour."""
    notify_per_person: int = 60
    """Most messages of one person within an hour."""
    smtp: str = field(default="", repr=False)
    """The SMTP server for e-mail: ``smtps://USER:PASSWORD@HOST``. Without it there is no e-mail."""
    mail_from: str = ""
    """The address that mail comes from; else ``pilotage@`` and the host's name."""
    metrics_token: str = field(default="", repr=False)
    """A token that may read the metrics and nothing else."""
    metrics_from: str = ""
    """With ``loopback``, each program on this machine may read the metrics."""
    tes: str = ""
    """Serve GA4GH's Task Execution Service at ``/ga4gh/tes/v1``. Its tasks run in their images with
    ``containers``, on the nodes themselves with ``nodes``."""
    issuers: Path | None = None
    """The file of the identity providers that people [sign in](../how-to/sign-in.md) with."""
    finish_within: float = 10.0
    """Seconds that a server which is told to end waits for what it has begun outside."""

    @classmethod
    def read(cls, **values: str) -> Self:
        """Return the settings given, and else those of the environment.

        Raises ``WrongSettings`` with every fault; OSError if the token's file cannot be read.
        """
        reading = _Reading(values)
        home = reading.read("home", _folder, "~/.pilotage")
        url = reading.read("url", _url, _served_url(home))
        address = urlsplit(url if reading.text("url") else DEFAULT_URL)
        text, place = reading.text("token"), "PILOTAGE_TOKEN"
        file = None if text else home / "token"
        if file:
            try:
                text, place = token_text(home, url)
            except UnsafeToken as error:
                reading.faults["BEARER_TOKEN_FILE"] = str(error)
        settings = cls(
            home=home,
            url=url,
            url_given=bool(reading.text("url")),
            host=reading.text("host") or address.hostname or "127.0.0.1",
            port=reading.read(
                "port", _whole(0, 65_535), str(address.port or (443 if address.scheme == "https" else 80))
            ),
            store=reading.text("store") or f"sqlite:///{home}/pilotage.sqlite",
            token=reading.read("token", _token, text if file else ""),
            token_file=file,
            token_place=place,
            **reading.read_all(_PARSERS),
        )
        if place not in ("PILOTAGE_TOKEN", str(home / "token")) and "token" in reading.faults:
            reading.faults[place] = reading.faults.pop("token")
        if reading.faults:
            raise WrongSettings(reading.faults)
        return settings

    def at(self, host: str | None, port: int | None) -> Self:
        """Return the settings with another listening address.

        Without a set url, local clients use that address.
        """
        host, port, url = host or self.host, self.port if port is None else port, self.url
        if not self.url_given:
            name = "127.0.0.1" if host in ("0.0.0.0", "::") else host
            url = f"http://{f'[{name}]' if ':' in name else name}:{port}"
        return replace(self, host=host, port=port, url=url)


class _Reading:
    """Reads one setting after the other, and gathers the faults."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        self.faults: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return the text of a setting; empty if nobody gave one."""
        text = self._values.get(name, os.environ.get(f"PILOTAGE_{name.upper()}", ""))
        return text if text.strip() else ""

    def read_all(self, parsers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
        """Return the settings that somebody gave. The others keep the defaults of ``Settings``."""
        values = {}
        for name, parse in parsers.items():
            if text := self.text(name):
                try:
                    values[name] = parse(text)
                except ValueError as error:
                    self.faults[name] = str(error)
        return values

    def read(self, name: str, parse: Callable[[str], _Value], default: str) -> _Value:
        """Return the value of a setting. Note a wrong text as a fault, and return the default's value."""
        text = self.text(name)
        try:
            return parse(text or default)
        except ValueError as error:
            self.faults[name] = str(error)
            return parse(default if text else "")


def _folder(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _content(file: Path) -> str:
    try:
        # Text that is not valid is no URL, and is refused.
        return file.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _served_url(home: Path) -> str:
    """Return where the home's server listens; the usual address if its file says nothing of use."""
    try:
        return _url(_content(home / URL_FILE).strip())
    except (ValueError, OSError):
        return DEFAULT_URL


def _token(text: str) -> str:
    # A variable filled from a file often ends with a line end.
    token = text.strip()
    if not all("!" <= character <= "~" for character in token):
        # Never show the token itself: others may see this on screens and in logs.
        raise ValueError("the token has a blank, or a character that no token has")
    return token


def _url(text: str) -> str:
    if fault := url_fault(text, ("http", "https"), base=True):
        raise ValueError(f"{fault}; give a URL like {DEFAULT_URL}")
    return text.rstrip("/")


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(_url(part.strip()) for part in text.split(","))
    if len(urls) > MOST_URLS:
        raise ValueError(f"names more than {MOST_URLS} servers")
    return urls


def _networks(text: str) -> tuple[str, ...]:
    networks = tuple(network.strip() for network in text.split(",") if network.strip())
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            raise ValueError(f"{error}; give networks like 10.0.0.0/8, separated by commas") from error
    return networks


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text[:80]!r} is neither yes nor no")
    return text == "yes"


def _loopback(text: str) -> str:
    if text != "loopback":
        raise ValueError(f"{text[:80]!r} is not loopback; leave it out to ask everybody for a token")
    return text


def _tes(text: str) -> str:
    if text not in ("containers", "nodes"):
        raise ValueError(f"{text[:80]!r} is neither containers nor nodes; leave it out to serve no TES")
    return text


def _commands(text: str) -> dict[str, str]:
    commands: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, path = entry.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]*", name) or not path.startswith("/"):
            raise ValueError(f"{entry[:80]!r} is not NAME=/PATH; give page=/usr/local/bin/page")
        commands[name] = path
    return commands


def _smtp(text: str) -> str:
    if urlsplit(text).scheme not in ("smtp", "smtps") or not urlsplit(text).hostname:
        # Never show the URL itself, which may hold a password.
        raise ValueError("is no URL like smtp://mail.example.org:587 or smtps://USER:PASSWORD@HOST")
    return text


def _mail_address(text: str) -> str:
    if not re.fullmatch(r"[^\s@<>,;:]+@[A-Za-z0-9.-]+", text):
        raise ValueError(f"{text[:80]!r} is no e-mail address")
    return text


def _line(text: str) -> str:
    if len(text) > MOST_WHY or not text.isprintable():
        raise ValueError(f"is longer than {MOST_WHY} characters, or more than one line")
    return text.strip()


def _whole(smallest: int, largest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (re.fullmatch("[0-9]{1,9}", text) and smallest <= int(text) <= largest):
            raise ValueError(f"{text[:80]!r} is no whole number from {smallest} to {largest}")
        return int(text)

    return parse


def _between(smallest: float, largest: float, unit: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not smallest <= number <= largest:
            raise ValueError(f"{text[:80]!r} is no number of {unit} from {smallest} to {largest}")
        return number

    return parse


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "archive": Path,
    "archive_after": _between(LEAST_ARCHIVE_DAYS, MOST_ARCHIVE_DAYS, "days"),
    "events_kept": _between(LEAST_EVENT_DAYS, MOST_EVENT_DAYS, "days"),
    "audit_kept": _between(1, MOST_EVENT_DAYS, "days"),
    "why": _line,
    "worlds_kept": _between(0, MOST_EVENT_DAYS, "days"),
    "more_urls": _urls,
    "proxies": _networks,
    "notify_networks": _networks,
    "notify_http": _yes_or_no,
    "notify_commands": _commands,
    "notify_per_address": _whole(1, MOST_MESSAGES),
    "notify_per_person": _whole(1, MOST_MESSAGES),
    "smtp": _smtp,
    "mail_from": _mail_address,
    "metrics_token": _token,
    "metrics_from": _loopback,
    "tes": _tes,
    "issuers": _folder,
    "finish_within": _between(0, MOST_FINISH_SECONDS, "seconds"),
}
"""Parsers of the settings whose defaults follow from no other setting. They raise ValueError."""
