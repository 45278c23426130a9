"""Delegate an X.509 certificate: the server makes a key, and we sign a proxy for it (RFC 3820)."""

import json
import secrets
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from pilotage.adapters.movers.fts.client import FtsClient
from pilotage.model.values.phrases import not_installed
from pilotage.ports.moving import StorageError

if TYPE_CHECKING:
    from cryptography import x509

LIFETIME = timedelta(hours=12)
RENEW_BEFORE = timedelta(hours=4)
"""Remaining time that a delegated proxy needs when a job is submitted."""

CLOCK_SKEW = timedelta(minutes=5)
"""Tolerance for a server's clock behind ours."""

PROXY_CERT_INFO = "1.3.6.1.5.5.7.1.14"
INHERIT_ALL = bytes.fromhex("300c300a06082b06010505071501")
"""The extension's content: the proxy may do everything that its owner may."""


class Delegation:
    """The proxy that an FTS server has for our certificate."""

    def __init__(self, client: FtsClient) -> None:
        self._client = client
        self._asked = -inf

    def renew(self, after: float = 0.0) -> None:
        """Delegate, unless the server has a proxy that lasts, or the last call was less than ``after`` s ago.

        Ask the server instead of remembering: it may have lost the proxy since. Raises StorageError.
        """
        certificate, now = self._client.certificate, datetime.now(UTC)
        if certificate is None or monotonic() - self._asked < after:
            return
        self._asked = monotonic()
        name = self._client.whoami()
        if _end(self._client.text("GET", f"/delegation/{name}")) - now <= RENEW_BEFORE:
            self._delegate(name, certificate, now)

    def replace(self) -> None:
        """Delegate again, even if the server claims to have a proxy. Raises StorageError."""
        if self._client.certificate is not None:
            self._delegate(self._client.whoami(), self._client.certificate, datetime.now(UTC))

    def _delegate(self, name: str, certificate: Path, now: datetime) -> None:
        try:
            proxy, _ = signed(self._client.text("GET", f"/delegation/{name}/request"), certificate, now)
        except ImportError:
            raise StorageError(not_installed("cryptography", "fts")) from None
        except ValueError as error:
            raise StorageError(f"{certificate} cannot be delegated: {error}") from error
        self._client.text("PUT", f"/delegation/{name}/credential", proxy)


def signed(request: str, certificate: Path, now: datetime) -> tuple[str, datetime]:
    """Sign a certificate request as a proxy. Return it with its chain as PEM text, and its end.

    Raises ValueError if the file has no certificate or no key, or has expired.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    pem = certificate.read_bytes()
    chain = x509.load_pem_x509_certificates(pem)
    key = serialization.load_pem_private_key(pem, None)
    end = min(now + LIFETIME, *(link.not_valid_after_utc for link in chain))
    if end <= now:
        raise ValueError(f"it ended at {end:%Y-%m-%d %H:%M} UTC")
    serial = secrets.randbits(31) | 1
    common_name = x509.NameAttribute(x509.NameOID.COMMON_NAME, str(serial))
    csr = x509.load_pem_x509_csr(request.encode())
    proxy = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*chain[0].subject.rdns, x509.RelativeDistinguishedName([common_name])]))
        .issuer_name(chain[0].subject)
        .public_key(csr.public_key())
        .serial_number(serial)
        .not_valid_before(max(now - CLOCK_SKEW, *(link.not_valid_before_utc for link in chain)))
        .not_valid_after(end)
        .add_extension(_key_usage(), critical=True)
        .add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier(PROXY_CERT_INFO), INHERIT_ALL), critical=True
        )
        .sign(key, hashes.SHA256())  # type: ignore[arg-type]
    )
    texts = (link.public_bytes(serialization.Encoding.PEM).decode() for link in (proxy, *chain))
    return "".join(texts), end


def _key_usage() -> "x509.KeyUsage":
    """Return the uses of a proxy's key: only signatures and key exchange (RFC 3820)."""
    from cryptography import x509

    no_uses = dict.fromkeys(
        ("content_commitment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign"), False
    )
    return x509.KeyUsage(
        digital_signature=True, key_encipherment=True, encipher_only=False, decipher_only=False, **no_uses
    )


def _end(answer: str) -> datetime:
    """Return the end of the server's proxy; a time long ago if it has none."""
    try:
        document = json.loads(answer)
        return datetime.fromisoformat(document["termination_time"]).replace(tzinfo=UTC)
    except (ValueError, TypeError, KeyError):
        return datetime.min.replace(tzinfo=UTC)
