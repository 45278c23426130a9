"""Read when things end that people renew: tokens, certificates of servers, and files that options name."""

import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pilotage.adapters.computing.credential_files import LARGEST, life_of
from pilotage.model.rules.credential_ends import CredentialEnd

if TYPE_CHECKING:
    from pilotage.model.records.federation import Federation
    from pilotage.store import PersonToken, Store

log = logging.getLogger(__name__)

CONNECT = 10.0
"""Seconds to open a connection."""

FILES = ("_file", "kubeconfig", "known_hosts", "ca_path")
"""Endings of options that name files."""


def of_tokens(tokens: "Iterable[PersonToken]") -> Iterator[CredentialEnd]:
    """Yield the ends of tokens, which come newest first.

    Leave out those that a newer one like them outlasts, if they were not used since: they were rotated.
    """
    newer: defaultdict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for token in tokens:
        bearer = (token.role, token.name, token.vo, token.group, token.vo_role, token.purpose, token.sites)
        end, used = inf if token.expires is None else token.expires, token.used or 0.0
        is_replaced = any(until >= end and created >= used for created, until in newer[bearer])
        newer[bearer].append((token.created, end))
        if end < inf and not is_replaced:
            is_site = token.role == "site"
            yield CredentialEnd(
                kind="token",
                name=token.id,
                text=f"the token {token.id} of {token.name} ({token.role})",
                begin=token.created,
                end=end,
                mend=f"pilotage token rotate {token.id}",
                effect="its bearer is refused then",
                holder="" if is_site else token.name,
                vo="" if is_site else token.vo,
            )


def options(federation: "Federation") -> Iterator[tuple[str, str]]:
    """Yield the name and text of each URL and option of the federation's places."""
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
    for named in option_sets:
        yield from _texts(named)


def _texts(named: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in named.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _texts(value)


def hosts(url: str, named: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the https URLs of hosts, by host and port: of the server's ``url``, and of options."""
    urls = [url, *(text for _, text in named)]
    # Neither users, passwords nor keys of these URLs: people show a doctor's output to others.
    names = (
        urlsplit(text).netloc.rpartition("@")[2] for text in urls if text.startswith(("https://", "davs://"))
    )
    return {name: f"https://{name}/" for name in names if name}


def files(named: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the absolute paths of the files that options name, by these names."""
    return {text: str(Path(text).expanduser()) for name, text in named if name.endswith(FILES) and text}


def of_host(url: str, named: Iterable[tuple[str, str]]) -> Iterator[CredentialEnd]:
    """Yield the end of a server's certificate. Raises OSError; ``ssl.SSLError`` for a refused one."""
    parts = urlsplit(url)
    context = ssl.create_default_context()
    for name, text in named:
        if name in ("ca_file", "ca_path") and Path(text).exists():
            is_folder = Path(text).is_dir()
            context.load_verify_locations(
                cafile=None if is_folder else text, capath=text if is_folder else None
            )
    host, port = parts.hostname or "", parts.port or 443
    with (
        socket.create_connection((host, port), CONNECT) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        details: Mapping[str, Any] = secured.getpeercert() or {}
    if ends := details.get("notAfter"):
        begin = details.get("notBefore")
        yield CredentialEnd(
            kind="certificate",
            name=parts.netloc,
            text=f"the certificate of {parts.netloc}",
            begin=float(ssl.cert_time_to_seconds(str(begin))) if begin else None,
            end=float(ssl.cert_time_to_seconds(str(ends))),
            mend=f"renew the certificate of {host}",
            effect="nothing is sent there then",
        )


def of_file(path: str) -> Iterator[CredentialEnd]:
    """Yield the end of a file's first certificate, or of its JSON web token. Raises OSError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST)
    except IsADirectoryError:
        return
    if (life := life_of(content)) is not None:
        yield CredentialEnd(
            kind="file",
            name=path,
            text=path,
            begin=life.begin,
            end=life.end,
            mend=f"renew {path}; no restart is needed",
            effect="whatever needs it is refused then",
        )


def _bearers(federation: "Federation") -> Mapping[str, tuple[str, str]]:
    """Return the person and VO that a file of credentials is of, by its path."""
    return {
        path: (credential.person, credential.vo)
        for queue in federation.queues
        if queue.computing_element is not None
        for credential in queue.computing_element.credentials
        if credential.person
        for path in files(_texts(credential.options)).values()
    }


def survey(store: "Store", url: str) -> Iterator[CredentialEnd | None]:
    """Yield each end that a server at ``url`` sees now; none after each place, so that a caller may stop.

    A host that does not answer keeps the end that was seen last.
    """
    from pilotage.store import NoFederation

    yield from of_tokens(store.tokens.people())
    try:
        federation = store.federation()
    except NoFederation:
        return
    named, bearers = [*options(federation)], _bearers(federation)
    for path in files(named).values():
        # Operators hear of a missing file from the doctor, and from the failures that follow.
        with suppress(OSError):
            holder, vo = bearers.get(path, ("", ""))
            yield from (replace(end, holder=holder, vo=vo) for end in of_file(path))
        yield None
    last = {end.name: end for end in store.credential_ends.all() if end.kind == "certificate"}
    for name, host_url in hosts(url, named).items():
        try:
            yield from of_host(host_url, named)
        except OSError as error:
            log.info("the certificate of %s could not be read: %s", name, error)
            if name in last:
                yield last[name]
        yield None
