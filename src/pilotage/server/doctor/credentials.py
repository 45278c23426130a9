"""Checks of what expires: people's tokens, certificates, and tokens in files of the federation's options."""

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pilotage.adapters.computing.credential_files import LARGEST, end_of
from pilotage.model.values.phrases import moment
from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import Installation

SOON = 14 * 86_400.0
"""Seconds before its end at which a credential is worth a warning."""

CONNECT = 10.0
"""Seconds to open a connection."""

FILES = ("_file", "kubeconfig", "known_hosts", "ca_path")
"""Endings of options that name files."""


def ends_soon(subject: str, end: float, now: float, mend: str, effect: str) -> Iterator[Finding]:
    """Yield a finding if ``end`` is over, or within ``SOON`` s. Times in s since 1970 UTC."""
    if end <= now:
        yield Finding(what=f"{subject} ended {moment(end)}", why=effect, mend=mend)
    elif end - now < SOON:
        yield warning(f"{subject} ends {moment(end)}, in {(end - now) / 86_400:.1f} days", effect, mend)


@check("people's tokens")
def tokens(installation: Installation) -> Iterator[Finding]:
    """Name tokens of people and sites that end soon; and look for one that an operator can use."""
    records = installation.store.tokens.people()
    now = installation.store.clock()
    for token in records:
        if token.expires is not None:
            subject = f"the token {token.id} of {token.name} ({token.role})"
            mend = f"pilotage token rotate {token.id}"
            yield from ends_soon(subject, token.expires, now, mend, "its bearer is refused then")
    if not any(token.role == "operator" for token in records):
        yield Finding(
            what="no operator has a token",
            why="nobody can drain a queue, load a federation or make tokens through the server",
            mend="pilotage token create --role operator --name operator",
        )
    local_token = installation.settings.token
    if local_token and installation.store.tokens.find(local_token) is None:
        yield Finding(
            what="this machine's token is not one of the store's",
            why="the server refuses the commands of this machine",
            mend=f"pilotage token create --role operator --name operator --to {installation.home / 'token'}",
        )


def _hosts(installation: Installation) -> Mapping[str, str]:
    """Return the https URLs of hosts, by host and port: the server's, and the federation's."""
    from pilotage.store import NoFederation

    urls = [installation.settings.url]
    if installation.open_store is not None:
        with suppress(NoFederation):
            urls += [text for _, text in _options(installation) if text.startswith(("https://", "davs://"))]
    # Neither users, passwords nor keys of these URLs: people show a doctor's output to others.
    hosts = (urlsplit(url).netloc.rpartition("@")[2] for url in urls if url.startswith(("https", "davs")))
    return {host: f"https://{host}/" for host in hosts if host}


@check("certificate", each=_hosts)
def certificate(installation: Installation, url: str) -> Iterator[Finding]:
    """Look when the certificate of a server ends."""
    parts = urlsplit(url)
    context = ssl.create_default_context()
    for name, text in _options(installation) if installation.open_store is not None else ():
        if name in ("ca_file", "ca_path") and Path(text).exists():
            path = Path(text)
            context.load_verify_locations(
                cafile=None if path.is_dir() else text, capath=text if path.is_dir() else None
            )
    host, port = parts.hostname or "", parts.port or 443
    renew = f"renew the certificate of {host}"
    try:
        with (
            socket.create_connection((host, port), CONNECT) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            details: Mapping[str, Any] = secured.getpeercert() or {}
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error
        yield Finding(
            what=f"the certificate of {parts.netloc} is refused: {reason}",
            why="nothing is sent there",
            mend=f"{renew}, or name its authority in ca_file",
        )
        return
    except OSError as error:
        yield warning(f"{parts.netloc} cannot be reached: {error}", "what lies there waits", f"curl -v {url}")
        return
    if ends := details.get("notAfter"):
        end = float(ssl.cert_time_to_seconds(str(ends)))
        subject = f"the certificate of {parts.netloc}"
        yield from ends_soon(subject, end, time.time(), renew, "nothing is sent there then")


def _options(installation: Installation) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each URL and option of the federation's places."""
    federation = installation.federation
    option_sets: list[Mapping[str, Any]] = [catalogue.options for catalogue in federation.catalogues]
    for storage in federation.storages:
        yield "url", storage.url
        option_sets.append(storage.options)
        if storage.transfer_service is not None:
            yield "url", storage.transfer_service.url
            option_sets.append(storage.transfer_service.options)
    for queue in federation.queues:
        if (element := queue.computing_element) is not None:
            option_sets += [element.options, *(server.options for server in element.servers)]
            option_sets += [credential.options for credential in element.credentials]
    for options in option_sets:
        yield from _texts(options)


def _texts(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _texts(value)


def _files(installation: Installation) -> Mapping[str, str]:
    return {
        text: str(Path(text).expanduser())
        for name, text in _options(installation)
        if name.endswith(FILES) and text
    }


@check("credential file", each=_files)
def credential_file(_: Installation, path: str) -> Iterator[Finding]:
    """Look whether a file that options name can be read, and when the certificate or token in it ends."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST)
    except IsADirectoryError:
        return
    except OSError as error:
        yield Finding(
            what=f"{path}: {error.strerror}",
            why="whatever needs it is refused",
            mend=f"put it there, readable by the server's user: chown $(id -un) {path}",
        )
        return
    effect, mend = "whatever needs it is refused then", f"renew {path}; no restart is needed"
    if (end := end_of(content)) is not None:
        yield from ends_soon(path, end, time.time(), mend, effect)
