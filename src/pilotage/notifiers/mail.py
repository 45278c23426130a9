"""E-mail by the operator's SMTP server."""

import smtplib
import ssl
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from pilotage.ports.notifying import NotificationError, NotificationMessage, NotificationRefused

TIMEOUT = 10.0
"""Seconds for each answer of the SMTP server."""

_SUBMISSION = 587


class Mail:
    """Sends e-mail by a server: ``smtp://``, with TLS where the server offers it, or ``smtps://``.

    The URL may hold a user and a password, which are then only sent with TLS. ``sender`` is the address that
    messages come from.
    """

    def __init__(self, url: str, sender: str) -> None:
        self._url = urlsplit(url)
        self._sender = sender

    def fault(self, address: str) -> str:
        """Return why an address never gets mail; empty if it may."""
        if not self._url.hostname:
            return "is an e-mail address, and this server has no SMTP server (PILOTAGE_SMTP)"
        return "" if address.isascii() else "is not of ASCII characters alone"

    def send(self, address: str, message: NotificationMessage) -> None:
        """Send a message. Raises NotificationError."""
        if fault := self.fault(address):
            raise NotificationRefused(f"{address} {fault}")
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = self._sender, address, _line(message.subject)
        mail["Message-ID"] = f"<{message.number}.{self._sender}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        try:
            with self._connection() as server:
                server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            code, told = next(iter(error.recipients.values()))
            kind = NotificationRefused if code >= 500 else NotificationError
            raise kind(f"the SMTP server refuses {address}: {code} {_text(told)}") from error
        except (smtplib.SMTPException, OSError) as error:
            raise NotificationError(f"the SMTP server did not take it: {error}") from error

    def _connection(self) -> smtplib.SMTP:
        host, context = self._url.hostname or "", ssl.create_default_context()
        if self._url.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, self._url.port or smtplib.SMTP_SSL_PORT, timeout=TIMEOUT, context=context
            )
        else:
            server = smtplib.SMTP(host, self._url.port or _SUBMISSION, timeout=TIMEOUT)
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls(context=context)
            elif self._url.password:
                raise NotificationError("the SMTP server offers no TLS, so it gets no password")
        if self._url.username and self._url.password:
            server.login(unquote(self._url.username), unquote(self._url.password))
        return server


def _line(text: str) -> str:
    return " ".join(text.split())


def _text(told: object) -> str:
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
