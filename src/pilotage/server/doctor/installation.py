"""What a doctor examines: the settings, and the store, the server and the federation if they open."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.settings import Settings

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.model.records.federation import Federation
    from pilotage.store import Store

NO_FEDERATION = "no federation is in force"
"""Why most checks cannot run on a new server."""


class NotExamined(Exception):
    """A check cannot run here: why."""


@dataclass(slots=True)
class Installation:
    """An installation, as this machine sees it.

    The first checks open its parts. A part that is not open raises ``NotExamined``.
    """

    known_settings: Settings | None = None
    open_store: "Store | None" = None
    client: "Client | None" = None
    lacks: dict[str, str] = field(default_factory=dict)
    """Why a part is not there, by its name: store, server."""

    @property
    def settings(self) -> Settings:
        """Return the settings of this machine."""
        if self.known_settings is None:
            raise NotExamined("the settings are wrong")
        return self.known_settings

    @property
    def home(self) -> Path:
        """Return the folder of the settings."""
        return self.settings.home

    @property
    def store(self) -> "Store":
        """Return the store of this machine's server."""
        if self.open_store is None:
            raise NotExamined(self.lacks.get("store", "the store does not open"))
        return self.open_store

    @property
    def server(self) -> "Client":
        """Return a client of the server, which answered."""
        if self.client is None:
            raise NotExamined(self.lacks.get("server", "the server does not answer"))
        return self.client

    @property
    def federation(self) -> "Federation":
        """Return the federation of this machine's store, with its options, as operators restrict it."""
        from pilotage.store import NoFederation

        try:
            return self.store.federation()
        except NoFederation:
            raise NotExamined(NO_FEDERATION) from None

    def close(self) -> None:
        """Close the store."""
        if self.client is not None:
            self.client.close()
        if self.open_store is not None:
            self.open_store.close()
