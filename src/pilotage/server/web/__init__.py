"""The page: HTML views, for browsers, of the same records as the API."""

from pilotage.server.web.app import make_pages
from pilotage.server.web.sessions import OneTimeCode

__all__ = ["OneTimeCode", "make_pages"]
