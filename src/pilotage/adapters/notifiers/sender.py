"""The server's sender of notifications: one way for each kind of receiver."""

from collections.abc import Callable, Mapping, Sequence
from socket import gethostname

from pilotage.adapters.notifiers.addresses import networks
from pilotage.adapters.notifiers.command import AllowedCommands
from pilotage.adapters.notifiers.mail import Mail
from pilotage.adapters.notifiers.webhook import Webhook
from pilotage.model.records.notifications import NotificationLimits
from pilotage.ports.notifying import NotificationMessage, NotificationRefused


class Sender:
    """Sends messages as the operator's settings allow.

    ``allowed_networks`` are private networks that may be called. ``commands`` are
    paths by name. ``smtp`` is the URL of the SMTP server, and ``mail_from`` the address of its mail, by
    default one of this host. ``clock`` returns the time in s since 1970 UTC. ``limits`` are the most messages
    within an hour.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        allowed_networks: Sequence[str] = (),
        http: bool = False,
        commands: Mapping[str, str] | None = None,
        smtp: str = "",
        mail_from: str = "",
        limits: NotificationLimits | None = None,
    ) -> None:
        self.limits = limits or NotificationLimits()
        self._ways: Mapping[str, Webhook | AllowedCommands | Mail] = {
            "url": Webhook(networks(allowed_networks), http, clock),
            "command": AllowedCommands(commands or {}),
            "email": Mail(smtp, mail_from or f"pilotage@{gethostname()}"),
        }

    def fault(self, receiver: str) -> str:
        """Return why this server never sends to a receiver; empty if it does."""
        kind, _, address = receiver.partition(":")
        return self._ways[kind].fault(address) if kind in self._ways else f"{kind!r} is no kind of receiver"

    def send(self, message: NotificationMessage) -> None:
        """Send a message. Raises NotificationError."""
        kind, _, address = message.receiver.partition(":")
        if kind not in self._ways:
            raise NotificationRefused(f"{kind!r} is no kind of receiver")
        self._ways[kind].send(address, message)
