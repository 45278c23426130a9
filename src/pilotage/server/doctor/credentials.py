"""Checks of what expires: people's tokens, certificates, and tokens in files of the federation's options."""

import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from pilotage.model.rules.credential_ends import CredentialEnd
from pilotage.model.values.phrases import moment
from pilotage.server import credential_ends
from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import Installation, NotExamined


def _near(ends: Iterable[CredentialEnd], now: float) -> Iterator[Finding]:
    """Yield a finding for each end that is over, or near. ``now`` is in s since 1970 UTC."""
    for credential in ends:
        text, end = credential.text, credential.end
        if end <= now:
            yield Finding(what=f"{text} ended {moment(end)}", why=credential.effect, mend=credential.mend)
        elif credential.is_near(now):
            what = f"{text} ends {moment(end)}, in {(end - now) / 86_400:.1f} days"
            yield warning(what, credential.effect, credential.mend)


@check("people's tokens")
def tokens(installation: Installation) -> Iterator[Finding]:
    """Name tokens of people and sites that end soon; and look for one that an operator can use."""
    records = installation.store.tokens.people()
    yield from _near(credential_ends.of_tokens(records), installation.store.clock())
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


def _options(installation: Installation) -> list[tuple[str, str]]:
    """Return the URLs and options of the federation; none without one."""
    with suppress(NotExamined):
        return [*credential_ends.options(installation.federation)]
    return []


def _hosts(installation: Installation) -> Mapping[str, str]:
    """Return the https URLs of hosts, by host and port: the server's, and the federation's."""
    return credential_ends.hosts(installation.settings.url, _options(installation))


@check("certificate", each=_hosts)
def certificate(installation: Installation, url: str) -> Iterator[Finding]:
    """Look when the certificate of a server ends."""
    host = urlsplit(url).netloc
    try:
        yield from _near(credential_ends.of_host(url, _options(installation)), time.time())
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error
        yield Finding(
            what=f"the certificate of {host} is refused: {reason}",
            why="nothing is sent there",
            mend=f"renew the certificate of {urlsplit(url).hostname}, or name its authority in ca_file",
        )
    except OSError as error:
        yield warning(f"{host} cannot be reached: {error}", "what lies there waits", f"curl -v {url}")


def _files(installation: Installation) -> Mapping[str, str]:
    return credential_ends.files(credential_ends.options(installation.federation))


@check("credential file", each=_files)
def credential_file(_: Installation, path: str) -> Iterator[Finding]:
    """Look whether a file that options name can be read, and when the certificate or token in it ends."""
    try:
        yield from _near(credential_ends.of_file(path), time.time())
    except OSError as error:
        yield Finding(
            what=f"{path}: {error.strerror}",
            why="whatever needs it is refused",
            mend=f"put it there, readable by the server's user: chown $(id -un) {path}",
        )
