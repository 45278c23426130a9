"""ARC computing elements through their REST interface: the computing element kind ``arc``."""

from .element import Arc

__all__ = ["Arc"]
