"""Paths of a spool's content at the login node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpoolPaths:
    """Paths of a spool. Its ``root`` is absolute in the site's file system."""

    root: str
    agent: str

    @property
    def logs(self) -> str:
        """Return the folder of logs."""
        return f"{self.root}/logs"

    @property
    def identity(self) -> str:
        """Return the file with the key and certificate that pilots and relay share."""
        return f"{self.root}/relay.pem"

    @property
    def address(self) -> str:
        """Return the file with the relay's address."""
        return f"{self.root}/relay.url"
