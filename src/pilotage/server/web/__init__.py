"""The page: server-drawn views of what the API tells, for browsers."""

from pilotage.server.web.app import make_pages
from pilotage.server.web.sessions import OneTimeCode

__all__ = ["OneTimeCode", "make_pages"]
