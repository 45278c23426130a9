"""ARC computing elements through their REST interface: the computing element kind ``arc``."""

from pilotage.adapters.computing.arc.element import Arc

__all__ = ["Arc"]
