"""E-mail by the operator's SMTP server."""

import re
import smtplib
import ssl
from contextlib import closing, suppress
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from pilotage.ports.notifying import NotificationError, NotificationMessage, NotificationRefused

TIMEOUT = 10.0
"""Seconds for each answer of the SMTP server."""

_SUBMISSION = 587
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")
_ENCODED = "=?"
"""Begins an encoded word: mail libraries decode these, also to commas and ends of lines."""


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
        if _ADDRESS.fullmatch(address) and _ENCODED not in address:
            return ""
        return "is no plain e-mail address: give NAME@HOST, in ASCII, without quotes, comments and =?"

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
            with closing(self._connection()) as server:
                server.send_message(mail, self._sender, [address])
                # The server has the message: an error now would make it send a second one.
                with suppress(smtplib.SMTPException, OSError):
                    server.quit()
        except smtplib.SMTPRecipientsRefused as error:
            raise _refusal(address, *next(iter(error.recipients.values()))) from error
        except smtplib.SMTPDataError as error:
            raise _refusal("the message", error.smtp_code, error.smtp_error) from error
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


def _refusal(label: str, code: int, text: object) -> NotificationError:
    """Return the error for an answer of the server: 5xx answers are final."""
    kind = NotificationRefused if code >= 500 else NotificationError
    return kind(f"the SMTP server refuses {label}: {code} {_text(text)}")


def _line(text: str) -> str:
    """Return a text as the value of one header."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.replace(_ENCODED, "= ?").split())


def _text(text: object) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
