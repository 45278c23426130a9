"""Paths of what a spool holds, at the login node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpoolPaths:
    """Paths of a spool: its ``root`` is absolute, and the site's own."""

    root: str
    agent: str

    @property
    def logs(self) -> str:
        """The folder of logs."""
        return f"{self.root}/logs"

    @property
    def identity(self) -> str:
        """The key and certificate by which pilots and relay know each other."""
        return f"{self.root}/relay.pem"

    @property
    def address(self) -> str:
        """The file with the relay's address."""
        return f"{self.root}/relay.url"
