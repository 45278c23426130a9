"""Webhooks, signed by the Standard Webhooks specification."""

import base64
import hmac
import ssl
from collections.abc import Callable, Mapping, Sequence

import httpcore

from pilotage.adapters.notifiers.addresses import CheckedNetwork, Network
from pilotage.ports.notifying import NotificationError, NotificationMessage, NotificationRefused

SECRET_PREFIX = "whsec_"
"""The beginning of a secret as people see it. The rest is base64."""

TIMEOUTS = {"connect": 5.0, "read": 10.0, "write": 10.0, "pool": 5.0}
"""Seconds for each part of a request."""

TIME_LIMIT = 20.0
"""Seconds for a whole request, however slowly its parts arrive."""

PERMANENT = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422})
"""Answers after which a message is not sent again."""


def secret_text(secret: str) -> str:
    """Return a secret in the form that people and libraries use."""
    return SECRET_PREFIX + base64.b64encode(secret.encode()).decode()


def signature(secret: str, number: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message: HMAC-SHA256 over its number, its time in s and its body."""
    signed = f"{number}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret.encode(), signed, "sha256")).decode()


class Webhook:
    """Posts messages to URLs. Follows no redirect, and reads no answer but its status.

    ``clock`` returns the time in s since 1970 UTC.
    """

    def __init__(self, allowed: Sequence[Network], http: bool, clock: Callable[[], float]) -> None:
        self._allowed = allowed
        self._http = http
        self._clock = clock

    def fault(self, url: str) -> str:
        """Return why a URL is never called; empty if it may be."""
        if url.startswith("http://") and not self._http:
            return (
                "is http://, which this server does not send to: give an https:// URL, or have its operator "
                "set PILOTAGE_NOTIFY_HTTP=yes"
            )
        return ""

    def send(self, url: str, message: NotificationMessage) -> None:
        """Post a message. Raises NotificationError."""
        if fault := self.fault(url):
            raise NotificationRefused(f"the URL {fault}")
        timestamp = int(self._clock())
        headers: dict[bytes | str, bytes | str] = {
            "Content-Type": "application/json",
            "User-Agent": "Pilotage",
            "Webhook-Id": message.number,
            "Webhook-Timestamp": str(timestamp),
        }
        if message.secret:
            headers["Webhook-Signature"] = signature(message.secret, message.number, timestamp, message.body)
        status = self._posted(url, headers, message.body)
        if not 200 <= status < 300:
            kind = NotificationRefused if status in PERMANENT or 300 <= status < 400 else NotificationError
            answer = "a redirect, which is not followed" if 300 <= status < 400 else f"status {status}"
            raise kind(f"the webhook answered with {answer}")

    def _posted(self, url: str, headers: Mapping[bytes | str, bytes | str], body: bytes) -> int:
        """Return the status of the answer."""
        try:
            # A connection for each message: receivers share none.
            with (
                httpcore.ConnectionPool(
                    ssl_context=ssl.create_default_context(),
                    network_backend=CheckedNetwork(self._allowed, TIME_LIMIT),
                ) as pool,
                pool.stream(
                    "POST", url, headers=headers, content=body, extensions={"timeout": TIMEOUTS}
                ) as response,
            ):
                return response.status
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            if fault := _distrust(error):
                raise NotificationError(fault) from error
            text = str(error) or type(error).__name__
            raise NotificationError(f"the webhook cannot be reached: {text}") from error
        except (httpcore.UnsupportedProtocol, ValueError) as error:
            raise NotificationRefused(f"the URL cannot be called: {error}") from error


def _distrust(error: BaseException | None) -> str:
    """Return why the certificate of a webhook's server is not trusted; empty for any other failure."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of the webhook's server is not trusted: {error.verify_message}; "
                "SSL_CERT_FILE of this server names a file of authorities that it trusts"
            )
        error = error.__cause__ or error.__context__
    return ""
